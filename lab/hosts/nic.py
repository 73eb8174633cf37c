"""The state of one emulated ConnectX port: what the driver and the card hold at run time.

Sources: kernel SR-IOV semantics (docs/explanation/sources.md#hosts), runtime-only QoS state
(sources.md#host-qos), PCI ids (pciids).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.views import NicConfig, NicView

PRIORITIES = 8
DSCPS = 64
DEFAULT_MTU_BYTES = 1500
MIN_MTU_BYTES = 68
MAX_MTU_BYTES = 9978
"""Largest netdev MTU that mlx5 accepts (its hardware limit of 10000 less the headers)."""
DEFAULT_CNP_DSCP = 48
DEFAULT_CNP_PRIORITY = 6
"""The card's own marks of CNP packets (sources.md#host-qos)."""


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
    mtu_bytes: int = DEFAULT_MTU_BYTES
    admin_up: bool = False
    vlan: int = 0
    qos: int = 0
    spoofchk: bool = False
    trust: bool = False
    link_state: str = "auto"


@dataclass(slots=True)
class QosState:
    """What `mlnx_qos`, `ethtool -A`, the ecn files and rdma_cm hold; all lost at a reboot."""

    trust: str = "pcp"
    dscp_to_priority: list[int] = field(default_factory=lambda: [d >> 3 for d in range(DSCPS)])
    pfc: list[int] = field(default_factory=lambda: [0] * PRIORITIES)
    priority_to_tc: list[int] = field(default_factory=lambda: list(range(PRIORITIES)))
    tsa: list[str] = field(default_factory=lambda: ["vendor"] * PRIORITIES)
    tc_bandwidth: list[int] = field(default_factory=lambda: [0] * PRIORITIES)
    cable_length_m: int = 7
    dcbx: str = "os"
    pause_rx: bool = True
    pause_tx: bool = True
    np_enable: list[int] = field(default_factory=lambda: [1] * PRIORITIES)
    rp_enable: list[int] = field(default_factory=lambda: [1] * PRIORITIES)
    cnp_dscp: int = DEFAULT_CNP_DSCP
    cnp_priority: int = DEFAULT_CNP_PRIORITY
    traffic_class: int = -1
    roce_mode: str = "RoCE v2"
    rdma_cm_tos: int = 0


@dataclass(slots=True)
class Nic:
    """One physical function: its card, its run-time state and its counters."""

    config: NicConfig
    host: str
    allocate_rdma: Callable[[], str]
    """Gives the lowest free `mlx5_N` of the host, as the driver's probe order does."""
    mtu_bytes: int = DEFAULT_MTU_BYTES
    admin_up: bool = True
    cable_up: bool = True
    vf_limit: int = 0
    """`sriov_totalvfs`: from the firmware's current NUM_OF_VFS, 0 when SRIOV_EN is off."""
    vfs: list[Vf] = field(default_factory=list[Vf])
    vf_generation: int = 0
    """Counts the changes of `vfs`."""
    qos: QosState = field(default_factory=QosState)
    addresses: list[str] = field(default_factory=list[str])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    hw_counters: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def link_up(self) -> bool:
        """Carrier: the port is administratively up and the cable carries."""
        return self.admin_up and self.cable_up

    @property
    def mac(self) -> str:
        """A stable MAC with NVIDIA's (Mellanox) prefix, from host name and PCI address."""
        return stable_mac(f"{self.host}/{self.config.pci}")

    def set_vf_count(self, text: str) -> None:
        """Write `sriov_numvfs` as the kernel does (drivers/pci/iov.c).

        Raises:
            DeviceRefusal: EINVAL for no number, ERANGE above the total, EBUSY for a change from
                one non-zero count to another.
        """
        wanted = parse_kernel_uint(text)
        if wanted > self.vf_limit:
            raise DeviceRefusal(errno.ERANGE)
        if wanted == len(self.vfs):
            return
        if wanted and self.vfs:
            raise DeviceRefusal(errno.EBUSY)
        self.vf_generation += 1
        if not wanted:
            self.vfs.clear()
            return
        for index in range(wanted):
            self.vfs.append(self._new_vf(index))

    def _new_vf(self, index: int) -> Vf:
        return Vf(
            index=index,
            pci=vf_address(self.config.pci, index),
            netdev=f"{self.config.netdev}v{index}",
            rdma=self.allocate_rdma(),
            mac=stable_mac(f"{self.host}/{self.config.pci}/{index}"),
        )

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

    def add_hw_counter(self, name: str, amount: int) -> None:
        """Move one counter under `ports/1/hw_counters`."""
        self.hw_counters[name] = self.hw_counters.get(name, 0) + amount

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
            speed_gbit_s=self.config.speed_gbit_s,
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
