"""The kernel of a host: modules, limits, settings, and the PCI path between GPU and card.

With several rails, each address answers and sends by its own card only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.operator_versions import parse_numbers
from components.hosts.keys.ask import module_of
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.kernel import KernelSettings
from components.model.owners import gpu_driver_owner
from components.model.places import RailSubnet, subnet_of

_PEER_MODULES: Final = {"peermem": "nvidia_peermem", "nv_peer_mem": "nv_peer_mem"}
"""GPUDirect RDMA to the module that it needs; DMA-BUF needs none."""

CGROUP_V2_LEAST: Final = (1, 35)
"""First Kubernetes whose kubelet does not start on control groups v1 (its urgent notes)."""
FIRST_TABLE: Final = 7400
"""Routing table, and priority of its rule, of a host's first card; the next has the next number.

Our choice: below the tables of the kernel (253-255) nothing is free of CNI plugins (Calico takes
1-250, Cilium 2004 and 2005), and a priority above 32766 would come after the main table.
"""
CARD_SYSCTLS: Final = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
"""What makes each card answer for its own address alone."""


def kernel_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """Modules, limits and kernel settings of one host.

    The adapters that a cloud hands in have no settings of ours, and their driver is the image's.
    """
    kernel = spec.settings_of(host).kernel
    settings = _modules(spec, host) | _hugepages(kernel) | _memory_limits(spec, host)
    if (ours := spec.k3s or spec.kubespray) is not None and host.role != "balancer":
        settings |= _cgroup(ours.version)
    sysctls = rail_sysctls(spec, host) | kernel.sysctls
    settings |= {f"kernel.sysctl.{name}": value for name, value in sysctls.items()}
    if kernel.cpu_governor is not None:
        settings["kernel.governor"] = kernel.cpu_governor
    if kernel.numa_balancing is not None:
        settings["kernel.numa_balancing"] = "on" if kernel.numa_balancing else "off"
    if acs_off(spec, host):
        settings["kernel.acs"] = "off"
    if kernel.iommu != "keep":
        settings["kernel.cmdline.iommu"] = kernel.iommu
    if kernel.rdma_netns != "keep":
        settings["kernel.rdma_netns"] = kernel.rdma_netns
    return settings


def _cgroup(version: str) -> dict[str, str]:
    """The hierarchy of control groups that kubelet needs, looked at before K3s is installed."""
    needed = parse_numbers(version)[:2] >= CGROUP_V2_LEAST
    return {"kernel.cgroup": "v2"} if needed else {}


def acs_off(spec: ClusterSpec, host: Host) -> bool:
    """Whether ACS of the bridges between GPUs and cards is to be off.

    Without being asked only where nothing else can be meant: a bare machine with GPUs and RDMA
    cards, whose VFs no virtual machine takes. There ACS has no use, and GPUDirect RDMA is slow
    or hangs with it (sources.md#host-kernel).
    """
    acs = spec.settings_of(host).kernel.acs
    if acs != "auto":
        return acs == "off"
    bare = spec.environment.kind == "onprem"
    bare = bare and not any(nic.passes_vfs for nic in host.nics)
    return bare and host.gpus > 0 and bool(host.nics or host.hcas)


def _modules(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """Modules to load at each boot."""
    loaded: list[str] = []
    if host.nics:
        loaded.append("rdma_cm")
    if host.hcas and spec.infiniband is not None:
        # Without it no program of the host reaches the subnet manager: sminfo, saquery, ibdiagnet.
        loaded.append("ib_umad")
    module = _PEER_MODULES.get(spec.settings_of(host).gpu_path)
    by_container = gpu_driver_owner(spec) == "operator"  # which loads the module, too
    if module and not by_container and host.gpus and (host.nics or host.hcas):
        loaded.append(module)
    brought = map(module_of, spec.settings_of(host).kernel.sysctls)
    loaded += [module for module in brought if module]
    return {f"module.{name}": "loaded" for name in loaded}


def _hugepages(kernel: KernelSettings) -> dict[str, str]:
    sizes = {
        "2mib": (kernel.hugepages_2mib, kernel.hugepages_2mib_per_node),
        "1gib": (kernel.hugepages_1gib, kernel.hugepages_1gib_per_node),
    }
    wanted: dict[str, str] = {}
    for size, (total, nodes) in sizes.items():
        if total is not None:
            wanted[f"kernel.hugepages.{size}"] = str(total)
        wanted |= {
            f"kernel.hugepages.{size}.node{node}": str(pages) for node, pages in enumerate(nodes)
        }
    return wanted


def _memory_limits(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The locked-memory limit of what starts pods, and of one user's logins.

    RDMA pins memory. A unit's limit reaches its pods; logins have theirs from PAM, so that
    `mpirun` and perftest of the common user, or of the login user where there is none, can pin
    memory too.
    """
    limits: dict[str, str] = {}
    if host.nics or host.hcas:
        user = spec.settings_of(host).user
        limits[f"kernel.limits.{user.name if user else host.way.user}.memlock"] = "unlimited"
    if spec.k3s is None or host.role == "balancer" or host.is_outside:
        return limits
    units = ["k3s" if host.role == "control_plane" else "k3s-agent"]
    if spec.k3s.container_runtime == "docker":
        units += ["docker", "containerd"]  # the kubelet sets no limits: pods have dockerd's
    # systemd's word for unlimited
    return limits | {f"unit.{unit}.limit_memlock": "infinity" for unit in units}


def routing_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """A table and a rule for each card's address: what it sends leaves by that card."""
    if not _routed(spec, host):
        return {}
    routes_of: dict[str, str] = {}
    for number, subnet, nic in routed_cards(spec, host):
        table = FIRST_TABLE + number
        routes = [f"{subnet.network} dev {nic.netdev} scope link src {nic.address}"]
        if subnet.gateway is not None:
            routes.append(f"default via {subnet.gateway} dev {nic.netdev}")
        routes_of[f"route.{table}.table"] = ",".join(sorted(routes))
        routes_of[f"route.{table}.rule"] = f"from {nic.address} lookup {table}"
    return routes_of


def rail_sysctls(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """ARP and reverse-path settings of each card, where a host has several with addresses.

    With the kernel's defaults a host answers on any card for all its addresses ("ARP flux"), and
    strict reverse-path filtering drops what comes in by another card than the main table's route
    (kernel documentation, ip-sysctl: arp_ignore, arp_announce, rp_filter; the greater of `all` and
    the device counts, so the cards' own values suffice).
    """
    cards = routed_cards(spec, host)
    if len(cards) < 2 or not _routed(spec, host):  # noqa: PLR2004 - one card cannot be confused
        return {}
    return {
        f"{conf_name(nic.netdev)}.{key}": value
        for _, _, nic in cards
        for key, value in CARD_SYSCTLS.items()
    }


def conf_name(netdev: str) -> str:
    """How the IPv4 settings of a network device begin; a dot inside a name is a slash there."""
    return f"net.ipv4.conf.{netdev.replace('.', '/')}"


def _routed(spec: ClusterSpec, host: Host) -> bool:
    cards = routed_cards(spec, host)
    needed = len(cards) > 1 or any(subnet.gateway for _, subnet, _ in cards)
    return needed and spec.settings_of(host).kernel.source_routing == "auto"


def routed_cards(spec: ClusterSpec, host: Host) -> list[tuple[int, RailSubnet, Nic]]:
    """The cards with an address on a rail: their number on the host, and their subnet."""
    found: list[tuple[int, RailSubnet, Nic]] = []
    for number, nic in enumerate(host.nics):
        rail = spec.rail(nic.rail)
        subnet = subnet_of(spec, rail, host) if rail is not None else None
        if subnet is not None and nic.address is not None:
            found.append((number, subnet, nic))
    return found
