"""The state of one emulated ConnectX port: what the driver and the card hold at run time.

Sources: kernel SR-IOV semantics (lab/sources.md#hosts), runtime-only QoS state
(sources.md#host-qos), PCI ids (pciids).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.hosts.links import link_gbit_s
from lab.views import NicConfig, NicView

PRIORITIES = 8
DSCPS = 64
DEFAULT_MTU_BYTES = 1500
MIN_MTU_BYTES = 68
MAX_MTU_BYTES = 9978
"""Largest netdev MTU that mlx5 accepts (its hardware limit of 10000 less the headers)."""
BUFFER_BYTES = 262016
"""Receive buffer of a ConnectX-5 port, as mlnx_qos shows it (sources.md#host-qos)."""
DEFAULT_CNP_DSCP = 48
DEFAULT_CNP_PRIORITY = 6
"""The card's own marks of CNP packets (sources.md#host-qos)."""


ZERO_GUID = "00:00:00:00:00:00:00:00"
"""What a new VF has (sources.md#vfs): no subnet manager takes it, and RDMA-CM finds no device."""
ZERO_MAC = "00:00:00:00:00:00"
"""The administrative MAC of a new VF: its driver takes a random one."""


class DeviceRefusal(Exception):  # noqa: N818 - a refusal by the emulated kernel, not an error of ours
    """The emulated kernel refuses a value, with its errno."""

    def __init__(self, number: int) -> None:
        """Keep the errno that the caller of the emulated kernel gets."""
        super().__init__(errno.errorcode[number])
        self.errno = number


@dataclass(slots=True)
class Vf:
    """One virtual function and its administrative attributes."""

    index: int
    pci: str
    netdev: str
    rdma: str
    mac: str
    """Of its network device."""
    admin_mac: str = ZERO_MAC
    """What the PF gives it; its driver takes that when it binds."""
    mtu_bytes: int = DEFAULT_MTU_BYTES
    admin_up: bool = False
    vlan: int = 0
    qos: int = 0
    spoofchk: bool = False
    trust: bool = False
    link_state: str = "auto"
    min_rate_mbit_s: int = 0
    max_rate_mbit_s: int = 0
    node_guid: str = ZERO_GUID
    port_guid: str = ZERO_GUID
    active_guid: str = ZERO_GUID
    """The GUID that the VF took when its driver last bound to it: of its InfiniBand port, else of
    the node."""
    rdma_cm_tos: int = 0
    roce_mode: str = "RoCE v2"
    traffic_class: int = -1
    bound: bool = True
    """A driver is bound to it, so that it has devices."""
    in_pod: bool = False
    """Its network device is in a pod's network namespace, out of sight of the host; and its RDMA
    device too, if those have namespaces of their own (`netns_mode`)."""
    hw_counters: dict[str, int] = field(default_factory=dict[str, int])

    def set_admin_mac(self, mac: str) -> None:
        """What mlx5's PF does with it: the node GUID is made of it (sources.md#vfs)."""
        self.admin_mac = mac
        self.node_guid = f"{mac[:8]}:ff:fe:{mac[9:]}"

    def forget_marks(self) -> None:
        """A new RDMA device, also one that comes to another namespace, marks nothing."""
        self.rdma_cm_tos, self.roce_mode, self.traffic_class = 0, "RoCE v2", -1


@dataclass(slots=True)
class QosState:
    """What `mlnx_qos`, `ethtool -A`, the ecn files and rdma_cm hold; all lost at a reboot."""

    trust: str = "pcp"
    dscp_to_priority: list[int] = field(default_factory=lambda: [d >> 3 for d in range(DSCPS)])
    dscp_entries: list[int] | None = None
    """DSCPs in the APP table, if they are not all of them, as mlnx_qos makes them."""
    pfc: list[int] = field(default_factory=lambda: [0] * PRIORITIES)
    priority_to_tc: list[int] = field(default_factory=lambda: [1, 0, *range(2, PRIORITIES)])
    """As mlx5 makes it: priority 1 is the lowest (sources.md#host-guards)."""
    tsa: list[str] = field(default_factory=lambda: ["vendor"] * PRIORITIES)
    tc_bandwidth: list[int] = field(default_factory=lambda: [100] * PRIORITIES)
    rate_gbit_s: list[int] = field(default_factory=lambda: [0] * PRIORITIES)
    """Limit of each traffic class; 0 is none."""
    cable_length_m: int = 7
    buffers: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Sizes in bytes and the buffer of each priority, set by hand; None while the card's own."""
    dcbx: str = "os"
    pause_rx: bool = True
    pause_tx: bool = True
    np_enable: list[int] = field(default_factory=lambda: [1] * PRIORITIES)
    rp_enable: list[int] = field(default_factory=lambda: [1] * PRIORITIES)
    cnp_dscp: int = DEFAULT_CNP_DSCP
    cnp_priority: int = DEFAULT_CNP_PRIORITY
    traffic_class: int = -1
    spreads: bool = False
    """adaptive_routing_forced_en of the register ROCE_ACCL."""
    roce_mode: str = "RoCE v2"
    rdma_cm_tos: int = 0

    def shown_buffers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Receive buffers as mlnx_qos shows them; the card makes two where PFC is on."""
        if self.buffers is not None:
            return self.buffers
        half = BUFFER_BYTES // 2 - 64
        sizes = (half, half, 0, 0, 0, 0, 0, 0) if any(self.pfc) else (BUFFER_BYTES, *[0] * 7)
        return sizes, tuple(self.pfc)

    def set_buffers(
        self, sizes: tuple[int, ...] | None, priorities: tuple[int, ...] | None
    ) -> None:
        """Set the receive buffers."""
        shown = self.shown_buffers()
        self.buffers = (sizes or shown[0], priorities or shown[1])
        self.settle_buffers()

    def settle_buffers(self) -> None:
        """What is as the card would have it is no longer by hand."""
        by_hand, self.buffers = self.buffers, None
        self.buffers = None if by_hand == self.shown_buffers() else by_hand


@dataclass(slots=True)
class Nic:
    """One physical function: its card, its run-time state and its counters."""

    config: NicConfig
    host: str
    allocate_rdma: Callable[[], str]
    """Gives the lowest free `mlx5_N` of the host, as the driver's probe order does."""
    mtu_bytes: int = DEFAULT_MTU_BYTES
    admin_up: bool = False
    """The network device is set up: netplan of a new host names the management port alone."""
    cable_up: bool = True
    vf_limit: int = 0
    """`sriov_totalvfs`: from the firmware's current NUM_OF_VFS, 0 when SRIOV_EN is off."""
    link_gt_s: float | None = None
    """PCIe speed that a fault left; None is what the card can."""
    link_width: int | None = None
    """PCIe lanes that a fault left."""
    firmware_version: str = ""
    """Release of the card's firmware."""
    infiniband: bool = False
    """`LINK_TYPE` made InfiniBand of an Ethernet port: it has no network device, as nothing loaded
    ib_ipoib for it."""
    vfs: list[Vf] = field(default_factory=list[Vf])
    mmio_vfs: int | None = None
    """VFs for which the machine has PCIe address space; None where there is plenty."""
    eswitch: str = "legacy"
    autoprobe: bool = True
    vf_generation: int = 0
    """Counts the changes of `vfs`."""
    qos: QosState = field(default_factory=QosState)
    addresses: list[str] = field(default_factory=list[str])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    hw_counters: dict[str, int] = field(default_factory=dict[str, int])
    carrier_down_count: int = 0
    """How often the driver itself took the link down, as the file of that name in /sys has it."""

    def toggle_link(self) -> None:
        """The driver takes the link down and up again, as for PFC (sources.md#host-qos)."""
        self.carrier_down_count += self.link_up

    @property
    def link_up(self) -> bool:
        """Carrier: the cable carries, and an Ethernet port is set up (sources.md#hosts)."""
        return self.cable_up and (self.admin_up or self.infiniband or self.is_ib)

    @property
    def is_ib(self) -> bool:
        """The port speaks InfiniBand."""
        return self.config.link_layer == "InfiniBand"

    @property
    def serial(self) -> str:
        """The board's serial number, which goes with the card to another slot."""
        digest = hashlib.sha256(f"{self.host}/{self.config.netdev}".encode()).hexdigest()
        return self.config.serial or f"MT2304X{int(digest[:5], 16) % 100000:05d}"

    @property
    def mac(self) -> str:
        """A stable MAC with NVIDIA's (Mellanox) prefix, from host name and PCI address."""
        return stable_mac(f"{self.host}/{self.config.pci}")

    def set_vf_count(self, text: str) -> None:
        """Write `sriov_numvfs` as the kernel does (drivers/pci/iov.c).

        Raises:
            DeviceRefusal: EINVAL for no number, ERANGE above the total, EBUSY for a change from
                one non-zero count to another, ENOMEM without address space for them.
        """
        wanted = parse_kernel_uint(text)
        if wanted > self.vf_limit:
            raise DeviceRefusal(errno.ERANGE)
        if wanted == len(self.vfs):
            return
        if wanted and self.vfs:
            raise DeviceRefusal(errno.EBUSY)
        if self.mmio_vfs is not None and wanted > self.mmio_vfs:
            raise DeviceRefusal(errno.ENOMEM)
        self.vf_generation += 1
        if not wanted:
            self.vfs.clear()
            return
        for index in range(wanted):
            self.vfs.append(self._new_vf(index))

    def set_autoprobe(self, text: str) -> None:
        """Write `sriov_drivers_autoprobe`: whether a driver binds to new VFs.

        Raises:
            DeviceRefusal: EINVAL for what is neither 0 nor 1.
        """
        wanted = parse_kernel_uint(text)
        if wanted > 1:
            raise DeviceRefusal(errno.EINVAL)
        self.autoprobe = wanted == 1

    def bind_vf(self, vf: Vf, *, bound: bool) -> None:
        """Bind the driver to a VF, which then takes MAC and GUID and starts again, or unbind it."""
        vf.bound = bound
        vf.mtu_bytes, vf.admin_up = DEFAULT_MTU_BYTES, False
        guid = vf.port_guid if self.is_ib else vf.node_guid
        vf.active_guid = guid if bound else ZERO_GUID
        if bound:
            own = stable_mac(f"{self.host}/{self.config.pci}/{vf.index}")
            vf.mac = own if vf.admin_mac == ZERO_MAC else vf.admin_mac
        vf.forget_marks()
        self.vf_generation += 1

    def _new_vf(self, index: int) -> Vf:
        return Vf(
            index=index,
            pci=vf_address(self.config.pci, index),
            netdev=f"{self.config.path_name or self.config.netdev}v{index}",
            rdma=self.allocate_rdma(),
            mac=stable_mac(f"{self.host}/{self.config.pci}/{index}"),
            bound=self.autoprobe,
            # NVIDIA's driver keeps a VF's port down until its policy says otherwise.
            link_state="disable" if self.config.sriov_files else "auto",
        )

    def vf_state(self, vf: Vf) -> str:
        """State of an InfiniBand VF's port as the kernel words it: without a GUID it is down."""
        good = self.link_up and vf.active_guid != ZERO_GUID and vf.link_state != "disable"
        return "4: ACTIVE" if good else "1: DOWN"

    def set_mtu(self, text: str) -> None:
        """Set the PF's MTU in bytes.

        Raises:
            DeviceRefusal: EINVAL outside of what the driver accepts.
        """
        wanted = parse_kernel_uint(text)
        if not MIN_MTU_BYTES <= wanted <= MAX_MTU_BYTES:
            raise DeviceRefusal(errno.EINVAL)
        self.mtu_bytes = wanted

    def add_counter(self, name: str, amount: int) -> None:
        """Move one `ethtool -S` counter."""
        self.counters[name] = self.counters.get(name, 0) + amount

    @property
    def _carried_gbit_s(self) -> int:
        """The port's line rate, or what a fault left of the PCIe link."""
        degraded = self.link_gt_s is not None or self.link_width is not None
        rate = self.config.speed_gbit_s
        return min(rate, link_gbit_s(self)) if degraded else rate

    def view(self, *, peermem: bool, memlock_unlimited: bool, gdr_allowed: bool) -> NicView:
        """What the lab's physics may know of this port."""
        both = frozenset(
            p for p in range(PRIORITIES) if self.qos.np_enable[p] and self.qos.rp_enable[p]
        )
        return NicView(
            host=self.host,
            pci=self.config.pci,
            netdev=self.config.netdev,
            rdma=self.config.rdma,
            link_up=self.link_up,
            speed_gbit_s=self._carried_gbit_s,
            mtu_bytes=self.mtu_bytes,
            vfs=len(self.vfs),
            trust="dscp" if self.qos.trust == "dscp" else "pcp",
            dscp_to_priority=tuple(self.qos.dscp_to_priority),
            pfc_priorities=frozenset(p for p, on in enumerate(self.qos.pfc) if on),
            ecn_priorities=both,
            cnp_dscp=self.qos.cnp_dscp,
            peermem=peermem,
            memlock_unlimited=memlock_unlimited,
            gdr_allowed=gdr_allowed,
        )


def parse_kernel_uint(text: str) -> int:
    """Read a number as the kernel's kstrtouint does: one optional newline, base 0.

    Raises:
        DeviceRefusal: EINVAL when the text is no number.
    """
    try:
        value = int(text.removesuffix("\n"), 0) if text.strip() else -1
    except ValueError:
        value = -1
    if value < 0:
        raise DeviceRefusal(errno.EINVAL)
    return value


def vf_address(pf: str, index: int) -> str:
    """PCI address of a VF: routing id of the PF plus 1 plus the index (VF offset 1, stride 1)."""
    domain, bus, rest = pf.split(":")
    slot, function = rest.split(".")
    routing = (int(slot, 16) << 3) + int(function) + 1 + index
    return f"{domain}:{bus}:{routing >> 3:02x}.{routing & 7}"


def stable_mac(seed: str) -> str:
    """A MAC that is the same at each start, under the vendor prefix 0c:42:a1."""
    tail = hashlib.sha256(seed.encode()).digest()[:3]
    return "0c:42:a1:" + ":".join(f"{byte:02x}" for byte in tail)
