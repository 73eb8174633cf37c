"""Who lists the releases that the catalogue names: data of `make catalogue`.

A test holds that each release in `components/catalogue/upstream.py` has a row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UPSTREAM: Final = "components/catalogue/upstream.py"
OPERATORS: Final = "components/catalogue/operator_versions.py"
RELEASE: Final = r"v?\d+(?:\.\d+)+(?:\+k3s\d+)?"
"""A release. A tag with more behind it, such as `-rc.1`, is a draft and does not match."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One release of the catalogue, and where the newer ones are listed."""

    name: str
    """The name of the constant; of a program that is built from source, that of its row."""
    address: str
    """A git repository whose tags count, or a repository of charts."""
    chart: str = ""
    """The chart of a repository of charts; empty: tags of git count."""
    file: str = UPSTREAM
    """Where the release is written, from the root of the tree."""
    built: bool = False
    """It is built from source, so its commit is written below its tag."""

    @property
    def pattern(self) -> str:
        """Finds the release in its file, as the group `release`, and the commit of a built one."""
        if self.built:
            return (
                rf'"{self.name}",\n\s+"[^"]+",\n\s+"(?P<release>{RELEASE})",\n'
                r'\s+"(?P<commit>[0-9a-f]{40})"'
            )
        return rf'^{self.name}: Final = f?"(?:[^"]*[:/])?(?P<release>{RELEASE})"'


_NVIDIA: Final = "https://helm.ngc.nvidia.com/nvidia"
_PLUGIN: Final = "https://nvidia.github.io/k8s-device-plugin"
_PLUMBING: Final = "https://github.com/k8snetworkplumbingwg"
_MELLANOX: Final = "https://github.com/Mellanox"

LISTED: Final = (
    Listed("GPU_OPERATOR_RELEASE", _NVIDIA, "gpu-operator"),
    Listed("NETWORK_OPERATOR_RELEASE", _NVIDIA, "network-operator"),
    Listed("GPU_DEVICE_PLUGIN_RELEASE", _PLUGIN, "nvidia-device-plugin"),
    Listed("K3S_RELEASE", "https://github.com/k3s-io/k3s"),
    Listed("MULTUS", f"{_PLUMBING}/multus-cni"),
    Listed("WHEREABOUTS", f"{_PLUMBING}/whereabouts"),
    Listed("NV_IPAM", f"{_MELLANOX}/nvidia-k8s-ipam"),
    Listed("SRIOV_CNI", f"{_PLUMBING}/sriov-cni"),
    Listed("CNI_PLUGINS", f"{_PLUMBING}/plugins"),
    Listed("IB_SRIOV_CNI", f"{_PLUMBING}/ib-sriov-cni"),
    Listed("IPOIB_CNI", f"{_MELLANOX}/ipoib-cni"),
    Listed("RDMA_CNI", f"{_PLUMBING}/rdma-cni"),
    Listed("SRIOV_DEVICE_PLUGIN", f"{_PLUMBING}/sriov-network-device-plugin"),
    Listed("SHARED_DEVICE_PLUGIN", f"{_MELLANOX}/k8s-rdma-shared-dev-plugin"),
    Listed("MPI_OPERATOR", "https://github.com/kubeflow/mpi-operator", file=OPERATORS),
    Listed("nccl-tests", "https://github.com/NVIDIA/nccl-tests.git", built=True),
    Listed("perftest", "https://github.com/linux-rdma/perftest.git", built=True),
)
