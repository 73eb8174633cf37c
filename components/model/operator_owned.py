"""What hosts and operators share: who sets what both could, and what the drivers mean for all."""

from __future__ import annotations

from typing import Literal

from components.model.cluster import ClusterSpec
from components.model.drivers import GpuDirect
from components.model.once import once


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


@once
def gpu_paths(spec: ClusterSpec) -> frozenset[GpuDirect]:
    """How cards reach GPU memory, over all workers with GPUs; without one, by the defaults."""
    found: set[GpuDirect] = {spec.settings_of(h).gpu_path for h in spec.workers if h.gpus}
    return frozenset(found or {spec.host_defaults.gpu_path})


def has_own_rdma_driver(spec: ClusterSpec) -> bool:
    """Whether a worker's RDMA driver is NVIDIA's: the GPU driver's container builds on it then."""
    found = [spec.settings_of(host).driver for host in spec.workers]
    return any(driver.is_ofed for driver in found or [spec.host_defaults.driver])


def gpu_driver_owner(spec: ClusterSpec) -> Literal["operator", "host"] | None:
    """`operator` or `host`; None where nothing says who brings the GPU driver."""
    stated = spec.host_defaults.gpu_driver
    operator = spec.operators.gpu
    return stated or (operator.driver if operator else None)


def toolkit_owner(spec: ClusterSpec) -> Literal["present", "host", "operator"]:
    """Who brings NVIDIA's container toolkit to hosts with GPUs: what the file says, or by default.

    The GPU operator's driver comes with its own toolkit; Docker's is installed beside Docker; on
    K3s' containerd it is the image's, unless the file asks for more. K3s finds a runtime that the
    host brings; kubespray's containerd does not, so there the operator brings both.
    """
    if spec.host_defaults.toolkit is not None:
        return spec.host_defaults.toolkit.kind
    operator = spec.operators.gpu
    if operator is not None and (operator.driver == "operator" or spec.kubespray is not None):
        return "operator"
    return "host" if runs_docker(spec) else "present"


def runs_docker(spec: ClusterSpec) -> bool:
    """Containers run in Docker, with or without K3s above it."""
    by_k3s = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    return spec.host_defaults.docker or by_k3s
