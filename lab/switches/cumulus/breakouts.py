"""Split ports of an emulated Cumulus switch: which ports there are, and what does not go together.

Source: the Cumulus Linux guide, page "Switch Port Attributes" (sources.md#cumulus).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.switches.cumulus.config import Tree, child
from lab.switches.front import Front


def parts_of(tree: Tree, whole: str) -> tuple[str, ...]:
    """The ports that are there in the place of one."""
    mode = next(iter(child(tree, "interface", whole, "link", "breakout")), "1x")
    if mode in {"1x", "disabled"}:
        return (whole,)
    return tuple(f"{whole}s{number}" for number in range(int(mode[0])))


def split_ports(tree: Tree, front: Front) -> Mapping[str, tuple[str, ...]]:
    """Whole port to its parts, for those that are split."""
    found = {whole: parts_of(tree, whole) for whole in _wholes(front)}
    return {whole: parts for whole, parts in found.items() if len(parts) > 1}


def ports_of(tree: Tree, front: Front) -> tuple[str, ...]:
    """The ports that there are: parts in place of their port, without those that a split blocks."""
    split = split_ports(tree, front)
    blocked = {*_blocked(split, front)}
    return tuple(
        name
        for whole in _wholes(front)
        if whole not in blocked
        for name in split.get(whole, (whole,))
    )


def names_of(tree: Tree, front: Front) -> tuple[str, ...]:
    """The names that NVUE takes: a port that is split keeps what is set of it as a whole."""
    split = split_ports(tree, front)
    return (*_wholes(front), *(part for parts in split.values() for part in parts))


def find_split_conflicts(tree: Tree, front: Front) -> Iterator[str]:
    """Why a revision is not valid; the wording of each is a guess, and so is all but the first."""
    split = split_ports(tree, front)
    interfaces = child(tree, "interface")
    for whole, parts in split.items():
        if front.split(int(whole[3:]), len(parts), "cumulus") is None:
            yield f"interface {whole}: breakout {len(parts)}x is not supported on this port"
        if {*child(interfaces, whole)} - {"link", "type"}:
            yield f"interface {whole}: a port with a breakout has settings of its own"
    for name in _blocked(split, front):
        if name in interfaces:
            yield f"interface {name}: it is disabled by the breakout of the port before it"
    known = {*names_of(tree, front)}
    for name in interfaces:
        if name.startswith("swp") and name not in known:
            yield f"interface {name}: there is no breakout that makes it"


def _blocked(split: Mapping[str, tuple[str, ...]], front: Front) -> Iterator[str]:
    """NVUE disables the port after one that is split in so many, by itself."""
    for whole, parts in split.items():
        number = int(whole[3:])
        form = front.split(number, len(parts), "cumulus")
        if form is not None and form.blocks_next:
            yield f"swp{number + 1}"


def _wholes(front: Front) -> tuple[str, ...]:
    return tuple(f"swp{number}" for number in range(1, front.ports + 1))
