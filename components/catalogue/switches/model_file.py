"""One file a switch model, `models/<name>.yaml`: what it says, and how it becomes a `SwitchModel`.

Adding a model is adding a file. Each fact names its source beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from components.catalogue.switches.switch_model import Split, SwitchModel, parse_release
from components.catalogue.switches.systems import SWITCH_SYSTEMS

FOLDER: Final = Path(__file__).parent / "models"
SUFFIX: Final = ".yaml"
MODE: Final = r"^[2-8]x[1-9][0-9]{0,4}$"
Mode = Annotated[str, StringConstraints(pattern=MODE)]
"""Parts of a split port and the speed of each in Gbit/s: `2x400`."""
_SPAN: Final = re.compile(r"\[(\d+)-(\d+)\]")
LOADER: Final[type[yaml.SafeLoader | yaml.CSafeLoader]] = (
    yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
)


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class SplitFacts(_Facts):
    """One way to split a port."""

    mode: Mode
    blocks_next: bool = False
    """The port after it is gone then, so that every second one, from the first on, can do it."""
    systems: tuple[str, ...] | None = None
    """Systems that can; default all of the model."""


class SystemFacts(_Facts):
    """A system that runs on the model."""

    since: str | None = None
    """First release that does, where a page says so."""
    names: str | None = None
    """Names of its ports where the system's own way does not give them: `1/[1-32]/[1-2]`."""
    headroom_m: tuple[int, ...] = ()
    """Lengths of cables for which the platform has headroom, ascending; default any."""


class SlowPorts(_Facts):
    """Ports before the others that are slower and cannot be split."""

    ports: int
    gbit_s: int


class ModelFile(_Facts):
    """The facts of one model, as its file says them."""

    asic: str
    """Generation of the switching chip, for example `Spectrum-2`."""
    systems: dict[str, SystemFacts]
    ports: Annotated[int, Field(ge=1)]
    """Number of whole ports."""
    lanes: Annotated[int, Field(ge=1, le=16)] = 4
    """Electrical lanes of a port."""
    speeds_gbit_s: Annotated[tuple[int, ...], Field(min_length=1)]
    slow: SlowPorts | None = None
    splits: tuple[SplitFacts, ...] = ()
    buffer_mb: int | None = None
    """As the data sheet counts; default: no source says one."""
    mtu_bytes: int | None = None
    """The largest MTU of a port, where it is less than the system's."""
    lossless_priorities: Annotated[int, Field(ge=0, le=8)]
    sources: dict[str, str]
    """Key of this file to who states it."""

    @model_validator(mode="after")
    def _is_sound(self) -> ModelFile:
        said = self.model_fields_set - {"sources"}
        if said != {*self.sources}:
            odd = ", ".join(sorted(said ^ {*self.sources}))
            raise ValueError(f"a key has a source, and a source a key, but not for: {odd}")
        for split in self.splits:
            parts, speed = map(int, split.mode.split("x"))
            if self.lanes % parts or speed > max(self.speeds_gbit_s):
                raise ValueError(f"{self.lanes} lanes of a port cannot be split as {split.mode}")
        return self

    def as_model(self, name: str) -> SwitchModel:
        """The same facts as the rest of the house holds them."""
        ports = {system: tuple(self._names(system)) for system in self.systems}
        slow = self.slow or SlowPorts(ports=0, gbit_s=0)
        first = {
            system: parse_release(facts.since)
            for system, facts in self.systems.items()
            if facts.since
        }
        return SwitchModel(
            name=name,
            asic=self.asic,
            ports=ports,
            lanes=self.lanes,
            port_speeds_gbit_s=self.speeds_gbit_s,
            slow_ports={
                port: slow.gbit_s for names in ports.values() for port in names[: slow.ports]
            },
            splits=tuple(read_split(s.mode, s.systems, s.blocks_next) for s in self.splits),
            buffer_mb=self.buffer_mb,
            most_mtu_bytes=self.mtu_bytes,
            max_lossless_priorities=self.lossless_priorities,
            first_release=first,
            headroom_lengths_m={
                system: facts.headroom_m
                for system, facts in self.systems.items()
                if facts.headroom_m
            },
        )

    def _names(self, system: str) -> Iterator[str]:
        form = self.systems[system].names
        if form is None:
            yield from SWITCH_SYSTEMS[system].ports.names(self.ports, self.lanes)
            return
        yield from spell(form)


def spell(form: str) -> Iterator[str]:
    """All names that `1/[1-32]/[1-2]` means."""
    spans = [range(int(low), int(high) + 1) for low, high in _SPAN.findall(form)]
    for numbers in product(*spans):
        name = form
        for number in numbers:
            name = _SPAN.sub(str(number), name, count=1)
        yield name


def read_split(mode: str, systems: tuple[str, ...] | None = None, blocks: bool = False) -> Split:  # noqa: FBT001, FBT002 - a row of a file
    """`2x400` as a `Split`."""
    parts, speed = map(int, mode.split("x"))
    return Split(parts=parts, speed_gbit_s=speed, systems=systems, blocks_next=blocks)


@cache
def list_models(folder: Path) -> frozenset[str]:
    """The names of all models, without looking into their files."""
    return frozenset(path.stem for path in folder.glob(f"*{SUFFIX}"))


def read_file(name: str, folder: Path) -> object:
    """What the file of one model says, not checked."""
    text = (folder / f"{name}{SUFFIX}").read_text()
    return yaml.load(text, LOADER)  # noqa: S506 - a safe one


@cache
def read_model(name: str, folder: Path) -> SwitchModel:
    """Read one model.

    Raises:
        ValidationError: Its file is not sound.
    """
    return ModelFile.model_validate(read_file(name, folder)).as_model(name)
