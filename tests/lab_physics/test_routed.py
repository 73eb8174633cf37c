"""A rail over two leaves without a common VLAN: what routes, and what stops or slows a probe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.acceptance.judge.site import Report
from components.model.cluster import ClusterSpec
from lab.physics.request import ProbeRequest, ProbeResult
from lab.physics.routed import find_hops, next_hop
from lab.views import PortView, RouterView
from tests.lab_physics.examples import Played, example

PAIR = ("gpu08", "gpu09")
CROSSING = "perftest-rail-0-gpu08-gpu09"
NEAR = "perftest-rail-0-gpu07-gpu08"
SPINES = ("spine-01", "spine-02")


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return example("spine-leaf")


def change_ports(site: Played, switch: str, peer: str, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
    """Change the ports of a switch to another one."""
    (own,) = (each for each in site.spec.switches if each.name == switch)
    for name, port in own.ports.items():
        if port.to.startswith(peer):
            site.ports[switch, name] = replace(site.ports[switch, name], **changes)


def change_router(site: Played, switch: str, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
    site.routers[switch] = replace(site.routers[switch], **changes)


def why(report: Report, probe: str) -> str:
    return "; ".join(
        f"{each.check}: {each.actual} {each.detail}"
        for each in report.findings
        if each.subject == probe and each.verdict != "passed"
    )


def test_a_probe_over_the_spines_is_proven_at_both_leaves_and_the_spine(spec: ClusterSpec) -> None:
    site = Played(spec)
    report = site.report(CROSSING)
    assert report.verdict_of(CROSSING) == "passed", why(report, CROSSING)
    (item,) = report.evidence.probes
    moved = {(hop.role, hop.device) for hop in item.hops if (hop.total_bytes or 0) > 1e9}
    assert item.probe.flows == 64
    assert moved == {
        ("sender_nic", "gpu08"),
        ("switch_ingress", "leaf-01"),
        ("uplink_egress", "leaf-01"),
        *((way, spine) for way in ("spine_ingress", "spine_egress") for spine in SPINES),
        ("downlink_ingress", "leaf-05"),
        ("switch_egress", "leaf-05"),
        ("receiver_nic", "gpu09"),
    }
    (path,) = (each for each in report.findings if each.check == "traffic class")
    assert path.expected.endswith("priority 3 at 8 hops")


def across(spec: ClusterSpec, *, told: bool) -> ProbeResult:
    """A test from one rail to the next one; the client knows the way, or none."""
    site = Played(spec)
    one, other = (next(host for host in spec.workers if host.name == name) for name in PAIR)
    call = ("ib_write_bw", "-R", "-F", "--report_gbits")
    server, client = site.pod(other, (*call, "-d", "mlx5_1")), site.pod(one, call)
    far = server.networks[1]
    pods = [replace(server, networks=(far,)), replace(client, networks=client.networks[:1])]
    if told:
        for number, (pod, to) in enumerate(zip(pods, (client.networks[0], far), strict=True)):
            (own,) = pod.networks
            way = (f"{to.ip}/32", own.routes[0][1])
            pods[number] = replace(pod, networks=(replace(own, routes=(*own.routes, way)),))
    command = (*call, "-d", pods[1].networks[0].rdma or "mlx5_0", far.ip)
    return site.run(ProbeRequest("perftest", (pods[0], replace(pods[1], command=command))))


def test_rails_reach_each_other_where_a_route_leads_there(spec: ClusterSpec) -> None:
    assert across(spec, told=True).exit_code == 0
    assert "ADDR_ERROR" in across(spec, told=False).log


def idle(report: Report) -> list[str]:
    return [each.actual for each in report.warnings if each.check == "spread"]


def test_each_link_carries_a_share_of_many_connections(spec: ClusterSpec) -> None:
    report = Played(spec).report(CROSSING)
    (item,) = report.evidence.probes
    uplinks = [hop.total_bytes or 0 for hop in item.hops if hop.role == "uplink_egress"]
    assert len(uplinks) == 8
    assert min(uplinks) > sum(uplinks) / 32
    assert idle(report) == []


def test_one_connection_takes_one_link_and_proves_no_other(spec: ClusterSpec) -> None:
    site = Played(spec)
    change_router(site, "leaf-01", max_paths=1)
    report = site.report(CROSSING)
    assert report.verdict_of(CROSSING) == "passed"
    found = idle(report)
    assert len(found) == 7
    assert all(each.startswith("0 B of ") for each in found)


def test_neighbours_on_one_leaf_cross_no_spine(spec: ClusterSpec) -> None:
    report = Played(spec).report(NEAR)
    assert report.verdict_of(NEAR) == "passed"
    assert {hop.device for hop in report.evidence.probes[0].hops} == {"gpu07", "leaf-01", "gpu08"}


@pytest.mark.parametrize("spine", ["spine-01", "spine-02"])
def test_one_spine_less_and_the_other_carries_all(spec: ClusterSpec, spine: str) -> None:
    site = Played(spec)
    for leaf in ("leaf-01", "leaf-05"):
        change_ports(site, spine, leaf, oper_up=False)
    report = site.report(CROSSING)
    assert report.verdict_of(CROSSING) == "passed"
    busy = {h.device for h in report.evidence.probes[0].hops if (h.total_bytes or 0) > 1e9}
    assert spine not in busy


def lose_spines(site: Played) -> None:
    for spine in ("spine-01", "spine-02"):
        change_ports(site, spine, "leaf-05", oper_up=False)


def lose_announcement(site: Played) -> None:
    change_router(site, "leaf-05", networks=("10.255.0.5/32",))


def lose_session(site: Played) -> None:
    change_router(site, "leaf-05", neighbors={})


def lose_gateway(site: Played) -> None:
    change_router(site, "leaf-01", addresses={"lo": ("10.255.0.1/32",)})


def lose_pod_routes(site: Played) -> None:
    site.pods_have_routes = False


def take_the_others_number(site: Played) -> None:
    change_router(site, "leaf-05", asn=65101)


def bridge_the_uplinks(site: Played) -> None:
    for spine in ("spine-01", "spine-02"):
        change_ports(site, "leaf-05", spine, allowed_vlans=frozenset({111}))


@pytest.mark.parametrize(
    "fault",
    [
        lose_spines,
        lose_announcement,
        lose_session,
        lose_gateway,
        lose_pod_routes,
        take_the_others_number,
        bridge_the_uplinks,
    ],
)
def test_without_a_route_nothing_arrives(spec: ClusterSpec, fault: Any) -> None:  # noqa: ANN401 - one of the functions above
    site = Played(spec)
    fault(site)
    report = site.report(CROSSING, NEAR)
    assert report.verdict_of(CROSSING) == "failed"
    assert report.verdict_of(NEAR) == "passed", "on one leaf nothing is routed"


def test_a_spine_that_does_not_trust_dscp_is_named(spec: ClusterSpec) -> None:
    site = Played(spec)
    for spine in ("spine-01", "spine-02"):
        change_ports(site, spine, "leaf-01", trust="port")
    report = site.report(CROSSING)
    (found,) = (each for each in report.findings if each.check == "traffic class")
    assert found.verdict == "failed"
    assert found.detail.startswith("wrong traffic class at spine-0")
    assert "swp1" in found.detail


def test_a_short_mtu_on_the_way_is_a_drop_that_is_named(spec: ClusterSpec) -> None:
    site = Played(spec)
    for spine in ("spine-01", "spine-02"):
        change_ports(site, spine, "leaf-05", mtu_bytes=1500)
    report = site.report(CROSSING)
    assert report.verdict_of(CROSSING) == "failed"
    assert "packets were discarded at spine-0" in why(report, CROSSING)


def test_rails_that_share_a_slow_uplink_share_its_rate(spec: ClusterSpec) -> None:
    site = Played(spec)
    report = site.report("nccl-all-reduce")
    assert report.verdict_of("nccl-all-reduce") == "passed", why(report, "nccl-all-reduce")
    for leaf in ("leaf-01", "leaf-05"):
        change_ports(site, leaf, "spine-02", oper_up=False)
        for port in ("swp50", "swp51", "swp52"):
            site.ports[leaf, port] = replace(site.ports[leaf, port], oper_up=False)
        site.ports[leaf, "swp49"] = replace(site.ports[leaf, "swp49"], speed_gbit_s=400)
    report = site.report("nccl-all-reduce")
    assert report.verdict_of("nccl-all-reduce") == "failed", "two rails over one link of 400"
    assert "bandwidth" in why(report, "nccl-all-reduce")


def _port(switch: str, name: str) -> PortView:
    return PortView(
        switch, name, admin_up=True, oper_up=True, speed_gbit_s=100, mtu_bytes=9216, mode="trunk",
        access_vlan=0, allowed_vlans=frozenset(), trust="L3", dscp_to_priority=(0,) * 64,
        priority_to_tc=tuple(range(8)), ecn_kib={}, pfc_priorities=frozenset(),
    )  # fmt: skip


def test_equal_paths_are_both_used_and_unequal_ones_are_not() -> None:
    def router(name: str, asn: int, *ports: str, network: str = "") -> RouterView:
        addresses = {"vlan1": (network.replace(".0/", ".1/"),)} if network else {}
        told = (network,) if network else ()
        return RouterView(name, addresses, asn, dict.fromkeys(ports, "external"), told)

    wires = [("a", "1", "s", "1"), ("a", "2", "t", "1"), ("s", "2", "b", "1"), ("t", "2", "b", "2")]
    links = tuple(
        (_port(one, left), _port(other, right))
        for near, here, far, there in wires
        for one, left, other, right in ((near, here, far, there), (far, there, near, here))
    )
    routers = {
        "a": router("a", 1, "1", "2", network="10.0.1.0/24"),
        "b": router("b", 2, "1", "2", network="10.0.2.0/24"),
        "s": router("s", 9, "1", "2"),
        "t": router("t", 9, "1", "2"),
    }

    def over(sender: str) -> str:
        hops = find_hops("a", sender, "10.0.2.9", links, routers)
        assert hops is not None
        assert len(hops) == 2
        return hops[0][1].switch

    assert {over(f"10.0.1.{number}") for number in range(10, 30)} == {"s", "t"}
    routers["t"] = replace(routers["t"], asn=8)
    assert len({over(f"10.0.1.{number}") for number in range(10, 30)}) == 1


def test_an_interface_knows_its_subnet_and_its_routes() -> None:
    routes = (("10.0.0.0/16", "10.0.1.1"), ("10.0.7.0/24", "10.0.1.7"))
    assert next_hop("10.0.1.9", 24, routes, "10.0.1.20") == ""
    assert next_hop("10.0.1.9", 24, routes, "10.0.2.20") == "10.0.1.1"
    assert next_hop("10.0.1.9", 24, routes, "10.0.7.20") == "10.0.1.7"
    assert next_hop("10.0.1.9", 24, routes, "10.9.0.1") is None
