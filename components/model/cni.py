"""The programs of container networking: where nodes keep them, and which a site needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from components.catalogue.cluster_parts import Part
from components.catalogue.cni_folders import DISTRIBUTIONS, UPSTREAM, CniPaths, distribution_of
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.operator_owned import vfs_by_operator
from components.model.rail_subnets import is_flat

Way = Literal["sriov", "host_device", "macvlan", "ipoib", "none", "host"]
"""How pods get onto the rails: `mode`, and with shared cards the interface on them."""
_ATTACHED: Final[frozenset[Way]] = frozenset(("sriov", "macvlan", "ipoib"))
Program = Literal[
    "tuning", "sriov", "ib-sriov", "rdma", "macvlan", "ipoib", "sbr", "static", "dhcp"
]
_OF_POLICY: Final[frozenset[Program]] = frozenset(("tuning", "macvlan", "sbr", "static", "ipoib"))
"""What `secondaryNetwork` of a NicClusterPolicy brings (its `cniPlugins` and `ipoib`)."""
_OF_VFS: Final[frozenset[Program]] = frozenset(("sriov", "ib-sriov", "rdma"))
"""What the daemon of the SR-IOV network operator copies onto each node."""
IMAGES: Final[dict[Program, Part]] = {
    "sriov": "sriov_cni",
    "ib-sriov": "ib_sriov_cni",
    "rdma": "rdma_cni",
    "ipoib": "ipoib_cni",
}
"""Program to its key of `sources.images`; all others are in `cni_plugins`."""


def cni_paths(spec: ClusterSpec) -> CniPaths:
    """The CNI folders of every node: those of our K3s or kubespray, or of the existing cluster.

    There they are what the file says, else those of the distribution that it names or that the
    version tells by its suffix, else the defaults of containerd and CRI-O.
    """
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return DISTRIBUTIONS["kubespray" if spec.kubespray else "k3s"]
    if plane.cni is not None:
        return CniPaths(plane.cni.net_d, plane.cni.bin)
    return DISTRIBUTIONS.get(plane.distribution or distribution_of(plane.version) or "", UPSTREAM)


def lacks_tuning(spec: ClusterSpec) -> bool:
    """Whether attachments ask for the plugin `tuning` on nodes that have none.

    It sets the pods' own MTU, and their ARP settings on a flat fabric. K3s brings seven of the
    reference plugins, and not that one (sources.md#pod-network); other distributions bring all.
    """
    network = spec.pod_network
    asked = network.mode == "sriov" or network.interface == "ipoib"
    asked = asked and network.mtu_bytes is not None
    asked = asked or (is_flat(spec) and way_of(spec) in _ATTACHED)
    return asked and cni_paths(spec) == DISTRIBUTIONS["k3s"]


def way_of(spec: ClusterSpec) -> Way:
    """The pod network of a site; on InfiniBand shared cards have no interface unless asked."""
    network = spec.pod_network
    if network.mode != "rdma_shared":
        return network.mode
    if network.host_network:
        return "host"
    return network.interface or ("none" if spec.rdma.transport == "infiniband" else "macvlan")


def uses_multus(spec: ClusterSpec) -> bool:
    """Whether pods are attached to networks beside the cluster's own."""
    return spec.kubernetes is not None and way_of(spec) in _ATTACHED


def gives_addresses(spec: ClusterSpec) -> bool:
    """Whether whereabouts has anything to give: pods may have no interface, or no addresses."""
    return spec.pod_network.ipam == "whereabouts" and _has_addresses(spec)


def draws_blocks(spec: ClusterSpec) -> bool:
    """Whether nv-ipam has anything to give."""
    return spec.pod_network.ipam == "nv-ipam" and _has_addresses(spec)


def _has_addresses(spec: ClusterSpec) -> bool:
    rails = (*spec.rails, *(spec.infiniband.rails if spec.infiniband else ()))
    return uses_multus(spec) and any(rail.subnet for rail in rails)


def policy_networks(spec: ClusterSpec) -> bool:
    """Whether the network operator's policy brings Multus and the reference plugins."""
    return uses_multus(spec) and spec.pod_network.multus == "operator"


def cni_programs(spec: ClusterSpec) -> tuple[Program, ...]:
    """The programs that Railyard brings, in the order in which they are installed.

    The policy's image with the reference plugins has all of them, but runs no daemon for DHCP. The
    SR-IOV network operator brings those that take its VFs.
    """
    brought = _OF_POLICY if policy_networks(spec) else frozenset[Program]()
    if vfs_by_operator(spec):
        brought |= _OF_VFS
    return tuple(name for name in _programs(spec) if name not in brought)


def _programs(spec: ClusterSpec) -> Iterator[Program]:
    network, fabric = spec.pod_network, spec.rdma.transport == "infiniband"
    if lacks_tuning(spec):
        yield "tuning"
    making: dict[Way, Program] = {
        "sriov": "ib-sriov" if fabric else "sriov",
        "macvlan": "macvlan",
        "ipoib": "ipoib",
    }
    way = way_of(spec)
    if way not in making:
        return
    yield making[way]
    if network.rdma_isolation and not fabric:
        yield "rdma"
    if network.source_routing:
        yield "sbr"
    if network.ipam != "whereabouts" and not (fabric and network.ipam == "nv-ipam"):
        yield "static"  # of the probe's server too, which clients must know beforehand
    if network.ipam == "dhcp":
        yield "dhcp"
