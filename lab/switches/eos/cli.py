"""One login: its modes, the commands outside the configuration, and the output of one line.

Sources: lab/sources.md#eos. The session knows nothing of SSH.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.switches.command_line import CliError, Command, Grammar, UnknownCommandError, table
from lab.switches.eos import lines, routing, show
from lab.switches.eos.config import INVALID, Config, Place
from lab.switches.eos.lines import render, tidy
from lab.switches.plain_faults import PlainFaults

if TYPE_CHECKING:
    from lab.switches.eos.server import EosSwitch

_GRAMMAR: Final = Grammar(
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
SHOWN_NAME: Final = 6
"""The prompt shows that many characters of a session's name: `(config-s-railya)`."""


@dataclass(slots=True)
class Faults(PlainFaults):
    """Faults that only EOS has."""

    locked_by: str | None = None
    """Another user who holds the configuration lock."""


LINE_S: Final = 0.1
COMMAND_S: Final = {
    "commit": 3.0,
    "configure session": 1.0,
    "show running-config": 1.0,
    "write": 2.0,
}
"""Seconds of a line at pace 1, by its first words. Assumed, as no public source has any."""


@dataclass(slots=True)
class Session:
    """The state of one login."""

    switch: EosSwitch
    user: str = "admin"
    enabled: bool = False
    height: int = 24
    """Lines of the terminal; 0: no paging."""
    open: bool = True
    changes: int = 0
    place: Place | None = None
    config_session: str | None = None
    wants_json: bool = False
    """Whether the current line asks for JSON."""

    def prompt(self) -> str:
        """The prompt in EOS' default form, `%H%R%v%P`."""
        host = self.switch.stored.running.hostname
        if self.place is None:
            return f"{host}{'#' if self.enabled else '>'}"
        session = self.config_session
        where = "config" if session is None else f"config-s-{session[:SHOWN_NAME]}"
        inside = (
            MODES[mode][1].format(show.short(name.partition(",")[0]))
            for mode, name in self.place.modes
        )
        return f"{host}({where}{''.join(inside)})#"

    async def wait_for(self, line: str) -> None:
        """Wait as long as a real command takes."""
        if self.switch.faults.pace:
            longer = (each_s for head, each_s in COMMAND_S.items() if line.startswith(head))
            await asyncio.sleep(self.switch.faults.pace * next(longer, LINE_S))

    def run(self, line: str) -> str:
        """Run one line and return its output."""
        self.switch.config_sessions.tick()
        text = line.strip()
        if not text or text.startswith("!"):
            return ""
        try:
            output = self.switch.refuse(text) or self._piped(text)
        except UnknownCommandError as error:
            self.switch.note_unmodelled(text)
            output = str(error)
        except CliError as error:
            output = str(error)
        if self.config_session is None and not text.startswith("sh"):
            self.switch.commit()
        return output if not output or output.endswith("\n") else f"{output}\n"

    def _piped(self, text: str) -> str:
        head, _, filters = text.partition("|")
        self.wants_json = bool(re.match(r"\s*json\b", filters))
        return _filter(self._dispatch(head.split()), filters.strip())

    def _dispatch(self, words: list[str]) -> str:
        for commands, place in self._levels():
            try:
                handler, values = _GRAMMAR.find(commands, words)
                output = handler(place or self, *values) or ""
            except UnknownCommandError:
                continue
            if place is not None:
                self._edited(place)
            return output
        raise UnknownCommandError(INVALID)

    def _edited(self, place: Place) -> None:
        self.place = place
        self.changes += 1
        if self.config_session is None:
            tidy(self.switch.stored.running)

    def _levels(self) -> Iterator[tuple[tuple[Command, ...], Place | None]]:
        """The tables to search for a line, innermost mode first, each with the place that it edits.

        A mode also accepts the lines of the modes around it; such a line leaves the inner mode.
        """
        if self.place is not None:
            modes = self.place.modes
            for end in range(len(modes), -1, -1):
                mode = modes[end - 1][0] if end else ""
                yield MODES[mode][0], Place(self.place.config, modes[:end])
            yield LEAVING, None
            if self.config_session is not None:
                yield IN_SESSION, None
        yield (EXEC if self.enabled else USER), None

    def leave_config(self) -> None:
        """Leave the configuration; its session stays pending."""
        self.place, self.config_session = None, None


MODES: Final = {
    "": (lines.CONFIG, ""),
    "vlan": (lines.VLAN, "-vlan-{}"),
    "port": (lines.PORT, "-if-{}"),
    "queue": (lines.QUEUE, "-uc-txq-{}"),
    "svi": (routing.ROUTED, "-if-{}"),
    "maintenance": (lines.UNITS, "-maintenance"),
    "unit": (lines.UNIT, "-builtin-unit-{}"),
    "router": (routing.ROUTER, "-router-bgp"),
    "family": (routing.FAMILY, "-af"),
}
"""The lines of each configuration mode, and its part of the prompt; a guess for maintenance."""


