"""The parts that a cluster may have already, and where kubelet looks for CNI programs.

Names of images are those of the projects' own releases and of Rancher's hardened builds
(lab/sources.md#parts-of-a-cluster).

Sources: lab/sources.md#cni-folders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from components.catalogue import upstream
from components.catalogue.operator_versions import MPI_OPERATOR


@dataclass(frozen=True, slots=True)
class CniPaths:
    """Two folders of every node."""

    net_d: str
    """CNI configurations."""
    bin: str
    """CNI programs."""

    @property
    def whereabouts_config(self) -> str:
        """The configuration that whereabouts writes for its own program."""
        return f"{self.net_d}/whereabouts.d/whereabouts.conf"


UPSTREAM: Final = CniPaths("/etc/cni/net.d", "/opt/cni/bin")
"""The defaults of containerd and CRI-O, which most distributions keep."""
DISTRIBUTIONS: Final[dict[str, CniPaths]] = {
    # The folder of programs since the releases of FIRST_K3S; before, its name had a hash in it.
    "k3s": CniPaths("/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/cni"),
    "rke2": UPSTREAM,
    "kubeadm": UPSTREAM,
    "kubespray": UPSTREAM,
    "k0s": UPSTREAM,
    "microk8s": CniPaths(
        "/var/snap/microk8s/current/args/cni-network", "/var/snap/microk8s/current/opt/cni/bin"
    ),
    "aks": UPSTREAM,
    "eks": UPSTREAM,
    "oke": UPSTREAM,
}
FIRST_K3S: Final = {(1, 28): 15, (1, 29): 10, (1, 30): 6, (1, 31): 2}
"""Minor of Kubernetes to its first patch whose K3s has the folder above; every later minor has it.
docs.k3s.io, "Multus and IPAM plugins". Older K3s has its programs in `data/current/bin`, a link
that every upgrade moves: programs that a pod installed there are lost with the next one."""
_SUFFIX: Final = re.compile(r"\+(k3s|rke2|k0s)")


def distribution_of(version: str) -> str | None:
    """The distribution that a version tells by its suffix: `v1.36.3+k3s1`; None: it tells none."""
    found = _SUFFIX.search(version)
    return found[1] if found else None


if TYPE_CHECKING:
    Distribution = str
else:
    Distribution = Literal[tuple(DISTRIBUTIONS)]
"""The type of `kubernetes.distribution`."""


Part = Literal[
    "multus",
    "attachments",
    "whereabouts",
    "nv_ipam",
    "sriov_cni",
    "ib_sriov_cni",
    "ipoib_cni",
    "rdma_cni",
    "cni_plugins",
    "sriov_device_plugin",
    "shared_device_plugin",
    "gpu_device_plugin",
    "gpu_operator",
    "network_operator",
    "mpi_operator",
    "trainer",
]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a part's own objects."""

    name: str
    version: str
    """The version that our objects, or those of jobs, are written in."""


@dataclass(frozen=True, slots=True)
class Status:
    """Objects in whose status an operator writes that its work is done."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """One part."""

    title: str
    image: str = ""
    """The image, in DaemonSets and Deployments, of the release that Railyard brings, or was written
    with; without a tag if that is not known."""
    definitions: tuple[Definition, ...] = ()
    status: Status | None = None
    hardened: str = ""
    """Last name of Rancher's build of it."""
    publishes: bool = False
    """It publishes devices as resources of nodes."""
    shared: bool = False
    """Our copy does not disturb another one in the cluster."""

    @property
    def images(self) -> tuple[str, ...]:
        """Last names of the images that it runs from."""
        return tuple(filter(None, (name_in(self.image), self.hardened)))

    @property
    def known(self) -> str:
        """That release; empty if it is not known."""
        return version_in(self.image)


def name_in(image: str) -> str:
    """The last name of an image: `multus-cni` of `ghcr.io/k8snetworkplumbingwg/multus-cni:v4`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def version_in(image: str) -> str:
    """The tag of an image; empty if a digest alone names it."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


