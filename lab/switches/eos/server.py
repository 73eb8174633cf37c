"""`EosSwitch`: one emulated Arista EOS switch behind a real SSH server, with its sessions.

Sources: lab/sources.md#eos. Texts marked as guesses follow what public tools look for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from components.remote.ssh_library import asyncssh
from lab.switches.command_line import CliError
from lab.switches.eos.cli import Faults, Session
from lab.switches.eos.config import EOS_RELEASE, QUEUES, Config, ConfigSession, Place, Port, Stored
from lab.switches.eos.lines import class_of, render, tidy
from lab.switches.eos.links import factory_config, is_active, is_corrected
from lab.switches.eos.routing import router_view
from lab.switches.eos.show import carried, mtu_bytes
from lab.switches.front import front_of
from lab.switches.logins import KeyboardLogin, answer, serve_shell
from lab.switches.onyx.config import Mode, Trust
from lab.switches.plain_faults import by_hand, cable, pace, timer, type_by_hand
from lab.switches.ssh_switch import Process, SshSwitch, load_stored, show_parts
from lab.views import PortView, RouterView, SwitchConfig

_TRUST_VIEW: Final[dict[str | None, Trust]] = {"cos": "L2", "dscp": "L3", "none": "port"}
_KIB: Final = {"kbytes": 1024, "bytes": 1, "mbytes": 1024 * 1024}
"""Bytes in a unit; 1024 for EOS' kilobyte is a guess. Segments have no fixed size."""
_MORE: Final = " --More-- "


MAX_PENDING: Final = 5
"""`Maximum number of pending sessions: 5` (captures)."""
_TOO_MANY: Final = (
    "% Maximum number of pending sessions has been reached. "
    "Please commit or abort previous sessions before creating a new one."
)
"""Public tools look for `maximum number of pending sessions`; the rest is a guess."""


class ConfigSessions:
    """All configuration sessions of one switch; a reboot forgets them."""

    def __init__(self, stored: Stored, clock: Callable[[], float]) -> None:
        self._stored = stored
        self._clock = clock
        self.held: dict[str, ConfigSession] = {}

    def find_waiting(self) -> str | None:
        """The session that is in force but not confirmed."""
        waiting = (n for n, each in self.held.items() if each.state == "pendingCommitTimer")
        return next(waiting, None)

    def tick(self) -> None:
        """Revert a commit that was not confirmed in time."""
        name = self.find_waiting()
        if name is not None and self._clock() >= self.held[name].expires_at_s:
            self._take_back(name)

    def expire(self) -> bool:
        """End the timer now; returns whether one was running."""
        name = self.find_waiting()
        if name is not None:
            self._take_back(name)
        return name is not None

    def open(self, name: str, user: str) -> ConfigSession:
        """Enter a new session, or an old one that was left."""
        found = self.held.get(name)
        if found is None:
            pending = [each for each in self.held.values() if each.state == "pending"]
            if len(pending) >= MAX_PENDING:
                raise CliError(_TOO_MANY)
            candidate = self._stored.running.copied()
            found = self.held[name] = ConfigSession(candidate=candidate, user=user)
        elif found.state != "pending":
            raise CliError(f"% Cannot enter session {name}: {found.state}")  # words: a guess
        return found

    def commit(self, name: str, seconds: float | None) -> None:
        """Put a candidate into force, or confirm it."""
        found = self._find(name)
        waiting = self.find_waiting()
        if waiting not in {None, name}:
            # The words between are a guess.
            raise CliError(f"% Cannot commit: another session {waiting} is pending commit timer")
        if found.state == "pending":
            tidy(found.candidate)
            found.checkpoint = self._stored.running
            # The whole configuration: other changes since the session began are lost.
            self._stored.running = found.candidate.copied()
        elif found.state == "completed":
            raise CliError(f"% Session {name} is already completed")  # a guess
        if seconds is None:
            self._complete(name)
            return
        found.state, found.expires_at_s = "pendingCommitTimer", self._clock() + seconds
        self._stored.unconfirmed = found.checkpoint

    def abort(self, name: str) -> None:
        """Forget a candidate; if it is in force, revert it."""
        found = self._find(name)
        if found.state == "pendingCommitTimer":
            self._take_back(name)
        else:
            del self.held[name]

    def _find(self, name: str) -> ConfigSession:
        if name not in self.held:
            raise CliError(f"% Session {name} does not exist")  # a guess
        return self.held[name]

    def _complete(self, name: str) -> None:
        older = [n for n, each in self.held.items() if each.state == "completed"]
        for each in older:  # `Maximum number of completed sessions: 1`
            del self.held[each]
        self.held[name].state = "completed"
        self._stored.unconfirmed = None

    def _take_back(self, name: str) -> None:
        before = self.held.pop(name).checkpoint
        if before is not None:
            self._stored.running = before
        self._stored.unconfirmed = None