def _filter(output: str, filters: str) -> str:
    verb, _, rest = filters.partition(" ")
    if verb == "section":  # takes the rest of the line, further pipes too (capture)
        return show.section(output, rest.replace("|", r"\|"))
    if verb == "include":
        pattern = rest.partition("|")[0].strip()
        return "".join(f"{line}\n" for line in output.splitlines() if re.search(pattern, line))
    if verb in {"", "json", "no-more"}:
        return output
    raise UnknownCommandError(INVALID)


def _exit(session: Session) -> None:
    place = session.place
    if place is None:
        session.open = False
    elif place.modes:
        place.modes = place.modes[:-1]
    else:
        session.leave_config()


def _require_unlocked(session: Session) -> None:
    holder = session.switch.faults.locked_by
    if holder is not None:  # words: a guess
        raise CliError(f"% Unable to acquire the configuration lock: held by {holder}")


def _configure(session: Session) -> None:
    _require_unlocked(session)
    session.place, session.config_session = Place(session.switch.stored.running), None


def _open_session(session: Session, name: str) -> None:
    _require_unlocked(session)
    found = session.switch.config_sessions.open(name, session.user)
    session.place, session.config_session = Place(found.candidate), name


def _commit_named(session: Session, name: str) -> None:
    _require_unlocked(session)
    session.switch.config_sessions.commit(name, None)


def _commit(session: Session, time: str = "") -> None:
    _require_unlocked(session)
    seconds = None
    if time:
        hours, minutes, rest = map(int, time.split(":"))
        seconds = float(hours * 3600 + minutes * 60 + rest)
    session.switch.config_sessions.commit(session.config_session or "", seconds)
    session.changes += 1
    session.leave_config()


def _abort(session: Session) -> None:
    session.switch.config_sessions.abort(session.config_session or "")
    session.leave_config()


def _text(session: Session, config: Config | None = None) -> str:
    switch = session.switch
    return render(config or switch.stored.running, switch.model, switch.release)


def _candidate(session: Session) -> str:
    return _text(session, session.place.config if session.place else None)


def _diffs(session: Session) -> str:
    return show.diff(_text(session), _candidate(session), session.config_session or "")


def _running_port(session: Session, text: str) -> str:
    name = Place(session.switch.stored.running).known_port(text)
    return show.section(_text(session), f"^interface {name}$")


def _save(session: Session) -> str:
    session.switch.save_configuration()
    return "Copy completed successfully."


def _tree(make: Callable[..., show.Tree]) -> Callable[..., str]:
    """A command that is only modelled with JSON."""

    def answer(session: Session, *names: str) -> str:
        if not session.wants_json:
            raise UnknownCommandError(INVALID)
        known = Place(session.switch.stored.running).known_port
        return show.as_json(make(session.switch, *map(known, names)))

    return answer


def _version(session: Session) -> str:
    if session.wants_json:
        raise UnknownCommandError(INVALID)
    return show.version(session.switch)


def _length(session: Session, count: str) -> str:
    session.height = int(count)
    return "Pagination disabled." if count == "0" else f"Pagination set to {count} lines."


_Plain = dict[str, Callable[[Session], str | None]]
_WithWord = dict[str, Callable[[Session, str], str | None]]
_ANYWHERE: Final[_Plain] = {
    "show version": _version,
    "enable": lambda session: setattr(session, "enabled", True),
    "exit": _exit,
    "logout": _exit,
}
_TERMINAL: Final[_WithWord] = {
    "terminal length <int>": _length,
    "terminal width <int>": lambda _, width: f"Width set to {width} columns.",
}
_ENABLED: Final[_Plain] = {
    "disable": lambda session: setattr(session, "enabled", False),
    "configure": _configure,
    "configure terminal": _configure,
    "show running-config": lambda session: f"! Command: show running-config\n{_text(session)}",
    "show running-config sanitized": lambda session: (
        f"! Command: show running-config\n{_text(session)}"
    ),
    "show startup-config": lambda session: _text(session, session.switch.stored.startup),
    "write": _save,
    "write memory": _save,
    "copy running-config startup-config": _save,
    "reload now": lambda session: session.switch.reload(),
}
_NAMED: Final[_WithWord] = {
    "configure session <word>": _open_session,
    "configure session <word> commit": _commit_named,
    "configure session <word> abort": lambda session, name: session.switch.config_sessions.abort(
        name
    ),
    "show running-config interfaces <port>": _running_port,
}
_COMMON: Final = (
    *(_ANYWHERE | {f"show {words}": _tree(make) for words, make in show.TREES.items()}).items(),
    *_TERMINAL.items(),
)
USER: Final = table(_COMMON)
EXEC: Final = table(
    (
        *(*_COMMON, *_ENABLED.items(), *_NAMED.items()),
        ("show configuration sessions", _tree(show.config_sessions)),
        ("show configuration sessions detail", _tree(show.config_sessions)),
    )
)
LEAVING: Final = table((("exit", _exit), ("end", Session.leave_config)))
IN_SESSION: Final = table(
    (
        ("show session-config", _candidate),
        ("show session-config diffs", _diffs),
        ("commit", _commit),
        ("commit timer <time>", _commit),
        ("abort", _abort),
    )
)
