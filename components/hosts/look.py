"""The RDMA cards and GPUs of a host, and their PCIe places, as `look.sh` reports them. Pure.

Sources of the files that it reads: lab/sources.md#pcie.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

LOOK_LINE: Final = "look=topology\n"
"""Makes observe report the PCIe devices besides the settings."""
LOOK_PREFIX: Final = "look."
_FUNCTION: Final = re.compile(r"look\.([0-9a-f]+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\.([a-z_]+)")
_HOST: Final = "look.host."
_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_GT_S: Final = re.compile(r"([0-9.]+) GT/s")
_RATE: Final = re.compile(r"([0-9.]+) Gb/sec \((\d+)X(?: ([A-Z0-9]+))?\)")
_PORT_NAMES: Final = ("port.ifname", "port.local", "port.descr")
_WIDTHS: Final = frozenset({1, 2, 4, 8, 16, 32})
"""Valid lane counts of a PCIe link; the kernel prints 0 and 255 for an unknown link."""


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function and its place in the tree."""

    pci: str
    device: str
    """PCI device id, four hexadecimal digits."""
    numa: int | None
    """NUMA node; None if the system does not know it (it prints -1)."""
    path: tuple[str, ...]
    """From the host bridge (`pci0000:00`) over the bridges to the function."""


@dataclass(frozen=True, slots=True)
class LinkFact:
    """A PCIe link: GT/s of a lane, and lanes; None if unknown, as in many virtual machines."""

    gt_s: float | None = None
    width: int | None = None


@dataclass(frozen=True, slots=True)
class CardFact(PciFunction):
    """One PF of an RDMA card."""

    netdev: str = ""
    rdma: str = ""
    link: LinkFact = LinkFact()
    """The trained speed and width of the link."""
    card_link: LinkFact = LinkFact()
    """The best link that the card supports."""
    slot_link: LinkFact = LinkFact()
    """The best link that the port above the card supports: the slot, or the switch chip's port."""
    speed_gbit_s: int | None = None
    """Line rate of the port; None while it is down."""
    lanes: int | None = None
    """SerDes lanes of the port, as in `100 Gb/sec (4X EDR)`; None while it is down."""
    signalling: str = ""
    """Rate of a lane in the words of InfiniBand: `EDR`, `HDR`, `NDR`; also of an Ethernet port."""
    link_layer: str = ""
    """`Ethernet` or `InfiniBand`."""
    up: bool = False
    total_vfs: int = 0
    fw_ver: str = ""
    serial: str = ""
    addresses: tuple[str, ...] = ()
    """IPv4 addresses with their prefix lengths."""
    switch: str = ""
    """Name of the switch by LLDP; empty if it is unknown."""
    switch_ports: tuple[str, ...] = ()
    """All names of the switch's port: SONiC sends an alias first, and the name as description."""

    @property
    def neighbour(self) -> str:
        """`switch port` for people."""
        return " ".join((self.switch, *self.switch_ports[:1])).strip()

    @property
    def possible(self) -> LinkFact:
        """The best link that card and slot can form together.

        A hypervisor's root port is not a real slot: the link below it is often better than the port
        claims.
        """
        slot = self.slot_link
        if _above(self.link.gt_s, slot.gt_s) or _above(self.link.width, slot.width):
            return self.card_link
        links = (self.card_link, slot)
        return LinkFact(
            min((each.gt_s for each in links if each.gt_s is not None), default=None),
            min((each.width for each in links if each.width is not None), default=None),
        )


@dataclass(frozen=True, slots=True)
class HostLook:
    """The result of one read of a host, sorted by PCI address."""

    cards: tuple[CardFact, ...] = ()
    gpus: tuple[PciFunction, ...] = ()
    nodes: int = 1
    seen: bool = False
    """The host was read: an empty list then means that it has no cards."""
    name: str = ""
    uplink: tuple[str, ...] = ()
    """Network devices of default routes and of the SSH session, and the devices below them."""

    def card(self, pci: str) -> CardFact | None:
        """The card function at an address, or None."""
        return next((card for card in self.cards if card.pci == pci), None)

    def gpu(self, pci: str) -> PciFunction | None:
        """The GPU at an address, or None."""
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)


