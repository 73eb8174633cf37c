"""Where artefacts come from, and which releases a site gets if it names none.

No checksum is here: `railyard pin` reads them, and the lock next to the site file keeps them
(decision 20 in docs/decisions.md). A new release is one line here.

The sources of the probes' image are here too. Its Dockerfile has the same numbers; a test holds the
two equal.
"""

from typing import Final, Literal, NamedTuple

from components.catalogue.operator_versions import MPI_OPERATOR

Architecture = Literal["amd64", "arm64"]

K3S_RELEASES: Final = "https://github.com/k3s-io/k3s/releases/download"
"""K3s' release files: lab/sources.md#k3s."""
K3S_SOURCE: Final = "https://raw.githubusercontent.com/k3s-io/k3s"
"""K3s' source by tag: its install script is in no release, and get.k3s.io serves the newest one."""

NVIDIA_CHARTS: Final = "https://helm.ngc.nvidia.com/nvidia"
"""Charts of the GPU and network operators (their documentation, "Installation")."""
DEVICE_PLUGIN_CHARTS: Final = "https://nvidia.github.io/k8s-device-plugin"
"""The chart of k8s-device-plugin (its README, "Deployment via helm")."""
GPU_OPERATOR_RELEASE: Final = "v26.7.0"
NETWORK_OPERATOR_RELEASE: Final = "26.7.1"
GPU_DEVICE_PLUGIN_RELEASE: Final = "0.20.0"
"""The releases that a site gets if it writes none, and those of its set `current`.

tests/schemas/data holds the definitions and values of their lines."""
K3S_RELEASE: Final = "v1.36.5+k3s1"
"""The K3s of the set `current`."""

_PLUMBING: Final = "ghcr.io/k8snetworkplumbingwg"
MULTUS: Final = f"{_PLUMBING}/multus-cni:v4.3.0"
WHEREABOUTS: Final = f"{_PLUMBING}/whereabouts:v0.9.4"
NV_IPAM: Final = "ghcr.io/mellanox/nvidia-k8s-ipam:v0.4.0"
"""By its tag: `deploy/manifests` says `latest`, and its release workflow pushes each tag."""
SRIOV_CNI: Final = f"{_PLUMBING}/sriov-cni:v2.10.0"
CNI_PLUGINS: Final = f"{_PLUMBING}/plugins:v1.6.2"
"""The reference plugins, in /usr/src/cni/bin (its Dockerfile)."""
IB_SRIOV_CNI: Final = f"{_PLUMBING}/ib-sriov-cni:v1.3.0"
IPOIB_CNI: Final = "ghcr.io/mellanox/ipoib-cni:v1.2.2"
RDMA_CNI: Final = f"{_PLUMBING}/rdma-cni:v1.6.0"
SRIOV_DEVICE_PLUGIN: Final = f"{_PLUMBING}/sriov-network-device-plugin:v3.11.0"
SHARED_DEVICE_PLUGIN: Final = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
"""The maintained plugin; the release is the one that the facts were read from."""
MPI_OPERATOR_IMAGE: Final = f"mpioperator/mpi-operator:{MPI_OPERATOR.removeprefix('v')}"

NETWORK_OPERANDS: Final = "nvcr.io/nvidia/mellanox"
"""Folder of the images that the network operator starts (its example policies, v26.4.1)."""
NCCL_ON_MACVLAN: Final = "2.26.2"
"""The oldest NCCL that works in macvlan pods on shared cards. The driver may hide from them the
GIDs of the host and of other pods. 2.21 to 2.25 read the type of each IPv4 GID, and fail at a
hidden one (NVIDIA/nccl#1573; `ncclIbRoceGetVersionNum` in src/transport/net_ib.cc of v2.25.1-1 and
of v2.26.2-1). Older releases take GID 0, which is the host's."""
NCCL_SUSPECT_ON_V100: Final = "2.28.9"
"""One site reports a crash on V100 (NVIDIA/nccl#2159, open): a warning, never a verdict."""
PROBE_IMAGE_BASE: Final = "docker.io/nvidia/cuda:12.9.0-devel-ubuntu24.04"
"""NVIDIA's CUDA with compiler and NCCL 2.26.5, on the Ubuntu whose Open MPI is 4.1.6. CUDA 13 does
not support V100. The build asks the registry for its digest, or is given it: we write down no
digest that we have not seen."""
PROBE_CUDA: Final = "12.9"
PROBE_DRIVERS: Final = (535, 550, 560, 565, 570)
PROBE_DRIVERS_SINCE: Final = 575
"""Older branches of the GPU driver that start this image (`PROBE_DRIVERS`), and the first branch
with its CUDA: `NVIDIA_REQUIRE_CUDA` of nvidia/cuda:12.9, and the release notes of CUDA 12.9
(575.51.03)."""
K3S_SELINUX: Final = (
    "https://github.com/k3s-io/k3s-selinux/releases/download/v1.6.stable.1/"
    "k3s-selinux-1.6-1.el9.noarch.rpm"
)
"""K3s' SELinux policy for RHEL 9 and its rebuilds, which preflight proposes. With
INSTALL_K3S_SKIP_DOWNLOAD, K3s' install.sh does not install it: up to v1.28.3 it ends ("Failed to
find the k3s-selinux policy", k3s-io/k3s#8810), later releases go on without it (#8703)."""


def k3s_file(version: str, name: str) -> str:
    """Address of one file of a K3s release."""
    return f"{K3S_RELEASES}/{_tag(version)}/{name}"


def k3s_install_script(version: str) -> str:
    """Address of K3s' install script as it was at one release."""
    return f"{K3S_SOURCE}/{_tag(version)}/install.sh"


def _tag(version: str) -> str:
    """A plus is a space to some servers' query decoders, so it is written out."""
    return version.replace("+", "%2B")


class Source(NamedTuple):
    """One program built from a commit."""

    name: str
    repository: str
    tag: str
    commit: str


SOURCES: Final = (
    Source(
        "nccl-tests",
        "https://github.com/NVIDIA/nccl-tests.git",
        "v2.19.6",
        "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432",
    ),
    Source(
        "perftest",
        "https://github.com/linux-rdma/perftest.git",
        "26.04.17",
        "720b61082454e189b1f21835ec175536a944afc3",
    ),
)
"""Tags and commits as their repositories show them."""
