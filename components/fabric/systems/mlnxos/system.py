"""MLNX-OS as the rest of the house knows it: the same command line as Onyx, on InfiniBand."""

from __future__ import annotations

from typing import Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.mlnxos.driver import MlnxosDriver
from components.fabric.systems.switch_system import Intent, SwitchSystem
from components.model.fabric import Rdma


def plan_intent(_: Rdma) -> Intent:
    """InfiniBand has no RoCE: `ib_plan.py` says what such a switch shall have."""
    return Intent(SwitchState(), PortState())


SYSTEM: Final = SwitchSystem(
    driver=MlnxosDriver(),
    intent=plan_intent,
    session=mellanox_cli.SESSION,
    exec_form="a plain exec cannot read partition members, so a removed port would stay a member, "
    "and recreating the partition would drop its connections",
    identity=mellanox_cli.IDENTITY,
    # `show ib partition` has the layout that we read since 3.6.8010 (Stacki's driver).
    min_release=(3, 6, 8010),
    older="prints `show ib partition` in a layout that is not read here",
    a_release="3.11.2016",
    links="an InfiniBand link trains to the best rate that both ends have, and takes its error "
    "correction from that",
    port_ecn="InfiniBand has no ECN thresholds",
    routing="InfiniBand is no IP fabric: its subnet manager makes the routes",
    drain="InfiniBand has no BGP: its subnet manager makes the routes when a link goes down",
)
