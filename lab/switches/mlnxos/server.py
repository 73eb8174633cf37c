"""`MlnxosSwitch`: one emulated InfiniBand switch behind a real SSH server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from lab.infiniband.topology import node_guid
from lab.switches.mlnxos.config import FACTORY_ENGINE, PORTS_BY_MODEL, Stored, factory_config
from lab.switches.mlnxos.configure import COMMANDS
from lab.switches.mlnxos.show import RELEASE, SHOW_COMMANDS, Device, render_running_config
from lab.switches.onyx.grammar import match_command
from lab.switches.onyx.show import Answer
from lab.switches.onyx.switch import EXIT_STATUS, CliSwitch
from lab.switches.plain_faults import is_on, type_by_hand
from lab.views import PartitionView, SubnetView, SwitchConfig


def _load(config: SwitchConfig, path: Path) -> Stored:
    if path.exists():
        return Stored.model_validate_json(path.read_text())
    factory = factory_config(config.name, config.model)
    return Stored(running=factory, saved=factory.model_copy(deep=True))


_FAULTS: Final[dict[str, Callable[[MlnxosSwitch, list[str]], str]]] = {
    "sm on|off": lambda switch, values: type_by_hand(
        switch, "ib sm" if is_on(values[0]) else "no ib sm"
    ),
    **EXIT_STATUS,
}


class MlnxosSwitch(CliSwitch[Stored]):
    """One emulated switch: state on disk, Onyx' command line over SSH, and faults on demand."""

    own_faults = _FAULTS
    banner = "Mellanox MLNX-OS Switch Management\n"

    def __init__(self, config: SwitchConfig, state_path: Path) -> None:
        """Load the state of last time, or start from the factory's.

        Raises:
            UsageError: The lab does not know the model.
        """
        super().__init__(config, state_path, _load(config, state_path))

    @property
    def ports(self) -> tuple[str, ...]:
        """The InfiniBand ports."""
        return PORTS_BY_MODEL[self._config.model][0]

    @property
    def port_names(self) -> tuple[str, ...]:
        """It has no Ethernet port."""
        return ()

    def device(self) -> Device:
        """The view that show commands get."""
        release = self._config.release or RELEASE
        return Device(self.stored, self._config.model, self.cabled, release, self.chassis)

    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""
        handler, values = match_command(SHOW_COMMANDS, words)
        return handler(self.device(), values)

    def edit(self, words: list[str]) -> None:
        """Run a configuration line."""
        handler, values = match_command(COMMANDS, words)
        handler(self.stored.running, values)

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
        ports, rate_gbit_s, _ = PORTS_BY_MODEL[self._config.model]
        return SubnetView(
            switch=config.hostname,
            guid=node_guid(config.hostname),
            model=self._config.model,
            rate_gbit_s=rate_gbit_s,
            sm_runs=config.sm_runs,
            sm_priority=config.sm_priority,
            routing_engine=config.routing_engine or FACTORY_ENGINE,
            partitions=tuple(
                PartitionView(name, each.pkey, each.ipoib, {**each.members})
                for name, each in config.partitions.items()
            ),
            ports=ports,
            up=frozenset(port for port in ports if device.link_up(port)),
            cables=self._config.cables,
            links=self._config.links,
        )
