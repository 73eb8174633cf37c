"""The PCIe tree of a lab host: host bridges, root ports, switch chips, and what is below them.

A bare machine is made like a DGX: each card shares a switch chip with its part of the GPUs of its
NUMA node. A guest, or an instance whose cloud hides the tree, has each device below a root port of
its own, so that every way leads through the host bridge. The bridges' numbers are the lab's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal

from lab.views import HostConfig

Relation = Literal["X", "PIX", "PXB", "PHB", "NODE", "SYS"]
ROOT_PORT: Final = ("8086", "6f04", "0x060400")
SWITCH_PORT: Final = ("10b5", "8747", "0x060400")
"""PCI ids of an Intel root port and of a PEX 8747 switch (pci.ids), and the class of a bridge."""
_PORTS: Final = 32
"""Device numbers of one bus: as many ports can a switch chip have in the lab."""


@dataclass(slots=True)
class _Tree:
    """One machine: functions by their slot, `0000:05:00`."""

    chains: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Slot to the bridges above it, from the root port down."""
    nodes: dict[str, int] = field(default_factory=dict[str, int])
    """Slot to its NUMA node."""


def has_bridges(config: HostConfig) -> bool:
    """Whether the machine is bare: its PCIe tree is the real one."""
    return not config.guest and all(hca.bare for hca in config.hcas)


def gpu_addresses(config: HostConfig) -> list[tuple[str, int]]:
    """PCI address and NUMA node of each GPU: half of them on each socket, as in a DGX-1."""
    half = (config.gpus + 1) // 2
    return [
        (f"0000:{(0x06 if i < half else 0x86) + i % half:02x}:00.0", int(i >= half))
        for i in range(config.gpus)
    ]


@cache
def _tree_of(config: HostConfig) -> _Tree:
    cards = {_slot(each.pci): each.numa for each in (*config.nics, *config.hcas)}
    gpus = {_slot(pci): numa for pci, numa in gpu_addresses(config)}
    tree = _Tree(nodes=cards | gpus)
    for node in sorted(set(tree.nodes.values())):
        on_node = [sorted(each for each in some if some[each] == node) for some in (cards, gpus)]
        bare = has_bridges(config)
        groups = _groups(*on_node) if bare else [[slot] for some in on_node for slot in some]
        for number, group in enumerate(groups):
            _add_group(tree, node, number, group, bare=bare)
    return tree


def _groups(cards: list[str], gpus: list[str]) -> list[list[str]]:
    """Each card with its part of the GPUs; GPUs without a card go by two."""
    if not cards:
        return [gpus[at : at + 2] for at in range(0, len(gpus), 2)]
    size = -(-len(gpus) // len(cards))
    return [[card, *gpus[at * size : (at + 1) * size]] for at, card in enumerate(cards)]


def _add_group(tree: _Tree, node: int, number: int, group: list[str], *, bare: bool) -> None:
    root = f"0000:{'80' if node else '00'}:{2 + number:02x}.0"
    bus = (0xF0 if node else 0xE0) + 2 * number
    taken: set[int] = set()
    for slot in group:
        port = int(slot.split(":")[1], 16) % _PORTS
        port = next(n % _PORTS for n in range(port, port + _PORTS) if n % _PORTS not in taken)
        taken.add(port)
        below = (f"0000:{bus:02x}:00.0", f"0000:{bus + 1:02x}:{port:02x}.0") if bare else ()
        tree.chains[slot] = (root, *below)


def _slot(pci: str) -> str:
    return pci.rpartition(".")[0]


def chain(config: HostConfig, pci: str, numa: int) -> tuple[str, ...]:
    """The bridges above a device, from the root port down.

    A card that was moved to a slot which the host did not have gets a root port of its own.
    """
    spare = f"0000:{'80' if numa else '00'}:1e.0"
    return _tree_of(config).chains.get(_slot(pci), (spare,))


def device_path(config: HostConfig, pci: str, numa: int, below: str | None = None) -> str:
    """Folder of a PCI device in /sys.

    Args:
        config: The host.
        pci: Its address.
        numa: NUMA node of its slot.
        below: The device whose slot it is in, for a VF; default itself.
    """
    bus = "80" if numa else "00"
    return "/".join((f"/devices/pci0000:{bus}", *chain(config, below or pci, numa), pci))


def all_bridges(config: HostConfig) -> dict[str, tuple[tuple[str, str, str], str, int]]:
    """Address to ids, folder in /sys and NUMA node of each bridge; none in a virtual machine."""
    found: dict[str, tuple[tuple[str, str, str], str, int]] = {}
    tree = _tree_of(config)
    for slot, bridges in tree.chains.items() if has_bridges(config) else ():
        numa = tree.nodes[slot]
        path = f"/devices/pci0000:{'80' if numa else '00'}"
        for level, bridge in enumerate(bridges):
            path = f"{path}/{bridge}"
            found[bridge] = (SWITCH_PORT if level else ROOT_PORT, path, numa)
    return found


def acs_bridges(config: HostConfig) -> list[str]:
    """The bridges with ACS: all but the upstream port of a switch."""
    upstream = {bridges[1] for bridges in _tree_of(config).chains.values() if len(bridges) > 1}
    return sorted(set(all_bridges(config)) - upstream)


def relation(config: HostConfig, one: str, other: str) -> Relation:
    """What `nvidia-smi topo -m` prints for two functions of the machine."""
    if one == other:
        return "X"
    here, there = (list(_above(config, pci)) for pci in (one, other))
    shared = [bridge for bridge in here if bridge in there]
    if not shared:
        nodes = _tree_of(config).nodes
        return "NODE" if nodes[_slot(one)] == nodes[_slot(other)] else "SYS"
    if len(shared) == 1:
        return "PHB"
    return "PIX" if max(len(here), len(there)) - len(shared) <= 1 else "PXB"


def _above(config: HostConfig, pci: str) -> Iterator[str]:
    """Host bridge and bridges over a function, the root first."""
    numa = _tree_of(config).nodes[_slot(pci)]
    yield "pci0000:80" if numa else "pci0000:00"
    yield from chain(config, pci, numa)
