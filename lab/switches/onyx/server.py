"""`OnyxSwitch`: one emulated Mellanox Onyx switch behind a real SSH server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, partial
from pathlib import Path
from typing import Final, cast, get_args

from pydantic import JsonValue

from lab.switches.command_line import Command
from lab.switches.front import front_of
from lab.switches.onyx.cli import EXIT_STATUS, CliSwitch
from lab.switches.onyx.config import RoceMode, Stored, apply_roce, factory_config, of_release
from lab.switches.onyx.lines import COMMANDS, RELEASE, render_running_config
from lab.switches.onyx.show import SHOW_COMMANDS
from lab.switches.plain_faults import by_hand, cable
from lab.switches.ssh_switch import load_stored, show_parts
from lab.views import PortView, SwitchConfig


@cache
def _commands(release: str) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    return of_release(SHOW_COMMANDS, release), of_release(COMMANDS, release)


def _roce(switch: OnyxSwitch, values: list[str]) -> str:
    if values[0] not in get_args(RoceMode):
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
        """Load the state of the last run, or the factory's; a UsageError for an unknown model."""
        factory = partial(factory_config, config.name, config.model)
        stored = load_stored(Stored, state_path, lambda: Stored.untouched(factory()))
        super().__init__(config, state_path, stored)

    @property
    def ports(self) -> Collection[str]:
        """The Ethernet ports."""
        return self.stored.running.ports

    @property
    def commands(self) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
        """The show commands and the configuration lines of its release."""
        return _commands(self.release)

    def up(self, port: str) -> bool:
        """Whether the port has link: it is cabled, not shut, and its cable is not pulled."""
        return self.stored.running.ports[port].admin_up and self.has_cable(port)

    def snapshot(self) -> JsonValue:
        """The running and the saved configuration in canonical form: no counters, no clocks."""
        parts = {"running": self.stored.running, "saved": self.stored.saved}
        return show_parts(parts, render_running_config)

    def port_view(self, port: str) -> PortView:
        """The settings that affect a RoCE packet on this port; a UsageError if it is unknown."""
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
                tc: (low, high)
                for tc, (kind, unit, low, high) in held.congestion.items()
                if unit == "absolute" and kind != "red"
            },
            pfc_priorities=frozenset(
                config.pfc_priorities if config.pfc_enabled and paused else ()
            ),
        )