def parse_look(lines: Iterable[str]) -> HostLook:
    """Read the lines of `look.sh` and `discover.sh`, and ignore all other lines."""
    functions: dict[str, dict[str, str]] = {}
    host: dict[str, str] = {}
    uplink: dict[str, None] = {}
    lldp: dict[str, dict[str, str]] = {}
    for line in lines:
        key, _, value = line.strip().partition("=")
        if found := _FUNCTION.fullmatch(key):
            functions.setdefault(found[1], {}).setdefault(found[2], value)
        elif key == f"{_HOST}uplink":  # one a route
            uplink |= dict.fromkeys(value.split())
        elif key.startswith(_HOST):
            host.setdefault(key.removeprefix(_HOST), value)
        elif key.startswith("lldp."):
            netdev, what = _split_lldp(key)
            lldp.setdefault(netdev, {}).setdefault(what, value)
    by_kind = {
        kind: sorted((p, f) for p, f in functions.items() if f.get("kind") == kind)
        for kind in ("nic", "gpu")
    }
    return HostLook(
        cards=tuple(_card(pci, fields, lldp) for pci, fields in by_kind["nic"]),
        gpus=tuple(_place(pci, fields) for pci, fields in by_kind["gpu"]),
        nodes=count_nodes(host.get("nodes", "")),
        seen=host.get("seen") == "yes",
        name=host.get("name", ""),
        uplink=tuple(uplink),
    )


def count_nodes(online: str) -> int:
    """Count the NUMA nodes in the kernel's list form: `0-1,4` is three; at least one."""
    count = 0
    for part in online.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            count += int(last or first) - int(first) + 1 if (last or first).isdigit() else 1
    return max(count, 1)


def _split_lldp(key: str) -> tuple[str, str]:
    """Split `lldp.enp5s0.port.ifname` into the network device (dots allowed) and the rest."""
    words = key.split(".")
    return ".".join(words[1:-2]), ".".join(words[-2:])


def _place(pci: str, fields: Mapping[str, str]) -> PciFunction:
    numa = fields.get("numa", "")
    path = tuple(fields.get("path", "").split("/"))
    roots = [at for at, part in enumerate(path) if _BRIDGE.fullmatch(part)]
    return PciFunction(
        pci=pci,
        device=fields.get("device", "").removeprefix("0x"),
        numa=int(numa) if numa.isdigit() else None,
        path=path[roots[-1] :] if roots else (pci,),
    )


def _card(pci: str, fields: Mapping[str, str], lldp: Mapping[str, Mapping[str, str]]) -> CardFact:
    netdev = fields.get("netdev", "")
    rate = _RATE.match(fields.get("rate", ""))
    up = fields.get("state") == "up" or "ACTIVE" in fields.get("port_state", "")
    heard = lldp.get(netdev, {})
    vfs = fields.get("vfs", "")
    place = _place(pci, fields)
    return CardFact(
        *(pci, place.device, place.numa, place.path),
        netdev=netdev,
        rdma=fields.get("rdma", ""),
        link=_link(fields, "link"),
        card_link=_link(fields, "max"),
        slot_link=_link(fields, "slot"),
        speed_gbit_s=_speed(fields, rate) if up else None,
        lanes=int(rate[2]) if rate and up else None,
        signalling=rate[3] or "" if rate and up else "",
        link_layer=fields.get("link_layer", ""),
        up=up,
        total_vfs=int(vfs) if vfs.isdigit() else 0,
        fw_ver=fields.get("fw_ver", ""),
        serial=fields.get("serial", ""),
        addresses=tuple(part for part in fields.get("addresses", "").split(",") if part),
        switch=heard.get("chassis.name", ""),
        switch_ports=tuple(heard[name] for name in _PORT_NAMES if heard.get(name)),
    )


def _speed(fields: Mapping[str, str], rate: re.Match[str] | None) -> int | None:
    """The network device's own value in Mbit/s; an InfiniBand port only has the rate."""
    mbit_s = fields.get("mbit_s", "")
    if mbit_s.isdigit() and int(mbit_s) > 0:
        return round(int(mbit_s) / 1000)
    return round(float(rate[1])) if rate else None


def _link(fields: Mapping[str, str], name: str) -> LinkFact:
    speed = _GT_S.match(fields.get(f"{name}_speed", ""))
    width = fields.get(f"{name}_width", "").removeprefix("x")
    lanes = int(width) if width.isdigit() else 0
    return LinkFact(float(speed[1]) if speed else None, lanes if lanes in _WIDTHS else None)


def _above(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other
