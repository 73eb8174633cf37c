"""`MlnxosSwitch`: one emulated InfiniBand switch behind a real SSH server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, cast

import asyncssh
from pydantic import JsonValue

from components.errors import UsageError
from lab.switches.mlnxos.config import Stored, factory_config
from lab.switches.mlnxos.configure import COMMANDS
from lab.switches.mlnxos.show import SHOW_COMMANDS, Device, render_running_config
from lab.switches.onyx.cli import Faults, Mode, Session
from lab.switches.onyx.faults import (
    SESSION_FAULT_HELP,
    SESSION_FAULTS,
    is_full,
    is_on,
    type_by_hand,
)
from lab.switches.onyx.grammar import CliError, match_command
from lab.switches.onyx.login import KeyboardLogin
from lab.switches.onyx.show import Answer
from lab.switches.onyx.terminal import serve
from lab.switches.ssh_switch import Process, SshSwitch
from lab.views import PartitionView, SubnetView, SwitchConfig

BANNER = "Mellanox MLNX-OS Switch Management\n"
FAULT_HELP = f"sm on|off | link-down PORT on|off | cli LINE… | {SESSION_FAULT_HELP}"


def _load(config: SwitchConfig, path: Path) -> Stored:
    if path.exists():
        return Stored.model_validate_json(path.read_text())
    factory = factory_config(config.name, config.model)
    return Stored(running=factory, saved=factory.model_copy(deep=True))


class MlnxosSwitch(SshSwitch[Stored]):
    """One emulated switch: state on disk, Onyx' command line over SSH, and faults on demand."""

    line_editor = False

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        """Load the state of last time, or start from the factory's.

        Raises:
            UsageError: The lab does not know the model.
        """
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

    @property
    def hostname(self) -> str:
        """As the prompt shows it."""
        return self.stored.running.hostname

    @property
    def port_names(self) -> Iterable[str]:
        """It has no Ethernet port."""
        return ()

    def device(self) -> Device:
        """The view that show commands get."""
        return Device(self.stored, self._config.model, self.cabled)

    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""
        handler, values = match_command(SHOW_COMMANDS, words)
        return handler(self.device(), values)

    def change(self, words: list[str]) -> None:
        """Run a configuration line, whole or not at all."""
        handler, values = match_command(COMMANDS, words)
        before = self.stored.running.model_copy(deep=True)
        try:
            handler(self.stored.running, values)
        except CliError:
            self.stored.running = before
            raise
        self.commit()

    def note_unmodelled(self, line: str) -> None:
        """Record a line that nobody knows."""
        self.stored.unmodelled.append(line)
        self.commit()

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

    def run_line(self, line: str) -> str:
        """Run a configuration line as somebody at the console would; nothing is saved."""
        return Session(self, Mode.CONFIG, paging=False).run(line)

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or do by hand what a person might.

        Args:
            args: For example `sm off`; see FAULT_HELP.

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
        """The running and the saved configuration, canonical: the order of making is left out."""
        stored = self.stored
        shown: dict[str, JsonValue] = {}
        for name, part in {"running": stored.running, "saved": stored.saved}.items():
            dump = json.loads(part.model_dump_json())
            text = sorted(render_running_config(part).splitlines())
            ordered = cast("JsonValue", json.loads(json.dumps(dump, sort_keys=True)))
            shown[name] = {"config": ordered, "text": [*text]}
        return shown

    def subnet_view(self) -> SubnetView:
        """What this switch does for its subnet."""
        config, device = self.stored.running, self.device()
        return SubnetView(
            switch=config.hostname,
            guid=node_guid(config.hostname),
            model=self._config.model,
            sm_runs=config.sm_runs,
            sm_priority=config.sm_priority,
            partitions=tuple(
                PartitionView(name, each.pkey, {**each.members})
                for name, each in config.partitions.items()
            ),
            ports={end: device.link_up(port) for port, end in self._config.cables.items()},
        )

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Lines that were sent and that this emulator does not know; a test fails on any."""
        return tuple(self.stored.unmodelled)


def node_guid(name: str) -> str:
    """GUID of a switch, 16 hexadecimal digits, the same at each start; b8599f is NVIDIA's."""
    return f"b8599f0300{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _link_down(switch: MlnxosSwitch, values: list[str]) -> str:
    port, on = values[0], is_on(values[1] if len(values) > 1 else "on")
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


_FAULTS: Final[dict[str, Callable[[MlnxosSwitch, list[str]], str]]] = {
    "sm": lambda switch, values: type_by_hand(switch, "ib sm" if is_on(values[0]) else "no ib sm"),
    "cli": lambda switch, values: type_by_hand(switch, " ".join(values)),
    "link-down": _link_down,
}
