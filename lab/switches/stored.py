"""What every emulated switch keeps on its disk in the lab."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A piece of the state; a wrong name or type in it is an error at once."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class PortCounters(Part):
    """What one port counts, since the factory."""

    rx_bytes: dict[int, int] = {}
    """By switch priority."""
    tx_bytes: dict[int, int] = {}
    """By traffic class."""
    ecn_marked: dict[int, int] = {}
    rx_discards: int = 0
    rx_pauses: dict[int, int] = {}
    """PFC frames by priority."""
    tx_pauses: dict[int, int] = {}
    tx_drops: dict[int, int] = {}
    """Packets that the full queue of a traffic class threw away."""
    storms: dict[int, int] = {}
    """By traffic class: how often the PFC watchdog found the queue stuck; each passed again."""
    flaps: int = 0


class Stored(Part):
    """The part of it that no configuration is."""

    counters: dict[str, PortCounters] = {}
    link_down: list[str] = []
    """Ports whose cable is pulled (a fault)."""
    unmodelled: list[str] = []
    """Commands that somebody sent and that this emulator does not know."""
