"""The known switch models: one file each in `models/`, read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from components.catalogue.switches.switch_model import FOLDER, SwitchModel, list_models, read_model


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
