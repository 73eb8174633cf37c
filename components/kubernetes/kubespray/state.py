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
from components.kubernetes.kubespray.inventory import HOSTS, VARIABLES
from components.kubernetes.kubespray.progress import Cluster, UnderWay

FOLDER: Final = Path(".railyard") / "kubespray"
"""Relative to the program's directory, as all that inner commands read."""
_STATE: Final = "state.json"
_OF_KUBESPRAY: Final = ("artifacts/", "credentials/")
"""Folders of the inventory that its playbooks write, and its ansible.cfg does not read."""


@dataclass(frozen=True, slots=True)
class State:
    """The content of `state.json`."""

    there: Cluster | None = None
    """The cluster as the last playbook that ended well left it."""
    under_way: UnderWay | None = None
    tree: str = ""
    """Checksum over the files of the tree that ran."""
    inventory: tuple[str, ...] = ()
    """Checksums of its files as they were written; while they are, those of before as well."""


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

    @property
    def secrets(self) -> Path:
        """Says where a playbook has its keys while it runs."""
        return self.folder / "secrets"

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

    def write_inventory(self, files: Mapping[str, str]) -> None:
        """Write each file of the inventory whole or not at all."""
        for name, text in files.items():
            path = self.inventory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.folder / ".inventory"
            draft.write_text(text, "utf-8")
            draft.replace(path)

    def edited(self, known: tuple[str, ...]) -> tuple[Path, ...]:
        """The files of the inventory that Railyard did not write so.

        Args:
            known: Checksums of what it wrote; with none of them, what has its names is its own.
        """
        found: list[Path] = []
        for path in sorted(each for each in self.inventory.rglob("*") if each.is_file()):
            name = str(path.relative_to(self.inventory))
            ours = inventory_digest(name, path.read_bytes()) in known
            unknown = not known and name in {HOSTS, VARIABLES}
            if not (ours or unknown or name.startswith(_OF_KUBESPRAY)):
                found.append(path)
        return tuple(found)


def inventory_digest(name: str, content: bytes) -> str:
    """The checksum of one file of the inventory, by its path below it."""
    return hashlib.sha256(f"{name}\0".encode() + content).hexdigest()


def keeper_of(stack: str) -> Keeper:
    """The folder of a stack."""
    return Keeper(FOLDER / stack)
