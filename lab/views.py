"""What the lab's physics may know of a device: plain values, no behaviour.

The emulated switch gives a `PortView` per port, the emulated host a `NicView` per physical
function. The physics (`lab/physics`) computes from these alone, so that a wrong setting on an
emulated device shows in the numbers for the reason it would show on real gear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from components.core.record import field, record


@record
class SwitchConfig:
    """One emulated switch of the lab file."""

    name: str
    os: str
    model: str
    address: str
    port: int
    user: str
    password: str
    host_key_seed: str
    cables: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Switch port, for example `1/1`, to (host name, PCI address of the PF)."""
    neighbours: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Switch port to what tells its name there by LLDP: (host, network device), or (switch, port)
    at the other end of a link."""
    links: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Switch port to the (switch, port) at the other end of a link."""
    routed: tuple[str, ...] = ()
    """The ports of links that are routed."""
    release: str = ""
    """What it runs; empty for the release that its emulator was written after."""
    authorized_key: str = ""
    """Public key that the user may log in with; empty for none."""
    enable_password: str = ""
    """What `enable` asks for; empty where it asks for nothing."""


@record
class NicConfig:
    """One emulated network card port (a PF) of a lab host."""

    pci: str
    netdev: str
    rdma: str
    vendor: str
    device: str
    vf_device: str
    total_vfs: int
    speed_gbit_s: int
    numa: int
    link_layer: Literal["InfiniBand", "Ethernet"] = "Ethernet"
    serial: str = ""
    """The board's serial number; empty for one that follows from host and network device."""
    path_name: str = ""
    """What its VFs' names begin with, which udev makes of the PCI path; empty for `netdev`."""
    sriov_files: bool = False
    """NVIDIA's driver shows `sriov/<n>/node`, `port` and `policy` of each VF."""


@record
class HcaConfig:
    """One InfiniBand adapter of a lab host, or a VF that an emulated cloud hands to an instance."""

    name: str
    """Name of the RDMA device, for example `mlx5_0`."""
    pci: str
    rate_gbit_s: int
    link_layer: Literal["InfiniBand", "Ethernet"]
    numa: int
    guid: str = ""
    """Port GUID, 16 hexadecimal digits; empty for one that follows from host and address."""
    bare: bool = False
    """It is in a bare machine, whose PCIe tree no hypervisor hides."""


@record
class HcaView:
    """The state of one adapter that decides what InfiniBand traffic through it does."""

    host: str
    name: str
    pci: str
    rate_gbit_s: int
    link_layer: Literal["InfiniBand", "Ethernet"]
    numa: int
    active: bool
    peermem: bool
    memlock_unlimited: bool
    topology_file: str | None
    """NCCL's topology file on the host; None where there is none."""
    bare: bool = False
    """The machine is bare: no hypervisor hides its PCIe tree."""


@record
class HostConfig:
    """One emulated host of the lab file."""

    name: str
    address: str
    port: int
    user: str
    authorized_key: str
    host_key_seed: str
    gpus: int
    nics: tuple[NicConfig, ...] = ()
    hcas: tuple[HcaConfig, ...] = ()
    """InfiniBand adapters, on the instances of a cloud."""
    topology_file: str | None = None
    """Path of NCCL's topology file that the image brings."""
    guest: bool = False
    """It is a virtual machine of an emulated hypervisor, which powers it on and off."""
    driver: str = ""
    """RDMA driver that its image brings, as `ofed_info -s` says it; empty for the kernel's own."""
    packages: tuple[str, ...] = ("ethtool", "pciutils")
    """Packages that its image brings: those of Ubuntu Server, which has these two."""
    gpu_driver: str = "580.126.20"
    """Version of the GPU driver that its image brings, where it has GPUs; empty for none."""
    node_address: str = ""
    """A second address of its management port, where the cluster reaches it at another one."""
    cgroup_v1: bool = False
    """Its system boots with the old hierarchy of control groups, as Ubuntu did until 21.10."""


@record
class PortView:
    """The state of one switch port that decides what happens to a RoCE packet."""

    switch: str
    port: str
    admin_up: bool
    oper_up: bool
    speed_gbit_s: int
    mtu_bytes: int
    mode: Literal["access", "trunk", "hybrid"]
    access_vlan: int
    allowed_vlans: frozenset[int]
    trust: Literal["L2", "L3", "both", "port"]
    dscp_to_priority: tuple[int, ...]
    """64 entries: the switch priority of each DSCP when the port trusts L3."""
    priority_to_tc: tuple[int, ...]
    """8 entries: the egress traffic class of each switch priority."""
    ecn_kib: dict[int, tuple[int, int]]
    """Traffic class to (minimum, maximum) absolute ECN thresholds in KiB."""
    pfc_priorities: frozenset[int]
    link_local: bool = True
    """The kernel gives it an IPv6 address of its own, while it is in no bridge."""


@record
class BfdView:
    """Bidirectional forwarding detection towards one neighbour."""

    multiplier: int = 3
    """So many packets that do not come make a neighbour lost; the defaults are FRR's."""
    receive_ms: int = 300
    send_ms: int = 300


