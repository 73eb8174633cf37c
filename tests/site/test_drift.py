"""A hand on a device: the preview shows it, an update repairs that device and proves the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.site
PROVEN_AGAIN = {"acceptance-evidence": "update", "acceptance-gate": "update"}
MTU_DRIFT = "mtu_bytes of port 1/2 is 1500, want 9216"


def test_a_switch_port_changed_by_hand(standing: Playground) -> None:
    standing.fault("leaf-01", "mtu", "1/2", "1500")

    preview = standing.preview()
    assert preview.changes == {"leaf-01-apply": "update", **PROVEN_AGAIN}
    assert f"leaf-01: drift: {MTU_DRIFT}" in preview.messages
    assert MTU_DRIFT in preview.done.must()
    report = standing.railyard("drift", "dev").must(3)
    assert MTU_DRIFT in report
    assert report.count("no drift") == 7  # the three hosts, K3s on each, and the cluster

    standing.pulumi("up", "--yes", "--skip-preview").must()
    assert standing.preview().quiet
    assert standing.railyard("drift", "dev").must().count("no drift") == 8


def test_a_host_that_lost_its_vfs(standing: Playground) -> None:
    left = standing.settings()
    standing.fault("gpu01", "vfs-lost")
    assert standing.settings() != left

    preview = standing.preview()
    rounds = {"gpu01-host": "update", "gpu01-reboot": "update"}
    assert preview.changes == {**rounds, **PROVEN_AGAIN}
    assert any("gpu01: drift: " in message for message in preview.messages)

    standing.up().must()
    assert standing.settings() == left


def test_dscp_trust_lost_is_named_by_acceptance_and_repaired(standing: Playground) -> None:
    standing.fault("leaf-01", "trust", "1/2", "L2")

    unseen = standing.preview(RAILYARD_OBSERVE="never")
    assert unseen.quiet
    assert any(message.startswith("not observed") for message in unseen.messages)
    verdict = standing.railyard("accept", "dev", RAILYARD_OBSERVE="never").must(1)
    assert "wrong traffic class at leaf-01 1/2" in verdict

    repaired = standing.up().must()
    assert "acceptance passed" in repaired
    assert standing.preview().quiet


def test_a_setting_beside_ours_is_said_and_refused_where_the_file_says_so(
    standing: Playground, tmp_path: Path
) -> None:
    left = standing.settings()
    port = "interface ethernet 1/2"
    standing.fault("leaf-01", "cli", f"{port} qos rewrite dscp")
    found = "rewrite_dscp of port 1/2 is on, harmless is off"

    report = standing.railyard("drift", "dev").must(3)
    assert "leaf-01      beside: 1 setting(s) that are not ours break our traffic" in report
    assert f"{found}; not ours, and it breaks the class of RoCE at the next hop: " in report

    warned = standing.preview()
    assert warned.quiet, "it is not ours to change"
    assert any("leaf-01: " in text and found in text for text in warned.messages)

    strict = tmp_path / "Pulumi.dev.yaml"
    text = (PROJECT / strict.name).read_text()
    strict.write_text(
        text.replace("    rails:\n", "    guards: {default: refuse}\n    rails:\n", 1)
    )
    refused = standing.preview(strict).done.refused()
    assert f"guards: leaf-01: {found}" in refused
    assert "guards.switch.rewrite is refuse. Nothing was changed on any device." in refused

    standing.fault("leaf-01", "cli", f"{port} no qos rewrite dscp")
    assert standing.settings() == left
    standing.railyard("drift", "dev").must()
