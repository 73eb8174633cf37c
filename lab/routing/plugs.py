"""Which card is plugged into which port of a routed switch: pure, from what switches are cabled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.core.record import record

End = tuple[str, str]
"""A switch and its port, or a host and its network device."""
Plugs = Mapping[End, End]
"""Port of a switch to the device of a host."""


@record
class Cabling:
    """The cables of one switch to hosts."""

    switch: str
    planned: Mapping[str, End]
    """Port to host and device, as the lab file has them."""
    recabled: Mapping[str, End]
    """What a fault has plugged in instead."""


def plan_plugs(cablings: Iterable[Cabling]) -> dict[End, End]:
    """Every cable to a host; a device that is plugged elsewhere by mistake is not where it was.

    A device that is named by its PCI address is left out: LLDP does not tell one.
    """
    found: dict[End, End] = {}
    moved: dict[End, End] = {}
    for each in cablings:
        found |= {(each.switch, port): end for port, end in each.planned.items()}
        moved |= {
            (each.switch, port): end for port, end in each.recabled.items() if ":" not in end[1]
        }
    taken = {*moved.values()}
    kept = {port: end for port, end in found.items() if end not in taken and port not in moved}
    return kept | moved
