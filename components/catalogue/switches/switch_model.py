"""The abilities of one switch model, and its file `models/<name>.yaml`.

To add a model, add a file. Each fact in it comes with its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from components.catalogue.switches.systems import SWITCH_SYSTEMS, PortPlace
from components.core.templates import parse_own

_VOWELS: Final = frozenset("AEFHILMNORSX8")
"""Letters and digits whose names begin with a vowel, for `an SN2700`."""
_LEADING: Final = re.compile(r"\d+")
_NUMBERED: Final = re.compile(r"[0-9]+(\.[0-9]+)+[A-Za-z0-9._+-]*")
Release = tuple[int, int, int]
_BRANCH: Final = 100_000
"""A release named by year and month, as SONiC's: 202505."""
UNRELEASED: Final = 999_999
"""First number of software without a branch yet, such as SONiC's master."""


FOLDER: Final = Path(__file__).parent / "models"
SUFFIX: Final = ".yaml"
MODE: Final = r"^[2-8]x[1-9][0-9]{0,4}$"
Mode = Annotated[str, StringConstraints(pattern=MODE)]
"""Parts of a split port and the speed of each in Gbit/s: `2x400`."""
_SPAN: Final = re.compile(r"\[(\d+)-(\d+)\]")


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def check_sources(self, sources: Mapping[str, str]) -> None:
        """Refuse a key without a source, and a source without a key."""
        fields = type(self).model_fields
        keys = {fields[name].alias or name for name in self.model_fields_set - {"sources", "name"}}
        if odd := ", ".join(sorted(keys ^ {*sources})):
            raise ValueError(f"a key has a source, and a source a key, but not for: {odd}")


class Split(_Facts):
    """One way to split a port into parts of equal size."""

    mode: Mode
    blocks_next: bool = False
    """It removes the next port, so only every second one, from the first on, can do it."""
    systems: tuple[str, ...] | None = None
    """Switch systems that can; None: all that run on the model."""

    @cached_property
    def parts(self) -> int:
        """How many."""
        return int(self.mode.partition("x")[0])

    @cached_property
    def speed_gbit_s(self) -> int:
        """The fastest speed of a part."""
        return int(self.mode.partition("x")[2])


class SystemFacts(_Facts):
    """A system that runs on the model."""

    since: str | None = None
    """First release that does, if a page names it."""
    names: str | None = None
    """Names of its ports if the system's own way does not give them: `1/[1-32]/[1-2]`."""
    headroom_m: tuple[int, ...] = ()
    """Lengths of cables for which the platform has headroom, ascending; default any."""


class SlowPorts(_Facts):
    """Slower ports before the others, which cannot be split."""

    ports: int
    gbit_s: int


