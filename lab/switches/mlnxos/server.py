"""`MlnxosSwitch`: one emulated InfiniBand switch behind a real SSH server, and its show commands.

`show ib partition`, `show ib sm`, `show ib smnode NAME sm-state` and `show ib sm priority` print
the form of public sources; the rest is marked (lab/sources.md#mlnx-os).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from lab.infiniband.topology import node_guid
from lab.switches.command_line import CliError, Command, table
from lab.switches.mlnxos.config import (
    COMMANDS,
    FACTORY_ENGINE,
    PORTS_BY_MODEL,
    Config,
    Partition,
    Stored,
    factory_config,
    render_running_config,
    show_guid,
)
from lab.switches.onyx.cli import EXIT_STATUS, CliSwitch
from lab.switches.onyx.show import Answer, inventory, version_of
from lab.switches.plain_faults import is_on, type_by_hand
from lab.switches.ssh_switch import load_stored, show_parts
from lab.views import PartitionView, SubnetView, SwitchConfig

RELEASE: Final = "3.11.2016"


def _sm(switch: MlnxosSwitch, values: list[str]) -> str:
    return type_by_hand(switch, "ib sm" if is_on(values[0]) else "no ib sm")


_FAULTS: Final[dict[str, Callable[[MlnxosSwitch, list[str]], str]]] = {
    "sm on|off": _sm,
    **EXIT_STATUS,
}


class MlnxosSwitch(CliSwitch[Stored]):
    """One emulated switch: state on disk, Onyx' command line over SSH, and faults on demand."""

    own_faults = _FAULTS
    factory_release = RELEASE
    banner = "Mellanox MLNX-OS Switch Management\n"

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        """Load the state of the last run, or the factory's; a UsageError for an unknown model."""
        factory = partial(factory_config, config.name, config.model)
        stored = load_stored(Stored, state_path, lambda: Stored.untouched(factory()))
        super().__init__(config, state_path, stored)

    @property
    def ports(self) -> tuple[str, ...]:
        """The InfiniBand ports."""
        return PORTS_BY_MODEL[self.model][0]

    @property
    def port_names(self) -> tuple[str, ...]:
        """Empty: the switch lacks Ethernet ports."""
        return ()

    @property
    def config(self) -> Config:
        """The running configuration."""
        return self.stored.running

    @property
    def edited(self) -> Config:
        """The running configuration, the only object that lines change."""
        return self.config

    @property
    def commands(self) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
        """Its show commands and its configuration lines."""
        return _SHOW_COMMANDS, COMMANDS

    def link_up(self, port: str) -> bool:
        """Whether a port has a link."""
        return self.has_cable(port) and port not in self.config.shut

    def snapshot(self) -> JsonValue:
        """The running and the saved configuration, with sorted lines, as order does not count."""
        parts = {"running": self.stored.running, "saved": self.stored.saved}
        found = show_parts(parts, lambda part: [*sorted(render_running_config(part).splitlines())])
        return cast("JsonValue", json.loads(json.dumps(found, sort_keys=True)))

    def subnet_view(self) -> SubnetView:
        """The part of the subnet that this switch provides."""
        config = self.config
        ports, rate_gbit_s, _ = PORTS_BY_MODEL[self.model]
        return SubnetView(
            switch=config.hostname,
            guid=node_guid(config.hostname),
            model=self.model,
            rate_gbit_s=rate_gbit_s,
            sm_runs=config.sm_runs,
            sm_priority=config.sm_priority,
            routing_engine=config.routing_engine or FACTORY_ENGINE,
            partitions=tuple(
                PartitionView(name, each.pkey, each.ipoib, {**each.members})
                for name, each in config.partitions.items()
            ),
            ports=ports,
            up=frozenset(filter(self.link_up, ports)),
            cables=self._config.cables,
            links=self._config.links,
        )


_WORD: Final = {True: "enable\n", False: "disable\n"}


def _block(name: str, partition: Partition) -> str:
    """Captured on 3.6.8012; `defmember` as Stacki reads it; mtu and rate are a guess."""
    rows: tuple[tuple[str, object], ...] = (
        ("PKey ", f"0x{partition.pkey:04X}"),
        ("ipoib", "yes" if partition.ipoib else "no"),
        ("mtu  ", partition.mtu),
        ("rate ", partition.rate),
        ("defmember ", partition.defmember),
    )
    lines = [f"{name}:", *(f"  {key}: {value}" for key, value in rows if value), "  members:"]
    for guid, kind in partition.members.items():
        lines.append(f"    GUID='{show_guid(guid)}' member='{kind}'")
    return "\n".join([*lines, ""])


def _partitions(switch: MlnxosSwitch) -> str:
    return "\n".join(_block(name, each) for name, each in switch.config.partitions.items())


def _node_state(switch: MlnxosSwitch, name: str) -> str:
    if name not in switch.config.nodes:
        raise CliError(f"% SM node {name} does not exist")  # guess
    return _WORD[switch.config.nodes[name]]


def _node_running(switch: MlnxosSwitch, name: str) -> str:
    runs = name == switch.config.hostname and switch.config.sm_runs
    return "active\n" if runs else "not active\n"


def _routing(switch: MlnxosSwitch) -> str:
    """The text without a running subnet manager is captured; the answer's form is a guess."""
    if not switch.config.sm_runs:
        raise CliError("% Connection to SM unavailable")
    return f"Routing engine: {switch.config.routing_engine or FACTORY_ENGINE}\n"


def _interface(switch: MlnxosSwitch, port: str) -> str:
    """A capture of a QM8700."""
    ports, rate, word = PORTS_BY_MODEL[switch.model]
    if port not in ports:
        raise CliError(f"% Interface ib {port} does not exist")  # guess
    up = switch.link_up(port)
    rows = (
        ("Logical port state", "Active" if up else "Down"),
        ("Physical port state", "LinkUp" if up else "Polling"),
        ("Current line rate", f"{rate}.0 Gbps" if up else "-"),
        ("Supported speeds", f"edr, {word}"),
        ("Speed", word if up else "-"),
        ("Supported widths", "1X, 2X, 4X"),
        ("Width", "4X" if up else "-"),
        ("Max supported MTUs", "4096"),
        ("MTU", "4096"),
        ("VL capabilities", "VL0 - VL7"),
        ("Operational VLs", "VL0 - VL3"),
        ("Description", ""),
        ("IB Subnet", "infiniband-default"),
    )
    body = "".join(f"        {key:<28}: {value}".rstrip() + "\n" for key, value in rows)
    return f"IB{port} state:\n{body}"


_PLAIN: Final[dict[str, Callable[[MlnxosSwitch], str | Answer]]] = {
    # Some lines of Onyx' answer, with the product's own name.
    "show version": lambda switch: Answer(
        version_of(switch, {"Product name": "MLNX-OS", "Product release": switch.release}).text
    ),
    "show inventory": inventory,
    "show ib partition": _partitions,
    "show ib sm": lambda switch: _WORD[switch.config.sm],
    "show ib sm priority": lambda switch: f"{switch.config.sm_priority}\n",
    "show ib sm routing-info": _routing,
    "show running-config": lambda switch: render_running_config(switch.config),
}
_NAMED: Final[dict[str, Callable[[MlnxosSwitch, str], str]]] = {
    "show ib smnode <word> sm-state": _node_state,
    "show ib smnode <word> sm-running": _node_running,
    "show interfaces ib <ports>": _interface,
}
_SHOW_COMMANDS: Final = table((*_PLAIN.items(), *_NAMED.items()))
