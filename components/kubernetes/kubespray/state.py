"""What this machine keeps of a cluster: how far it is, and the inventory that was last used.

The folder holds kubespray's own credentials too, so that it is worth a backup.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from components.core.errors import DeviceError
from components.core.to_json import to_json
from components.kubernetes.kubespray.progress import Cluster, UnderWay

FOLDER: Final = Path(".railyard") / "kubespray"
"""Relative to the program's directory, as all that inner commands read."""
_STATE: Final = "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """The content of `state.json`."""

    there: Cluster | None = None
    """The cluster as the last playbook that ended well left it."""
    under_way: UnderWay | None = None
    tree: str = ""
    """Checksum over the files of the tree that ran."""
    inventory: str = ""
    """Checksum of the inventory as it was written."""


_STATES: Final = TypeAdapter(State)


@dataclass(frozen=True, slots=True)
class Keeper:
    """The folder of one stack."""

    folder: Path

    @property
    def inventory(self) -> Path:
        """The folder that Ansible gets."""
        return self.folder / "inventory"

    @property
    def log(self) -> Path:
        """Where a playbook writes while it runs."""
        return self.folder / "log"

    def load(self, evidence: str = "") -> State:
        """What is known: from this folder, else from what the step printed when it last ran.

        Raises:
            DeviceError: It cannot be read.
        """
        path = self.folder / _STATE
        try:
            if path.exists():
                return _STATES.validate_json(path.read_text("utf-8"))
            if evidence:
                found = json.loads(evidence)
                return _STATES.validate_python(found["state"])
        except (OSError, ValueError, ValidationError, KeyError, TypeError) as error:
            raise DeviceError(
                f"{path}: how far kubespray is cannot be read ({type(error).__name__}). Nothing was"
                " changed.\n  fix    put the file back from a backup"
            ) from error
        return State()

    def save(self, state: State) -> None:
        """Write it whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{_STATE}"
        draft.write_text(json.dumps(to_json(state), indent=1, sort_keys=True) + "\n", "utf-8")
        draft.replace(self.folder / _STATE)

    def forget(self) -> None:
        """The cluster is gone."""
        (self.folder / _STATE).unlink(missing_ok=True)

    def write_inventory(self, files: Mapping[str, str]) -> str:
        """Write the inventory and give its checksum."""
        for name, text in files.items():
            path = self.inventory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return self.inventory_digest(files)

    def inventory_digest(self, names: Mapping[str, str] | tuple[str, ...]) -> str:
        """The checksum of the files as they are now; empty where one is missing."""
        found = hashlib.sha256()
        for name in sorted(names):
            path = self.inventory / name
            if not path.is_file():
                return ""
            found.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
        return found.hexdigest()


def keeper_of(stack: str) -> Keeper:
    """The folder of a stack."""
    return Keeper(FOLDER / stack)
