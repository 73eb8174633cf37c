"""How far GPUs and cards are from each other in the PCIe tree, and which go together. Pure.

The steps are those of `nvidia-smi topo -m`. Its program is not public; how a path is counted here
is derived from its legend and from NCCL, which reads the same paths and takes a switch chip (its
upstream and its downstream ports) as one step: lab/sources.md#pcie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Final

from components.hosts.look import HostLook, PciFunction

_ONE_SWITCH: Final = 1
"""Bridges below the common one: a switch chip's downstream port, and nothing further."""


class Distance(IntEnum):
    """How data gets from one PCI function to another, the shortest way first."""

    PIX = 0
    """Through one switch chip or bridge at most."""
    PXB = 1
    """Through several switch chips, not through the processor."""
    PHB = 2
    """Through the host bridge of the processor."""
    NODE = 3
    """From one host bridge to another of the same NUMA node."""
    SYS = 4
    """From one NUMA node to another, over the link between the processors; also where there are
    several and one is not known: `without_node`."""


def distance(one: PciFunction, other: PciFunction, nodes: int = 1) -> Distance:
    """How far two functions are apart.

    Args:
        one: A card or GPU.
        other: Another one.
        nodes: NUMA nodes of the machine; where there is one, all is on it.
    """
    both = zip(one.path, other.path, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
    if common == 0:
        near = nodes == 1 or (one.numa is not None and one.numa == other.numa)
        return Distance.NODE if near else Distance.SYS
    if common == 1:  # the host bridge alone
        return Distance.PHB
    below = max(len(one.path), len(other.path)) - common - 1
    return Distance.PIX if below <= _ONE_SWITCH else Distance.PXB


def without_node(*functions: PciFunction) -> str:
    """The addresses of those whose NUMA node the system does not tell: SYS is then a guess."""
    return " and ".join(each.pci for each in functions if each.numa is None)


@dataclass(frozen=True, slots=True)
class Pair:
    """A GPU and the card that it sends through."""

    gpu: str
    """PCI address of the GPU."""
    card: str
    """PCI address of the card."""
    distance: Distance


def assign_gpus(look: HostLook, cards: Iterable[str]) -> tuple[Pair, ...]:
    """Give each GPU its nearest card.

    Of equally near cards, the one that has the fewest GPUs, then by bus number; GPUs that are
    nearest to a card come first. Where there are more cards than GPUs, a card that is left gets the
    nearest GPU of its node with the fewest cards.

    Returns:
        The pairs by GPU and card; none where there are no cards.
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
    more = _left_cards(pairs, found) if len(functions) > len(look.gpus) else []
    return tuple(sorted([*found.values(), *more], key=lambda pair: (pair.gpu, pair.card)))


def _left_cards(pairs: list[tuple[Distance, str, str]], found: Mapping[str, Pair]) -> list[Pair]:
    more: list[Pair] = []
    used = {pair.card for pair in found.values() if pair.distance < Distance.SYS}
    load = Counter(pair.gpu for pair in found.values())
    near = [pair for pair in pairs if pair[0] < Distance.SYS]
    for card in sorted({card for _, _, card in near} - used):
        own = ((steps, load[gpu], gpu) for steps, gpu, each in near if each == card)
        steps, _, gpu = min(own)
        load[gpu] += 1
        more.append(Pair(gpu, card, steps))
    return more


def gpus_of(pairs: Iterable[Pair], card: str) -> tuple[str, ...]:
    """The GPUs of one card that are on its own NUMA node, by address."""
    return tuple(pair.gpu for pair in pairs if pair.card == card and pair.distance < Distance.SYS)


def matrix(look: HostLook) -> Mapping[tuple[str, str], Distance]:
    """The distance of each GPU to each card, by their addresses."""
    return {
        (gpu.pci, card.pci): distance(gpu, card, look.nodes)
        for gpu in look.gpus
        for card in look.cards
    }
