"""Rules on jobs, acceptance and what an update may interrupt."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.model.cluster import ClusterSpec


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


def check_mpi_operator(spec: ClusterSpec) -> Iterator[Finding]:
    """The MPI operator is installed: the NCCL acceptance test is an MPIJob."""
    if not spec.jobs.mpi_operator:
        yield Finding(
            "the MPI operator is off, and the NCCL acceptance test is an MPIJob.",
            (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),),
            "set mpi_operator to true.",
        )
