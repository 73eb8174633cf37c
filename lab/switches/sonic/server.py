"""`SonicSwitch`: one emulated SONiC switch behind a real SSH server."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

import asyncssh
from pydantic import JsonValue

from components.errors import UsageError
from lab.switches.onyx.config import PortCounters
from lab.switches.sonic.cli import Faults, Session
from lab.switches.sonic.config import (
    SAVED_FILE,
    Db,
    Stored,
    factory_stored,
    platform_of,
)
from lab.switches.sonic.database import Database
from lab.switches.sonic.tools import CommandError, dump
from lab.switches.sonic.view import view_port
from lab.switches.ssh_switch import Process, SshSwitch, cut_connection
from lab.views import PortView, SwitchConfig

FAULT_HELP = (
    "mtu PORT BYTES | trust PORT L2|L3|both|port | link-down PORT on|off | cli LINE… | "
    "reject TEXT…|off | ignore TEXT…|off | drop LINES|off | slow SECONDS | sessions COUNT|off | "
    "disk-full on|off | lock USER|off | sudo-password on|off | cable PORT HOST NIC|off"
)


class _Login(asyncssh.SSHServer):
    """A password for the one user."""

    def __init__(self, config: SwitchConfig) -> None:
        self._config = config

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def password_auth_supported(self) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return False

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (self._config.user, self._config.password)


def _load(config: SwitchConfig, path: Path) -> Stored:
    platform_of(config.model)
    if path.exists():
        return Stored.model_validate_json(path.read_text())
    return factory_stored(config.name, config.model)


class SonicSwitch(SshSwitch[Stored]):
    """One emulated switch: state on disk, bash over SSH, and faults on demand."""

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        """Load the state of last time, or start from the factory's.

        Raises:
            UsageError: The lab does not know the model with SONiC.
        """
        super().__init__(config, state_path, _load(config, state_path))
        self.platform = platform_of(config.model)
        self.faults = Faults()
        self.database = Database(self.stored, self.platform)

    @property
    def name(self) -> str:
        """Host name."""
        return self._config.name

    def login(self) -> asyncssh.SSHServer:
        """The one user's password."""
        return _Login(self._config)

    def session(self) -> Session:
        """A new login."""
        return Session(self, self._config.name, self._config.user)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        limit = self.faults.sessions
        if limit is not None and self.sessions > limit:
            cut_connection(process)
            return
        session = self.session()
        if process.command is None:
            await self._serve_shell(process, session)
        else:
            process.stdout.write(await self._answer(session, process.command))
            process.exit(session.status)

    async def _serve_shell(self, process: Process, session: Session) -> None:
        process.stdout.write(f"Linux {self._config.name} 6.1.0-11-2-amd64 #1 SMP x86_64\n")
        process.stdout.write("Unauthorized access and/or use are prohibited.\n\n")
        process.stdout.write(session.prompt())
        async for line in process.stdin:
            process.stdout.write(await self._answer(session, line))
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

    def save_configuration(self, path: str) -> None:
        """Write the running configuration to a file.

        Raises:
            CommandError: The disk is full; the shell has cut the file short by then.
        """
        saved = path == SAVED_FILE
        if self.faults.disk_full:
            if saved:
                self.stored.saved = {}
            raise CommandError("OSError: [Errno 28] No space left on device", 1)
        if saved:
            self.stored.saved = copy.deepcopy(self.stored.running)
        else:
            self.stored.files[path] = dump(self.stored.running)
        self.commit()

    def load_configuration(self, db: Db) -> None:
        """Start anew with this configuration."""
        self.database.load(db)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end, and what was not saved is lost."""
        self.load_configuration(self.stored.saved)
        self.drop_sessions()

    reboot = reload

    def refuse(self, line: str) -> str | None:
        """The planted refusal of a command, or None."""
        found = next((text for text in self.faults.reject if text in line), None)
        return None if found is None else f"Error: refused: {found}"  # planted, not modelled

    def run_line(self, line: str) -> str:
        """Run a line as somebody at the console would; nothing is saved."""
        return self.session().run(line)

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or do by hand what a person might.

        Args:
            args: For example `mtu Ethernet8 1500`; see FAULT_HELP.

        Returns:
            What was done, in words.

        Raises:
            UsageError: The fault is unknown or its values are wrong.
        """
        verb, values = (args[0], list(args[1:])) if args else ("", [])
        handler = _FAULTS.get(verb)
        if handler is None:
            raise UsageError(f"{self._config.name} has no fault {verb!r}; it has: {FAULT_HELP}")
        try:
            done = handler(self, values)
        except (IndexError, KeyError, ValueError) as error:
            raise UsageError(f"fault {verb}: {error}; expected: {FAULT_HELP}") from error
        self.commit()
        return f"{self._config.name}: {done}"

    def snapshot(self) -> JsonValue:
        """Running and saved, canonical: no counters, no clocks."""
        parts = {"running": self.stored.running, "saved": self.stored.saved}
        return cast("JsonValue", json.loads(json.dumps(parts, sort_keys=True)))

    def port_view(self, port: str) -> PortView:
        """What decides about a RoCE packet on this port.

        Raises:
            UsageError: The switch has no such port.
        """
        if port not in self.stored.running["PORT"]:
            raise UsageError(f"{self._config.name} has no port {port!r}")
        return view_port(self, port)

    def add_counters(
        self, port: str, tc: int, rx_bytes: int = 0, tx_bytes: int = 0, ecn_marked: int = 0
    ) -> None:
        """Move the counters of a port.

        Args:
            port: For example `Ethernet0`.
            tc: Switch priority for `rx_bytes`, traffic class for the others.
            rx_bytes: Bytes received in that priority; no command of SONiC shows them.
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


def _by_hand(template: str) -> Callable[[SonicSwitch, list[str]], str]:
    def change(switch: SonicSwitch, values: list[str]) -> str:
        line, session = template.format(*values), switch.session()
        output = session.run(line)
        if session.status:
            raise ValueError(output.strip().splitlines()[-1])
        return f"`{line}` was typed by hand, and not saved"

    return change


def _on(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


_TRUST_MAPS: Final = {
    "L2": (False, True),
    "L3": (True, False),
    "both": (True, True),
    "port": (False, False),
}
"""Whether a port has a map of DSCPs, and one of the tag's priorities."""


