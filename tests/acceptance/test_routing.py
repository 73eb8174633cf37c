"""Routed links without a session: read with the counters, and named where a probe failed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.collect import counters
from components.acceptance.collect.counters import read_snapshot, routing_faults_on_path
from components.acceptance.evidence import Evidence, RoutingSeen, dump_evidence, parse_evidence
from components.acceptance.handover import (
    AcceptRequest,
    parse_accept_request,
    render_accept_request,
)
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.text import render_table
from components.fabric.parts import Session, Sessions
from components.fabric.systems.base import PortCounters
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.remote.step import Endpoint
from tests.lab_physics.examples import example
from tests.lab_physics.site import Site, take_evidence

SPEC = example("spine-leaf")
PLAN = plan_acceptance(SPEC, plan_kubernetes(SPEC, "dev"))
LEAF = next(source for source in PLAN.sources if source.endpoint.device == "leaf-01")
FAR = next(
    each for each in PLAN.probes if {hop.device for hop in each.hops} >= {"leaf-01", "spine-01"}
)


def whole() -> dict[str, Session]:
    assert LEAF.links is not None
    return dict.fromkeys(LEAF.links.ends, Session(state="Established"))


def seen_with(monkeypatch: pytest.MonkeyPatch, found: Sessions | None) -> tuple[RoutingSeen, ...]:
    def read(
        endpoint: Endpoint, system: str, ports: tuple[str, ...], secrets: object, *, bfd: bool
    ) -> tuple[dict[str, PortCounters], Sessions | None]:
        del secrets, bfd
        assert (endpoint.device, system) == ("leaf-01", "cumulus")
        return {name: PortCounters({}, None, 0) for name in ports}, found

    monkeypatch.setattr(counters, "read_counted", read)
    snapshot = asyncio.run(read_snapshot([LEAF], {}))
    return routing_faults_on_path(FAR.hops, snapshot)


def test_the_request_carries_what_the_links_are_to_be() -> None:
    request = AcceptRequest("digest", "dev", "lab", PLAN)
    assert parse_accept_request(render_accept_request(request)).acceptance.sources == PLAN.sources
    assert LEAF.links is not None
    first = next(iter(LEAF.links.ends.values()))
    assert first.to.startswith("spine-0")


def test_a_lost_link_on_the_way_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_with(monkeypatch, Sessions(neighbors=whole())) == ()
    assert LEAF.links is not None
    name, end = next(iter(LEAF.links.ends.items()))
    broken = Sessions(neighbors=whole() | {name: Session(state="Active")})
    (found,) = seen_with(monkeypatch, broken)
    assert (found.device, found.where) == ("leaf-01", f"port {end.port}")
    assert found.what == f"BGP with {end.to} is Active, not Established"
    assert found.fix == f"nv show vrf default router bgp neighbor {name}"


def test_what_could_not_be_asked_is_evidence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = seen_with(monkeypatch, Sessions(unread="`nv show` was refused"))
    assert (found.where, found.kind) == ("switch", "unread")
    assert seen_with(monkeypatch, None) == ()


def test_a_switch_without_routed_links_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, bfd: bool | None) -> tuple[dict[str, PortCounters], Sessions | None]:
        assert bfd is None, "its sessions are not asked for"
        return {"Ethernet1/1": PortCounters({}, None, 0)}, None

    monkeypatch.setattr(counters, "read_counted", read)
    assert asyncio.run(read_snapshot([replace(LEAF, links=None)], {})).lost == {"leaf-01": ()}


LOST = RoutingSeen(
    device="leaf-01",
    where="port swp51",
    what="BGP with spine-01:swp1 is Idle, not Established",
    fix="nv show vrf default router bgp neighbor swp51",
)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    found = take_evidence(Site())
    probes = [each.model_copy(update={"routing": (LOST,)}) for each in found.probes[:2]]
    return found.model_copy(update={"probes": (*probes, *found.probes[2:])})


def test_a_probe_that_passed_by_other_links_warns_once(evidence: Evidence) -> None:
    report = judge_evidence(evidence)
    assert report.verdict == "passed"
    (warning,) = report.warnings
    assert (warning.subject, warning.next_step) == ("leaf-01", LOST.fix)
    assert (
        "warning leaf-01: expected port swp51: BGP with every neighbour of the file, actual BGP"
        " with spine-01:swp1 is Idle, not Established"
    ) in render_table(report)


@pytest.mark.parametrize(("outcome", "verdict"), [("failed", "failed"), ("not_run", "error")])
def test_a_probe_that_failed_over_it_names_it(
    evidence: Evidence, outcome: str, verdict: str
) -> None:
    first = evidence.probes[0].model_copy(update={"outcome": outcome})
    report = judge_evidence(evidence.model_copy(update={"probes": (first, *evidence.probes[1:])}))
    (found,) = (each for each in report.findings if each.check == "routing")
    assert (found.subject, found.verdict, found.actual) == ("leaf-01", verdict, LOST.what)
    assert found.detail == f"it may be why these did not pass: {first.probe.name}"
    assert report.warnings == ()


def test_evidence_of_links_that_hold_is_as_it_was(evidence: Evidence) -> None:
    assert parse_evidence(dump_evidence(evidence)) == evidence
    assert "routing" not in dump_evidence(take_evidence(Site()))
