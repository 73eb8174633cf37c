"""Who brings and sets each part of the cluster: Railyard, an operator, the hosts, or others."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from components.catalogue.cluster_parts import (
    DISTRIBUTIONS,
    PARTS,
    TABLE,
    UPSTREAM,
    CniPaths,
    Part,
    distribution_of,
)
from components.core.plain_text import shortened
from components.model.cards import GpuDirect
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ClusterParts, ExistingPlane, Owner
from components.model.once import once
from components.model.places import is_flat

Way = Literal["sriov", "host_device", "macvlan", "ipoib", "none", "host"]
"""How pods connect to the rails: `mode`, and with shared cards their interface."""
_ATTACHED: Final[frozenset[Way]] = frozenset(("sriov", "macvlan", "ipoib"))
Program = Literal[
    "tuning", "sriov", "ib-sriov", "rdma", "macvlan", "ipoib", "sbr", "static", "dhcp"
]
_OF_POLICY: Final[frozenset[Program]] = frozenset(("tuning", "macvlan", "sbr", "static", "ipoib"))
"""Programs that `secondaryNetwork` of a NicClusterPolicy brings (its `cniPlugins` and `ipoib`)."""
_OF_VFS: Final[frozenset[Program]] = frozenset(("sriov", "ib-sriov", "rdma"))
"""Programs that the daemon of the SR-IOV network operator copies onto each node."""
IMAGES: Final[dict[Program, Part]] = {
    "sriov": "sriov_cni",
    "ib-sriov": "ib_sriov_cni",
    "rdma": "rdma_cni",
    "ipoib": "ipoib_cni",
}
"""Program to its key of `sources.images`; all others are in `cni_plugins`."""
_SHOWN: Final = 8
"""Number of hosts in one line; `hosts` in the file lists all."""


def pods_have_vfs(spec: ClusterSpec) -> bool:
    """Whether pods reach the rails through VFs."""
    return spec.kubernetes is not None and spec.pod_network.mode == "sriov"


def vfs_by_operator(spec: ClusterSpec) -> bool:
    """Whether the SR-IOV network operator makes the workers' VFs and sets their MTU."""
    network = spec.operators.network
    return pods_have_vfs(spec) and network is not None and network.vfs == "operator"


def firmware_by_operator(spec: ClusterSpec) -> bool:
    """Whether the NIC configuration operator sets the firmware of the workers' cards."""
    network = spec.operators.network
    return spec.kubernetes is not None and network is not None and network.firmware == "operator"


def guids_by_pods(spec: ClusterSpec) -> bool:
    """Whether ib-kubernetes gives a VF the GUID of its pod."""
    network = spec.operators.network
    return pods_have_vfs(spec) and network is not None and network.ib_kubernetes is not None


@once
def gpu_paths(spec: ClusterSpec) -> frozenset[GpuDirect]:
    """Return how cards reach GPU memory on all workers with GPUs; without any, the default."""
    found: set[GpuDirect] = {spec.settings_of(h).gpu_path for h in spec.workers if h.gpus}
    return frozenset(found or {spec.host_defaults.gpu_path})


def has_own_rdma_driver(spec: ClusterSpec) -> bool:
    """Whether a worker uses NVIDIA's RDMA driver: the GPU driver's container builds on it."""
    found = [spec.settings_of(host).driver for host in spec.workers]
    return any(driver.is_ofed for driver in found or [spec.host_defaults.driver])


def gpu_driver_owner(spec: ClusterSpec) -> Literal["operator", "host"] | None:
    """Return `operator` or `host`; None if the file does not name the owner of the GPU driver."""
    stated = spec.host_defaults.gpu_driver
    operator = spec.operators.gpu
    return stated or (operator.driver if operator else None)


def toolkit_owner(spec: ClusterSpec) -> Literal["present", "host", "operator"]:
    """Return who brings NVIDIA's container toolkit to hosts with GPUs: by the file, or by default.

    The GPU operator's driver comes with its own toolkit; with Docker, Railyard installs the toolkit
    together with Docker; with K3s' containerd it comes with the host's image, unless the file asks
    for more. K3s finds a runtime that the host brings; kubespray's containerd does not, so there
    the operator brings both.
    """
    if spec.host_defaults.toolkit is not None:
        return spec.host_defaults.toolkit.kind
    operator = spec.operators.gpu
    if operator is not None and (operator.driver == "operator" or spec.kubespray is not None):
        return "operator"
    return "host" if runs_docker(spec) else "present"


