"""GPUs, cards and CPUs of a pod from one NUMA node: what the kubelets of the workers decide."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from components.model.units import Frozen

CPU_LIST: Final = r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"
"""As Linux writes sets of CPUs: `0-1,64-65`."""
CpuList = Annotated[str, StringConstraints(pattern=CPU_LIST)]
TopologyPolicy = Literal["best-effort", "restricted", "single-numa-node"]


class Alignment(Frozen):
    """Kubelet's topology manager and its static CPU manager on all workers.

    Pods of jobs then ask for whole CPUs and for memory, so that they get CPUs of their own, near
    their GPUs and cards. A change on a running cluster drains each worker.
    """

    policy: TopologyPolicy = "best-effort"
    """`best-effort` takes a pod whose parts cannot be near each other, the others refuse it. A job
    over all GPUs of a host with two NUMA nodes is such a pod."""
    scope: Literal["container", "pod"] = "container"
    """Whether each container or the whole pod is aligned; kubelet's default."""
    reserved_cpus: CpuList
    """CPUs of every worker that no pod gets for itself, for the system and all other pods: with
    none, kubelet's static policy does not start. Both threads of a core, and some of each NUMA
    node: `0-1,64-65`."""
    job_cpus: Annotated[int, Field(ge=1)]
    """CPUs that each pod of a job asks for."""
    job_memory_gib: Annotated[int, Field(ge=1)]
    """Memory that each pod of a job asks for, in GiB: only a pod with requests for both gets CPUs
    of its own."""


def cpus_of(text: str) -> tuple[int, ...]:
    """The CPUs of a list, in its order; a range that goes down has none."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
