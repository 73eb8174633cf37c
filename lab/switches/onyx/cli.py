"""One command-line session: modes, prompts, and what one line prints.

Modes and prompts: docs/explanation/sources.md#onyx. The session knows nothing of SSH.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from lab.switches.indented import indented
from lab.switches.onyx.grammar import (
    CliError,
    Command,
    UnknownCommandError,
    expand_ports,
    match_command,
    split_words,
)
from lab.switches.onyx.show import Answer
from lab.switches.plain_faults import PlainFaults


class Switch(Protocol):
    """What a session needs of its switch."""

    @property
    def hostname(self) -> str:
        """As the prompt shows it."""
        ...

    @property
    def port_names(self) -> Iterable[str]:
        """Ethernet ports, whose mode may be entered."""
        ...

    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""
        ...

    def change(self, words: list[str]) -> None:
        """Run a configuration line, whole or not at all, and write the state to disk."""
        ...

    def note_unmodelled(self, line: str) -> None:
        """Record a line that nobody knows."""
        ...

    def save_configuration(self) -> None:
        """Make the running configuration the one that boots; may refuse (disk full)."""
        ...

    def reload(self) -> None:
        """Boot again, from the saved configuration."""
        ...

    def refuse(self, line: str) -> str | None:
        """The text with which a planted fault rejects this line, or None."""
        ...


class Mode(Enum):
    """Standard `>`, enable `#`, config `(config) #`."""

    STANDARD = auto()
    ENABLE = auto()
    CONFIG = auto()


@dataclass(slots=True)
class Session:
    """The state of one login."""

    switch: Switch
    mode: Mode = Mode.STANDARD
    context: str = ""
    """`interface ethernet 1/1` or `vlan 111` inside config mode."""
    paging: bool = True
    open: bool = True
    changes: int = 0
    """Configuration lines accepted so far, for the fault that drops a session."""

    def prompt(self) -> str:
        """The prompt, which tells the mode."""
        head = f"{self.switch.hostname} [standalone: master] "
        if self.mode is Mode.STANDARD:
            return f"{head}> "
        if self.mode is Mode.ENABLE:
            return f"{head}# "
        return f"{head}(config{' ' + self.context if self.context else ''}) # "

    def run(self, line: str) -> str:
        """Run one line and return what it prints, with a final newline if anything."""
        text = line.strip()
        if not text or text.startswith("#"):
            return ""
        try:
            return self._run(text)
        except UnknownCommandError as error:
            self.switch.note_unmodelled(text)
            return f"{error}\n"
        except CliError as error:
            return f"{error}\n"

    def _run(self, text: str) -> str:
        refusal = self.switch.refuse(text)
        if refusal is not None:
            raise CliError(refusal)
        body, *filters = [part.strip() for part in text.split(" | ")]
        words = split_words(body)
        if _abbreviates(words[0], "show"):
            return _filtered(self.switch.show(words), filters)
        tables = _SESSION_COMMANDS[self.mode]
        try:
            handler, values = match_command(tables, words)
        except UnknownCommandError:
            if self.mode is not Mode.CONFIG:
                raise
            return self._configure(words)
        return handler(self, values)

    def _configure(self, words: list[str]) -> str:
        """Run a configuration line: first within the context, then as a global one."""
        attempts = [_in_context(self.context, words), words] if self.context else [words]
        for attempt in attempts:
            try:
                self.switch.change(_move_no(attempt))
            except UnknownCommandError:
                if attempt is attempts[-1]:
                    raise
                continue
            break
        self.changes += 1
        # `vlan 111` also enters that VLAN (onyx_vlan.py).
        if len(words) == 2 and words[0] == "vlan":  # noqa: PLR2004 - `vlan N`
            self.context = f"vlan {words[1]}"
        return ""

    def enter_ports(self, values: list[str]) -> str:
        """`interface ethernet …` alone: enter that mode."""
        expand_ports(values[0], self.switch.port_names)
        self.context = f"interface ethernet {values[0]}"
        return ""

    def leave(self) -> str:
        """`exit`: one level up; at the top the session ends."""
        if self.context:
            self.context = ""
        elif self.mode is Mode.CONFIG:
            self.mode = Mode.ENABLE
        else:
            self.open = False
        return ""

    def set_mode(self, mode: Mode) -> str:
        """Change the mode at top level."""
        self.mode = mode
        return ""

    def set_paging(self, *, on: bool) -> str:
        """`[no] cli session paging enable`."""
        self.paging = on
        return ""

    def save(self) -> str:
        """`configuration write`."""
        self.switch.save_configuration()
        return ""

    def reload(self) -> str:
        """`reload`: the questions it may ask are a guess, so only the forced form is known."""
        self.open = False
        self.switch.reload()
        return ""


def _in_context(context: str, words: list[str]) -> list[str]:
    return [*context.split(), *words]


def _move_no(words: list[str]) -> list[str]:
    """`no interface ethernet 1/1 X` is another way to say `interface ethernet 1/1 no X`."""
    if words[:1] == ["no"] and len(words) > 4 and _abbreviates(words[1], "interface"):  # noqa: PLR2004
        return [*words[1:4], "no", *words[4:]]
    return words


def _abbreviates(word: str, full: str) -> bool:
    return len(word) > 1 and full.startswith(word)


_JSON: Final = "json-print"


def _filtered(answer: Answer, filters: list[str]) -> str:
    if _JSON in filters:
        if answer.data is None:
            raise UnknownCommandError('% Unrecognized command "json-print".\nType "?" for help.')
        return indented(answer.data)
    if answer.text is None:
        # No capture of the text form exists (sources.md#onyx-unknown) and nobody here needs it.
        raise UnknownCommandError('% Unrecognized command.\nType "?" for help.')
    text = answer.text
    for item in filters:
        word, _, pattern = item.partition(" ")
        if not _abbreviates(word, "include"):
            raise UnknownCommandError(f'% Unrecognized command "{word}".\nType "?" for help.')
        matcher = re.compile(pattern.strip().strip('"').replace("\\\\", "\\"))
        text = "".join(f"{line}\n" for line in text.splitlines() if matcher.search(line))
    return text


SessionHandler = Callable[[Session, list[str]], str]


def _table(forms: dict[str, SessionHandler]) -> tuple[Command[SessionHandler], ...]:
    return tuple(Command(tuple(pattern.split()), handler) for pattern, handler in forms.items())


def _length(_session: Session, values: list[str]) -> str:
    """`terminal length 0` is refused with exactly this text (netmiko #394)."""
    if not 5 <= int(values[0]) <= 999:  # noqa: PLR2004 - the range in the text
        raise CliError("% Please enter an integer between 5 and 999.")
    return ""


_ANYWHERE: Final[dict[str, SessionHandler]] = {
    "exit": lambda session, _: session.leave(),
    "no cli session paging enable": lambda session, _: session.set_paging(on=False),
    "cli session paging enable": lambda session, _: session.set_paging(on=True),
    "terminal length <int>": _length,
    "cli session terminal length <int>": _length,
    "terminal type <word>": lambda _session, _values: "",
}
_SAVING: Final[dict[str, SessionHandler]] = {
    "configuration write": lambda session, _: session.save(),
    "write memory": lambda session, _: session.save(),
    "reload force": lambda session, _: session.reload(),
    "reload noconfirm": lambda session, _: session.reload(),
}
_TO_ENABLE: Final[dict[str, SessionHandler]] = {
    "enable": lambda session, _: session.set_mode(Mode.ENABLE),
    "disable": lambda session, _: session.set_mode(Mode.STANDARD),
}
_TO_CONFIG: Final[dict[str, SessionHandler]] = {
    # `enable` in enable mode changes nothing; bare `configure` is incomplete (sonic-mgmt PR 841).
    "enable": lambda _session, _values: "",
    "disable": lambda session, _: session.set_mode(Mode.STANDARD),
    "configure terminal": lambda session, _: session.set_mode(Mode.CONFIG),
}
_CONFIG: Final[dict[str, SessionHandler]] = {
    "interface ethernet <ports>": lambda session, values: session.enter_ports(values),
    "configure terminal": lambda session, _: session.set_mode(Mode.CONFIG),
    "enable": lambda _session, _values: "",
}
_SESSION_COMMANDS: Final = {
    Mode.STANDARD: _table(_ANYWHERE | _TO_ENABLE),
    Mode.ENABLE: _table(_ANYWHERE | _TO_CONFIG | _SAVING),
    Mode.CONFIG: _table(_ANYWHERE | _CONFIG | _SAVING),
}


@dataclass(slots=True)
class Faults(PlainFaults):
    """What only Onyx and MLNX-OS have; public clients cap themselves at 5 sessions (capture C8)."""

    exit_status: int | None = None
    """Status of an exec; None sends none, as xCAT tolerates."""
