"""Who is really plugged where: LLDP's neighbours against the cables of the file. Pure.

Silence is no finding: LLDP may be off at either end, and many cards send none. Only a neighbour
that is another device than the file says is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict

from components.core.plain_text import one_line
from components.fabric.state import Neighbour
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch

_MAC: Final = re.compile(r"(?:[0-9a-f]{2}[:.-]?){5}[0-9a-f]{2}", re.IGNORECASE)
_LEAST: Final = 2
"""Wrong cables that make a switch another one: a single one is a plug in the wrong port."""
_PORT_PREFIX: Final = re.compile(r"^(?:Ethernet|Eth)(?=\d+/)", re.IGNORECASE)
"""Onyx calls its port 1/31 `Eth1/31` to others (a public client's fixture)."""


class CableEnd(BaseModel):
    """What the file says is plugged into a port."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    text: str
    """As the file has it: `gpu01/rail-0`, `leaf-02:1/31`."""
    system: str
    """Name of the host or switch."""
    ports: tuple[str, ...] = ()
    """Names of its port: a network device, or the port of a switch."""


def plan_cables(spec: ClusterSpec, switch: Switch) -> dict[str, CableEnd]:
    """The cables of one switch, by port."""
    found: dict[str, CableEnd] = {}
    for name, port in switch.ports.items():
        if port.peer is not None:
            system, far = port.peer
            found[name] = CableEnd(text=port.to, system=system, ports=(far,))
            continue
        system, _, rail = port.to.partition("/")
        host = spec.host(system)
        devices = tuple(nic.netdev for nic in host.nics if nic.rail == rail) if host else ()
        found[name] = CableEnd(text=port.to, system=system, ports=devices)
    return found


def find_wrong_cables(
    cables: Mapping[str, CableEnd], neighbours: Mapping[str, Neighbour] | None
) -> tuple[str, ...]:
    """Each port whose neighbour is another device than the file says, in words."""
    return tuple(_wrong_cables(cables, neighbours or {}))


def contradictions(
    cables: Mapping[str, CableEnd], neighbours: Mapping[str, Neighbour] | None
) -> tuple[str, ...]:
    """The wrong cables of a switch that has mostly wrong ones; it may be another switch.

    They count if they are more than half of the ports that hear a neighbour, and at least two.
    """
    wrong = find_wrong_cables(cables, neighbours)
    heard = [port for port, seen in (neighbours or {}).items() if port in cables and seen.system]
    return wrong if len(wrong) >= _LEAST and 2 * len(wrong) > len(heard) else ()


def _wrong_cables(
    cables: Mapping[str, CableEnd], neighbours: Mapping[str, Neighbour]
) -> Iterator[str]:
    for port, cable in cables.items():
        seen = neighbours.get(port)
        if seen is None or not seen.system or _fits(cable, seen):
            continue
        name = _shown_port(seen)
        there = one_line(f"{_short(seen.system)} {name}".strip())
        yield f"port {port}: {there} is plugged in, the file says {cable.text}"


def _fits(cable: CableEnd, seen: Neighbour) -> bool:
    if _short(seen.system) != _short(cable.system):
        return False
    names = {name for name in (_plain_port(seen.port), _plain_port(seen.description)) if name}
    # A host that tells a MAC address alone has said which machine it is, and no more.
    return not names or not cable.ports or not names.isdisjoint(map(_plain_port, cable.ports))


def _short(system: str) -> str:
    return system.partition(".")[0].lower()


def _plain_port(text: str) -> str:
    """A port's name without what systems put before it; blank for a MAC address or a sentence."""
    name = text.strip()
    if _MAC.fullmatch(name) or " " in name:
        return ""
    return _PORT_PREFIX.sub("", name)


def _shown_port(seen: Neighbour) -> str:
    """The port's name for people; lldpd on Linux has it in the description, a MAC in the port."""
    names = (text.strip() for text in (seen.port, seen.description))
    return next((name for name in names if _plain_port(name)), "")
