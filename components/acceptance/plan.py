"""What acceptance will run and which counters it will read, decided from the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.acceptance.evidence import HopRole, Limits, Probe, RailLimit
from components.fabric.plan import switch_endpoint
from components.hosts.endpoint import host_endpoint
from components.jobs.plan import JobsPlan, ProbeJob
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.remote.step import Endpoint


@dataclass(frozen=True, slots=True)
class HopPlan:
    """One interface on the way of one direction of a probe."""

    rail: str
    direction: str
    role: HopRole
    device: str
    interface: str


@dataclass(frozen=True, slots=True)
class CounterSource:
    """One device whose counters are read before and after each probe."""

    endpoint: Endpoint
    os: str
    """`linux`, or the switch's system."""
    interfaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """One probe: what it proves, what it creates, which hops it crosses."""

    probe: Probe
    job: ProbeJob
    hops: tuple[HopPlan, ...]


@dataclass(frozen=True, slots=True)
class AcceptancePlan:
    """The whole proof."""

    cluster: str
    gate: Literal["fail", "warn"]
    limits: Limits
    probes: tuple[ProbePlan, ...]
    sources: tuple[CounterSource, ...]
    workers: tuple[str, ...]
    memlock: tuple[Body, ...]
    """One Job per worker, in the same order: it prints the locked-memory limit of a pod."""
    timeout_s: float


def plan_acceptance(spec: ClusterSpec, jobs: JobsPlan) -> AcceptancePlan:
    """Plan a perftest per rail and one all-reduce over all workers."""
    return AcceptancePlan(
        cluster=spec.name,
        gate=spec.acceptance.gate,
        limits=_limits(spec),
        probes=tuple(_probe(spec, job) for job in jobs.probes),
        sources=_sources(spec),
        workers=tuple(host.name for host in spec.workers),
        memlock=jobs.memlock,
        timeout_s=spec.acceptance.timeout_s,
    )


def _limits(spec: ClusterSpec) -> Limits:
    speeds = {
        rail.name: min(
            (
                nic.speed_gbit_s
                for host in spec.workers
                for nic in host.nics
                if nic.rail == rail.name
            ),
            default=0,
        )
        for rail in spec.rails
    }
    return Limits(
        require_gdr=spec.host_defaults.peermem,
        priority=spec.rdma.priority,
        traffic_class=spec.rdma.traffic_class,
        rails=tuple(RailLimit(name=name, line_rate_gbit_s=speed) for name, speed in speeds.items()),
        pair_fraction=spec.acceptance.perftest_min_fraction,
        nccl_fraction=spec.acceptance.nccl_min_fraction,
    )


def _probe(spec: ClusterSpec, job: ProbeJob) -> ProbePlan:
    hosts = [host for host in (spec.host(node) for node in job.probe.nodes) if host is not None]
    both_ways = job.probe.kind == "nccl"
    pairs = [
        (one, other)
        for one in hosts
        for other in hosts
        if one is not other and (both_ways or (one, other) == (hosts[0], hosts[1]))
    ]
    hops = tuple(
        hop
        for rail in job.probe.rails
        for sender, receiver in pairs
        for hop in _hops(spec, rail, sender, receiver)
    )
    return ProbePlan(job.probe, job, hops)


def _nic(host: Host, rail: str) -> Nic | None:
    return next((nic for nic in host.nics if nic.rail == rail), None)


def _port(spec: ClusterSpec, host: Host, rail: str) -> tuple[str, str] | None:
    for switch in spec.switches:
        for name, port in switch.ports.items():
            if port.to == f"{host.name}/{rail}":
                return switch.name, name
    return None


Ends = tuple[tuple[HopRole, Host], tuple[HopRole, Host]]


def _hops(spec: ClusterSpec, rail: str, sender: Host, receiver: Host) -> list[HopPlan]:
    direction = f"{sender.name} -> {receiver.name}"
    ends: Ends = (("sender_nic", sender), ("receiver_nic", receiver))
    middle: Ends = (("switch_ingress", sender), ("switch_egress", receiver))
    places: list[tuple[HopRole, str, str]] = []
    for role, host in ends:
        nic = _nic(host, rail)
        if nic is not None:
            places.append((role, host.name, nic.netdev))
    for role, host in middle:
        port = _port(spec, host, rail)
        if port is not None:
            places.append((role, *port))
    order: tuple[HopRole, ...] = ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic")
    places.sort(key=lambda place: order.index(place[0]))
    return [HopPlan(rail, direction, role, device, name) for role, device, name in places]


def _sources(spec: ClusterSpec) -> tuple[CounterSource, ...]:
    switches = tuple(
        CounterSource(switch_endpoint(switch), switch.os, tuple(switch.ports))
        for switch in spec.switches
    )
    hosts = tuple(
        CounterSource(host_endpoint(host), "linux", tuple(nic.netdev for nic in host.nics))
        for host in spec.workers
        if host.nics
    )
    return switches + hosts
