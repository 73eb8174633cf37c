"""Nodes that nothing logs in to: what is proven all the same, and what the report says is not."""

from __future__ import annotations

import pytest

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.evidence import Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.path import judge_path
from components.acceptance.judge.site import judge_fabric
from components.acceptance.report.text import render_table
from components.checks.site import load_checked_site
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from tests.golden.site import EXAMPLES, changed_spec, load_example
from tests.lab_physics.examples import Played

PROBE = "perftest-rail-0-node03-node04"


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return load_checked_site(EXAMPLES / "shared-rdma/without-ssh.yaml").spec_or_raise()


def dark(spec: ClusterSpec, *names: str) -> ClusterSpec:
    """The same site, where nothing logs in to these hosts."""

    def known(host: Host) -> Host:
        change: dict[str, object] = {"ssh": None, "login": "none"}
        return host.model_copy(update=change) if host.name in names else host

    return changed_spec(spec, hosts=tuple(map(known, spec.hosts)))


def test_switches_alone_prove_the_class_and_the_rest_is_named(spec: ClusterSpec) -> None:
    played = Played(spec)
    assert [each.device for each in played.plan.endpoints] == ["leaf-01"]
    report = played.report(PROBE)
    assert report.verdict == "passed"
    (way,) = [each for each in report.findings if each.check == "traffic class"]
    assert way.expected == "rail-0, node03 -> node04: priority 3 at 2 hops"
    assert way.actual.endswith("; node03 enp88s0 and node04 enp88s0 not proven: no login")
    table = render_table(report)
    for name in ("node03", "node04"):
        words = "not proven: counters, driver, firmware and settings of its cards: no login"
        assert f"proof {name}" in table
        assert words in table
    assert table.endswith("acceptance passed: 1 probe planned, 2 things not proven\n")


def test_a_wrong_class_at_the_switch_still_fails(spec: ClusterSpec) -> None:
    played = Played(spec)
    played.break_ports(trust="L2")
    report = played.report(PROBE)
    assert report.verdict == "failed"
    (way,) = [each for each in report.findings if each.check == "traffic class"]
    assert way.detail.startswith("wrong traffic class at leaf-01 1/1")


def test_without_switches_in_the_file_the_way_is_not_proven(spec: ClusterSpec) -> None:
    (item,) = Played(spec).report(PROBE).evidence.probes
    assert [hop.status for hop in item.hops] == ["no_login", "observed", "observed", "no_login"]
    ends = tuple(hop for hop in item.hops if hop.status == "no_login")
    (found,) = judge_path(item.model_copy(update={"hops": ends}), Limits(priority=3))
    assert (found.verdict, found.actual) == ("skipped", "not proven: no login")
    assert found.detail == "node03 enp88s0 -> node04 enp88s0"


def test_a_host_with_a_login_is_read_beside_one_without() -> None:
    played = Played(dark(load_example("shared-rdma"), "node04"))
    assert {each.endpoint.device for each in played.plan.sources} == {"leaf-01", "node03"}
    report = played.report(PROBE)
    (item,) = report.evidence.probes
    assert [hop.status for hop in item.hops] == ["observed", "observed", "observed", "no_login"]
    lost = item.model_copy(
        update={"hops": (replace_status(item.hops[0], "unreachable"), *item.hops[1:])}
    )
    (found,) = judge_path(lost, report.evidence.limits)
    assert found.verdict == "error", "a host that has a login and does not answer is no choice"


def replace_status(hop: Hop, status: str) -> Hop:
    return hop.model_copy(update={"status": status, "detail": "no answer"})


def test_a_fabric_of_infiniband_is_judged_by_who_can_be_asked() -> None:
    spec = load_example("quantum-ib")
    names = [host.name for host in spec.workers]
    one, none = dark(spec, names[0]), dark(spec, *names)
    assert [look.endpoint.device for look in plan_acceptance(one).ib] == names[1:]
    assert plan_acceptance(one).ib[0].script.startswith("diagnose=''\n")
    assert plan_acceptance(one).limits.ib is not None
    silent = plan_acceptance(none)
    assert (silent.ib, silent.sources, silent.limits.ib) == ((), (), None)
    assert {each.subject for each in silent.limits.unproven} == {*names}
    assert "its InfiniBand ports and partitions" in silent.limits.unproven[0].what


def test_adapters_without_a_login_are_not_proven_and_no_fault() -> None:
    hop = Hop(
        rail="infiniband",
        direction="w0 sends",
        role="sender_nic",
        device="w0",
        interface="adapters",
        status="no_login",
    )
    probe = Probe(name="write", kind="perftest", rails=("ib",), nodes=("w0", "w1"))
    item = ProbeEvidence(probe=probe, outcome="completed", hops=(hop,))
    (found,) = judge_fabric(item, Limits(transport="ib", hcas=2))
    assert (found.verdict, found.actual) == ("skipped", "not proven: no login")
