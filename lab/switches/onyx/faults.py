"""Faults of a session that Onyx and MLNX-OS have alike, and the lines that a hand may type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lab.switches.onyx.cli import Faults
from lab.switches.ssh_switch import Process

SESSION_FAULT_HELP: Final = (
    "reject TEXT…|off | drop LINES|off | slow SECONDS | sessions COUNT|off | disk-full on|off | "
    "exit-status NUMBER|missing"
)


class Typed(Protocol):
    """A switch at whose console somebody may stand."""

    def run_line(self, line: str) -> str:
        """Run a configuration line; nothing is saved."""
        ...


def type_by_hand(switch: Typed, line: str) -> str:
    """Type one configuration line, as a person would.

    Raises:
        ValueError: The switch refuses it.
    """
    output = switch.run_line(line)
    if output.startswith("%"):
        raise ValueError(output.strip())
    return f"`{line}` was typed by hand and not saved"


def is_on(text: str) -> bool:
    """Whether a fault goes `on` or `off`.

    Raises:
        ValueError: It says neither.
    """
    if text not in {"on", "off"}:
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def is_full(process: Process, faults: Faults, sessions: int) -> bool:
    """Turn a session away while there are as many as the planted fault allows."""
    if faults.sessions is None or sessions <= faults.sessions:
        return False
    process.stdout.write("% Maximum number of sessions reached\n")  # guess
    process.close()
    return True


def _reject(faults: Faults, values: list[str]) -> str:
    faults.reject = [] if values == ["off"] else [" ".join(values)]
    return f"lines that hold {faults.reject} are refused"


def _drop(faults: Faults, values: list[str]) -> str:
    faults.drop_after = None if values[0] == "off" else int(values[0])
    return f"the session drops after {values[0]} configuration lines"


def _slow(faults: Faults, values: list[str]) -> str:
    faults.slow_s = float(values[0])
    return f"every answer waits {values[0]} s"


def _sessions(faults: Faults, values: list[str]) -> str:
    faults.sessions = None if values[0] == "off" else int(values[0])
    return f"sessions at once: {values[0]}"


def _disk_full(faults: Faults, values: list[str]) -> str:
    faults.disk_full = is_on(values[0])
    return f"disk full: {values[0]}"


def _exit_status(faults: Faults, values: list[str]) -> str:
    faults.exit_status = None if values[0] == "missing" else int(values[0])
    return f"exit status of an exec: {values[0]}"


SESSION_FAULTS: Final[dict[str, Callable[[Faults, list[str]], str]]] = {
    "reject": _reject,
    "drop": _drop,
    "slow": _slow,
    "sessions": _sessions,
    "disk-full": _disk_full,
    "exit-status": _exit_status,
}
