"""Where a login stands in a configuration, and what the words of its lines may be.

Error texts: docs/explanation/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lab.switches.command_line import CliError, Grammar
from lab.switches.eos.config import Bgp, Config, Interface, Port, Queue
from lab.switches.text import expand

INVALID: Final = "% Invalid input"
GRAMMAR: Final = Grammar(
    places={
        "<int>": re.compile(r"\d+"),
        "<seconds>": re.compile(r"\d+(\.\d{1,3})?"),
        "<vlans>": re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*"),
        "<svi>": re.compile(r"(?:vlan|loopback)\d+", re.IGNORECASE),
        "<word>": re.compile(r"\S+"),
        "<time>": re.compile(r"\d{1,2}:\d{2}:\d{2}"),
        "<port>": re.compile(r"(?:et(?:h(?:e(?:r(?:n(?:et?)?)?)?)?)?)?\d+(/\d+)*", re.IGNORECASE),
    },
    unknown=INVALID,
    incomplete="% Incomplete command",
    ambiguous="% Ambiguous command",
)
_MAX_VLAN: Final = 4094


@dataclass(slots=True)
class Place:
    """Where a login stands in a configuration, from the outside in."""

    config: Config
    port: str | None = None
    queue: int | None = None
    vlans: tuple[int, ...] = ()
    interface: str | None = None
    """A loopback, or the routed interface of a VLAN."""
    router: bool = False
    family: bool = False
    maintenance: str = ""
    """`maintenance`, or the unit in it."""

    @property
    def is_inside(self) -> bool:
        """Whether it is in a mode below the configuration itself."""
        inner = (self.port, self.vlans, self.interface, self.router)
        return any(inner) or bool(self.maintenance)

    def held(self) -> Port:
        """The port that is being edited."""
        if self.port is None:
            raise CliError(INVALID)
        return self.config.ports[self.port]

    def held_queue(self) -> Queue:
        """The queue that is being edited."""
        return self.held().queues.setdefault(self.queue or 0, Queue())

    def held_interface(self) -> Interface | Port:
        """What is routed and being edited."""
        if self.interface is not None:
            return self.config.routing.interfaces[self.interface]
        return self.held()

    def held_bgp(self) -> Bgp:
        """BGP, which is being edited."""
        if self.config.routing.bgp is None:
            raise CliError(INVALID)
        return self.config.routing.bgp

    def known_port(self, text: str) -> str:
        """The whole name of a port; a CliError if there is none."""
        name = port_name(text)
        if name not in self.config.ports:
            raise CliError(INVALID)
        return name


def port_name(text: str) -> str:
    """`Et1/1`, `eth1/1` and `1/1` are `Ethernet1/1`."""
    return f"Ethernet{re.sub('^[A-Za-z]+', '', text)}"


def within(text: str, low: int, high: int) -> int:
    """A number in its range; a CliError if it is outside."""
    if not low <= int(text) <= high:
        raise CliError(INVALID)
    return int(text)


def between(low: int, high: int) -> Callable[[Place, str], int]:
    """A number in its range, as a row reads it."""
    return lambda _place, text: within(text, low, high)


def within_seconds(text: str, low: float, high: float) -> str:
    """A time in its range, as it was typed; a CliError if it is outside."""
    if not low <= float(text) <= high:
        raise CliError(INVALID)
    return text


def expand_within(text: str, low: int = 1, high: int = _MAX_VLAN) -> list[int]:
    """Spell out `10,111-112`, and `0 1 2` as the QoS maps have it.

    Raises:
        CliError: A number is out of range, or it is no list.
    """
    if not re.fullmatch(r"\d+(-\d+)?([, ]\d+(-\d+)?)*", text):
        raise CliError(INVALID)
    for number in re.findall(r"\d+", text):
        within(number, low, high)
    return [*expand(text.replace(" ", ","))]


def indent(lines: Iterable[str]) -> Iterator[str]:
    """One level deeper."""
    return (f"   {line}" for line in lines)