class SwitchModel(_Facts):
    """One switch model, as its file in `models/` describes it."""

    name: str = ""
    """That of the file."""
    asic: str = ""
    """Generation of the switching chip, for example `Spectrum-2`; empty: the site describes it."""
    systems: dict[str, SystemFacts]
    count: Annotated[int, Field(ge=1, alias="ports")]
    """Number of whole ports."""
    lanes: Annotated[int, Field(ge=1, le=16)] = 4
    """Electrical lanes of a port, by which some systems name its parts; 4: QSFP28 and QSFP56."""
    port_speeds_gbit_s: Annotated[tuple[int, ...], Field(min_length=1, alias="speeds_gbit_s")]
    slow: SlowPorts | None = None
    splits: tuple[Split, ...] = ()
    buffer_mb: int | None = None
    """Packet buffer that all ports share, in MB as the data sheet counts them."""
    most_mtu_bytes: Annotated[int | None, Field(alias="mtu_bytes")] = None
    """The largest MTU of a port, if it is less than the system's."""
    max_lossless_priorities: Annotated[int, Field(ge=0, le=8, alias="lossless_priorities")]
    """0 on InfiniBand, where everything is lossless."""
    sources: dict[str, str]
    """Key of the file to who states it."""

    @model_validator(mode="after")
    def _is_sound(self) -> SwitchModel:
        self.check_sources(self.sources)
        for split in self.splits:
            if self.lanes % split.parts or split.speed_gbit_s > self.speed_gbit_s:
                raise ValueError(f"{self.lanes} lanes of a port cannot be split as {split.mode}")
        return self

    @cached_property
    def ports(self) -> Mapping[str, tuple[str, ...]]:
        """Switch system that runs on it to its port names, unsplit."""
        return {
            system: tuple(
                SWITCH_SYSTEMS[system].ports.names(self.count, self.lanes)
                if facts.names is None
                else spell(facts.names)
            )
            for system, facts in self.systems.items()
        }

    @cached_property
    def slow_ports(self) -> Mapping[str, int]:
        """Port to its fastest speed, if it is slower than the others and cannot be split."""
        slow = self.slow or SlowPorts(ports=0, gbit_s=0)
        return {port: slow.gbit_s for names in self.ports.values() for port in names[: slow.ports]}

    @property
    def first_release(self) -> Mapping[str, Release]:
        """Switch system to the first release that runs on the model, if a page names it."""
        return {n: parse_release(each.since) for n, each in self.systems.items() if each.since}

    @property
    def headroom_lengths_m(self) -> Mapping[str, tuple[int, ...]]:
        """Switch system to the lengths of cables for which its platform has headroom, ascending."""
        return {n: each.headroom_m for n, each in self.systems.items() if each.headroom_m}

    @property
    def mtu_range_bytes(self) -> Mapping[str, tuple[int, int]]:
        """Switch system to the least and the largest MTU of a port."""
        ranges = {system: SWITCH_SYSTEMS[system].mtu_range_bytes for system in self.ports}
        return {n: (low, min(top, self.most_mtu_bytes or top)) for n, (low, top) in ranges.items()}

    @property
    def speed_gbit_s(self) -> int:
        """The fastest speed of a port."""
        return max(self.port_speeds_gbit_s)

    @property
    def described(self) -> str:
        """The name with its article: `an SN2700`, `a DCS-7060DX5-64S`."""
        return f"{'an' if self.name[:1].upper() in _VOWELS else 'a'} {self.name}"

    def has_port(self, system: str, name: str) -> bool:
        """Whether a port, or the whole port of a part, is on the front panel of this system."""
        ports = self.ports.get(system, ())
        if name in ports:
            return True
        place = self.place(system, name)
        return place is not None and any(
            split.parts >= place.parts for split in self.splits_of(system, place.whole)
        )

    def splits_of(self, system: str, whole: str) -> tuple[Split, ...]:
        """The ways in which one port can be split; empty if the model lacks the port."""
        ports = self.ports.get(system, ())
        if whole not in ports or whole in self.slow_ports:
            return ()
        is_first = ports.index(whole) % 2 == 0
        return tuple(
            split
            for split in self.splits
            if (split.systems is None or system in split.systems)
            and (is_first or not split.blocks_next)
        )

    def blocked_by(self, system: str, whole: str, parts: int) -> str | None:
        """The port that is lost if another one is split into so many parts; None: all remain."""
        ports = self.ports.get(system, ())
        blocks = any(s.parts == parts and s.blocks_next for s in self.splits_of(system, whole))
        return ports[ports.index(whole) + 1] if blocks else None

    def part_names(self, system: str, whole: str, parts: int) -> tuple[str, ...]:
        """The names of the parts of a port with this split."""
        if parts <= 1:
            return (whole,)
        return SWITCH_SYSTEMS[system].ports.parts(whole, parts, self.lanes)

    def place(self, system: str, name: str) -> PortPlace | None:
        """Where a port is on the front panel; None: this system does not use the name."""
        if name in self.ports.get(system, ()):
            return PortPlace(name, 1)
        known = system in self.ports
        return SWITCH_SYSTEMS[system].ports.place(name, self.lanes) if known else None

    def speed_of(self, system: str, whole: str, parts: int) -> int:
        """The fastest speed of a port, or of a part if it is split into at least so many."""
        if parts <= 1:
            return self.slow_ports.get(whole, self.speed_gbit_s)
        fitting = (s.speed_gbit_s for s in self.splits_of(system, whole) if s.parts >= parts)
        return max(fitting, default=0)

    def whole_port(self, system: str, name: str) -> str | None:
        """The whole port to which this part belongs; None if it is not a port's name.

        A whole port is itself. So is a part if the first part has the name of the whole, since a
        file then does not show which it means.
        """
        if name in self.ports.get(system, ()):
            return name
        entry = SWITCH_SYSTEMS.get(system)
        place = entry.ports.place(name, self.lanes) if entry else None
        if entry is None or place is None:
            return None
        return place.whole if entry.ports.first_part else name

    def headroom_length(self, system: str, length_m: int) -> int | None:
        """The next length with headroom, in metres; unchanged if every length has headroom.

        Headroom for a longer cable takes buffer from others, and headroom for a shorter one loses
        packets, so it is never less. None: no length is enough.
        """
        lengths = self.headroom_lengths_m.get(system)
        if lengths is None:
            return length_m
        return next((length for length in lengths if length >= length_m), None)

    def describe_ports(self, system: str) -> str:
        """The port names with one system, for people."""
        return SWITCH_SYSTEMS[system].ports.describe(self.ports[system], split=bool(self.splits))

    def capability_line(self) -> str:
        """The facts that the rules check a file against, on one line, for people."""
        split = ", ".join(f"{each.parts} of {each.speed_gbit_s}" for each in self.splits)
        count = len(next(iter(self.ports.values())))
        head = f"{self.name} ({self.asic})" if self.asic else self.name
        forms = f"{self.speed_gbit_s} Gbit/s{f' or split into {split}' if split else ''}"
        lossless = self.max_lossless_priorities
        priorities, first = "priority" if lossless == 1 else "priorities", self.first_release
        parts = [
            f"{head}: {count} ports of {forms}",
            *([f"{self.buffer_mb} MB of buffer"] if self.buffer_mb else []),
            *([f"{lossless} lossless {priorities}"] if lossless else []),
        ]
        systems = [
            f"{system}{f' from {show_release(first[system])}' if system in first else ''}"
            f" with MTU {low}-{high}"
            for system, (low, high) in self.mtu_range_bytes.items()
        ]
        return f"{'; '.join(parts)}; runs {' or '.join(systems)}"


