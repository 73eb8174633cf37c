"""The lab file (`lab.json`): which switches and hosts one lab daemon plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.core.errors import UsageError
from lab.cloud.crusoe.model import CrusoeConfig
from lab.hypervisors.config import EsxiConfig
from lab.views import HostConfig, SwitchConfig


@dataclass(frozen=True, slots=True)
class CloudLab:
    """An emulated cloud, and how the machines that it makes are reached."""

    api: CrusoeConfig
    ssh_user: str
    ssh_port: int


@dataclass(frozen=True, slots=True)
class LabFile:
    """One lab: its folders and its devices."""

    stack: str
    root: Path
    cache: Path
    project: Path
    python: Path
    switches: tuple[SwitchConfig, ...] = ()
    hosts: tuple[HostConfig, ...] = ()
    hypervisors: tuple[EsxiConfig, ...] = ()
    cloud: CloudLab | None = None

    @property
    def control_socket(self) -> Path:
        """Where the daemon of this lab listens."""
        return self.root / "control.sock"


def load_lab_file(path: Path) -> LabFile:
    """Read and check a lab file.

    Raises:
        UsageError: The file is missing or is not a lab file.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the lab file cannot be read: {error.strerror}") from error
    try:
        return TypeAdapter(LabFile).validate_json(text)
    except ValidationError as error:
        raise UsageError(f"{path}: this is no lab file: {error}") from error
