"""The known switch models: one file each in `models/`, read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from components.catalogue.switches.switch_model import (
    FOLDER,
    PlainSwitch,
    SwitchModel,
    list_models,
    read_file,
    read_model,
)
from components.catalogue.switches.systems import SWITCH_SYSTEMS

WITHOUT_LOGIN: Final = FOLDER / "without_login"


class Catalogue(Mapping[str, SwitchModel]):
    """Model by name, which is that of its file; a file is read when its model is looked up."""

    def __init__(self, *folders: Path) -> None:
        """Look at nothing yet."""
        self.folders = folders

    def __getitem__(self, name: str) -> SwitchModel:
        """Read the file of a model, once."""
        for folder in self.folders:
            if name in list_models(folder):
                return read_model(name, folder)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """All names, sorted."""
        return iter(sorted({name for folder in self.folders for name in list_models(folder)}))

    def __len__(self) -> int:
        """How many there are."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Whether a model has that name, without reading its file."""
        return any(name in list_models(folder) for folder in self.folders)


MODELS = Catalogue(FOLDER)


def find_model(name: str) -> SwitchModel | None:
    """The model with that name, or None; spelling matters as on the front panel."""
    return MODELS.get(name)


def list_plain() -> tuple[str, ...]:
    """The names of all such models."""
    return tuple(sorted(list_models(WITHOUT_LOGIN)))


@cache
def find_plain(name: str) -> PlainSwitch | None:
    """The model with that name; also a managed one, which others may look after."""
    if name in list_models(WITHOUT_LOGIN):
        return PlainSwitch.model_validate(read_file(name, WITHOUT_LOGIN))
    managed = find_model(name)
    if managed is None or "mlnxos" not in managed.systems:
        return None
    usual = SWITCH_SYSTEMS["mlnxos"].ports.form.format(f"[1-{managed.count}]")
    return PlainSwitch.model_construct(
        asic=managed.asic,
        runs="MLNX-OS",
        names=(managed.systems["mlnxos"].names or usual,),
        speeds_gbit_s=managed.port_speeds_gbit_s,
    )