def runs_docker(spec: ClusterSpec) -> bool:
    """Whether containers run in Docker, with or without K3s above it."""
    by_k3s = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    return spec.host_defaults.docker or by_k3s


def cni_paths(spec: ClusterSpec) -> CniPaths:
    """Return the CNI folders of every node: Railyard's own plane's, or the existing cluster's.

    For an existing cluster the file's folders win, then those of the distribution that it names or
    that the version's suffix shows, then the defaults of containerd and CRI-O.
    """
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return DISTRIBUTIONS["kubespray" if spec.kubespray else "k3s"]
    if plane.cni is not None:
        return CniPaths(plane.cni.net_d, plane.cni.bin)
    return DISTRIBUTIONS.get(plane.distribution or distribution_of(plane.version) or "", UPSTREAM)


def way_of(spec: ClusterSpec) -> Way:
    """Return the pod network of a site; on InfiniBand, shared cards have no default interface."""
    network = spec.pod_network
    if network.mode != "rdma_shared":
        return network.mode
    if network.host_network:
        return "host"
    return network.interface or ("none" if spec.rdma.transport == "infiniband" else "macvlan")


def uses_multus(spec: ClusterSpec) -> bool:
    """Whether pods are attached to networks in addition to the cluster's own."""
    return spec.kubernetes is not None and way_of(spec) in _ATTACHED


def _gives_addresses(spec: ClusterSpec) -> bool:
    """Whether whereabouts has addresses to give: pods can lack interfaces, or addresses."""
    return spec.pod_network.ipam == "whereabouts" and _has_addresses(spec)


def draws_blocks(spec: ClusterSpec) -> bool:
    """Whether nv-ipam has addresses to give."""
    return spec.pod_network.ipam == "nv-ipam" and _has_addresses(spec)


def _has_addresses(spec: ClusterSpec) -> bool:
    rails = (*spec.rails, *(spec.infiniband.rails if spec.infiniband else ()))
    return uses_multus(spec) and any(rail.subnet for rail in rails)


def policy_networks(spec: ClusterSpec) -> bool:
    """Whether the network operator's policy brings Multus and the reference plugins."""
    return uses_multus(spec) and spec.pod_network.multus == "operator"


def cni_programs(spec: ClusterSpec) -> tuple[Program, ...]:
    """Return the programs that Railyard brings, in the order of installation.

    The image of the network operator's policy has all reference plugins, but runs no daemon for
    DHCP. The SR-IOV network operator brings the programs that use its VFs.
    """
    brought = _OF_POLICY if policy_networks(spec) else frozenset[Program]()
    if vfs_by_operator(spec):
        brought |= _OF_VFS
    network, fabric, way = spec.pod_network, spec.rdma.transport == "infiniband", way_of(spec)
    attached, by_node = way in _ATTACHED, fabric and network.ipam == "nv-ipam"
    has_mtu = network.mtu_bytes is not None
    has_mtu = has_mtu and (network.mode == "sriov" or network.interface == "ipoib")
    asked: dict[Program, bool] = {
        # The pods' own MTU, and their ARP settings on a flat fabric. K3s alone brings the other
        # reference plugins without it (sources.md#pod-network).
        "tuning": (has_mtu or (attached and is_flat(spec)))
        and cni_paths(spec) == DISTRIBUTIONS["k3s"],
        "sriov": way == "sriov" and not fabric,
        "ib-sriov": way == "sriov" and fabric,
        "macvlan": way == "macvlan",
        "ipoib": way == "ipoib",
        "rdma": attached and network.rdma_isolation and not fabric,
        "sbr": attached and network.source_routing,
        # Also for the probe's server, which clients must know beforehand.
        "static": attached and network.ipam != "whereabouts" and not by_node,
        "dhcp": attached and network.ipam == "dhcp",
    }
    return tuple(name for name, is_asked in asked.items() if is_asked and name not in brought)


def written_owner(spec: ClusterSpec, part: Part) -> Owner | None:
    """Return the owner that the file writes for a part; None if the file does not name one."""
    plane = spec.kubernetes
    return getattr(plane.components if isinstance(plane, ExistingPlane) else ClusterParts(), part)


def installs(spec: ClusterSpec, part: Part) -> bool:
    """Whether Railyard installs a part."""
    return owners_of(spec)[part] == "ours"


