"""`OnyxSwitch`: one emulated Mellanox Onyx switch behind a real SSH server."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from components.core.errors import UsageError
from lab.switches.front import front_of
from lab.switches.onyx.config import RoceMode, Stored, apply_roce, factory_config
from lab.switches.onyx.configure import COMMANDS, Change
from lab.switches.onyx.grammar import Command, match_command, of_release
from lab.switches.onyx.running_config import RELEASE, render_running_config
from lab.switches.onyx.show import SHOW_COMMANDS, Answer, Device, Show
from lab.switches.onyx.show_ports import oper_up
from lab.switches.onyx.switch import EXIT_STATUS, CliSwitch
from lab.switches.plain_faults import by_hand, cable
from lab.views import PortView, SwitchConfig

KIB_PER_KB = 1
"""Onyx writes KB and means 1024 bytes, as its 150/1500 KB defaults of `roce` are used as KiB."""


@cache
def _show_commands(release: str) -> tuple[Command[Show], ...]:
    return of_release(SHOW_COMMANDS, release)


@cache
def _commands(release: str) -> tuple[Command[Change], ...]:
    return of_release(COMMANDS, release)


def _load(config: SwitchConfig, path: Path) -> Stored:
    if path.exists():
        return Stored.model_validate_json(path.read_text())
    if config.name == "":
        raise UsageError("a lab switch needs a name")
    factory = factory_config(config.name, config.model)
    return Stored(running=factory, saved=factory.model_copy(deep=True))


def _roce(switch: OnyxSwitch, values: list[str]) -> str:
    if values[0] not in {"none", "lossless", "semi-lossless", "lossy"}:
        raise ValueError(f"{values[0]!r} is no RoCE mode")
    apply_roce(switch.stored.running, cast("RoceMode", values[0]))
    return f"roce {values[0]} was typed by hand and not saved"


_FAULTS: Final[dict[str, Callable[[OnyxSwitch, list[str]], str]]] = {
    "mtu PORT BYTES": by_hand("interface ethernet {0} mtu {1} force"),
    "trust PORT L2|L3|both|port": by_hand("interface ethernet {0} qos trust {1}"),
    "roce MODE": _roce,
    **EXIT_STATUS,
    "cable PORT HOST NIC|off": cable,
}


class OnyxSwitch(CliSwitch[Stored]):
    """One emulated switch: state on disk, a command line over SSH, and faults on demand."""

    own_faults = _FAULTS
    banner = "Mellanox Onyx Switch Management\n"

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        super().__init__(config, state_path, _load(config, state_path))

    @property
    def release(self) -> str:
        """What it runs."""
        return self._config.release or RELEASE

    @property
    def ports(self) -> Collection[str]:
        """The Ethernet ports."""
        return self.stored.running.ports

    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""
        # `show interface` is taken for `show interfaces` by the abbreviation rule.
        handler, values = match_command(_show_commands(self.release), words)
        return handler(self.device(), values)

    def edit(self, words: list[str]) -> None:
        """Run a configuration line."""
        handler, values = match_command(_commands(self.release), words)
        handler(self.stored, values)

    def device(self) -> Device:
        """The view that show commands get."""
        model = self._config.model
        return Device(self.stored, model, self.cabled, self.plugged, self.release, self.chassis)

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
        self.require_port(port)
        held = config.ports[port]
        vlans = frozenset(config.vlans)
        allowed = vlans if held.allowed_vlans == "all" else vlans & {*held.allowed_vlans}
        paused = config.roce == "lossless" or held.pfc
        return PortView(
            switch=self._config.name,
            port=port,
            admin_up=held.admin_up,
            oper_up=oper_up(self.stored, self.cabled, port),
            speed_gbit_s=front_of(self._config.model, "onyx").speed(int(port.split("/")[1])),
            mtu_bytes=held.mtu_bytes,
            mode=held.mode,
            access_vlan=held.access_vlan,
            allowed_vlans=frozenset() if held.mode == "access" else allowed,
            trust=held.trust,
            dscp_to_priority=tuple(map(held.priority_of, range(64))),
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
