"""`OnyxSwitch`: one emulated Mellanox Onyx switch behind a real SSH server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from components.core.errors import UsageError
from lab.switches.command_line import Command
from lab.switches.front import front_of
from lab.switches.onyx.cli import EXIT_STATUS, CliSwitch
from lab.switches.onyx.config import (
    GRAMMAR,
    RoceMode,
    Stored,
    apply_roce,
    factory_config,
    of_release,
)
from lab.switches.onyx.lines import COMMANDS, RELEASE, render_running_config
from lab.switches.onyx.show import SHOW_COMMANDS, Answer
from lab.switches.plain_faults import by_hand, cable
from lab.switches.ssh_switch import load_stored, show_parts
from lab.views import PortView, SwitchConfig

KIB_PER_KB = 1
"""Onyx writes KB and means 1024 bytes, as its 150/1500 KB defaults of `roce` are used as KiB."""


@cache
def _commands(release: str) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """What a release can be asked, and told."""
    return of_release(SHOW_COMMANDS, release), of_release(COMMANDS, release)


def _factory(config: SwitchConfig) -> Stored:
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
    factory_release = RELEASE
    banner = "Mellanox Onyx Switch Management\n"

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        stored = load_stored(Stored, state_path, lambda: _factory(config))
        super().__init__(config, state_path, stored)

    @property
    def ports(self) -> Collection[str]:
        """The Ethernet ports."""
        return self.stored.running.ports

    def show(self, words: list[str]) -> Answer:
        """Answer a show command; the abbreviation rule takes `show interface` for `interfaces`."""
        handler, values = GRAMMAR.find(_commands(self.release)[0], words)
        return handler(self, *values)

    def edit(self, words: list[str]) -> None:
        """Run a configuration line."""
        handler, values = GRAMMAR.find(_commands(self.release)[1], words)
        handler(self.stored, *values)

    def up(self, port: str) -> bool:
        """Whether the port has link: not shut, cabled, and its cable not pulled."""
        return self.stored.running.ports[port].admin_up and self.has_cable(port)

    def snapshot(self) -> JsonValue:
        """The running and the saved configuration, canonical: no counters, no clocks."""
        parts = {"running": self.stored.running, "saved": self.stored.saved}
        return show_parts(parts, render_running_config)

    def port_view(self, port: str) -> PortView:
        """What decides about a RoCE packet on this port; a UsageError if there is none."""
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
            oper_up=self.up(port),
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
