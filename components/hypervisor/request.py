"""What `railyard device reboot` is asked: one hypervisor, its machines, and when a boot is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import TypeAdapter

from components.core.to_json import to_json
from components.remote.lines import render_lines
from components.remote.request import read_request
from components.remote.step import Endpoint

REBOOT_DEADLINE_S: Final = 1800.0
"""Seconds for one host: a GPU server's self-test takes many minutes (sources.md#esxi)."""


@dataclass(frozen=True, slots=True)
class Guest:
    """One virtual machine: how its operating system is reached."""

    endpoint: Endpoint
    cards: tuple[str, ...] = ()
    """PCI addresses, as the guest counts, of the cards whose firmware may wait for a boot."""


@dataclass(frozen=True, slots=True)
class RebootRequest:
    """What is on stdin."""

    endpoint: Endpoint
    stack: str
    settings: Mapping[str, str]
    """What the hypervisor shall have, as its converge step left it."""
    order: tuple[str, ...]
    """The virtual machines, in the order in which they are powered on."""
    guests: tuple[Guest, ...]
    reboots: Literal["allow", "deny"]
    power_off: Literal["guest", "hard"]
    shutdown_s: float
    deadline_s: float = REBOOT_DEADLINE_S
    repair: str = ""
    """Why this runs although the plan is the same: the notes of the steps that it serves."""

    def render(self, repair: str = "") -> str:
        """The request, a line a value: a preview shows the changed ones."""
        return render_lines(to_json(replace(self, repair=repair)))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to."""
        return (self.endpoint, *(guest.endpoint for guest in self.guests))


_REQUEST: Final = TypeAdapter(RebootRequest)


def parse_request(text: str) -> RebootRequest:
    """Read a request.

    Raises:
        UsageError: It is no request; the text names the first fault.
    """
    return read_request(_REQUEST, text, "reboot request")
