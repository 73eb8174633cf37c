"""One login: bash with few commands except `nv`, and the output of one line.

Sources: lab/sources.md#cumulus. The session does not use SSH itself.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.switches import neighbours
from lab.switches.cumulus import show
from lab.switches.cumulus.config import NV_S
from lab.switches.cumulus.conflicts import names_of
from lab.switches.cumulus.nvue import SINCE, change_tree, read_patch
from lab.switches.cumulus.revisions import parse_apply
from lab.switches.cumulus.values import NvueError
from lab.switches.shell import BUILTINS, NOT_FOUND, BashLogin, Output
from lab.switches.text import numbers

if TYPE_CHECKING:
    from lab.switches.cumulus.server import CumulusSwitch

_NVUE: Final = (5, 0)
_NV: Final = re.compile(r"(?:^|;|&&)\s*nv ", re.MULTILINE)


@dataclass(slots=True, eq=False)
class Session(BashLogin):
    """The state of one login."""

    user: str = "cumulus"

    def prompt(self) -> str:
        """The prompt of bash on Cumulus: a login lands in the management VRF."""
        return f"{self.user}@{self.host}:mgmt:~$ "

    def run(self, line: str) -> str:
        """Run commands, one after the other, and return their output."""
        return "".join(BashLogin.run(self, each) for each in line.splitlines())

    def run_words(self, words: list[str], given: str = "") -> Output:
        """Run one simple command; none of them reads a pipe."""
        del given
        name, text = words[0], " ".join(words)
        plain = [word for word in words[1:] if word != "-n"] if name == "sudo" else words
        if plain[0] in {"ls", "mkdir", "rmdir"}:
            return self.folders(plain, root=plain != words and not self.switch.faults.read_only)
        if name == "sudo" and plain[0] == "vtysh":
            return self.vtysh(plain[1:])
        if name in _BUILTINS:
            return _BUILTINS[name](self, words[1:])
        # 4.4 has NVUE as early access, switched off; older releases lack it.
        if name != "nv" or numbers(self.switch.release) < _NVUE:
            self.switch.note_unmodelled(text)
            return f"-bash: {name}: command not found", NOT_FOUND
        try:
            return self._nv(text, words[1:]), 0
        except NvueError as error:
            return str(error), 1

    def _nv(self, text: str, words: list[str]) -> str:
        refusal = self.switch.refuse(text)
        if refusal is not None:
            raise NvueError(refusal)
        self.switch.revisions.tick()
        if words[:1] in (["set"], ["unset"]) and words[1:]:
            return self._take([(words[0], words[1:])], typed=True)
        if words[:2] == ["config", "patch"]:
            return self._patch(words[2])
        if words[:2] == ["config", "apply"]:
            return self._apply(words[2:])
        asked = " ".join(words)
        for pattern, handler in _COMMANDS:
            found = re.fullmatch(pattern, asked)
            if found is not None:
                return handler(self, *found.groups())
        self.switch.note_unmodelled(text)
        raise NvueError(f"Error: Invalid parameter\n  '{asked}'")  # the second line is a guess

    def _patch(self, path: str) -> str:
        """`nv config patch FILE`: apply a whole document, or nothing (page "NVUE CLI")."""
        if path not in self.files:  # the words are a guess
            raise NvueError(f"Error: File not found: {path}")
        lines = read_patch(self.files[path])
        for verb, words in lines:
            refusal = self.switch.refuse(f"nv {verb} {' '.join(words)}")
            if refusal is not None:
                raise NvueError(refusal)
        return self._take(lines, typed=False)

    def _take(self, lines: Sequence[tuple[str, list[str]]], *, typed: bool) -> str:
        stored, begins = self.switch.stored, self.switch.stored.pending is None
        tree = copy.deepcopy(stored.applied if stored.pending is None else stored.pending)
        for verb, words in lines:
            names = names_of(tree, self.switch.front)
            change_tree(tree, verb, words, names, self.switch.release, typed=typed)
        stored.pending = tree
        self.changes += len(lines)
        self.switch.commit()
        return f"created [rev_id: {stored.revision + 1}]" if begins else ""

    async def wait_for(self, line: str) -> None:
        """Wait for each `nv`, which starts a program and asks a service."""
        commands = len(_NV.findall(line))
        if commands and self.switch.faults.pace:
            await asyncio.sleep(self.switch.faults.pace * commands * NV_S)

    def _apply(self, words: list[str]) -> str:
        """`nv config apply …`: apply the whole pending revision, or nothing."""
        pending = self.switch.stored.pending
        try:
            printed = self.switch.revisions.run(parse_apply(words))
        finally:
            self.switch.commit()
        self.changes += pending is not None and self.switch.stored.pending is None
        return printed


def _revisions(session: Session) -> str:
    if numbers(session.switch.release) < (5, 5):  # NVUE reference
        raise NvueError("Error: Invalid parameter\n  'revision'")
    return json.dumps(session.switch.revisions.show(), indent=2) + "\n"


def _detach(session: Session) -> str:
    """Drop the pending revision; it is a guess that this prints nothing without one."""
    stored = session.switch.stored
    if stored.pending is None:
        return ""
    stored.pending = None
    session.switch.commit()
    return f"detached [rev_id: changeset/{session.user}/{stored.revision}]"


def _save(session: Session) -> str:
    session.switch.save_configuration()
    return "saved [rev_id: applied]"


def _gone(_session: Session) -> str:
    """Refuse a command of 5.8 that 5.9 removed (its release notes); the words are a guess."""
    raise NvueError("Error: Invalid parameter\n  'hardware'")


def _neighbors(session: Session) -> str:
    switch = session.switch
    view = switch.router_view()
    told = neighbours.ask_frr(switch.frr) if switch.frr is not None else switch.told().sessions
    return show.show_neighbors(view, neighbours.every_session(view, told))


def _of_port(
    make: Callable[[CumulusSwitch, str], str], since: tuple[int, ...] = ()
) -> Callable[[Session, str], str]:
    def answer(session: Session, port: str) -> str:
        if numbers(session.switch.release) < since:
            raise NvueError("Error: Invalid parameter\n  'pfc-watchdog'")
        if port not in session.switch.ports:
            raise NvueError(f"Error: {port} is not a physical interface on this switch")
        return make(session.switch, port)

    return answer


_JSON: Final = "(?:-o|--output) json"
_ASKED: Final[dict[str, Callable[[Session], str]]] = {
    rf"config show {_JSON}": lambda session: show.show_config(
        session.switch.stored.applied, session.switch.release
    ),
    r"config diff": lambda session: show.show_diff(session.switch.stored),
    r"config revision -o json": _revisions,
    r"config detach": _detach,
    r"config save": _save,
    r"show platform -o json": lambda session: show.show_platform(session.switch.model),
    r"show platform hardware -o json": _gone,
    r"show qos roce": lambda session: show.show_roce(
        session.switch.stored.applied, session.switch.release
    ),
    rf"show interface {_JSON}": lambda session: show.show_interfaces(session.switch),
    rf"show interface lldp {_JSON}": lambda session: show.show_lldp(session.switch.heard()),
    r"show vrf default router bgp neighbor -o json": _neighbors,
    r"show router bgp": lambda session: show.show_router(session.switch.stored),
}
_OF_PORT: Final = {
    r"show interface (\S+) qos roce counters -o json": _of_port(show.show_roce_counters),
    r"show interface (\S+) qos pfc-watchdog": _of_port(show.show_watchdog, SINCE["pfc-watchdog"]),
    r"show interface (\S+) counters qos -o json": _of_port(show.show_queue_counters),
}
_COMMANDS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (*_ASKED.items(), *_OF_PORT.items())


def _groups(session: Session, words: list[str]) -> Output:
    """`id -Gn` (page "User Accounts"): nvshow may only read, sudo may do everything."""
    group = "nvshow" if session.switch.faults.read_only else "sudo"
    if words != ["-Gn"]:
        return "id: invalid option\n", 1
    return f"{session.user} {group}\n", 0


_BUILTINS: Final[dict[str, Callable[[Session, list[str]], Output]]] = {
    **BUILTINS,
    "printf": lambda _session, words: (f"{words[1]}\n", 0),  # of `%s\n` and a text
    # Its default user is in the group sudo (page "User Accounts").
    "decode-syseeprom": lambda session, _: (show.show_eeprom(session.switch.chassis), 0),
    "id": _groups,
}
