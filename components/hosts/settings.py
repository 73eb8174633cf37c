"""Settings of a host that follow from the site file: kernel and network, QoS of each PF, and VFs.

With several rails, each address answers and sends only by its own card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.operator_versions import parse_numbers
from components.hosts.keys.ask import module_of
from components.model.cards import HcaPf, Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.owners import gpu_driver_owner, guids_by_pods, vfs_by_operator
from components.model.places import RailSubnet, subnet_of, vf_guids

_PEER_MODULES: Final = {"peermem": "nvidia_peermem", "nv_peer_mem": "nv_peer_mem"}
"""Kind of GPUDirect RDMA to the module that it needs; DMA-BUF works without a module."""

CGROUP_V2_LEAST: Final = (1, 35)
"""First Kubernetes whose kubelet refuses control groups v1 (its urgent notes)."""
FIRST_TABLE: Final = 7400
"""Routing table, and priority of its rule, of a host's first card; the next card has the next
number. Our choice: Calico takes the tables 1-250 below the kernel's (253-255), Cilium takes 2004
and 2005, and a priority above 32766 would come after the main table."""
CARD_SYSCTLS: Final = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
"""Settings that make each card answer only for its own address."""


def below(place: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings, each below a place such as `nic.0000:05:00.0`."""
    return {f"{place}.{key}": value for key, value in settings.items()}


def kernel_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """Modules, limits and kernel settings; a cloud's adapters keep those of the image."""
    kernel = spec.settings_of(host).kernel
    modules = ["rdma_cm"] if host.nics else []
    if host.hcas and spec.infiniband is not None:
        # Programs need it to reach the subnet manager: sminfo, saquery, ibdiagnet.
        modules.append("ib_umad")
    module = _PEER_MODULES.get(spec.settings_of(host).gpu_path)
    by_container = gpu_driver_owner(spec) == "operator"  # which loads the module, too
    if module and not by_container and host.gpus and (host.nics or host.hcas):
        modules.append(module)
    modules += filter(None, map(module_of, kernel.sysctls))
    settings = {f"module.{name}": "loaded" for name in modules}
    sizes = {
        "2mib": (kernel.hugepages_2mib, kernel.hugepages_2mib_per_node),
        "1gib": (kernel.hugepages_1gib, kernel.hugepages_1gib_per_node),
    }
    for size, (total, nodes) in sizes.items():
        settings |= {} if total is None else {f"kernel.hugepages.{size}": str(total)}
        of_nodes = {f"node{node}": str(pages) for node, pages in enumerate(nodes)}
        settings |= below(f"kernel.hugepages.{size}", of_nodes)
    settings |= _memory_limits(spec, host)
    ours = None if host.is_outside or host.role == "balancer" else spec.k3s or spec.kubespray
    if ours is not None and parse_numbers(ours.version)[:2] >= CGROUP_V2_LEAST:
        settings["kernel.cgroup"] = "v2"  # kubelet needs it; checked before K3s is installed
    settings |= below("kernel.sysctl", rail_sysctls(spec, host) | kernel.sysctls)
    balancing = kernel.numa_balancing
    asked = {
        "governor": kernel.cpu_governor or "keep",
        "numa_balancing": "keep" if balancing is None else _on(value=balancing),
        "acs": "off" if acs_off(spec, host) else "keep",
        "cmdline.iommu": kernel.iommu,
        "rdma_netns": kernel.rdma_netns,
    }
    changed = {key: value for key, value in asked.items() if value != "keep"}
    return settings | below("kernel", changed)


def acs_off(spec: ClusterSpec, host: Host) -> bool:
    """Whether ACS of the bridges between GPUs and cards must be off.

    `auto` means off only in the unambiguous case: a bare machine with GPUs and RDMA cards, whose
    VFs no virtual machine takes. ACS has no use there, and GPUDirect RDMA is slow or hangs with it
    (sources.md#host-kernel).
    """
    acs = spec.settings_of(host).kernel.acs
    if acs != "auto":
        return acs == "off"
    bare = spec.environment.kind == "onprem"
    bare = bare and not any(nic.passes_vfs for nic in host.nics)
    return bare and host.gpus > 0 and bool(host.nics or host.hcas)


