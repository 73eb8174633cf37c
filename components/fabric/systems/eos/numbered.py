"""BGP neighbours of an EOS switch that are addresses, on links with a /31: read, and set. Pure.

IPv4 is carried by default; a switch with `no bgp default ipv4-unicast` activates each neighbour
(aristanetworks/avd). Each has its own lines, and leaves with all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.fabric.state import BgpState

FAMILY: Final = "address-family ipv4"
WITHIN: Final = " | "
"""Between an address family and a line in it."""
_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-f]*:[\da-f:.]*")
_NUMBER: Final = re.compile(r"neighbor (\S+) remote-as (\S+)")
_BY_HAND: Final = "no bgp default ipv4-unicast"
_MARK: Final = "description RAILYARD"
"""By it a neighbour of ours is known where another number would end those of others."""
_KINDS: Final = ("remote-as", "description", "bfd", "activate")


def is_address(name: str) -> bool:
    """Whether a neighbour is no port."""
    return _ADDRESS.fullmatch(name) is not None


def read_addresses(lines: tuple[str, ...]) -> dict[str, str]:
    """Address of each neighbour to its number; empty where it is shut, or carries no IPv4."""
    found = [match for line in lines if (match := _NUMBER.fullmatch(line))]
    return {
        match[1]: match[2] if _works(match[1], lines) else ""
        for match in found
        if is_address(match[1])
    }


def _works(address: str, lines: tuple[str, ...]) -> bool:
    head = f"neighbor {address}"
    active = _BY_HAND not in lines or f"{FAMILY}{WITHIN}{head} activate" in lines
    shut = f"{head} shutdown" in lines or f"{FAMILY}{WITHIN}no {head} activate" in lines
    return active and not shut


def has_bfd(address: str, lines: tuple[str, ...]) -> bool:
    """Whether its loss is noticed by BFD."""
    return f"neighbor {address} bfd" in lines


def is_ours(line: str, lines: tuple[str, ...]) -> bool:
    """Whether a line is of a neighbour that bears our name, and of a kind that we write."""
    own = _own(line).split()
    if len(own) < len(_KINDS) - 1 or own[0] != "neighbor" or own[2] not in _KINDS:
        return False
    return f"neighbor {own[1]} {_MARK}" in lines


def address_lines(
    was: BgpState,
    wanted: BgpState,
    held: tuple[str, ...],
    recorded: tuple[str, ...],
    *,
    in_family: bool,
) -> Iterator[str]:
    """The lines of neighbours that differ; one that goes takes all of its own along."""
    for name in filter(is_address, {**was.neighbors, **wanted.neighbors}):
        if _of(was, name) == _of(wanted, name):
            continue
        if name not in wanted.neighbors:
            if not in_family:
                yield f"no neighbor {name}"
            continue
        now, aim = _lines(held, name), _aim(name, wanted, held, recorded)
        changes = [f"no {_own(line)}" for line in now if line not in aim and _is(line, in_family)]
        changes += [_own(line) for line in aim if line not in now and _is(line, in_family)]
        # Another number is written over the one before.
        yield from (line for line in changes if not line.startswith(f"no neighbor {name} remote-"))


def _of(bgp: BgpState, name: str) -> tuple[str | None, bool]:
    return bgp.neighbors.get(name), name in bgp.bfd


def _own(line: str) -> str:
    return line.rpartition(WITHIN)[2]


def _is(line: str, in_family: bool) -> bool:  # noqa: FBT001 - which of two places
    return (WITHIN in line) == in_family


def _lines(lines: tuple[str, ...], name: str) -> list[str]:
    return [line for line in lines if _own(line).startswith(f"neighbor {name} ")]


def _aim(
    name: str, wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> list[str]:
    """Its lines as they shall be: those of before where that is what is wanted."""
    before = BgpState(
        neighbors=read_addresses(recorded), bfd=(name,) if has_bfd(name, recorded) else ()
    )
    if name in before.neighbors and _of(before, name) == _of(wanted, name):
        return _lines(recorded, name)
    described = any(line.startswith(f"neighbor {name} description ") for line in held)
    ours = [f"neighbor {name} remote-as {wanted.neighbors[name]}"]
    ours += [] if described else [f"neighbor {name} {_MARK}"]
    ours += [f"neighbor {name} bfd"] if name in wanted.bfd else []
    ours += [f"{FAMILY}{WITHIN}neighbor {name} activate"] if _BY_HAND in held else []
    ending = (" shutdown", " bfd", " activate")
    others = (line for line in _lines(held, name) if not line.endswith(ending))
    return [*ours, *(line for line in others if " remote-as " not in line)]
