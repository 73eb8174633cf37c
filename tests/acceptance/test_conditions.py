"""The node condition: which rails it accuses, what it leaves alone, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json import dumps
from typing import Any

import pytest

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.culprit import Suspect
from components.acceptance.judge.site import Report, judge_evidence
from components.acceptance.report.publish import (
    HEALTHY,
    TYPE,
    RailFault,
    find_faults,
    merged,
    write_conditions,
)
from components.core.problem import Finding
from components.kubernetes.client import Answer, Body
from tests.golden.site import load_example
from tests.lab_physics.site import Site, take_evidence

SPEC = load_example("dgx-roce")
NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
FAULT = RailFault("PROOF_LINK", "rail-0", "the NIC, cable or switch port of gpu01 rail-0")


def differs(device: str, kind: str, text: str) -> Finding:
    return Finding(text, device=device, rule=kind)


@pytest.fixture(scope="module")
def good() -> Report:
    return judge_evidence(take_evidence(Site()))


@dataclass
class Nodes:
    """An API server with nodes: it refuses a write with an old resourceVersion, as the real one."""

    nodes: dict[str, dict[str, Any]]
    others: int = 0
    """How many writes of other programs come between a reading and a write."""
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        self.calls.append((method, path))
        name = path.split("/")[4]
        node = self.nodes.get(name)
        if node is None:
            return Answer(404, dumps({"message": f'nodes "{name}" not found'}))
        if method == "PUT":
            assert body is not None
            assert path.endswith("/status")
            if body["metadata"] != node["metadata"]:
                return Answer(409, dumps({"message": "the object has been modified"}))
            node["status"] = body["status"]
        answer = Answer(200, dumps(node))
        if method == "GET" and self.others:
            self.others -= 1
            node["metadata"] = {
                "resourceVersion": str(int(node["metadata"]["resourceVersion"]) + 1)
            }
        return answer


def ready_node() -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"resourceVersion": "1"}, "status": {"conditions": [ready], "x": 1}}


def own(nodes: Nodes, name: str) -> Mapping[str, Any]:
    (found,) = [each for each in nodes.nodes[name]["status"]["conditions"] if each["type"] == TYPE]
    return found


def test_a_proven_and_audited_site_is_healthy(good: Report) -> None:
    assert find_faults(SPEC, good, []) == {"gpu01": (), "gpu02": ()}


def test_a_difference_at_a_switch_port_belongs_to_the_rail_behind_it(good: Report) -> None:
    found = find_faults(
        SPEC, good, [differs("leaf-01", "setting", "mtu_bytes of port 1/2 is 1500")]
    )
    assert [(each.code, each.rail) for each in found["gpu01"]] == [("AUDIT_SETTING", "rail-1")]
    assert found["gpu02"] == ()


@pytest.mark.parametrize("name", ["enp132s0", "0000:84:00.0", "rail-1"])
def test_a_difference_at_a_card_belongs_to_its_rail(good: Report, name: str) -> None:
    found = find_faults(SPEC, good, [differs("gpu02", "setting", f"nic.{name} mtu_bytes is 1500")])
    assert [each.rail for each in found["gpu02"]] == ["rail-1"]


@pytest.mark.parametrize(
    "difference",
    [
        ("gpu01", "setting", "kernel.numa_balancing is 1, want 0"),
        ("leaf-01", "setting", "mtu_bytes of port 1/20 is 1500"),
        ("mgmt01", "setting", "service k3s of enp5s0 is stopped"),
        ("cluster", "cluster", "DaemonSet x differs at rail-0"),
    ],
)
def test_other_differences_accuse_no_rail(good: Report, difference: tuple[str, str, str]) -> None:
    assert find_faults(SPEC, good, [differs(*difference)]) == {"gpu01": (), "gpu02": ()}


def test_a_suspect_accuses_the_rail_of_its_host(good: Report) -> None:
    suspect = Suspect(parts=(("link", "gpu01 rail-0"),), text=FAULT.text, next_step="swap")
    bad = good.model_copy(update={"suspects": (suspect,)})
    assert find_faults(SPEC, bad, []) == {"gpu01": (FAULT,), "gpu02": ()}


def test_a_suspected_host_has_a_fault_on_each_rail(good: Report) -> None:
    suspect = Suspect(parts=(("host", "gpu02"), ("leaf", "leaf-01")), text="host", next_step="x")
    bad = good.model_copy(update={"suspects": (suspect,)})
    assert [each.rail for each in find_faults(SPEC, bad, [])["gpu02"]] == ["rail-0", "rail-1"]


def test_a_busy_or_failed_node_without_an_accused_rail_is_left_as_it_is(good: Report) -> None:
    probes = good.evidence.probes
    busy = tuple(
        ProbeEvidence(probe=each.probe, outcome="skipped", detail="busy: pods") for each in probes
    )
    failed = tuple(each.model_copy(update={"outcome": "failed"}) for each in probes)
    for changed in (busy, failed):
        report = judge_evidence(good.evidence.model_copy(update={"probes": changed}))
        clear = report.model_copy(update={"suspects": ()})
        assert find_faults(SPEC, clear, []) == {}


def test_a_silent_node_is_left_as_it_is(good: Report) -> None:
    assert {*find_faults(SPEC, good, [differs("gpu01", "unread", "no route")])} == {"gpu02"}


def test_the_form_of_nvsentinel_survives_any_text() -> None:
    text = RailFault("AUDIT_SETTING", "rail-0", "a;b\nErrorCode:X \x1b[2J" + "z" * 500).render()
    assert text.count(";") == 1
    assert re.fullmatch(
        r"ErrorCode:\w+ Rail:rail-0 [^;\n\x1b]+ Recommended Action=CONTACT_SUPPORT;", text
    )
    assert len(text) < 300


def test_a_transition_is_dated_once() -> None:
    (first,) = merged([], [FAULT], "t1")
    assert (first["status"], first["reason"]) == ("True", f"{TYPE}IsNotHealthy")
    (second,) = merged([first], [FAULT], "t2")
    assert (second["lastTransitionTime"], second["lastHeartbeatTime"]) == ("t1", "t2")
    (third,) = merged([second], [], "t3")
    assert (third["status"], third["lastTransitionTime"]) == ("False", "t3")
    assert (third["reason"], third["message"]) == (f"{TYPE}IsHealthy", HEALTHY)


def test_other_conditions_and_the_rest_of_the_status_stay() -> None:
    nodes = Nodes({"gpu01": ready_node(), "gpu02": ready_node()}, others=1)
    assert write_conditions(nodes, SPEC, {"gpu01": (FAULT,), "gpu02": ()}, NOW) == []
    assert own(nodes, "gpu01")["status"] == "True"
    assert own(nodes, "gpu02")["lastHeartbeatTime"] == "2026-03-01T03:00:00Z"
    for node in nodes.nodes.values():
        assert node["status"]["conditions"][0] == {"type": "Ready", "status": "True"}
        assert node["status"]["x"] == 1
    assert nodes.calls.count(("PUT", "/api/v1/nodes/gpu01/status")) == 2


def test_a_node_that_is_gone_is_named_and_the_others_are_written() -> None:
    nodes = Nodes({"gpu02": ready_node()})
    (line,) = write_conditions(nodes, SPEC, {"gpu01": (), "gpu02": ()}, NOW)
    assert 'node gpu01: its condition RdmaRailProblem was not written: nodes "gpu01"' in line
    assert own(nodes, "gpu02")["status"] == "False"


def test_a_node_that_never_rests_is_given_up() -> None:
    nodes = Nodes({"gpu01": ready_node()}, others=99)
    (line,) = write_conditions(nodes, SPEC, {"gpu01": ()}, NOW)
    assert "other programs changed the node 5 times" in line
