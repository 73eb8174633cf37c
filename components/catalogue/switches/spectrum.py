"""What NVIDIA's Spectrum switches have in common, and how one of them is written down.

Numbers: docs/explanation/sources.md#switch-models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from components.catalogue.switches.switch_model import Release, SwitchModel

TRAFFIC_CLASSES: Final = 8
LOSSLESS_PRIORITIES: Final = 1
"""A second one splits the headroom of the shared buffer and may be refused; the one-shots of both
systems have one."""
_NAMES: Final = {"onyx": "1/{number}", "cumulus": "swp{number}", "sonic": "Ethernet{lane}"}
_MTU_SOURCES: Final = {
    "onyx": "MTU range of the mellanox.onyx collection, onyx.py",
    "cumulus": "MTU range of the NVUE reference",
    "sonic": "MTU range of sonic-utilities",
}


@dataclass(frozen=True, slots=True)
class Front:
    """The front panel of a model and what runs on it."""

    asic: str
    ports: int
    port_speeds_gbit_s: tuple[int, ...]
    breakouts: Mapping[int, int]
    buffer_mb: int | None
    systems: tuple[str, ...] = ("onyx", "cumulus", "sonic")
    first_release: Mapping[str, Release] = field(default_factory=dict[str, Release])
    lanes: int = 4
    """Electrical lanes of a port; SONiC counts its names by them, slower ports included."""
    slow_ports: int = 0
    """So many ports come first that are slower and cannot be split."""
    slow_gbit_s: int = 0


def make_spectrum(name: str, front: Front) -> SwitchModel:
    """Write down one model."""
    numbers = range(1, front.ports + 1)
    names = {
        system: tuple(
            _NAMES[system].format(number=number, lane=front.lanes * (number - 1))
            for number in numbers
        )
        for system in front.systems
    }
    return SwitchModel(
        name=name,
        asic=front.asic,
        ports=names,
        lanes=front.lanes,
        slow_ports={
            port: front.slow_gbit_s
            for ports in names.values()
            for port in ports[: front.slow_ports]
        },
        port_speeds_gbit_s=front.port_speeds_gbit_s,
        breakouts=front.breakouts,
        buffer_mb=front.buffer_mb,
        first_release=front.first_release,
        traffic_classes=TRAFFIC_CLASSES,
        max_lossless_priorities=LOSSLESS_PRIORITIES,
        sources={system: f"{name} data sheet; {_MTU_SOURCES[system]}" for system in front.systems},
    )
