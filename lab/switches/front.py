"""The front panels that the lab emulates, read directly from the catalogue's model files.

The files are data (`components/catalogue/switches/models/`). Each emulator decides itself how a
switch names its ports, and how it handles a split one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict

from components.core.errors import UsageError

FOLDERS: Final = (Path(__file__).parents[2] / "components/catalogue/switches/models",)


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Slow(_Facts):
    ports: int
    gbit_s: int


class _Split(_Facts):
    mode: str
    blocks_next: bool = False
    systems: tuple[str, ...] | None = None


class Front(_Facts):
    """The facts about a model that an emulator needs."""

    systems: dict[str, dict[str, object]]
    ports: int
    lanes: int = 4
    speeds_gbit_s: tuple[int, ...]
    slow: _Slow | None = None
    splits: tuple[_Split, ...] = ()

    def speed(self, number: int) -> int:
        """Speed of a port, by its number on the front panel, in Gbit/s."""
        slow = self.slow is not None and number <= self.slow.ports
        return self.slow.gbit_s if slow and self.slow else max(self.speeds_gbit_s)

    def split(self, number: int, parts: int, system: str) -> _Split | None:
        """The way to split a port into that many parts; None if it cannot."""
        if number > self.ports or (self.slow is not None and number <= self.slow.ports):
            return None
        for each in self.splits:
            plays = each.systems is None or system in each.systems
            if plays and each.mode.startswith(f"{parts}x") and (number % 2 or not each.blocks_next):
                return each
        return None


def front_of(model: str, system: str) -> Front:
    """The front panel of a model; a UsageError if the lab does not know it with this system."""
    known = _find(FOLDERS)
    if model in known and system in (front := _read(known[model])).systems:
        return front
    played = sorted(name for name, path in known.items() if system in _read(path).systems)
    raise UsageError(f"the lab has no switch model {model!r} with {system}; it has {played}")


@cache
def _find(folders: tuple[Path, ...]) -> dict[str, Path]:
    """The file of each model, cached: emulators ask for each port, and no file is added later."""
    return {path.stem: path for folder in folders for path in folder.glob("*.yaml")}


@cache
def _read(path: Path) -> Front:
    return Front.model_validate(yaml.safe_load(path.read_text()))