TABLE: Final[Mapping[Part, ClusterPart]] = {
    "multus": ClusterPart(
        "Multus",
        upstream.MULTUS,
        (Definition("network-attachment-definitions.k8s.cni.cncf.io", "v1"),),
        hardened="hardened-multus-cni",
    ),
    "attachments": ClusterPart("the attachment of a rail"),
    "whereabouts": ClusterPart(
        "whereabouts",
        upstream.WHEREABOUTS,
        (
            Definition("ippools.whereabouts.cni.cncf.io", "v1alpha1"),
            Definition("overlappingrangeipreservations.whereabouts.cni.cncf.io", "v1alpha1"),
        ),
        hardened="hardened-whereabouts",
    ),
    "nv_ipam": ClusterPart(
        "nv-ipam",
        upstream.NV_IPAM,
        (
            Definition("ippools.nv-ipam.nvidia.com", "v1alpha1"),
            Definition("cidrpools.nv-ipam.nvidia.com", "v1alpha1"),
        ),
    ),
    "sriov_cni": ClusterPart("SR-IOV CNI", upstream.SRIOV_CNI, hardened="hardened-sriov-cni"),
    "ib_sriov_cni": ClusterPart(
        "InfiniBand SR-IOV CNI", upstream.IB_SRIOV_CNI, hardened="hardened-ib-sriov-cni"
    ),
    "ipoib_cni": ClusterPart("IPoIB CNI", upstream.IPOIB_CNI),
    "rdma_cni": ClusterPart("RDMA CNI", upstream.RDMA_CNI),
    "cni_plugins": ClusterPart(
        "the reference CNI plugins",
        upstream.CNI_PLUGINS,
        hardened="hardened-cni-plugins",
        shared=True,
    ),
    "sriov_device_plugin": ClusterPart(
        "SR-IOV device plugin",
        upstream.SRIOV_DEVICE_PLUGIN,
        hardened="hardened-sriov-network-device-plugin",
        publishes=True,
    ),
    "shared_device_plugin": ClusterPart(
        "RDMA shared device plugin", upstream.SHARED_DEVICE_PLUGIN, publishes=True
    ),
    "gpu_device_plugin": ClusterPart(
        "GPU device plugin",
        f"k8s-device-plugin:{upstream.GPU_DEVICE_PLUGIN_RELEASE}",
        publishes=True,
    ),
    "gpu_operator": ClusterPart(
        "GPU operator",
        f"gpu-operator:{upstream.GPU_OPERATOR_RELEASE}",
        (Definition("clusterpolicies.nvidia.com", "v1"),),
        Status("/apis/nvidia.com/v1/clusterpolicies", "ClusterPolicy"),
        publishes=True,
    ),
    "network_operator": ClusterPart(
        "network operator",
        f"network-operator:{upstream.NETWORK_OPERATOR_RELEASE}",
        (Definition("nicclusterpolicies.mellanox.com", "v1alpha1"),),
        Status("/apis/mellanox.com/v1alpha1/nicclusterpolicies", "NicClusterPolicy"),
    ),
    "mpi_operator": ClusterPart(
        "MPI operator",
        f"mpi-operator:{MPI_OPERATOR}",
        (Definition("mpijobs.kubeflow.org", "v2beta1"),),
    ),
    "trainer": ClusterPart(
        "Kubeflow Trainer",
        "trainer-controller-manager",
        (
            Definition("trainjobs.trainer.kubeflow.org", "v1alpha1"),
            Definition("trainingruntimes.trainer.kubeflow.org", "v1alpha1"),
        ),
    ),
}


def part_of_image(image: str) -> Part | None:
    """The part to which an image belongs, by its last name; None for every other image.

    `ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick` belongs to `multus`.
    """
    return next((part for part, row in TABLE.items() if name_in(image) in row.images), None)
