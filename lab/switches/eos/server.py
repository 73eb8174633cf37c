"""`EosSwitch`: one emulated Arista EOS switch behind a real SSH server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

import asyncssh
from pydantic import JsonValue

from components.errors import UsageError
from lab.switches.eos.cli import Faults, Session
from lab.switches.eos.config import (
    PORTS_BY_MODEL,
    QUEUES,
    Config,
    Port,
    Stored,
    class_of,
    factory_config,
)
from lab.switches.eos.configure import Place
from lab.switches.eos.faults import FAULT_HELP, FAULTS
from lab.switches.eos.grammar import EosError
from lab.switches.eos.render import render
from lab.switches.eos.sessions import ConfigSessions
from lab.switches.eos.show import Device, carried, l2_mtu_bytes
from lab.switches.onyx.config import Mode, PortCounters, Trust
from lab.switches.ssh_switch import Process, SshSwitch, cut_connection
from lab.views import PortView, SwitchConfig

_TRUST_VIEW: Final[dict[str | None, Trust]] = {
    "cos": "L2",
    "dscp": "L3",
    "none": "port",
    None: "L2",
}
_KIB: Final = {"kbytes": 1024, "bytes": 1, "mbytes": 1024 * 1024}
"""Bytes in a unit; that EOS' kilobyte has 1024 is a guess. Segments have no fixed size."""
_MORE: Final = " --More-- "


class _Login(asyncssh.SSHServer):
    """EOS asks for the password by keyboard-interactive, its default."""

    def __init__(self, config: SwitchConfig) -> None:
        self._config = config

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def password_auth_supported(self) -> bool:
        return False

    def public_key_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, Sequence[tuple[str, bool]]]:
        del username, lang, submethods
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        return username == self._config.user and list(responses) == [self._config.password]


def _load(config: SwitchConfig, path: Path) -> Stored:
    if path.exists():
        stored = Stored.model_validate_json(path.read_text())
        if stored.unconfirmed is not None:  # nobody can confirm it any more
            stored.running, stored.unconfirmed = stored.unconfirmed, None
        return stored
    factory = factory_config(config.name, config.model, (*config.cables, *config.links))
    return Stored(running=factory, startup=factory.model_copy(deep=True))


