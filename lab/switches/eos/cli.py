"""One login: its modes, and what one line prints.

Sources: docs/explanation/sources.md#eos. The session knows nothing of SSH.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lab.switches.eos import show
from lab.switches.eos.commands import EXEC, IN_SESSION, LEAVING, USER, Context, Switch
from lab.switches.eos.configure import (
    CONFIG,
    PORT,
    QUEUE,
    VLAN,
    Place,
    tidy,
)
from lab.switches.eos.grammar import INVALID, Command, EosError, UnknownCommandError, run
from lab.switches.eos.link_lines import LINK
from lab.switches.eos.maintenance import MAINTENANCE, UNIT, UNITS
from lab.switches.eos.render import section
from lab.switches.eos.routing import FAMILY, GLOBAL, ROUTED, ROUTER
from lab.switches.plain_faults import PlainFaults

_EDITING: Final = (
    *(QUEUE, PORT, LINK, VLAN, CONFIG, ROUTED, FAMILY, ROUTER, GLOBAL, UNIT, UNITS, MAINTENANCE),
)
SHOWN_NAME: Final = 6
"""The prompt shows that many characters of a session's name: `(config-s-railya)`."""


@dataclass(slots=True)
class Faults(PlainFaults):
    """What only EOS has."""

    locked_by: str | None = None
    """Who else holds the configuration lock."""


LINE_S: Final = 0.1
COMMAND_S: Final = {
    "commit": 3.0,
    "configure session": 1.0,
    "show running-config": 1.0,
    "write": 2.0,
}
"""Seconds of a line at pace 1, and of commands that begin so. No public source has any: assumed."""


@dataclass(slots=True)
class Session:
    """The state of one login."""

    switch: Switch
    user: str = "admin"
    enabled: bool = False
    height: int = 24
    """Lines of the terminal; 0: no paging."""
    open: bool = True
    changes: int = 0
    place: Place | None = None
    config_session: str | None = None

    def prompt(self) -> str:
        """As `%H%R%v%P` gives it, EOS' default."""
        host = self.switch.stored.running.hostname
        if self.place is None:
            return f"{host}{'#' if self.enabled else '>'}"
        session = self.config_session
        where = "config" if session is None else f"config-s-{session[:SHOWN_NAME]}"
        return f"{host}({where}{''.join(_inside(self.place))})#"

    async def wait_for(self, line: str) -> None:
        """A command takes its time."""
        if self.switch.pace:
            longer = (each_s for head, each_s in COMMAND_S.items() if line.startswith(head))
            await asyncio.sleep(self.switch.pace * next(longer, LINE_S))

    def run(self, line: str) -> str:
        """Run one line and return what it prints."""
        self.switch.config_sessions.tick()
        text = line.strip()
        if not text or text.startswith("!"):
            return ""
        try:
            output = self.switch.refuse(text) or self._piped(text)
        except UnknownCommandError as error:
            self.switch.stored.unmodelled.append(text)
            self.switch.commit()
            output = str(error)
        except EosError as error:
            output = str(error)
        if self.config_session is None and not text.startswith("sh"):
            self.switch.commit()
        return output if not output or output.endswith("\n") else f"{output}\n"

    def _piped(self, text: str) -> str:
        head, _, filters = text.partition("|")
        wants_json = bool(re.match(r"\s*json\b", filters))
        output = self._dispatch(head.split(), wants_json=wants_json)
        return _filter(output, filters.strip())

    def _dispatch(self, words: list[str], *, wants_json: bool) -> str:
        for commands, place in self._levels():
            context = Context(self, place, wants_json=wants_json)
            try:
                target = place if commands in _EDITING else context
                output = run(commands, words, target)
            except UnknownCommandError:
                continue
            if commands in _EDITING and place is not None:
                self._edited(place)
            return output
        raise UnknownCommandError(INVALID)

    def _edited(self, place: Place) -> None:
        self.place = place
        self.changes += 1
        if self.config_session is None:
            tidy(self.switch.stored.running)

    def _levels(self) -> Sequence[tuple[tuple[Command, ...], Place | None]]:
        """The tables that a line is looked for in, the innermost first.

        A mode takes what the modes around it take, and leaves itself by that.
        """
        place = self.place
        levels: list[tuple[tuple[Command, ...], Place | None]] = []
        if place is not None:
            levels += _modes(place)
            levels.append((LEAVING, place))
            if self.config_session is not None:
                levels.append((IN_SESSION, place))
        levels.append((EXEC if self.enabled else USER, place))
        return levels

    def leave_config(self) -> None:
        """Back to where commands are run; a configuration session stays pending."""
        self.place, self.config_session = None, None


_MAINTENANCE: Final = {"maintenance": ("-maintenance",), "System": ("-builtin-unit-System",)}
"""Modes of maintenance in a prompt: a guess."""


def _inside(place: Place) -> Iterator[str]:
    """Where in a configuration a login stands, as its prompt shows it."""
    if place.vlans:
        yield f"-vlan-{place.vlans[0]}"
    if place.port is not None:
        yield f"-if-{show.short(place.port)}"
    if place.interface is not None:
        yield f"-if-{show.short_svi(place.interface)}"
    yield from _MAINTENANCE.get(place.maintenance, ())
    if place.router:
        yield "-router-bgp" + ("-af" if place.family else "")
    if place.queue is not None:
        yield f"-uc-txq-{place.queue}"


def _modes(place: Place) -> list[tuple[tuple[Command, ...], Place]]:
    """The modes of a configuration that a login is in, the innermost first."""
    config, port = place.config, place.port
    modes = (
        (QUEUE, place.queue is not None, Place(config, port, place.queue)),
        (PORT, port is not None, Place(config, port)),
        (LINK, port is not None, Place(config, port)),
        (ROUTED, port is not None, Place(config, port)),
        (ROUTED, place.interface is not None, Place(config, interface=place.interface)),
        (UNIT, place.maintenance == "System", Place(config, maintenance="System")),
        (UNITS, bool(place.maintenance), Place(config, maintenance="maintenance")),
        (FAMILY, place.family, Place(config, router=True, family=True)),
        (ROUTER, place.router, Place(config, router=True)),
        (VLAN, bool(place.vlans), Place(config, vlans=place.vlans)),
        (CONFIG, True, Place(config)),
        (GLOBAL, True, Place(config)),
        (MAINTENANCE, True, Place(config)),
    )
    return [(commands, inside) for commands, is_in, inside in modes if is_in]


def _filter(output: str, filters: str) -> str:
    verb, _, rest = filters.partition(" ")
    if verb == "section":  # takes the rest of the line, further pipes too (capture)
        return section(output, rest.replace("|", r"\|"))
    if verb == "include":
        pattern = rest.partition("|")[0].strip()
        return "".join(f"{line}\n" for line in output.splitlines() if re.search(pattern, line))
    if verb in {"", "json", "no-more"}:
        return output
    raise UnknownCommandError(INVALID)
