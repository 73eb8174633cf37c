"""What a look at a host shows of its cards and GPUs, against what the file says. Pure.

No update mends a card that sits in the wrong slot, so nothing here is a setting or drift of one:
it is reported at preview and by `railyard drift`, as a wrong cable of a switch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from components.drift.device_drift import Misplaced
from components.hosts.look import CardFact, HostLook
from components.hosts.topology import Distance, distance, without_node
from components.model.cluster import ClusterSpec
from components.model.hosts import Host

_FAR: Final = (Distance.NODE, Distance.SYS)
"""Ways that leave the host bridge: GPUDirect RDMA is slow over the first and worse over the second
(the legend of `nvidia-smi topo -m`; NCCL's NCCL_NET_GDR_LEVEL is of the same steps)."""


@dataclass(frozen=True, slots=True)
class ExpectedCard:
    """One card as the file has it; None is not said there."""

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
        """The card as people look for it."""
        return f"the card at {self.pci} ({self.netdev}, {self.rail})"


@dataclass(frozen=True, slots=True)
class Placement:
    """What must be plugged into a host."""

    gpus: int = 0
    gpu_direct: bool = False
    """Cards and GPUs shall reach each other directly."""
    cards: tuple[ExpectedCard, ...] = ()
    hcas: int = 0
    """InfiniBand adapters, of which the file has no more than the number."""

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.gpus or self.cards or self.hcas)


def plan_placement(spec: ClusterSpec, host: Host) -> Placement:
    """What the file says of one host's cards and GPUs."""
    cards = tuple(
        ExpectedCard(
            pci=nic.pci,
            rail=nic.rail,
            netdev=nic.netdev,
            speed_gbit_s=nic.speed_gbit_s,
            # A default is no word of the user's; -1 is said of what the system does not know.
            numa=nic.numa if "numa" in nic.model_fields_set and nic.numa >= 0 else None,
            link_gt_s=nic.link_gt_s,
            link_width=nic.link_width,
            lanes=nic.lanes,
            gpu_pci=nic.gpu_pci,
            gpu_path=nic.gpu_path,
        )
        for nic in host.nics
    )
    direct = bool(host.gpus and cards and spec.settings_of(host).gpu_path != "none")
    return Placement(host.gpus, direct, cards, host.hcas)


def judge_placement(expected: Placement, look: HostLook) -> tuple[Misplaced, ...]:
    """Everything that is not as the file says, in the order of the file; nothing, unlooked at."""
    return tuple(_judge(expected, look)) if look.seen else ()


def _judge(expected: Placement, look: HostLook) -> Iterator[Misplaced]:
    if expected.gpus and len(look.gpus) != expected.gpus:
        yield Misplaced(
            f"{len(look.gpus)} GPUs are on its PCIe bus, and the file says {expected.gpus}: look "
            "for a GPU that has fallen off the bus (dmesg, Xid 79), or correct hosts[].gpus"
        )
    if expected.hcas:
        yield from _judge_adapters(expected, look)
    for card in expected.cards:
        found = look.card(card.pci)
        if found is None:
            yield Misplaced(
                f"there is no RDMA card at {card.pci} ({card.netdev}, {card.rail}): it was moved or"
                " is gone; `railyard discover` shows where the cards are"
            )
            continue
        yield from _judge_link(card, found)
        yield from _judge_port(card, found)
        yield from _judge_gpus(expected, card, found, look)


def _judge_adapters(expected: Placement, look: HostLook) -> Iterator[Misplaced]:
    """InfiniBand adapters are not in the file: a link below what card and slot can is reported."""
    own = {card.pci for card in expected.cards}
    for found in look.cards:
        if found.link_layer == "InfiniBand" and found.pci not in own:
            adapter = ExpectedCard(found.pci, "InfiniBand", found.rdma, found.speed_gbit_s or 0)
            for each in _judge_link(adapter, found):
                yield Misplaced(each.text.partition("; if ")[0])