class EosSwitch(SshSwitch[Stored]):
    """One emulated switch: state on disk, a command line over SSH, and faults on demand."""

    def __init__(
        self, config: SwitchConfig, state_path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Load the state of last time, or start from the factory's.

        Args:
            config: Of the lab file.
            state_path: Where the state is kept.
            clock: In seconds; a test lets it jump.

        Raises:
            UsageError: The lab does not know the model.
        """
        super().__init__(config, state_path, _load(config, state_path))
        self.faults = Faults()
        self.config_sessions = ConfigSessions(self.stored, clock)
        self._logins: list[Session] = []

    @property
    def locked_by(self) -> str | None:
        """Who holds the configuration lock."""
        return self.faults.locked_by

    def login(self) -> asyncssh.SSHServer:
        """The one user's password."""
        return _Login(self._config)

    def session(self) -> Session:
        """A new login."""
        return Session(self, self._config.user)

    def logins_in(self, name: str) -> int:
        """How many logins are in a configuration session."""
        return sum(login.config_session == name for login in self._logins)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        limit = self.faults.sessions
        if limit is not None and self.sessions > limit:
            cut_connection(process)  # `management ssh`, `connection limit`: sshd says nothing
            return
        session = self.session()
        self._logins.append(session)
        try:
            if process.command is None:
                await self._serve_shell(process, session)
            else:
                session.enabled = True
                output = await self._answer(session, process.command)
                process.stdout.write(output)
                process.exit(1 if output.startswith("%") else 0)  # a guess
        finally:
            self._logins.remove(session)

    async def _serve_shell(self, process: Process, session: Session) -> None:
        process.stdout.write(session.prompt())
        async for line in process.stdin:
            await self._print(process, session, await self._answer(session, line))
            drop = self.faults.drop_after
            if drop is not None and session.changes >= drop:
                self.faults.drop_after = None
                cut_connection(process)
                return
            if not session.open:
                break
            process.stdout.write(session.prompt())
        process.close()

    async def _answer(self, session: Session, line: str) -> str:
        if self.faults.slow_s:
            await asyncio.sleep(self.faults.slow_s)
        return session.run(line)

    async def _print(self, process: Process, session: Session, output: str) -> None:
        """Page by page while paging is on; any key but `q` goes on."""
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
        """Make the running configuration the one that boots.

        Raises:
            EosError: The planted fault "disk full" (its wording is a guess).
        """
        if self.faults.disk_full:
            raise EosError(
                "% Error copying system:/running-config to flash:/startup-config "
                "(No space left on device)"
            )
        self.stored.startup = self.stored.running.model_copy(deep=True)
        self.commit()

    def reload(self) -> None:
        """Boot again: logins and configuration sessions end, what was not saved is lost."""
        self.stored.running = self.stored.startup.model_copy(deep=True)
        self.stored.unconfirmed = None
        self.config_sessions.held.clear()
        self.commit()
        self.drop_sessions()

    reboot = reload

    def refuse(self, line: str) -> str | None:
        """The planted refusal of a line, or None."""
        if any(text in line for text in self.faults.reject):
            return "% Internal error"  # planted, not modelled
        return None

    def device(self) -> Device:
        """The view that show commands get."""
        speed = PORTS_BY_MODEL[self._config.model][1]
        return Device(self.stored, self._config.model, speed, self.cabled, self.plugged)

    def run_line(self, line: str) -> str:
        """Run configuration lines, `;` between them, as if by hand; nothing is saved."""
        session = self.session()
        session.enabled, session.place = True, Place(self.stored.running)
        return "".join(session.run(part) for part in line.split(";"))

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or do by hand what a person might.

        Args:
            args: For example `mtu Ethernet2/1 1500`; see FAULT_HELP.

        Returns:
            What was done, in words.

        Raises:
            UsageError: The fault is unknown or its values are wrong.
        """
        verb, values = (args[0], list(args[1:])) if args else ("", [])
        handler = FAULTS.get(verb)
        if handler is None:
            raise UsageError(f"{self._config.name} has no fault {verb!r}; it has: {FAULT_HELP}")
        try:
            done = handler(self, values)
        except (IndexError, KeyError, ValueError) as error:
            raise UsageError(f"fault {verb}: {error}; expected: {FAULT_HELP}") from error
        self.commit()
        return f"{self._config.name}: {done}"

    def snapshot(self) -> JsonValue:
        """The configurations, canonical: no counters, no clocks, no configuration sessions."""
        self.config_sessions.tick()
        parts = {"running": self.stored.running, "startup": self.stored.startup}
        shown: dict[str, JsonValue] = {}
        for name, part in parts.items():
            dump = cast("JsonValue", json.loads(part.model_dump_json()))
            shown[name] = {"config": dump, "text": render(part, self._config.model)}
        return shown

    def port_view(self, port: str) -> PortView:
        """What decides about a RoCE packet on this port.

        Raises:
            UsageError: The switch has no such port.
        """
        self.config_sessions.tick()
        config = self.stored.running
        if port not in config.ports:
            raise UsageError(f"{self._config.name} has no port {port!r}")
        held, device = config.ports[port], self.device()
        mode, access, allowed = _membership(config, held)
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=not held.shutdown,
            oper_up=device.up(port),
            speed_gbit_s=device.speed_gbit_s,
            mtu_bytes=l2_mtu_bytes(held),
            mode=mode,
            access_vlan=access,
            allowed_vlans=allowed,
            trust="L3" if held.routed and held.trust is None else _TRUST_VIEW[held.trust],
            dscp_to_priority=tuple(class_of(config, dscp) for dscp in range(64)),
            priority_to_tc=tuple(config.class_queues.get(tc, tc) for tc in QUEUES),
            ecn_kib=_thresholds(held),
            pfc_priorities=frozenset(held.no_drop if held.pfc else ()),
        )

    def add_counters(
        self, port: str, tc: int, rx_bytes: int = 0, tx_bytes: int = 0, ecn_marked: int = 0
    ) -> None:
        """Move the counters of a port.

        Args:
            port: For example `Ethernet1/1`.
            tc: Switch priority for `rx_bytes`, traffic class for the others.
            rx_bytes: Bytes received in that priority.
            tx_bytes: Bytes sent from that class.
            ecn_marked: Packets marked in that class.
        """
        held = self.stored.counters.setdefault(port, PortCounters())
        held.rx_bytes[tc] = held.rx_bytes.get(tc, 0) + rx_bytes
        held.tx_bytes[tc] = held.tx_bytes.get(tc, 0) + tx_bytes
        held.ecn_marked[tc] = held.ecn_marked.get(tc, 0) + ecn_marked
        self.commit()

    def add_discards(self, port: str, rx_discards: int) -> None:
        """Count received packets that the port threw away."""
        self.stored.counters.setdefault(port, PortCounters()).rx_discards += rx_discards
        self.commit()

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Lines that were sent and that this emulator does not know; a test fails on any."""
        return tuple(self.stored.unmodelled)


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
