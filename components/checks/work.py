"""Rules on jobs, acceptance and what an update may interrupt."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.fabric.waves import leaves_of_hosts
from components.model.cluster import ClusterSpec
from components.model.name_lists import fold_names


def check_max_unavailable(spec: ClusterSpec) -> Iterator[Finding]:
    """Not all workers may be down at once during an update."""
    count, workers = spec.disruption.max_unavailable, len(spec.workers)
    if workers and count > workers:
        yield Finding(
            f"max_unavailable {count} is more than all {workers}.",
            (at(("disruption", "max_unavailable"), count),),
            "set it to 1: one host after the other.",
        )


def check_ports_drain(spec: ClusterSpec) -> Iterator[Finding]:
    """Whom `disruption.ports: drain` shall drain can be drained: nodes of a cluster.

    Without one the ports would change under running jobs. A plain exec looks at nothing before it
    sends its lines, so that no node could leave in time.
    """
    if spec.disruption.ports != "drain":
        return
    where = at(("disruption", "ports"), "drain")
    if spec.kubernetes is None:
        yield Finding(
            "ports is drain, and the site has no Kubernetes whose nodes could be drained.",
            (where,),
            "set ports to deny, and to allow in a window.",
        )
    for s, switch in enumerate(spec.switches):
        if switch.executor == "exec":
            yield Finding(
                f"ports is drain, and {switch.name} takes its configuration as one exec.",
                (where, at(("switches", s, "executor"), switch.executor)),
                "remove executor, or set ports to allow or deny.",
            )


def check_wave_order(spec: ClusterSpec) -> Iterator[Finding]:
    """A file that orders its switches has no host on one leaf alone, or drains it first.

    With `disruption.switches` and `ports: allow` redundant switches change one after the other, so
    that a host keeps a way. A host on one leaf alone has none while that leaf changes, in whichever
    order. Without the block such hosts are normal.
    """
    if spec.disruption.switches is None or spec.disruption.ports != "allow":
        return
    alone = {host: next(iter(on)) for host, on in leaves_of_hosts(spec).items() if len(on) == 1}
    for number, switch in enumerate(spec.switches):
        ends = {port.to.partition("/")[0]: name for name, port in reversed(switch.ports.items())}
        cut = [host for host in alone if alone[host] == switch.name and host in ends]
        if cut:
            verb, port = ("have" if len(cut) > 1 else "has"), ends[cut[0]]
            yield Finding(
                f"{fold_names(cut)} {verb} no other leaf than {switch.name}: no order of the"
                " switches keeps them in service while it changes.",
                (
                    at(("switches", number, "ports", port), switch.ports[port].to),
                    at(("disruption", "switches")),
                ),
                "write ports: drain, which takes such hosts out of service first, or give them a"
                " link to another leaf.",
            )


def check_mpi_operator(spec: ClusterSpec) -> Iterator[Finding]:
    """The MPI operator is installed: the NCCL acceptance test is an MPIJob."""
    if not spec.jobs.mpi_operator:
        yield Finding(
            "the MPI operator is off, and the NCCL acceptance test is an MPIJob.",
            (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),),
            "set mpi_operator to true.",
        )
