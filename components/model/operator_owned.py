"""Who owns what the hosts and the network operator could both set: one of them, never both."""

from __future__ import annotations

from components.model.cluster import ClusterSpec


def vfs_by_operator(spec: ClusterSpec) -> bool:
    """Whether the SR-IOV network operator makes the workers' VFs and sets their MTU."""
    network = spec.operators.network
    wanted = spec.kubernetes is not None and spec.pod_network.mode == "sriov"
    return wanted and network is not None and network.vfs == "operator"


def firmware_by_operator(spec: ClusterSpec) -> bool:
    """Whether the NIC configuration operator sets the firmware of the workers' cards."""
    network = spec.operators.network
    return spec.kubernetes is not None and network is not None and network.firmware == "operator"


def guids_by_pods(spec: ClusterSpec) -> bool:
    """Whether ib-kubernetes gives a VF the GUID of the pod that has it."""
    network = spec.operators.network
    wanted = spec.kubernetes is not None and spec.pod_network.mode == "sriov"
    return wanted and network is not None and network.ib_kubernetes is not None