def _memory_limits(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The locked-memory limit of the services that start pods, and of one user's logins.

    RDMA pins memory. Pods inherit the limit of their service; PAM sets the limit of logins, and
    lets `mpirun` and perftest pin memory too. The user is the common user, else the login user.
    """
    limits: dict[str, str] = {}
    if host.nics or host.hcas:
        user = spec.settings_of(host).user
        limits[f"kernel.limits.{user.name if user else host.way.user}.memlock"] = "unlimited"
    if spec.k3s is None or host.role == "balancer" or host.is_outside:
        return limits
    units = ["k3s" if host.role == "control_plane" else "k3s-agent"]
    if spec.k3s.container_runtime == "docker":
        units += ["docker", "containerd"]  # the kubelet sets no limits: pods inherit dockerd's
    # systemd's word for unlimited
    return limits | {f"unit.{unit}.limit_memlock": "infinity" for unit in units}


def routing_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """A table and a rule for each card's address: packets from it leave by that card."""
    cards = routed_cards(spec, host)
    needed = len(cards) > 1 or any(subnet.gateway for _, subnet, _ in cards)
    if not needed or spec.settings_of(host).kernel.source_routing != "auto":
        return {}
    routes_of: dict[str, str] = {}
    for number, subnet, nic in cards:
        table = FIRST_TABLE + number
        routes = [f"{subnet.network} dev {nic.netdev} scope link src {nic.address}"]
        if subnet.gateway is not None:
            routes.append(f"default via {subnet.gateway} dev {nic.netdev}")
        routes_of[f"route.{table}.table"] = ",".join(sorted(routes))
        routes_of[f"route.{table}.rule"] = f"from {nic.address} lookup {table}"
    return routes_of


def rail_sysctls(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """ARP and reverse-path settings of each card, if a host has several with addresses.

    With the kernel's defaults a host answers on any card for all its addresses ("ARP flux"), and
    strict reverse-path filtering drops a packet that arrives on another card than the main table's
    route (kernel documentation, ip-sysctl: arp_ignore, arp_announce, rp_filter; the greater of
    `all` and the device counts, so the cards' own values suffice).
    """
    cards = routed_cards(spec, host)
    one = len(cards) < 2  # noqa: PLR2004 - one card cannot be confused
    if one or spec.settings_of(host).kernel.source_routing != "auto":
        return {}
    names = (conf_name(nic.netdev) for _, _, nic in cards)
    return {key: value for each in names for key, value in below(each, CARD_SYSCTLS).items()}


def conf_name(netdev: str) -> str:
    """The beginning of a network device's IPv4 settings; a dot in its name becomes a slash."""
    return f"net.ipv4.conf.{netdev.replace('.', '/')}"


def routed_cards(spec: ClusterSpec, host: Host) -> list[tuple[int, RailSubnet, Nic]]:
    """The cards with an address on a rail: their number on the host, and their subnet."""
    found: list[tuple[int, RailSubnet, Nic]] = []
    for number, nic in enumerate(host.nics):
        rail = spec.rail(nic.rail)
        subnet = subnet_of(spec, rail, host) if rail is not None else None
        if subnet is not None and nic.address is not None:
            found.append((number, subnet, nic))
    return found


def qos_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """DCBX, trust, DSCP map, PFC, ECN, CNP marks and the traffic classes of each PF.

    The driver decides (sources.md#rdma-driver). NVIDIA's can switch ECN for each priority, and set
    the traffic class of raw verbs. The kernel's own driver can do neither: each job marks its
    packets, and a firmware mask gives the priorities with ECN. Railyard sets the mask with
    `firmware.manage`, else only reads it. That driver has the CNP marks in debugfs.
    """
    defaults = spec.settings_of(host)
    buffers: dict[str, str] = {}
    if defaults.qos.cable_length_m is not None:
        buffers["cable_length_m"] = str(defaults.qos.cable_length_m)
    if defaults.qos.buffers is not None:
        sizes = ",".join(map(str, defaults.qos.buffers.size_bytes))
        buffers["buffers"] = f"{sizes}/{','.join(map(str, defaults.qos.buffers.priorities))}"
    rdma = spec.rdma
    each = {
        "dcbx": "os",  # in firmware mode the switch's DCBX would overwrite the rest
        "lldpad": "absent",  # so would this daemon
        "trust": "dscp",
        f"dscp{rdma.dscp}_priority": str(rdma.priority),
        f"dscp{rdma.cnp_dscp}_priority": str(rdma.cnp_priority),
        "pfc": str(rdma.priority) if rdma.host_pfc else "none",
        f"ecn_priority_{rdma.priority}": "on",
        "cnp_dscp": str(rdma.cnp_dscp),
        "cnp_priority": str(rdma.cnp_priority),
        "roce_mode": "RoCE v2",
        "roce_tos": str(rdma.ip_traffic_class),
        "global_pause": "off",  # it excludes PFC, and would stop every class at once
        **buffers,
    }
    if rdma.adaptive_routing:
        each["adaptive_routing"] = "on"  # lost when the driver restarts
    if defaults.driver.is_ofed:
        each["traffic_class"] = str(rdma.ip_traffic_class)
    elif defaults.firmware.manage:
        del each[f"ecn_priority_{rdma.priority}"]
    settings: dict[str, str] = {}
    for nic in host.nics:
        # The GID's index differs between cards, and moves: only require that a GID exists.
        gid = {} if nic.address is None else {"gid": "RoCE v2"}
        settings |= below(f"nic.{nic.pci}", each | gid)
    return settings


def sriov_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """Number of VFs of a PF, their MTU, and the file's settings of each VF.

    The file may set VLAN, rates, trust and spoof check only if the host owns them: with
    `pod_network.mode: sriov` the network attachment does (`vf-owner`). If the SR-IOV network
    operator makes the VFs, the host sets none.
    """
    cards = (*host.nics, *host.hca_sriov)
    settings = {f"nic.{card.pci}.serial": card.serial for card in cards if card.serial}
    if host.role == "worker" and vfs_by_operator(spec):
        return settings
    # VF packets that no program marks have the mark of their PF. Not set if a VF's RDMA device
    # moves into the pod's namespace: RDMA-CM loses its default there.
    defaults, tos = spec.settings_of(host), str(spec.rdma.ip_traffic_class)
    marks = {"vf_roce_tos": tos} | ({"vf_traffic_class": tos} if defaults.driver.is_ofed else {})
    marks = {} if defaults.kernel.rdma_netns == "exclusive" else marks
    for nic in host.nics:
        # The embedded switch is set if the file asks for a mode, else only expected to be legacy.
        mode, probe = nic.sriov.eswitch, nic.sriov.autoprobe
        port = {"vfs": str(nic.vfs)} | ({"eswitch": mode} if mode else {"eswitch_now": "legacy"})
        if probe is not None:
            port["autoprobe"] = _on(value=probe)
        if nic.vfs:
            # mlx5 gives a RoCE VF a node GUID only with an administrative MAC (sources.md#vfs).
            port["vf_mac"] = "own"
        if nic.vfs and probe is not False:
            port["vf_mtu_bytes"] = str(nic.vf_mtu_bytes or nic.mtu_bytes or spec.rdma.mtu_bytes)
            port |= marks
        settings |= below(f"nic.{nic.pci}", port)
        for number in range(nic.vfs):
            settings |= below(f"vf.{nic.pci}.{number}", _vf(nic.sriov))
    for pf in host.hca_sriov:
        settings |= _hca(spec, host, pf)
    return settings


def _vf(sriov: Sriov) -> Mapping[str, str]:
    """The settings of a VF. Both rates are set together: one can make the other invalid."""
    vf: dict[str, str] = {} if sriov.vlan is None else {"vlan": str(sriov.vlan)}
    if sriov.min_rate_mbit_s is not None or sriov.max_rate_mbit_s is not None:
        vf["min_rate_mbit_s"] = str(sriov.min_rate_mbit_s or 0)
        vf["max_rate_mbit_s"] = str(sriov.max_rate_mbit_s or 0)
    rights = {"trust": sriov.trust, "spoofchk": sriov.spoofchk}
    return vf | {key: _on(value=each) for key, each in rights.items() if each is not None}


def _on(*, value: bool) -> str:
    return "on" if value else "off"


def _hca(spec: ClusterSpec, host: Host, pf: HcaPf) -> Mapping[str, str]:
    """VFs of an InfiniBand port; each needs a GUID, of its pod with ib-kubernetes, and the link."""
    settings = {f"nic.{pf.pci}.vfs": str(pf.vfs)}
    for number, guid in enumerate(vf_guids(spec.name, host, pf)):
        if not guids_by_pods(spec):
            settings[f"vf.{pf.pci}.{number}.guid"] = guid
        settings[f"vf.{pf.pci}.{number}.link_state"] = "auto"
    return settings
