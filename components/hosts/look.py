"""The RDMA cards and GPUs of a host, their PCIe places, and how far apart they are. Pure.

`look.sh` reports them. Sources of the files that it reads: lab/sources.md#pcie.

A distance is that of `nvidia-smi topo -m`. Its program is not public; the way to count a path is
derived from its legend and from NCCL, which reads the same paths and counts a switch chip (its
upstream and its downstream ports) as one step.

An update cannot move a card to another slot, so nothing here is a setting or its drift: the preview
and `railyard drift` report it, like a wrong cable at a switch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Final

from components.core.record import record, replace
from components.core.templates import fault_text
from components.drift.device_drift import PlacementFault
from components.model.cluster import ClusterSpec
from components.model.hosts import Host

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
_ONE_SWITCH: Final = 1
"""Bridges below the common one: only a switch chip's downstream port."""


@record
class PciFunction:
    """One PCI function and its place in the tree."""

    pci: str
    device: str
    """PCI device id, four hexadecimal digits."""
    numa: int | None
    """NUMA node; None if the system does not know it (it prints -1)."""
    path: tuple[str, ...]
    """From the host bridge (`pci0000:00`) over the bridges to the function."""


@record
class LinkFact:
    """A PCIe link: GT/s of a lane, and lanes; None if unknown, as in many virtual machines."""

    gt_s: float | None = None
    width: int | None = None


@record
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
        both = (self.card_link, slot)
        speeds = [each.gt_s for each in both if each.gt_s is not None]
        widths = [each.width for each in both if each.width is not None]
        return LinkFact(min(speeds, default=None), min(widths, default=None))


@record
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
            # Split `lldp.enp5s0.port.ifname` into the network device (dots allowed) and the rest.
            words = key.split(".")
            netdev, what = ".".join(words[1:-2]), ".".join(words[-2:])
            lldp.setdefault(netdev, {}).setdefault(what, value)
    ordered = sorted(functions.items(), key=itemgetter(0))
    return HostLook(
        cards=tuple(_card(pci, each, lldp) for pci, each in ordered if each.get("kind") == "nic"),
        gpus=tuple(_place(pci, each) for pci, each in ordered if each.get("kind") == "gpu"),
        nodes=count_nodes(host.get("nodes", "")),
        seen=host.get("seen") == "yes",
        name=host.get("name", ""),
        uplink=tuple(uplink),
    )


def count_nodes(online: str) -> int:
    """Count the NUMA nodes in the kernel's list form: `0-1,4` is three; at least one."""
    parts = (part.strip().partition("-") for part in online.split(","))
    ends = [(first, last or first) for first, _, last in parts if first.isdigit()]
    counts = (int(last) - int(first) + 1 if last.isdigit() else 1 for first, last in ends)
    return max(sum(counts), 1)


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
    # The network device's own value in Mbit/s; an InfiniBand port only has the rate.
    mbit_s = fields.get("mbit_s", "")
    own = int(mbit_s) if mbit_s.isdigit() else 0
    speed_gbit_s = round(own / 1000) if own else round(float(rate[1])) if rate else None
    up = fields.get("state") == "up" or "ACTIVE" in fields.get("port_state", "")
    heard = lldp.get(netdev, {})
    vfs = fields.get("vfs", "")
    place = _place(pci, fields)
    return CardFact(
        pci, place.device, place.numa, place.path, netdev, fields.get("rdma", ""),
        _link(fields, "link"), _link(fields, "max"), _link(fields, "slot"),
        speed_gbit_s=speed_gbit_s if up else None,
        lanes=int(rate[2]) if rate and up else None,
        signalling=rate[3] or "" if rate and up else "",
        link_layer=fields.get("link_layer", ""), up=up,
        total_vfs=int(vfs) if vfs.isdigit() else 0,
        fw_ver=fields.get("fw_ver", ""), serial=fields.get("serial", ""),
        addresses=tuple(part for part in fields.get("addresses", "").split(",") if part),
        switch=heard.get("chassis.name", ""),
        switch_ports=tuple(heard[name] for name in _PORT_NAMES if heard.get(name)),
    )  # fmt: skip


def _link(fields: Mapping[str, str], name: str) -> LinkFact:
    speed = _GT_S.match(fields.get(f"{name}_speed", ""))
    width = fields.get(f"{name}_width", "").removeprefix("x")
    lanes = int(width) if width.isdigit() else 0
    return LinkFact(float(speed[1]) if speed else None, lanes if lanes in _WIDTHS else None)


