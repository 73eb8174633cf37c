"""What a person, or bad luck, does to an emulated EOS switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.switches.eos.server import EosSwitch

FAULT_HELP = (
    "mtu PORT BYTES | trust PORT L2|L3|port | link-down PORT on|off | cli LINE… | "
    "reject TEXT…|off | drop LINES|off | slow SECONDS | disk-full on|off | sessions COUNT|off | "
    "lock USER|off | commit-timer | cable PORT HOST NIC|off"
)
_TRUST_LINE: Final = {"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"}


def _by_hand(template: str) -> Callable[[EosSwitch, list[str]], str]:
    def change(switch: EosSwitch, values: list[str]) -> str:
        line = template.format(*values)
        output = switch.run_line(line)
        if "%" in output:
            raise ValueError(output.strip())
        return f"`{line}` was typed by hand and not saved"

    return change


def _on(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def _trust(switch: EosSwitch, values: list[str]) -> str:
    return _by_hand("interface {0};" + _TRUST_LINE[values[1]])(switch, values)


def _link_down(switch: EosSwitch, values: list[str]) -> str:
    port, on = values[0], _on(values[1] if len(values) > 1 else "on")
    switch.port_view(port)
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


def _reject(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.reject = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.reject} are refused"


def _drop(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.drop_after = None if values[0] == "off" else int(values[0])
    return f"the session drops after {values[0]} configuration lines"


def _slow(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.slow_s = float(values[0])
    return f"every answer waits {values[0]} s"


def _disk_full(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.disk_full = _on(values[0])
    return f"disk full: {values[0]}"


def _sessions(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.sessions = None if values[0] == "off" else int(values[0])
    return f"logins at once: {values[0]}"


def _lock(switch: EosSwitch, values: list[str]) -> str:
    switch.faults.locked_by = None if values[0] == "off" else values[0]
    return f"the configuration lock is held by {switch.faults.locked_by or 'nobody'}"


def _commit_timer(switch: EosSwitch, values: list[str]) -> str:
    if values:
        raise ValueError("it takes no value")
    ran = switch.config_sessions.expire()
    return "the commit timer ran out" if ran else "no commit timer is running"


def _cable(switch: EosSwitch, values: list[str]) -> str:
    switch.port_view(values[0])
    return switch.recable(values[0], values[1:])


FAULTS: Final[dict[str, Callable[[EosSwitch, list[str]], str]]] = {
    "mtu": _by_hand("interface {0};l2 mtu {1}"),
    "trust": _trust,
    "cli": lambda switch, values: _by_hand("{0}")(switch, [" ".join(values)]),
    "link-down": _link_down,
    "reject": _reject,
    "drop": _drop,
    "slow": _slow,
    "disk-full": _disk_full,
    "sessions": _sessions,
    "lock": _lock,
    "commit-timer": _commit_timer,
    "cable": _cable,
}
