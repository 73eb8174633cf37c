"""The driver of NVIDIA (Mellanox) MLNX-OS on InfiniBand switches: subnet manager and partitions.

Ports have no settings of ours: a link trains by itself to what both ends can do, and the subnet
manager sets its MTU. What they came to is read on the hosts, and judged by acceptance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.parts import (
    ALL_PORTS,
    IbState,
    PartitionState,
)
from components.fabric.state import SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.base import Change, Reading, Uncounted
from components.fabric.systems.mlnxos import read as mlnxos_parse
from components.fabric.systems.mlnxos import write as mlnxos_actions
from components.model.infiniband import DEFAULT_PARTITION

PARTITIONS: Final = "show ib partition"
FUNCTION: Final = "show ib sm"
STATE: Final = "show ib smnode {node} sm-state"
PRIORITY: Final = "show ib sm priority"
ROUTING: Final = "show running-config | include routing-engines"


class MlnxosDriver(ByTable, Uncounted, mellanox_cli.MellanoxDriver):
    """See `components.fabric.systems.base.Driver`."""

    system = "mlnxos"
    title = "MLNX-OS"

    def list_ports_commands(self) -> tuple[str, ...]:
        """Nothing: no port is ever ours."""
        return ()

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """None of them."""
        del answers
        return ()

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """Partitions always, since those of others decide what may be removed."""
        ib = wanted.ib
        if ib is None:
            return ()
        asked = (
            (FUNCTION, ib.sm_function),
            (STATE.format(node=ib.node), ib.sm_enabled),
            (PRIORITY, ib.sm_priority),
            (ROUTING, ib.routing_engine),
        )
        return (PARTITIONS, *(command for command, value in asked if value is not None))

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        ib = wanted.ib
        if ib is None:
            return Reading(SwitchState())
        state = STATE.format(node=ib.node)
        found = IbState(
            node=ib.node,
            sm_function=mlnxos_parse.parse_switch(FUNCTION, answers[FUNCTION])
            if FUNCTION in answers
            else None,
            sm_enabled=mlnxos_parse.parse_switch(state, answers[state])
            if state in answers
            else None,
            sm_priority=mlnxos_parse.parse_priority(PRIORITY, answers[PRIORITY])
            if PRIORITY in answers
            else None,
            routing_engine=mlnxos_parse.parse_routing_engine(ROUTING, answers[ROUTING])
            if ROUTING in answers
            else None,
            partitions=mlnxos_parse.parse_partitions(PARTITIONS, answers[PARTITIONS]),
        )
        return Reading(SwitchState(ib=found))

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        """See `mlnxos_actions`."""
        return mlnxos_actions.plan_changes(actual.ib, target.ib)

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """No subnet manager, priority 0, and the partition Default with every port in it."""
        del ports
        default = PartitionState(pkey=0x7FFF, ipoib=True, members={ALL_PORTS: "full"})
        return SwitchState(
            ib=IbState(
                node="",
                sm_function=False,
                sm_enabled=False,
                sm_priority=0,
                routing_engine=mlnxos_parse.DEFAULT_ENGINE,
                partitions={DEFAULT_PARTITION: default},
            )
        )
