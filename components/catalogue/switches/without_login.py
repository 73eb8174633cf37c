"""InfiniBand switches to which we do not log in: one file each in `models/without_login/`.

A subnet manager elsewhere controls such a switch; a site file is checked against its ports, their
names and their speeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from components.catalogue.switches import find_model
from components.catalogue.switches.switch_model import FOLDER, list_models, read_file, spell

WITHOUT_LOGIN: Final = FOLDER / "without_login"


@dataclass(frozen=True, slots=True)
class PlainSwitch:
    """The facts that a site file is checked against."""

    asic: str
    runs: str
    halves: tuple[tuple[str, ...], ...]
    """The names of its ports, by the switches in its housing: mostly one."""
    speeds_gbit_s: tuple[int, ...]

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports of all switches in the housing."""
        return tuple(name for half in self.halves for name in half)


class PlainFile(BaseModel):
    """The facts of one model, as its file says them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    asic: str
    """Generation of the switching chip, for example `Quantum-3`."""
    runs: str
    """The system on it: `no system`, or one without settings for us."""
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of its ports: `1/[1-32]/[1-2]`. Two entries are two switches in one housing, without a
    link between them."""
    ports: Annotated[int, Field(ge=1)]
    """Number of its ports."""
    speeds_gbit_s: Annotated[tuple[int, ...], Field(min_length=1)]
    """Speeds of a link of four lanes, in Gbit/s."""
    sources: dict[str, str]
    """Key of this file to who states it."""

    @model_validator(mode="after")
    def _is_sound(self) -> PlainFile:
        odd = ", ".join(sorted((self.model_fields_set - {"sources"}) ^ {*self.sources}))
        if odd:
            raise ValueError(f"a key has a source, and a source a key, but not for: {odd}")
        if (count := len(self.as_model().ports)) != self.ports:
            raise ValueError(f"its names are of {count} ports, and it has {self.ports}")
        return self

    def as_model(self) -> PlainSwitch:
        """The facts in the form that other rooms use."""
        halves = tuple(tuple(spell(form)) for form in self.names)
        return PlainSwitch(self.asic, self.runs, halves, self.speeds_gbit_s)


def list_plain() -> tuple[str, ...]:
    """The names of all such models."""
    return tuple(sorted(list_models(WITHOUT_LOGIN)))


@cache
def find_plain(name: str) -> PlainSwitch | None:
    """The model with that name; also a managed one, which others may look after."""
    if name in list_models(WITHOUT_LOGIN):
        return PlainFile.model_validate(read_file(name, WITHOUT_LOGIN)).as_model()
    managed = find_model(name)
    ports = managed.ports.get("mlnxos") if managed else None
    if managed is None or ports is None:
        return None
    return PlainSwitch(managed.asic, "MLNX-OS", (ports,), managed.port_speeds_gbit_s)