def _set_trust(switch: SonicSwitch, values: list[str]) -> str:
    port, (dscp, dot1p) = values[0], _TRUST_MAPS[values[1]]
    switch.port_view(port)
    database = switch.database
    same = {str(n): str(n) for n in range(8)}
    for wanted, field, table, rows in (
        (dscp, "dscp_to_tc_map", "DSCP_TO_TC_MAP", {str(n): str(n // 8) for n in range(64)}),
        (dot1p, "dot1p_to_tc_map", "DOT1P_TO_TC_MAP", same),
    ):
        if wanted:
            database.put(table, "BY_HAND", rows)
            database.merge("PORT_QOS_MAP", port, {field: "BY_HAND"})
        else:
            database.delete_field("PORT_QOS_MAP", port, field)
    return f"{port} trusts {values[1]}"


def _link_down(switch: SonicSwitch, values: list[str]) -> str:
    port, on = values[0], _on(values[1] if len(values) > 1 else "on")
    switch.port_view(port)
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


def _reject(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.reject = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.reject} are refused"


def _ignore(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.ignore = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.ignore} are taken and do nothing"


def _drop(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.drop_after = None if values[0] == "off" else int(values[0])
    return f"the session drops after {values[0]} lines that change something"


def _slow(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.slow_s = float(values[0])
    return f"every answer waits {values[0]} s"


def _sessions(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.sessions = None if values[0] == "off" else int(values[0])
    return f"logins at once: {values[0]}"


def _disk_full(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.disk_full = _on(values[0])
    return f"disk full: {values[0]}"


def _lock(switch: SonicSwitch, values: list[str]) -> str:
    switch.stored.lock_owner = "" if values[0] == "off" else values[0]
    return f"the reload lock is held by {switch.stored.lock_owner or 'nobody'}"


def _sudo(switch: SonicSwitch, values: list[str]) -> str:
    switch.faults.sudo_password = _on(values[0])
    return f"sudo asks for a password: {values[0]}"


def _cable(switch: SonicSwitch, values: list[str]) -> str:
    switch.port_view(values[0])
    return switch.recable(values[0], values[1:])


_FAULTS: Final[dict[str, Callable[[SonicSwitch, list[str]], str]]] = {
    "mtu": _by_hand("sudo config interface mtu {0} {1}"),
    "trust": _set_trust,
    "cli": lambda switch, values: _by_hand("{0}")(switch, [" ".join(values)]),
    "link-down": _link_down,
    "reject": _reject,
    "ignore": _ignore,
    "drop": _drop,
    "slow": _slow,
    "sessions": _sessions,
    "disk-full": _disk_full,
    "lock": _lock,
    "sudo-password": _sudo,
    "cable": _cable,
}
