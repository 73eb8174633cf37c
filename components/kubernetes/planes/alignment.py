"""What kubelets of workers get about NUMA nodes, as arguments and as fields of their file.

Sources: Kubernetes' documentation, "Control CPU Management Policies on the Node" and "Control
Topology Management Policies on a node"; the state that kubelet refuses to start with, in its
source (pkg/kubelet/cm/cpumanager).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import Alignment

FIELDS: Final[Mapping[str, str]] = {
    "cpu-manager-policy": "cpuManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
}
"""Argument of kubelet to the field of its file."""
ARGUMENT: Final = "kubelet-arg: "
"""Begins the line of K3s' config.yaml."""


def kubelet_values(alignment: Alignment) -> dict[str, str]:
    """Argument to value."""
    values = "static", alignment.reserved_cpus, alignment.policy, alignment.scope
    return dict(zip(FIELDS, values, strict=True))


def kubelet_fields(alignment: Alignment) -> dict[str, str]:
    """The same for kubelet's own file."""
    return {FIELDS[key]: value for key, value in kubelet_values(alignment).items()}


def kubelet_arguments(spec: ClusterSpec, host: Host) -> tuple[str, ...]:
    """The arguments of one node's kubelet; none but on workers."""
    alignment = spec.kubernetes.alignment if spec.kubernetes else None
    if alignment is None or host.role != "worker":
        return ()
    return tuple(f"{key}={value}" for key, value in kubelet_values(alignment).items())


def arguments_in(lines: Mapping[str, str]) -> str:
    """The arguments in the lines of an install step, in words; empty where there are none."""
    found = (text.removeprefix(ARGUMENT) for text in lines.values() if text.startswith(ARGUMENT))
    return " ".join(part.strip('" ') for part in next(found, "").strip("[]").split(", "))


def ours_among(arguments: tuple[str, ...]) -> str:
    """Those of a kubelet's arguments that this file sets, in words and in its order."""
    given = dict(each.split("=", 1) for each in arguments if "=" in each)
    return " ".join(f"{key}={given[key]}" for key in FIELDS if key in given)
