"""What one switch model can do: the facts that a plan and the rules are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.fabric.models.port_names import PORT_NAMINGS

Release = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """One switch model; `sources.md#switch-models` says where each number comes from."""

    name: str
    ports: Mapping[str, tuple[str, ...]]
    """Switch system that runs on it to its port names, unsplit."""
    port_speeds_gbit_s: tuple[int, ...]
    mtu_range_bytes: Mapping[str, tuple[int, int]]
    """Switch system to the least and the largest MTU of a port."""
    traffic_classes: int
    max_lossless_priorities: int
    min_release: Release
    """Oldest release of Onyx that has the commands we send."""
    min_release_one_shot: Release
    """Oldest release of Onyx that has the one-shot `roce`."""
    asic: str = ""
    """Generation of the switching chip, for example `Spectrum-2`."""
    breakouts: Mapping[int, int] = field(default_factory=dict[int, int])
    """Number of parts that a port may be split into, to the speed of each in Gbit/s."""
    buffer_mb: int | None = None
    """Packet buffer that all ports share, in MB as the data sheet counts them."""
    first_release: Mapping[str, Release] = field(default_factory=dict[str, Release])
    """Switch system to the first release that runs on the model, where a page says so."""
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Switch system to who states its ports and MTU range."""

    @property
    def speed_gbit_s(self) -> int:
        """The fastest speed of a port."""
        return max(self.port_speeds_gbit_s)

    def has_port(self, system: str, name: str) -> bool:
        """Whether a port, or the port that was split into it, is on the front panel."""
        naming = PORT_NAMINGS.get(system)
        if naming is None or naming.whole_of(name) not in self.ports.get(system, ()):
            return False
        return naming.parts_needed(name) <= max(self.breakouts, default=1)

    def whole_port(self, system: str, name: str) -> str | None:
        """The front panel port that a name stands for or is a part of; None for no port's name."""
        naming = PORT_NAMINGS.get(system)
        return naming.whole_of(name) if naming else None

    def describe_ports(self, system: str) -> str:
        """The port names with one system, for people."""
        return PORT_NAMINGS[system].describe(len(self.ports[system]))

    def capability_line(self) -> str:
        """Everything that the rules hold a file against, on one line, for people."""
        split = ", ".join(f"{count} of {speed}" for count, speed in sorted(self.breakouts.items()))
        count = len(next(iter(self.ports.values())))
        head = f"{self.name} ({self.asic})" if self.asic else self.name
        forms = f"{self.speed_gbit_s} Gbit/s{f' or split into {split}' if split else ''}"
        parts = [
            f"{head}: {count} ports of {forms}",
            *([f"{self.buffer_mb} MB of buffer"] if self.buffer_mb else []),
            f"{self.max_lossless_priorities} lossless priority",
        ]
        systems = [
            f"{system}{self._since(system)} with MTU {low}-{high}"
            for system, (low, high) in self.mtu_range_bytes.items()
        ]
        return f"{'; '.join(parts)}; runs {' or '.join(systems)}"

    def _since(self, system: str) -> str:
        release = self.first_release.get(system)
        return f" from {show_release(release)}" if release else ""


def parse_release(text: str) -> Release:
    """Read `3.9.2504`; missing or strange parts count as 0."""
    numbers = [int(part) if part.isdigit() else 0 for part in text.split(".")[:3]]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third


def show_release(release: Release) -> str:
    """Write a release without the zeros at its end: 5.6, 3.8.2000."""
    numbers = list(release)
    while len(numbers) > 2 and numbers[-1] == 0:  # noqa: PLR2004 - major and minor stay
        numbers.pop()
    return ".".join(map(str, numbers))