def needs(spec: ClusterSpec, part: Part) -> bool:
    """Whether the rest of the file needs a part, whoever brings it."""
    return part in _needed(spec)


@once
def owners_of(spec: ClusterSpec) -> Mapping[Part, Owner]:
    """Who brings each part; `none` for all on a site without Kubernetes."""
    theirs = plugin_of(spec) if written_owner(spec, "network_operator") == "theirs" else None
    owners: dict[Part, Owner] = {p: "theirs" if p == theirs else "ours" for p in _needed(spec)}
    return {part: written_owner(spec, part) or owners.get(part, "none") for part in PARTS}


def plugin_of(spec: ClusterSpec) -> Part:
    """The device plugin that publishes the cards of the pod network's mode."""
    shared = spec.pod_network.mode == "rdma_shared"
    return "shared_device_plugin" if shared else "sriov_device_plugin"


@once
def _needed(spec: ClusterSpec) -> frozenset[Part]:
    operators, attached = spec.operators, uses_multus(spec)
    asked: dict[Part, bool] = {
        "attachments": attached,
        "multus": attached and not policy_networks(spec),
        "whereabouts": _gives_addresses(spec),
        "nv_ipam": draws_blocks(spec) and operators.network is None,
        # The network operator brings the device plugin itself.
        plugin_of(spec): operators.network is None,
        "network_operator": operators.network is not None,
        "gpu_operator": operators.gpu is not None,
        "gpu_device_plugin": operators.gpu_device_plugin is not None,
        "mpi_operator": spec.jobs.mpi_operator,
    }
    asked |= {part_of_program(name): True for name in cni_programs(spec)}
    needed = spec.kubernetes is not None
    return frozenset(part for part, is_asked in asked.items() if is_asked and needed)


def part_of_program(name: Program) -> Part:
    """The part that brings a CNI program."""
    return IMAGES.get(name, "cni_plugins")


def pool_files_image(spec: ClusterSpec) -> Literal["whereabouts", "cni_plugins"] | None:
    """Return the key of `sources.images` whose image writes the parts of rails on nodes.

    None: every rail is one subnet, or the nodes are not asked. The image of nv-ipam has no shell.
    """
    if not any(rail.leaves for rail in spec.rails):
        return None
    return (
        "whereabouts" if _gives_addresses(spec) else "cni_plugins" if draws_blocks(spec) else None
    )


def cni_check_image(spec: ClusterSpec) -> Literal["whereabouts", "cni_plugins"] | None:
    """Return the key of `sources.images` whose image checks the CNI folders of nodes, or None.

    Railyard's own K3s has one fixed place for CNI, and if Railyard installs no programs there, the
    place does not matter.
    """
    programs = any(installs(spec, part_of_program(name)) for name in cni_programs(spec))
    ours = programs or installs(spec, "multus") or installs(spec, "whereabouts")
    if spec.k3s is not None or not ours:
        return None
    return "whereabouts" if installs(spec, "whereabouts") else "cni_plugins"


def not_touched(hosts: Sequence[str]) -> tuple[str, ...]:
    """Describe in one line how Railyard treats hosts without a login; empty without such hosts."""
    if not hosts:
        return ()
    return (f"{shortened(hosts, _SHOWN)}: not touched and not read: no login (login: none)",)


def runs_on_foreign_fabric(spec: ClusterSpec) -> bool:
    """Whether rails of RoCE run over switches outside of the file."""
    return bool(spec.rails) and spec.rdma.transport == "roce" and not spec.switches


def left_alone(spec: ClusterSpec) -> tuple[str, ...]:
    """List what stays untouched: devices that the file names, and all that it does not name."""
    named = [f"{each.name} ({each.network} switch)" for each in spec.other_switches]
    plain = spec.infiniband.switches if spec.infiniband else ()
    named += [f"{each.name} ({each.model}, not logged in to)" for each in plain]
    rest = ["network devices of hosts outside nics: bonds, management, storage"]
    if spec.switches:
        rest.append("switch ports outside ports, except settings of the whole switch")
    if runs_on_foreign_fabric(spec):
        rest.append(
            "the switches of the rails, which are not in the file (`railyard plan SITE --stage "
            "fabric` prints their required settings)"
        )
    theirs = [TABLE[part].title for part, owner in owners_of(spec).items() if owner == "theirs"]
    if theirs:
        rest.append(f"owned by others in the cluster, and read: {', '.join(theirs)}")
    return (*named, *rest, *not_touched([host.name for host in spec.unreached]))