def _load(config: SwitchConfig, path: Path) -> Stored:
    def begin() -> Stored:
        factory = factory_config(config.name, config.model, (*config.cables, *config.links))
        return Stored(running=factory, startup=factory.copied())

    stored = load_stored(Stored, path, begin)
    if stored.unconfirmed is not None:  # its session is gone, so it cannot be confirmed
        stored.running, stored.unconfirmed = stored.unconfirmed, None
    return stored


_TRUST_LINE: Final = {"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"}


def _trust(switch: EosSwitch, values: list[str]) -> str:
    return type_by_hand(switch, f"interface {values[0]};{_TRUST_LINE[values[1]]}")


def _lock(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.locked_by = None if values[0] == "off" else values[0]
    return f"the configuration lock is held by {switch.faults.locked_by or 'nobody'}"


_FAULTS: Final[dict[str, Callable[[EosSwitch, list[str]], str]]] = {
    "mtu PORT BYTES": by_hand("interface {0};l2 mtu {1}"),
    "trust PORT L2|L3|port": _trust,
    "lock USER|off": _lock,
    "commit-timer": timer("commit"),
    "pace FACTOR|off": pace("assumed"),
    "cable PORT HOST NIC|off": cable,
}


class EosSwitch(SshSwitch[Stored, Faults]):
    """One emulated switch: state on disk, a command line over SSH, and faults on demand."""

    own_faults = _FAULTS
    factory_release = EOS_RELEASE
    planted_refusal = "% Internal error"  # planted, not modelled
    writes = re.compile("conf|write|copy|reload")
    denial = "% Authorization denied for command '{}'"

    def __init__(
        self, config: SwitchConfig, state_path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Load the state of last time, or the factory's; a UsageError if the model is unknown."""
        super().__init__(config, state_path, _load(config, state_path), Faults())
        self.config_sessions = self.waiting = ConfigSessions(self.stored, clock)
        self._logins: list[Session] = []

    @property
    def ports(self) -> Collection[str]:
        """The Ethernet ports."""
        return self.stored.running.ports

    def login(self) -> asyncssh.SSHServer:
        """Check the password of the only user."""
        return KeyboardLogin(self._config)

    def session(self) -> Session:
        """Open a new login."""
        return Session(self, self._config.user)

    def logins_in(self, name: str) -> int:
        """How many logins are in a configuration session."""
        return sum(login.config_session == name for login in self._logins)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        session = self.session()
        self._logins.append(session)
        try:
            if process.command is None:
                show = partial(self._print, process, session)
                await serve_shell(process, session, self.faults, show, self._config.enable_password)
            else:
                session.enabled = True
                output = await answer(session, self.faults, process.command)
                process.stdout.write(output)
                process.exit(1 if output.startswith("%") else 0)  # a guess
        finally:
            self._logins.remove(session)

    async def _print(self, process: Process, session: Session, output: str) -> None:
        """Print page by page while paging is on; any key but `q` continues."""
        lines = output.splitlines(keepends=True)
        height = session.height - 1
        if height < 1 or len(lines) <= height or process.get_terminal_type() is None:
            process.stdout.write(output)
            return
        channel = cast("asyncssh.SSHLineEditorChannel", process.channel)
        channel.set_line_mode(False)
        for start in range(0, len(lines), height):
            process.stdout.write("".join(lines[start : start + height]))
            if start + height >= len(lines):
                break
            process.stdout.write(_MORE)
            key = await process.stdin.read(1)
            process.stdout.write("\r\x1b[K")
            if key in {"q", ""}:
                break
        channel.set_line_mode(True)

    def save_configuration(self) -> None:
        """Make the running configuration the startup one; a full disk refuses (a guess)."""
        if self.faults.disk_full:
            raise CliError(
                "% Error copying system:/running-config to flash:/startup-config "
                "(No space left on device)"
            )
        self.stored.startup = self.stored.running.copied()
        self.commit()

    def reload(self) -> None:
        """Boot again: logins and configuration sessions end, and unsaved changes are lost."""
        self.stored.running = self.stored.startup.copied()
        self.stored.unconfirmed = None
        self.config_sessions.held.clear()
        self.commit()
        self.drop_sessions()

    reboot = reload

    def up(self, port: str) -> bool:
        """Whether a port has a link."""
        config, front = self.stored.running, front_of(self.model, "eos")
        held = config.ports[port]
        corrected = is_corrected(held, max(front.speeds_gbit_s), front.lanes)
        active = is_active(config, port, front.lanes)
        return not held.shutdown and self.has_cable(port) and corrected and active

    def speed(self, port: str) -> int:
        """Speed of a port in Gbit/s: the configured one, else the model's fastest."""
        said = self.stored.running.ports[port].speed
        if said:
            return int(said.removeprefix("auto ").partition("g")[0])
        return max(front_of(self.model, "eos").speeds_gbit_s)

    def run_line(self, line: str) -> str:
        """Run configuration lines, separated by `;`, as a person would; nothing is saved."""
        session = self.session()
        session.enabled, session.place = True, Place(self.stored.running)
        return "".join(session.run(part) for part in line.split(";"))

    def snapshot(self) -> JsonValue:
        """The configurations in canonical form: no counters, clocks or configuration sessions."""
        self.config_sessions.tick()
        parts = {"running": self.stored.running, "startup": self.stored.startup}
        return show_parts(parts, lambda part: render(part, self.model, self.release))

    def router_view(self) -> RouterView:
        """The switch's view of routing."""
        self.config_sessions.tick()
        return router_view(self._config.name, self.stored.running)

    def port_view(self, port: str) -> PortView:
        """The settings that affect a RoCE packet on this port; a UsageError if it is unknown."""
        self.config_sessions.tick()
        config = self.stored.running
        self.require_port(port)
        held = config.ports[port]
        mode, access, allowed = _membership(config, held)
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=not held.shutdown,
            oper_up=self.up(port),
            speed_gbit_s=self.speed(port),
            mtu_bytes=mtu_bytes(held),
            mode=mode,
            access_vlan=access,
            allowed_vlans=allowed,
            trust="L3" if held.routed and held.trust is None else _TRUST_VIEW.get(held.trust, "L2"),
            dscp_to_priority=tuple(class_of(config, dscp) for dscp in range(64)),
            priority_to_tc=tuple(config.class_queues.get(tc, tc) for tc in QUEUES),
            ecn_kib=_thresholds(held),
            pfc_priorities=frozenset(held.no_drop if held.pfc else ()),
        )


def _membership(config: Config, port: Port) -> tuple[Mode, int, frozenset[int]]:
    """Mode, untagged VLAN and tagged VLANs; a routed port is a trunk that carries nothing."""
    there = {*config.vlans}
    if port.routed:
        return "trunk", 0, frozenset()
    if port.mode == "access":
        return "access", port.access_vlan, frozenset()
    tagged = frozenset(carried(port) & there)
    if port.native_vlan in tagged:
        return "hybrid", port.native_vlan, tagged - {port.native_vlan}
    return "trunk", 0, tagged


def _thresholds(port: Port) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for number, queue in port.queues.items():
        marking = queue.marking
        if marking is not None and marking.unit in _KIB:
            size = _KIB[marking.unit]
            found[number] = (marking.minimum * size // 1024, marking.maximum * size // 1024)
    return found
