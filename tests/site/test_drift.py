"""A hand on a device: the preview shows it, an update repairs that device and proves the path."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from components.core.record import record
from lab.site import secrets_of
from tests.docs.markdown import outputs
from tests.site.playground import PROJECT, STACK, Playground

pytestmark = pytest.mark.site
MOST_LINES = 80
"""Of the engine, for drifts or edits of a few settings: a screen."""
PROVEN_AGAIN = {"acceptance-evidence": "update", "acceptance-gate": "update"}
MTU_DRIFT = "mtu_bytes of port 1/2 is 1500, want 9216"


@pytest.mark.timeout(1200)  # four commands of an engine: minutes where the cores are shared
def test_a_switch_port_changed_by_hand(standing: Playground) -> None:
    good = standing.settings()
    standing.railyard("lab", "fault", "leaf-01", "mtu", "1/2", "1500").must()
    drifted = standing.settings()

    preview = standing.preview(None, "--diff")
    assert preview.changes == {"leaf-01-apply": "update", **PROVEN_AGAIN}
    assert f"leaf-01: drift: {MTU_DRIFT}" in preview.messages
    assert MTU_DRIFT in preview.done.must()
    assert len(preview.lines) <= MOST_LINES
    assert "    mtu_bytes: 1500 -> 9216" in preview.lines
    told = standing.railyard("preview", "dev").must()
    assert "leaf-01: port 1/2 mtu_bytes: 1500 -> 9216" in told
    readme = {each.command: each for each in outputs(PROJECT / "README.md")}
    assert "railyard lab fault leaf-01 mtu 1/2 1500" in readme
    assert [e for e in readme["railyard preview dev"].lines if e not in f"{told}…"] == []
    stops = "port 1/2: mtu_bytes: 1500 -> 9216"
    assert f"! leaf-01: INTERRUPTS (disruption.ports: allow): {stops}" in told
    report = standing.railyard("drift", "dev").must(3)
    assert MTU_DRIFT in report
    assert report.count("no drift") == 7  # the three hosts, K3s on each, and the cluster

    rejects_a_line(standing)
    assert standing.settings() == drifted
    standing.pulumi("up", "--yes", "--skip-preview").must()
    assert standing.settings() == good
    assert standing.railyard("drift", "dev").must().count("no drift") == 8


def rejects_a_line(site: Playground) -> None:
    """A switch that refuses the repair: it is named with the line and all values."""
    site.fault("leaf-01", "reject", "mtu 9216")
    try:
        failed = site.up().must(1)
    finally:
        site.fault("leaf-01", "reject", "off")
    assert "line    interface ethernet 1/2 mtu 9216" in failed
    assert "% Internal error: the command failed" in failed
    assert "not saved" in failed
    told = failed.partition("  values\n")[2].partition("\n\n")[0]
    values, _, following = told.partition("\n  next   ")
    assert values == "    port 1/2\n      mtu_bytes: was 1500, should be 9216, is 1500"
    assert following.startswith("run the same `pulumi` command again")
    assert "acceptance passed" not in failed


@record
class Injected:
    """One fault of the lab, and the only deviations that it may cause."""

    device: str
    change: tuple[str, ...]
    kind: str
    text: str
    """A pattern of each deviation."""
    undo: tuple[str, ...] = ()
    """The opposite change, if no update repairs it."""


PORT = "interface ethernet"
DRIFTS = (
    Injected("leaf-01", ("trust", "1/2", "L2"), "setting", "trust of port 1/2 is L2, want L3"),
    Injected("leaf-01", ("mtu", "1/2", "1500"), "setting", MTU_DRIFT),
    Injected("gpu01", ("vfs-lost",), "setting", r"(?:vfs|vf_\w+) of nic 0000:\d\d:00.0 is .*"),
    Injected(
        "gpu02", ("mtu", "enp5s0", "1500"), "setting", "mtu_bytes of nic 0000:05:00.0 is 1500, .*"
    ),
)
"""The first one is seen by acceptance alone."""
MORE = (
    Injected(
        "leaf-01", ("mtu", "1/1", "1500"), "setting", "mtu_bytes of port 1/1 is 1500, want .*"
    ),
    Injected(
        "leaf-01",
        ("cli", f"{PORT} 1/3 no traffic-class 3 congestion-control"),
        "setting",
        ".*ecn.* of port 1/3 is .*",
    ),
    Injected(
        "leaf-01",
        ("cli", f"{PORT} 1/4 switchport trunk allowed-vlan none"),
        "setting",
        "trunk_vlan_112 of port 1/4 is absent, want allowed",
    ),
    Injected(
        "leaf-01",
        ("cli", f"{PORT} 1/2 qos rewrite dscp"),
        "foreign",
        "rewrite_dscp of port 1/2 is on, .*",
        ("cli", f"{PORT} 1/2 no qos rewrite dscp"),
    ),
    Injected(
        "leaf-01",
        ("cli", f"{PORT} 1/1 qos map dscp 26 to switch-priority 0"),
        "foreign",
        "dscp_26_priority of port 1/1 is 0, .*",
        ("cli", f"{PORT} 1/1 qos map dscp 26 to switch-priority 3"),
    ),
    Injected(
        "gpu02",
        ("link-width", "enp132s0", "8"),
        "placement",
        ".*0000:84:00.0.*",
        ("link-width", "enp132s0", "16"),
    ),
    Injected("gpu01", ("module-lost", "nvidia_peermem"), "setting", ".*nvidia_peermem.*"),
)
"""Two more are in the cluster."""
ATTACHMENT = ("network-attachment-definitions.k8s.cni.cncf.io", "sriov111")
EDITED = "NetworkAttachmentDefinition default/sriov111: .*"


@pytest.mark.timeout(1800)  # four commands of an engine: minutes where the cores are shared
def test_dscp_trust_lost_is_named_by_acceptance_and_repaired_with_twelve_drifts(
    standing: Playground,
) -> None:
    left = standing.settings()
    assert audit(standing, 0) == []
    trust, *others = DRIFTS
    standing.fault(trust.device, *trust.change)

    unseen = standing.preview(RAILYARD_OBSERVE="never")
    assert unseen.quiet
    assert any(message.startswith("not observed") for message in unseen.messages)
    verdict = standing.railyard("accept", "dev", RAILYARD_OBSERVE="never").must(1)
    assert "wrong traffic class at leaf-01 1/2" in verdict

    for each in others:
        standing.fault(each.device, *each.change)
    preview = standing.preview(None, "--diff")
    preview.done.must()
    assert preview.changes == {
        "leaf-01-apply": "update",
        "gpu01-host": "update",
        "gpu02-host": "update",
        "reboots-1": "update",
        **PROVEN_AGAIN,
    }
    # What its VFs carried went with them, and the gate is asked for a plan.
    assert len(preview.lines) <= MOST_LINES + 16
    assert "gpu02: drift: mtu_bytes of nic 0000:05:00.0 is 1500, want 9000" in preview.lines
    assert any("gpu01: drift: " in message for message in preview.messages)

    an_audit_finds_the_injected_differences_and_nothing_else(standing)

    assert "acceptance passed" in standing.up().must()
    assert standing.settings() == left
    assert standing.preview().quiet
    assert audit(standing, 0) == []


def an_audit_finds_the_injected_differences_and_nothing_else(site: Playground) -> None:
    """All of DRIFTS is there; what no update repairs is put back at the end."""
    for each in MORE:
        site.fault(each.device, *each.change)
    labels = '{"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "other/none"}}}'
    site.kubectl("patch", *ATTACHMENT, "--type", "merge", "--patch", labels).must()
    site.kubectl("cordon", "gpu02").must()
    wanted = [(each.device, each.kind, each.text) for each in (*DRIFTS, *MORE)]
    wanted += [("cluster", "cluster", EDITED), ("cluster", "cluster", "node gpu02 is cordoned.*")]

    found = [(each["device"], each["kind"], each["text"]) for each in audit(site, 3)]
    causes = [
        [at for at, (name, kind, text) in enumerate(wanted)
         if (name, kind) == each[:2] and re.fullmatch(text, each[2])]
        for each in found
    ]  # fmt: skip
    assert [each for each, cause in zip(found, causes, strict=True) if not cause] == []
    assert {at for cause in causes for at in cause} == {*range(len(wanted))}, found

    site.kubectl("uncordon", "gpu02").must()
    for each in MORE:
        if each.undo:
            site.fault(each.device, *each.undo)


def audit(site: Playground, code: int) -> list[dict[str, str]]:
    """The deviations that `railyard audit` finds with the file alone, without the stack."""
    names, found = ("ssh_private_key", "switch_password"), secrets_of(STACK)
    secrets = {f"RAILYARD_SECRET_{name.upper()}": found[name].strip() for name in names}
    text = site.railyard("audit", "Pulumi.dev.yaml", "--format", "json", **secrets).must(code)
    return json.loads(text)["deviations"]


def test_a_setting_beside_ours_is_said_and_refused_where_the_file_says_so(
    standing: Playground, tmp_path: Path
) -> None:
    left = standing.settings()
    port = "interface ethernet 1/2"
    standing.fault("leaf-01", "cli", f"{port} qos rewrite dscp")
    found = "rewrite_dscp of port 1/2 is on, harmless is off"

    report = standing.railyard("drift", "dev").must(3)
    assert "leaf-01      foreign: 1 setting outside the plan breaks RDMA traffic" in report
    assert f"{found}; outside the plan, and it breaks the class of RoCE at the next hop: " in report

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
    assert "guards.switch.rewrite is refuse" in refused
    assert "Nothing was changed on any device." in refused

    standing.fault("leaf-01", "cli", f"{port} no qos rewrite dscp")
    assert standing.settings() == left
    standing.railyard("drift", "dev").must()


@pytest.mark.timeout(1200)  # five commands of an engine: minutes where the cores are shared
def test_a_switch_and_k3s_are_repaired_while_the_api_of_the_only_server_is_dead(
    standing: Playground,
) -> None:
    good, resources = standing.settings(), standing.resources()
    standing.fault("leaf-01", "mtu", "1/2", "1500")
    standing.fault("mgmt01", "unit-stopped", "k3s.service")

    preview = standing.preview()
    assert preview.changes == {"leaf-01-apply": "update", "mgmt01-k3s": "update", **PROVEN_AGAIN}
    (said,) = [text for text in preview.messages if "the API does not answer" in text]
    assert "leaves all objects and charts as they are, and the next one does the rest" in said

    refused = standing.pulumi("destroy", "--yes", "--skip-preview").refused()
    assert "the API of cluster" in refused
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true pulumi destroy --refresh -s dev" in refused
    assert "configured Kubernetes cluster is unreachable" not in refused

    assert "acceptance passed" in standing.up().must()
    assert standing.settings() == good
    assert standing.preview().quiet
    assert standing.resources() == resources
