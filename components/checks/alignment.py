"""Rules on what the kubelets of workers get about NUMA nodes and CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.kubernetes.planes.alignment import kubelet_fields
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane, cpus_of

_PATH = ("kubernetes", "alignment")


def check_alignment_owner(spec: ClusterSpec) -> Iterator[Finding]:
    """The kubelets that `kubernetes.alignment` is for are installed by Railyard.

    On a cluster that is there, whoever installed it sets them, and drains each worker for it: a
    kubelet does not start with the state of another policy.
    """
    plane = spec.kubernetes
    if isinstance(plane, ExistingPlane) and plane.alignment is not None:
        values = kubelet_fields(plane.alignment).items()
        fields = ", ".join(f"{key}: {value}" for key, value in values)
        yield Finding(
            "kubernetes.alignment is set, and Railyard does not set the kubelets of a cluster that "
            "is there.",
            (at(_PATH), at(("kubernetes", "plane"), plane.plane)),
            f"remove it, and write {fields} into the KubeletConfiguration of the workers: drain "
            "each, remove /var/lib/kubelet/cpu_manager_state, start its kubelet again.",
        )


def check_alignment_numa(spec: ClusterSpec) -> Iterator[Finding]:
    """A policy of `kubernetes.alignment` takes the pods of jobs, which have all cards of a host.

    `single-numa-node` refuses each pod that has cards of two NUMA nodes (TopologyAffinityError);
    `restricted` does so where its CPUs would fit into one of them, and is a warning.
    """
    alignment = spec.kubernetes.alignment if spec.kubernetes else None
    if alignment is None or alignment.policy == "best-effort":
        return
    for host in spec.workers:
        nodes = sorted({nic.numa for nic in host.nics if nic.numa >= 0})
        if len(nodes) > 1:
            always = alignment.policy == "single-numa-node"
            which = "refuses" if always else "refuses, where one of them has all their CPUs,"
            yield Finding(
                f"{host.name} has cards on NUMA nodes {' and '.join(map(str, nodes))}, and "
                f"alignment.policy {alignment.policy} {which} the pods of jobs, which take all.",
                (at((*_PATH, "policy"), alignment.policy),),
                "write policy: best-effort.",
                "error" if always else "warning",
            )
            return


def check_reserved_cpus(spec: ClusterSpec) -> Iterator[Finding]:
    """`reserved_cpus` names each CPU once, upwards, and CPU 0 among them.

    Interrupts and the kernel's own work are on CPU 0 unless something moved them; a job that has
    it for itself is late on one rank, and all others wait for that.
    """
    alignment = spec.kubernetes.alignment if spec.kubernetes else None
    if alignment is None:
        return
    text, cpus = alignment.reserved_cpus, cpus_of(alignment.reserved_cpus)
    place = at((*_PATH, "reserved_cpus"), text)
    if not cpus or list(cpus) != sorted(set(cpus)):
        yield Finding(
            f"reserved_cpus is {text}, which does not name each CPU once, upwards.",
            (place,),
            "write the CPUs as `lscpu -e` counts them, lowest first, such as 0-1,64-65.",
        )
    elif 0 not in cpus:
        yield Finding(
            f"reserved_cpus is {text}: CPU 0, which does the kernel's own work, may go to a job.",
            (place,),
            f"reserve it too, with its sibling: 0,{text}.",
            "warning",
        )