def _above(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other


class Distance(IntEnum):
    """The path of data from one PCI function to another, the shortest first."""

    PIX = 0
    """Through one switch chip or bridge at most."""
    PXB = 1
    """Through several switch chips, not through the processor."""
    PHB = 2
    """Through the host bridge of the processor."""
    NODE = 3
    """From one host bridge to another of the same NUMA node."""
    SYS = 4
    """Between NUMA nodes, over the link between the processors; also if the machine has several
    nodes and one is unknown: `without_node`."""


def distance(one: PciFunction, other: PciFunction, nodes: int = 1) -> Distance:
    """The distance between two functions; in a machine with one NUMA node, everything is on it."""
    both = zip(one.path, other.path, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
    if common == 0:
        near = nodes == 1 or (one.numa is not None and one.numa == other.numa)
        return Distance.NODE if near else Distance.SYS
    if common == 1:  # only the host bridge
        return Distance.PHB
    below = max(len(one.path), len(other.path)) - common - 1
    return Distance.PIX if below <= _ONE_SWITCH else Distance.PXB


def without_node(*functions: PciFunction) -> str:
    """The addresses of functions whose NUMA node is unknown: SYS is then a guess."""
    return " and ".join(each.pci for each in functions if each.numa is None)


@record
class Pair:
    """A GPU and its card."""

    gpu: str
    card: str
    distance: Distance


def assign_gpus(look: HostLook, cards: Iterable[str]) -> tuple[Pair, ...]:
    """Give each GPU its nearest card; no pairs without cards.

    Among equally near cards, the one with the fewest GPUs wins, then the lower bus number; GPUs
    that are nearest to a card come first. If cards outnumber GPUs, each remaining card gets the
    nearest GPU of its node with the fewest cards.
    """
    wanted = set(cards)
    functions = [card for card in look.cards if card.pci in wanted]
    pairs = sorted(
        (distance(gpu, card, look.nodes), gpu.pci, card.pci)
        for gpu in look.gpus
        for card in functions
    )
    found: dict[str, Pair] = {}
    load = Counter[str]()
    for (steps, gpu), near in groupby(pairs, key=itemgetter(0, 1)):
        if gpu not in found:
            card = min((pci for _, _, pci in near), key=lambda pci: (load[pci], pci))
            load[card] += 1
            found[gpu] = Pair(gpu, card, steps)
    all_pairs = [*found.values()]
    if len(functions) > len(look.gpus):
        used = {pair.card for pair in all_pairs if pair.distance < Distance.SYS}
        load = Counter(pair.gpu for pair in all_pairs)
        close = [pair for pair in pairs if pair[0] < Distance.SYS]
        for left in sorted({card for _, _, card in close} - used):
            steps, _, gpu = min((far, load[gpu], gpu) for far, gpu, card in close if card == left)
            load[gpu] += 1
            all_pairs.append(Pair(gpu, left, steps))
    return tuple(sorted(all_pairs, key=lambda pair: (pair.gpu, pair.card)))


def gpus_of(pairs: Iterable[Pair], card: str) -> tuple[str, ...]:
    """The GPUs of one card that share its NUMA node, by address."""
    return tuple(pair.gpu for pair in pairs if pair.card == card and pair.distance < Distance.SYS)


def matrix(look: HostLook) -> Mapping[tuple[str, str], Distance]:
    """The distance of each GPU to each card, by their addresses."""
    return {
        (gpu.pci, card.pci): distance(gpu, card, look.nodes)
        for gpu in look.gpus
        for card in look.cards
    }


_FAR: Final = (Distance.NODE, Distance.SYS)
"""Paths beyond the host bridge: GPUDirect RDMA is slow over the first and slower over the second
(the legend of `nvidia-smi topo -m`; NCCL's NCCL_NET_GDR_LEVEL uses the same steps)."""


@record
class ExpectedCard:
    """One card in the file; None if the file does not set a value."""

    pci: str
    rail: str
    netdev: str
    speed_gbit_s: int
    numa: int | None = None
    link_gt_s: float | None = None
    link_width: int | None = None
    lanes: int | None = None
    gpu_pci: tuple[str, ...] = ()
    gpu_path: str | None = None

    @property
    def where(self) -> str:
        """The place of a card, as people look for it."""
        return f"the card at {self.pci} ({self.netdev}, {self.rail})"


@record
class Placement:
    """The cards and GPUs that a host must have."""

    gpus: int = 0
    gpu_direct: bool = False
    """Cards and GPUs must reach each other directly."""
    cards: tuple[ExpectedCard, ...] = ()
    hcas: int = 0
    """Number of InfiniBand adapters, for which the file gives only the number."""

    def __bool__(self) -> bool:
        """Whether the placement has anything to check."""
        return bool(self.gpus or self.cards or self.hcas)


def plan_placement(spec: ClusterSpec, host: Host) -> Placement:
    """The placement of one host's cards and GPUs in the file."""
    cards = tuple(
        ExpectedCard(
            nic.pci, nic.rail, nic.netdev, nic.speed_gbit_s,
            # Skip a default, which the user did not write, and -1, which means unknown.
            numa=nic.numa if "numa" in nic.model_fields_set and nic.numa >= 0 else None,
            link_gt_s=nic.link_gt_s, link_width=nic.link_width, lanes=nic.lanes,
            gpu_pci=nic.gpu_pci, gpu_path=nic.gpu_path,
        )
        for nic in host.nics
    )  # fmt: skip
    direct = bool(host.gpus and cards and spec.settings_of(host).gpu_path != "none")
    return Placement(host.gpus, direct, cards, host.hcas)


def judge_placement(expected: Placement, look: HostLook) -> tuple[PlacementFault, ...]:
    """Everything that differs from the file, in the order of the file; empty without a look."""
    if not look.seen:
        return ()
    faults: list[PlacementFault] = []
    if expected.gpus and len(look.gpus) != expected.gpus:
        faults.append(_fault("gpus", count=len(look.gpus), expected=expected))
    # The file does not list InfiniBand adapters: report a link below that of card and slot.
    own = {card.pci for card in expected.cards}
    for found in look.cards if expected.hcas else ():
        if found.link_layer == "InfiniBand" and found.pci not in own:
            adapter = ExpectedCard(found.pci, "InfiniBand", found.rdma, found.speed_gbit_s or 0)
            texts = (each.text.partition("; if ")[0] for each in _judge_link(adapter, found))
            faults += map(PlacementFault, texts)
    for card in expected.cards:
        if (found := look.card(card.pci)) is None:
            faults.append(_fault("no-card", card=card))
            continue
        faults += _judge_link(card, found)
        faults += _judge_port(card, found)
        faults += _judge_gpus(expected, card, found, look)
    return tuple(faults)


def _fault(row: str, **words: object) -> PlacementFault:
    return PlacementFault(fault_text(__file__, row, **words))


def _judge_link(card: ExpectedCard, found: CardFact) -> Iterator[PlacementFault]:
    wanted = card.link_width or found.possible.width
    if wanted and found.link.width and found.link.width != wanted:
        limit = found.possible.width
        if limit is not None and limit < wanted:
            fix = f"its slot is limited to {limit}: move it to an x{wanted} slot"
        elif found.link.width > wanted:
            fix = "the file is out of date"
        else:
            fix = "reseat the card or its riser, or change the slot's bifurcation in the BIOS"
        yield _fault("width", card=card, link=found.link, wanted=wanted, remedy=fix)
    speed = card.link_gt_s or found.possible.gt_s
    if speed and found.link.gt_s and found.link.gt_s != speed:
        yield _fault("speed", card=card, link=found.link, speed=speed)


def _judge_port(card: ExpectedCard, found: CardFact) -> Iterator[PlacementFault]:
    speed = found.speed_gbit_s
    if speed is not None and speed != card.speed_gbit_s:
        yield _fault("port-speed", card=card, speed=speed)
    if card.lanes and found.lanes and found.lanes != card.lanes:
        yield _fault("port-lanes", card=card, found=found)
    if card.numa is not None and found.numa is not None and found.numa != card.numa:
        yield _fault("numa", card=card, found=found)


def _judge_gpus(
    expected: Placement, card: ExpectedCard, found: CardFact, look: HostLook
) -> Iterator[PlacementFault]:
    for pci in card.gpu_pci:
        gpu = look.gpu(pci)
        if gpu is None:
            yield _fault("no-gpu", card=card, pci=pci)
            continue
        steps = distance(gpu, found, look.nodes)
        allowed = Distance[card.gpu_path] if card.gpu_path else Distance.PHB
        if steps > allowed and (card.gpu_path or steps in _FAR):
            unknown = without_node(gpu, found) if steps == Distance.SYS else ""
            refused = expected.gpu_direct and steps == Distance.SYS and not unknown
            way, across = f"is {steps.name}", "from one processor to the other"
            if steps == Distance.SYS:
                doubt = f"may go {across} (the system tells no NUMA node of {unknown})"
                way = doubt if unknown else f"goes {across}"
            words = {"pci": pci, "card": card, "way": way, "allowed": allowed}
            yield replace(_fault("far-gpu", **words), refused=refused)
    if expected.gpu_direct and not card.gpu_pci and look.gpus:
        nearest = min(distance(gpu, found, look.nodes) for gpu in look.gpus)
        unknown = without_node(found, *look.gpus)
        if nearest == Distance.SYS and unknown:
            yield _fault("unknown-node", card=card, unknown=unknown)
        elif nearest == Distance.SYS:
            yield _fault("other-node", card=card)
