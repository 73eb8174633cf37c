"""`OnyxSwitch`: one emulated Mellanox Onyx switch behind a real SSH server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, cast

import asyncssh
from pydantic import JsonValue

from components.errors import UsageError
from lab.switches.onyx.cli import Faults, Mode, Session
from lab.switches.onyx.config import (
    PORTS_BY_MODEL,
    PortCounters,
    RoceMode,
    Stored,
    apply_roce,
    factory_config,
)
from lab.switches.onyx.configure import COMMANDS
from lab.switches.onyx.faults import (
    SESSION_FAULT_HELP,
    SESSION_FAULTS,
    is_full,
    is_on,
    type_by_hand,
)
from lab.switches.onyx.grammar import CliError, match_command
from lab.switches.onyx.login import KeyboardLogin
from lab.switches.onyx.running_config import render_running_config
from lab.switches.onyx.show import SHOW_COMMANDS, Answer, Device
from lab.switches.onyx.show_ports import oper_up
from lab.switches.onyx.terminal import serve
from lab.switches.ssh_switch import Process, SshSwitch
from lab.views import PortView, SwitchConfig

BANNER = "Mellanox Onyx Switch Management\n"
"""Before the login (oxidized's simulation)."""
KIB_PER_KB = 1
"""Onyx writes KB and means 1024 bytes, as its 150/1500 KB defaults of `roce` are used as KiB."""
FAULT_HELP = (
    "mtu PORT BYTES | trust PORT L2|L3|both|port | link-down PORT on|off | cli LINE… | "
    f"{SESSION_FAULT_HELP} | roce MODE | cable PORT HOST NIC|off"
)


def _load(config: SwitchConfig, path: Path) -> Stored:
    if path.exists():
        return Stored.model_validate_json(path.read_text())
    if config.name == "":
        raise UsageError("a lab switch needs a name")
    factory = factory_config(config.name, config.model)
    return Stored(running=factory, saved=factory.model_copy(deep=True))


class OnyxSwitch(SshSwitch[Stored]):
    """One emulated switch: state on disk, a command line over SSH, and faults on demand."""

    line_editor = False

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        super().__init__(config, state_path, _load(config, state_path))
        self.faults = Faults()

    def login(self) -> asyncssh.SSHServer:
        """The one user's password."""
        return KeyboardLogin(self._config, BANNER)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        if is_full(process, self.faults, self.sessions):
            return
        await serve(process, Session(self, paging=self.stored.running.paging), self.faults)

    def save_configuration(self) -> None:
        """Make the running configuration the one that boots.

        Raises:
            CliError: The planted fault "disk full" (its wording is a guess).
        """
        if self.faults.disk_full:
            raise CliError("% Failed to save configuration: No space left on device")
        self.stored.saved = self.stored.running.model_copy(deep=True)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end and what was not saved is lost."""
        self.stored.running = self.stored.saved.model_copy(deep=True)
        self.commit()
        self.drop_sessions()

    reboot = reload

    def refuse(self, line: str) -> str | None:
        """The planted refusal of a line, or None."""
        if any(text in line for text in self.faults.reject):
            return "% Internal error: the command failed"  # planted, not modelled
        return None

    @property
    def hostname(self) -> str:
        """As the prompt shows it."""
        return self.stored.running.hostname

    @property
    def port_names(self) -> Iterable[str]:
        """The Ethernet ports."""
        return self.stored.running.ports

    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""
        # `show interface` is taken for `show interfaces` by the abbreviation rule.
        handler, values = match_command(SHOW_COMMANDS, words)
        return handler(self.device(), values)

    def change(self, words: list[str]) -> None:
        """Run a configuration line, whole or not at all."""
        handler, values = match_command(COMMANDS, words)
        before = self.stored.running.model_copy(deep=True)
        try:
            handler(self.stored, values)
        except CliError:
            self.stored.running = before
            raise
        self.commit()

    def note_unmodelled(self, line: str) -> None:
        """Record a line that nobody knows."""
        self.stored.unmodelled.append(line)
        self.commit()

    def device(self) -> Device:
        """The view that show commands get."""
        return Device(self.stored, self._config.model, self.cabled, self.plugged)

    def run_line(self, line: str) -> str:
        """Run a configuration line as somebody at the console would; nothing is saved."""
        return Session(self, Mode.CONFIG, paging=False).run(line)

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or do by hand what a person might.

        Args:
            args: For example `mtu 1/2 1500`; see FAULT_HELP.

        Returns:
            What was done, in words.

        Raises:
            UsageError: The fault is unknown or its values are wrong.
        """
        verb, values = (args[0], list(args[1:])) if args else ("", [])
        if verb not in {*_FAULTS, *SESSION_FAULTS}:
            raise UsageError(f"{self._config.name} has no fault {verb!r}; it has: {FAULT_HELP}")
        try:
            if verb in _FAULTS:
                done = _FAULTS[verb](self, values)
            else:
                done = SESSION_FAULTS[verb](self.faults, values)
        except (IndexError, ValueError) as error:
            raise UsageError(f"fault {verb}: {error}; expected: {FAULT_HELP}") from error
        self.commit()
        return f"{self._config.name}: {done}"

    def snapshot(self) -> JsonValue:
        """The running and the saved configuration, canonical: no counters, no clocks."""
        stored = self.stored
        parts = {"running": stored.running, "saved": stored.saved}
        shown: dict[str, JsonValue] = {}
        for name, part in parts.items():
            dump = cast("JsonValue", json.loads(part.model_dump_json()))
            shown[name] = {"config": dump, "text": render_running_config(part)}
        return shown

    def port_view(self, port: str) -> PortView:
        """What decides about a RoCE packet on this port.

        Raises:
            UsageError: The switch has no such port.
        """
        config = self.stored.running
        if port not in config.ports:
            raise UsageError(f"{self._config.name} has no port {port!r}")
        held = config.ports[port]
        vlans = frozenset(config.vlans)
        allowed = vlans if held.allowed_vlans == "all" else vlans & {*held.allowed_vlans}
        paused = config.roce == "lossless" or held.pfc
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=held.admin_up,
            oper_up=oper_up(self.stored, self.cabled, port),
            speed_gbit_s=PORTS_BY_MODEL[self._config.model][1],
            mtu_bytes=held.mtu_bytes,
            mode=held.mode,
            access_vlan=held.access_vlan,
            allowed_vlans=frozenset() if held.mode == "access" else allowed,
            trust=held.trust,
            dscp_to_priority=tuple(dscp // 8 for dscp in range(64)),
            priority_to_tc=tuple(range(8)),
            ecn_kib={
                tc: (entry.minimum * KIB_PER_KB, entry.maximum * KIB_PER_KB)
                for tc, entry in held.congestion.items()
                if entry.unit == "KB" and entry.kind in {"ecn", "both"}
            },
            pfc_priorities=frozenset(
                config.pfc_priorities if config.pfc_enabled and paused else ()
            ),
        )

    def add_counters(
        self,
        port: str,
        tc: int,
        rx_bytes: int = 0,
        tx_bytes: int = 0,
        ecn_marked: int = 0,
    ) -> None:
        """Move the counters of a port.

        Args:
            port: For example `1/1`.
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


def _by_hand(template: str) -> Callable[[OnyxSwitch, list[str]], str]:
    return lambda switch, values: type_by_hand(switch, template.format(*values))


def _link_down(switch: OnyxSwitch, values: list[str]) -> str:
    port, on = values[0], is_on(values[1] if len(values) > 1 else "on")
    switch.port_view(port)
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


def _roce(switch: OnyxSwitch, values: list[str]) -> str:
    if values[0] not in {"none", "lossless", "semi-lossless", "lossy"}:
        raise ValueError(f"{values[0]!r} is no RoCE mode")
    apply_roce(switch.stored.running, cast("RoceMode", values[0]))
    return f"roce {values[0]} was typed by hand and not saved"


def _cable(switch: OnyxSwitch, values: list[str]) -> str:
    switch.port_view(values[0])
    return switch.recable(values[0], values[1:])


_FAULTS: Final[dict[str, Callable[[OnyxSwitch, list[str]], str]]] = {
    "mtu": _by_hand("interface ethernet {0} mtu {1} force"),
    "trust": _by_hand("interface ethernet {0} qos trust {1}"),
    "cli": lambda switch, values: type_by_hand(switch, " ".join(values)),
    "link-down": _link_down,
    "roce": _roce,
    "cable": _cable,
}
