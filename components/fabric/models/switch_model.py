"""What one switch model can do: the facts that a plan is held against."""

from __future__ import annotations

from dataclasses import dataclass

Release = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """One switch model."""

    name: str
    systems: tuple[str, ...]
    """Switch systems that run on it."""
    ports: tuple[str, ...]
    """Port names, unsplit, in the vendor's numbering."""
    port_speeds_gbit_s: tuple[int, ...]
    mtu_range_bytes: tuple[int, int]
    traffic_classes: int
    max_lossless_priorities: int
    min_release: Release
    """Oldest release of Onyx that has the commands we send."""
    min_release_one_shot: Release
    """Oldest release of Onyx that has the one-shot `roce`."""

    def has_port(self, name: str) -> bool:
        """Whether a port, or the port that was split into it, is on the front panel."""
        return "/".join(name.split("/")[:2]) in self.ports


def parse_release(text: str) -> Release:
    """Read `3.9.2504`; missing or strange parts count as 0."""
    numbers = [int(part) if part.isdigit() else 0 for part in text.split(".")[:3]]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third
