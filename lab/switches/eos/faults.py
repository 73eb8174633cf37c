"""What a person, or bad luck, does to an emulated EOS switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.switches.plain_faults import by_hand, cable, pace, type_by_hand

if TYPE_CHECKING:
    from lab.switches.eos.server import EosSwitch

_TRUST_LINE: Final = {"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"}


def _trust(switch: EosSwitch, values: list[str]) -> str:
    return type_by_hand(switch, f"interface {values[0]};{_TRUST_LINE[values[1]]}")


def _lock(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.locked_by = None if values[0] == "off" else values[0]
    return f"the configuration lock is held by {switch.faults.locked_by or 'nobody'}"


def _commit_timer(switch: EosSwitch, values: list[str]) -> str:
    if values:
        raise ValueError("it takes no value")
    ran = switch.config_sessions.expire()
    return "the commit timer ran out" if ran else "no commit timer is running"


FAULTS: Final[dict[str, Callable[[EosSwitch, list[str]], str]]] = {
    "mtu PORT BYTES": by_hand("interface {0};l2 mtu {1}"),
    "trust PORT L2|L3|port": _trust,
    "lock USER|off": _lock,
    "commit-timer": _commit_timer,
    "pace FACTOR|off": pace("assumed"),
    "cable PORT HOST NIC|off": cable,
}
