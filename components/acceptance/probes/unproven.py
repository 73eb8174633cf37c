"""List beforehand what the probes of a site do not prove, for every report to repeat."""

from __future__ import annotations

from collections.abc import Iterator

from components.acceptance.evidence import Unproven, WorkerGroup
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.owners import runs_on_foreign_fabric
from components.model.places import shares_resource
from components.model.worker_kinds import (
    PAIR,
    WorkerKind,
    on_infiniband,
    rail_pairs,
    speed_classes,
    speeds_of,
    worker_kinds,
)


def worker_groups(spec: ClusterSpec) -> tuple[WorkerGroup, ...]:
    """The kinds of workers, and the reason if one runs no collective; empty for a single kind."""
    kinds = worker_kinds(spec)
    if len(kinds) <= 1:
        return ()
    return tuple(
        WorkerGroup(
            name=kind.name,
            hosts=kind.names,
            gpus=kind.gpus,
            rails=tuple(kind.speeds),
            unproven=_no_collective(kind),
        )
        for kind in kinds
    )


def _no_collective(kind: WorkerKind) -> str:
    if not kind.gpus:
        return "no GPUs, so no collective runs there"
    if len(kind.hosts) < PAIR:
        return f"{kind.name} is the only worker of its kind, so no collective reaches another host"
    return ""


def list_unproven(spec: ClusterSpec) -> tuple[Unproven, ...]:
    """Rails, speeds and hosts that no probe of the site proves."""
    found = [*_outside(spec), *_without_login(spec)]
    if runs_on_foreign_fabric(spec):
        what = "queues, ECN, PFC, MTU and drops of every hop between the cards"
        found.append(Unproven(subject="fabric", what=what, why="the file lists no switches"))
    if spec.rdma.transport == "roce":
        found += [*_on_rails(spec)]
        found += [
            Unproven(subject=host.name, what="RDMA", why="the worker is on no rail")
            for host in spec.workers
            if not speeds_of(spec, host)
        ]
    else:
        fitted = {host.name for host in on_infiniband(spec)}
        found += [
            Unproven(subject=host.name, what="RDMA", why="the worker lacks an InfiniBand adapter")
            for host in spec.workers
            if host.name not in fitted
        ]
    return tuple(found)


def _outside(spec: ClusterSpec) -> Iterator[Unproven]:
    for host in spec.hosts:
        for rail in speeds_of(spec, host) if host.role != "worker" else ():
            why = f"a {host.role.replace('_', ' ')} host runs no probe"
            yield Unproven(subject=host.name, what=f"its link to {rail}", why=why)


def _without_login(spec: ClusterSpec) -> Iterator[Unproven]:
    """The facts that only a login shows; pods prove bandwidth, transport and memory limits."""
    what = "counters, driver, firmware and settings of its cards"
    if spec.infiniband is not None:
        what += ", its InfiniBand ports and partitions"
    for host in spec.workers:
        if host.ssh is None:
            yield Unproven(subject=host.name, what=what, why="no login")


def _on_rails(spec: ClusterSpec) -> Iterator[Unproven]:
    if shares_resource(spec) and spec.kubernetes is not None:
        why = "all rails share one resource, so a pod cannot choose the rail of its VF"
        yield Unproven(subject="rails", what="the bandwidth of each one alone", why=why)
        return
    for rail in spec.rails:
        yield from _on_rail(spec, rail)


def _on_rail(spec: ClusterSpec, rail: Rail) -> Iterator[Unproven]:
    classes = speed_classes(spec, rail)
    if len(classes) == 1 and len(next(iter(classes.values()))) < PAIR:
        (alone,) = next(iter(classes.values()))
        yield Unproven(subject=alone.name, what=rail.name, why="no other worker is on that rail")
        return
    proven = {pair.speed_gbit_s for pair in rail_pairs(spec, rail)}
    for speed, hosts in classes.items():
        if speed not in proven:
            why = f"no other worker has it there; proven at {min(classes)} Gbit/s"
            yield Unproven(subject=hosts[0].name, what=f"{speed} Gbit/s on {rail.name}", why=why)