def parse_release(text: str) -> Release:
    """Read `3.9.2504` and EOS' `4.32.1F`; missing or strange parts count as 0."""
    found = (_LEADING.match(part) for part in text.split(".")[:3])
    if text == "master":
        return UNRELEASED, 0, 0
    numbers = [int(match[0]) if match else 0 for match in found]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third


def is_numbered(text: str) -> bool:
    """Whether a text is a release in numbers: `3.9.2504` and `4.32.1F`, not `latest`."""
    return _NUMBERED.fullmatch(text) is not None


def show_release(release: Release) -> str:
    """Write a release without the zeros at its end: 5.6, 3.8.2000, 202505."""
    if release[0] == UNRELEASED:
        return "master"
    numbers = list(release)
    least = 1 if release[0] >= _BRANCH else 2
    while len(numbers) > least and numbers[-1] == 0:  # major and minor stay
        numbers.pop()
    return ".".join(map(str, numbers))


class PlainSwitch(_Facts):
    """An InfiniBand switch to which we do not log in, in `models/without_login/`.

    A subnet manager elsewhere controls it; a site file is checked against its ports, their names
    and their speeds.
    """

    asic: str
    """Generation of the switching chip, for example `Quantum-3`."""
    runs: str
    """The system on it: `no system`, or one without settings for us."""
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of its ports: `1/[1-32]/[1-2]`. Two entries are two switches in one housing, without a
    link between them."""
    count: Annotated[int, Field(ge=1, alias="ports")]
    """Number of its ports."""
    speeds_gbit_s: Annotated[tuple[int, ...], Field(min_length=1)]
    """Speeds of a link of four lanes, in Gbit/s."""
    sources: dict[str, str]
    """Key of the file to who states it."""

    @model_validator(mode="after")
    def _is_sound(self) -> PlainSwitch:
        self.check_sources(self.sources)
        if (count := len(self.ports)) != self.count:
            raise ValueError(f"its names are of {count} ports, and it has {self.count}")
        return self

    @cached_property
    def halves(self) -> tuple[tuple[str, ...], ...]:
        """The names of its ports, by the switches in its housing: mostly one."""
        return tuple(tuple(spell(form)) for form in self.names)

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports of all switches in the housing."""
        return tuple(name for half in self.halves for name in half)


def spell(form: str) -> Iterator[str]:
    """All names that `1/[1-32]/[1-2]` means."""
    spans = [range(int(low), int(high) + 1) for low, high in _SPAN.findall(form)]
    for numbers in product(*spans):
        name = form
        for number in numbers:
            name = _SPAN.sub(str(number), name, count=1)
        yield name


@cache
def list_models(folder: Path) -> frozenset[str]:
    """The names of all models, without looking into their files."""
    return frozenset(path.stem for path in folder.glob(f"*{SUFFIX}"))


def read_file(name: str, folder: Path) -> object:
    """The content of the file of one model, not checked."""
    text = (folder / f"{name}{SUFFIX}").read_text()
    return parse_own(text)


@cache
def read_model(name: str, folder: Path) -> SwitchModel:
    """Read one model; ValidationError if its file is not sound."""
    return SwitchModel.model_validate(read_file(name, folder)).model_copy(update={"name": name})
