"""Faults that every emulated switch has: of its cables, its console, its sessions and its disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lab.switches.ssh_switch import SshSwitch


Fault = Callable[["SshSwitch[Any, Any]", list[str]], str]


@dataclass(slots=True)
class PlainFaults:
    """Planted faults; a restart of the lab removes them."""

    reject: list[str] = field(default_factory=list[str])
    """A line that contains one of these is refused."""
    lose_link: tuple[str, str] | None = None
    """A port, and a text: a line with that text takes away the port's link."""
    drop_after: int | None = None
    """Close the session after this many accepted lines that change something."""
    slow_s: float = 0.0
    """Delay before every answer, in seconds."""
    pace: float = 0.0
    """Fraction of a command's real duration to wait, if the system has such times."""
    sessions: int | None = None
    """Most sessions at once."""
    disk_full: bool = False
    read_only: bool = False
    """The login may read but not configure."""


def is_on(text: str) -> bool:
    """Whether a fault goes `on` or `off`; a ValueError for any other word."""
    if text not in {"on", "off"}:
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def type_by_hand(switch: SshSwitch[Any, Any], line: str) -> str:
    """Type one line, as a person would; a ValueError if the switch refuses it."""
    refusal = switch.refusal_of(line)
    if refusal is not None:
        raise ValueError(refusal)
    return f"`{line}` was typed by hand and not saved"


def by_hand(template: str) -> Fault:
    """A fault that types one line on the switch, with the fault's values in it."""
    return lambda switch, values: type_by_hand(switch, template.format(*values))


def sets(field: str, read: Callable[[str], object], said: str) -> Fault:
    """A fault that sets a field of the faults to `off` or a value; `said` has a place for it."""

    def set_field(switch: SshSwitch[Any, Any], values: list[str]) -> str:
        setattr(switch.faults, field, read(values[0]))
        return said.format(values[0])

    return set_field


def _number(text: str) -> int | None:
    return None if text == "off" else int(text)


def pace(of_what: str) -> Fault:
    """The fault `pace` of a system with times of commands: `real`, or `assumed` ones."""

    def set_pace(switch: SshSwitch[Any, Any], values: list[str]) -> str:
        switch.faults.pace = 0.0 if values[0] == "off" else float(values[0])
        return f"commands take {switch.faults.pace:g} of their {of_what} time"

    return set_pace


def timer(name: str) -> Callable[[Any, list[str]], str]:
    """The fault `commit-timer` of a switch that reverts unconfirmed changes."""

    def expire(switch: Any, values: list[str]) -> str:  # noqa: ANN401 - only two systems have one
        if values:
            raise ValueError("it takes no value")
        ran = switch.waiting.expire()
        return f"the {name} timer ran out" if ran else f"no {name} timer is running"

    return expire


def cable(switch: SshSwitch[Any, Any], values: list[str]) -> str:
    """Plug another card into a port of a switch that hears LLDP."""
    return switch.recable(values[0], values[1:])


def _link_down(switch: SshSwitch[Any, Any], values: list[str]) -> str:
    port, on = values[0], is_on(values[1] if len(values) > 1 else "on")
    switch.require_port(port)
    down = {*switch.stored.link_down}
    switch.stored.link_down = sorted(down | {port} if on else down - {port})
    return f"the cable of {port} is {'pulled' if on else 'plugged'}"


def _reject(switch: SshSwitch[Any, Any], values: list[str]) -> str:
    switch.faults.reject = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {switch.faults.reject} are refused"


def _lose_link(switch: SshSwitch[Any, Any], values: list[str]) -> str:
    port, *words = values
    if port == "off":
        switch.faults.lose_link = None
        return "no line takes a link"
    switch.require_port(port)
    switch.faults.lose_link = (port, " ".join(words))
    return f"a line that holds {' '.join(words)!r} takes the link of {port}"


PLAIN_FAULTS: Final[dict[str, Fault]] = {
    "link-down PORT on|off": _link_down,
    "lose-link PORT TEXT…|off": _lose_link,
    "cli LINE…": lambda switch, values: type_by_hand(switch, " ".join(values)),
    "reject TEXT…|off": _reject,
    "drop LINES|off": sets(
        "drop_after", _number, "the session drops after {} lines that change something"
    ),
    "slow SECONDS": sets("slow_s", float, "every answer waits {} s"),
    "sessions COUNT|off": sets("sessions", _number, "sessions at once: {}"),
    "disk-full on|off": sets("disk_full", is_on, "disk full: {}"),
    "read-only on|off": sets("read_only", is_on, "the login may only look: {}"),
}
"""Command form, as the help shows it, to its function, which gets the words after the first."""