@record
class SessionView:
    """BGP with one neighbour, as the switch sees it."""

    up: bool = False
    networks: int = 0
    """IPv4 networks that it brings."""
    bfd: bool | None = None
    """Whether BFD is up; None: it is not configured."""


@record
class RouteView:
    """One route that a switch uses."""

    network: str
    interfaces: tuple[str, ...]
    """Where packets leave: the ports of all next hops, or the interface that is in the network."""
    connected: bool


@record
class BgpView:
    """What BGP of one switch has come to."""

    sessions: Mapping[str, SessionView] = field(default_factory=dict[str, SessionView])
    """Neighbours with a session."""
    routes: tuple[RouteView, ...] = ()
    """The networks that it has from them."""


@record
class RouterView:
    """What one switch routes by."""

    switch: str
    addresses: dict[str, tuple[str, ...]]
    """Its own interfaces to their addresses with prefix length: `vlan111` to `10.10.111.1/24`."""
    asn: int | None
    neighbors: dict[str, str]
    """Port to what its BGP neighbour is to be: `external`, `internal`, or its number."""
    networks: tuple[str, ...]
    """The networks that it tells its neighbours of, if it has them."""
    router_id: str | None = None
    bfd: dict[str, BfdView] = field(default_factory=dict[str, BfdView])
    """Neighbour to how fast its loss is noticed, where BFD is on."""
    routes: tuple[RouteView, ...] | None = None
    """What its routing daemons have in use; None where the lab computes routes itself."""
    max_paths: int | None = None
    """Equal paths that it uses at once; None: all that there are."""
    route_maps: tuple[str, ...] = ()
    """Statements that match everything: `RAILYARD permit 10`."""
    policies: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Neighbour to the route maps of what it tells and of what it is told; empty for none."""
    barred: frozenset[str] = frozenset()
    """Neighbours whose sessions carry no route for want of such maps."""
    drained: bool = False
    """It asks its neighbours to prefer other routers (RFC 8326), as in maintenance."""


@record
class NicView:
    """The state of one physical function that decides what RDMA through its VFs does."""

    host: str
    pci: str
    netdev: str
    rdma: str
    link_up: bool
    speed_gbit_s: int
    mtu_bytes: int
    vfs: int
    trust: Literal["pcp", "dscp"]
    dscp_to_priority: tuple[int, ...]
    pfc_priorities: frozenset[int]
    ecn_priorities: frozenset[int]
    """Priorities on which both the notification and the reaction point are enabled."""
    cnp_dscp: int
    peermem: bool
    """GPUDirect RDMA is possible: `nvidia_peermem` is loaded, or DMA-BUF works."""
    memlock_unlimited: bool
    """The K3s unit's `LimitMEMLOCK` is infinity, so pods can pin memory."""
    gdr_allowed: bool = True
    """Peer to peer between card and GPU is possible: always on bare metal; in a virtual machine
    only with ATS in hypervisor and firmware, and the peer-to-peer keys of the machine."""


@record
class GpuView:
    """The state of one GPU that decides what copies and collectives on it do."""

    index: int
    """As nvidia-smi counts."""
    pci: str
    """As nvidia-smi prints it: `00000000:06:00.0`."""
    name: str
    pcie_gen: int
    pcie_gen_max: int
    pcie_width: int
    pcie_width_max: int
    nvlinks: int
    nvlink_gb_s: float
    """Of each link, in one direction."""
    bus_gb_s: float
    """Bus bandwidth of a large all-reduce between all GPUs of its host."""
    lost: bool = False
    """It fell off the bus."""
    uncorrected: int = 0
    """ECC errors that were not corrected."""


@record
class HcaPort:
    """One InfiniBand port of a host."""

    host: str
    name: str
    pci: str
    guid: str
    """Port GUID, 16 hexadecimal digits."""
    rate_gbit_s: int
    link_up: bool
    """The host's end of the cable."""


@record
class PartitionView:
    """One partition of a switch's subnet manager."""

    name: str
    pkey: int
    ipoib: bool
    members: dict[str, str]
    """Port GUID or `ALL` to `full`, `limited` or `both`."""


@record
class ManagerView:
    """One subnet manager that runs."""

    name: str
    """Of the device that it runs on."""
    node: str
    """Where it is plugged in, by ibsim's name."""
    priority: int
    routing_engine: str
    partitions: tuple[PartitionView, ...]


@record
class SubnetView:
    """What one InfiniBand switch does for its subnet."""

    switch: str
    guid: str
    """Node GUID, 16 hexadecimal digits: of equal priorities, the lowest becomes master."""
    model: str
    rate_gbit_s: int
    """Of its ports."""
    sm_runs: bool
    sm_priority: int
    routing_engine: str
    partitions: tuple[PartitionView, ...]
    ports: tuple[str, ...]
    """Its InfiniBand ports, in the order of their numbers."""
    up: frozenset[str]
    """The ports that are on and have a cable."""
    cables: dict[str, tuple[str, str]]
    """Port to the (host, PCI address of the HCA) at the other end."""
    links: dict[str, tuple[str, str]]
    """Port to the (switch, port) at the other end."""

    def number_of(self, port: str) -> int:
        """Number of a port, as management datagrams have it: from 1, in the order of the front."""
        return self.ports.index(port) + 1