def _judge_link(card: ExpectedCard, found: CardFact) -> Iterator[Misplaced]:
    wanted = card.link_width or found.possible.width
    if wanted and found.link.width and found.link.width != wanted:
        limit = found.possible.width
        if limit is not None and limit < wanted:
            fix = f"its slot has no more than {limit}: move it to an x{wanted} slot"
        elif found.link.width > wanted:
            fix = "the file is out of date"
        else:
            fix = "reseat the card or its riser, or change the slot's bifurcation in the BIOS"
        yield Misplaced(
            f"{card.where} runs with {found.link.width} PCIe lanes, want {wanted}: {fix}; if "
            f"{found.link.width} is right, write link_width: {found.link.width}"
        )
    speed = card.link_gt_s or found.possible.gt_s
    if speed and found.link.gt_s and found.link.gt_s != speed:
        yield Misplaced(
            f"{card.where} runs its PCIe link at {found.link.gt_s:g} GT/s, want {speed:g}: look at"
            " the slot's speed in the BIOS, the riser and the card's seat; if that is right, write "
            f"link_gt_s: {found.link.gt_s:g}"
        )


def _judge_port(card: ExpectedCard, found: CardFact) -> Iterator[Misplaced]:
    speed = found.speed_gbit_s
    if speed is not None and speed != card.speed_gbit_s:
        yield Misplaced(
            f"the port of {card.where} runs at {speed} Gbit/s, and the file says "
            f"{card.speed_gbit_s}: look at the cable or transceiver and at the switch port's "
            f"speed, or write speed_gbit_s: {speed}"
        )
    if card.lanes and found.lanes and found.lanes != card.lanes:
        yield Misplaced(
            f"the port of {card.where} runs with {found.lanes} SerDes lanes, want {card.lanes}: a "
            f"lane of the cable or transceiver is bad; if that is right, write lanes: {found.lanes}"
        )
    if card.numa is not None and found.numa is not None and found.numa != card.numa:
        yield Misplaced(
            f"{card.where} is on NUMA node {found.numa}, and the file says {card.numa}: was it "
            f"moved? Write numa: {found.numa}"
        )


def _judge_gpus(
    expected: Placement, card: ExpectedCard, found: CardFact, look: HostLook
) -> Iterator[Misplaced]:
    for pci in card.gpu_pci:
        gpu = look.gpu(pci)
        if gpu is None:
            yield Misplaced(
                f"there is no GPU at {pci}, which the file gives to {card.where}: `railyard "
                "discover` shows where the GPUs are"
            )
            continue
        steps = distance(gpu, found, look.nodes)
        allowed = Distance[card.gpu_path] if card.gpu_path else Distance.PHB
        if steps > allowed and (card.gpu_path or steps in _FAR):
            unknown = without_node(gpu, found) if steps == Distance.SYS else ""
            refused = expected.gpu_direct and steps == Distance.SYS and not unknown
            yield Misplaced(_far_gpu(card, pci, steps, allowed, unknown), refused)
    if expected.gpu_direct and not card.gpu_pci and look.gpus:
        nearest = min(distance(gpu, found, look.nodes) for gpu in look.gpus)
        if nearest == Distance.SYS:
            yield Misplaced(_no_gpu(card, without_node(found, *look.gpus)))


def _no_gpu(card: ExpectedCard, unknown: str) -> str:
    if unknown:
        return (
            f"GPUDirect RDMA over {card.rail} may go from one processor to the other: the system "
            f"tells no NUMA node of {unknown}; see the BIOS, or the virtual machine's NUMA nodes"
        )
    return (
        f"no GPU is on the NUMA node of {card.where}: GPUDirect RDMA over {card.rail} goes from "
        "one processor to the other; move the card to the GPUs' node"
    )


def _far_gpu(card: ExpectedCard, pci: str, steps: Distance, allowed: Distance, unknown: str) -> str:
    way = f"is {steps.name}"
    if unknown:
        way = f"may go from one processor to the other (the system tells no NUMA node of {unknown})"
    elif steps == Distance.SYS:
        way = "goes from one processor to the other"
    return (
        f"the way from the GPU at {pci} to {card.where} {way}, want {allowed.name} or nearer: put "
        "both on one switch chip or NUMA node, or run `railyard discover` and give the GPU to a "
        "nearer card (gpu_pci)"
    )
