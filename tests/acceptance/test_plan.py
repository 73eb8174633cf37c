from __future__ import annotations

import pytest

from components.acceptance.acceptance_plan import AcceptancePlan, ProbePlan
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from tests.golden.site import changed_spec, load_example

SPEC = load_example("dgx-roce")


def plan(spec: ClusterSpec = SPEC) -> AcceptancePlan:
    return make_plan(spec, "dev").acceptance


def hops(probe: ProbePlan, direction: str) -> list[str]:
    return [
        f"{hop.rail} {hop.role} {hop.device} {hop.interface}"
        for hop in probe.hops
        if hop.direction == direction
    ]


def test_the_gpus_a_perftest_per_rail_and_one_all_reduce() -> None:
    assert [(probe.probe.kind, probe.probe.rails) for probe in plan().probes] == [
        ("node", ()),
        ("node", ()),
        ("perftest", ("rail-0",)),
        ("perftest", ("rail-1",)),
        ("nccl", ("rail-0", "rail-1")),
    ]


def test_the_hops_of_a_perftest_lie_in_order_on_its_one_direction() -> None:
    probe = plan().probes[3]
    assert {hop.direction for hop in probe.hops} == {"gpu01 -> gpu02"}
    assert hops(probe, "gpu01 -> gpu02") == [
        "rail-1 sender_nic gpu01 enp132s0",
        "rail-1 switch_ingress leaf-01 1/2",
        "rail-1 switch_egress leaf-01 1/4",
        "rail-1 receiver_nic gpu02 enp132s0",
    ]


def test_an_all_reduce_crosses_every_rail_both_ways() -> None:
    probe = plan().probes[-1]
    assert len(probe.hops) == 16
    assert hops(probe, "gpu02 -> gpu01")[:4] == [
        "rail-0 sender_nic gpu02 enp5s0",
        "rail-0 switch_ingress leaf-01 1/3",
        "rail-0 switch_egress leaf-01 1/1",
        "rail-0 receiver_nic gpu01 enp5s0",
    ]


def test_every_hop_can_be_read() -> None:
    planned = plan()
    readable = {
        (source.endpoint.device, name) for source in planned.sources for name in source.interfaces
    }
    assert {(hop.device, hop.interface) for probe in planned.probes for hop in probe.hops} == (
        readable
    )
    assert [(source.endpoint.device, source.os) for source in planned.sources] == [
        ("leaf-01", "onyx"),
        ("gpu01", "linux"),
        ("gpu02", "linux"),
    ]


def test_limits_come_from_the_file() -> None:
    limits = plan().limits
    assert (limits.priority, limits.traffic_class, limits.require_gdr) == (3, 3, True)
    assert {rail.name: rail.line_rate_gbit_s for rail in limits.rails} == {
        "rail-0": 100,
        "rail-1": 100,
    }
    assert (limits.pair_fraction, limits.nccl_fraction) == (0.9, 0.85)


def test_the_slowest_card_of_a_rail_is_its_line_rate() -> None:
    worker = SPEC.workers[1]
    slow = worker.nics[0].model_copy(update={"speed_gbit_s": 25})
    slower = worker.model_copy(update={"nics": (slow, *worker.nics[1:])})
    spec = changed_spec(SPEC, hosts=(*SPEC.hosts[:2], slower))
    assert [rail.line_rate_gbit_s for rail in plan(spec).limits.rails] == [25, 100]


@pytest.mark.parametrize(
    ("card", "pod", "rdma"), [(9000, None, 4096), (4191, None, 2048), (9000, 1500, 1024)]
)
def test_the_rdma_mtu_of_a_rail_is_that_of_its_smallest_interface(
    card: int, pod: int | None, rdma: int
) -> None:
    """`iboe_get_mtu` in Linux' ib_addr.h: perftest prints it, and a full 4096 was asked of 1500."""
    worker = SPEC.workers[1]
    small = worker.nics[0].model_copy(update={"mtu_bytes": card})
    other = worker.model_copy(update={"nics": (small, *worker.nics[1:])})
    network = SPEC.pod_network.model_copy(update={"mtu_bytes": pod})
    spec = changed_spec(SPEC, hosts=(*SPEC.hosts[:2], other), pod_network=network)
    assert plan(spec).limits.rails[0].rdma_mtu_bytes == rdma
    assert plan().limits.rails[0].rdma_mtu_bytes == 4096


@pytest.mark.parametrize("gate", ["fail", "warn"])
def test_gate_and_deadline_come_from_the_file(gate: str) -> None:
    acceptance = SPEC.acceptance.model_copy(update={"gate": gate, "timeout_s": 77.0})
    planned = plan(changed_spec(SPEC, acceptance=acceptance))
    assert (planned.gate, planned.timeout_s) == (gate, 77.0)


def test_a_host_without_a_cable_has_no_switch_hop() -> None:
    switch = SPEC.switches[0]
    ports = {name: port for name, port in switch.ports.items() if name != "1/3"}
    spec = changed_spec(SPEC, switches=(switch.model_copy(update={"ports": ports}),))
    assert [hop.role for hop in plan(spec).probes[2].hops] == [
        "sender_nic",
        "switch_ingress",
        "receiver_nic",
    ]


def test_one_memlock_pod_a_worker() -> None:
    planned = plan()
    assert planned.workers == ("gpu01", "gpu02")
    assert len(planned.memlock) == len(planned.workers)


def test_a_rail_knows_the_addresses_and_the_devices_of_a_test_on_it() -> None:
    assert plan().limits.rails[0].networks == (str(SPEC.rails[0].subnet),)
    assert plan().limits.rails[0].devices == ()
    routed = plan(load_example("spine-leaf")).limits.rails[0].networks
    assert routed
