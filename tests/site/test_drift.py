"""A hand on a device: the preview shows it, an update repairs that device and proves the path."""

from __future__ import annotations

import pytest

from tests.site.playground import Playground

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
    assert report.count("no drift") == 6  # the three hosts, and K3s on each

    standing.pulumi("up", "--yes", "--skip-preview").must()
    assert standing.preview().quiet
    assert standing.railyard("drift", "dev").must().count("no drift") == 7


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
