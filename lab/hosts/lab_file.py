"""The lab file (`lab.json`): which switches and hosts one lab daemon plays."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.core.errors import UsageError
from components.core.record import record
from lab.cloud.crusoe.model import CrusoeConfig
from lab.hypervisors.config import EsxiConfig
from lab.infiniband.config import PlainSwitchConfig, UfmLab
from lab.infiniband.manager import POLLING_MS
from lab.views import HostConfig, SwitchConfig


@record
class CloudLab:
    """An emulated cloud, and how the machines that it makes are reached."""

    api: CrusoeConfig
    ssh_user: str
    ssh_port: int


@record
class SourcesLab:
    """The emulated web and the registry that a site takes everything from."""

    address: str
    login: str = ""
    """`user:password` that the registry asks for; empty: it serves everybody."""
    web_login: str = ""
    """The same of the web."""
    trusted: bool = False
    """The images of the hosts trust their authority, as where a site has put its own into them."""


@record
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
    sm_polling_ms: int = POLLING_MS
    """How often a standby subnet manager asks its master; tests have no minute for it."""
    sources: SourcesLab | None = None
    plain_switches: tuple[PlainSwitchConfig, ...] = ()
    """InfiniBand switches that nothing logs in to."""
    ufm: UfmLab | None = None

    @property
    def control_socket(self) -> Path:
        """Where the daemon of this lab listens."""
        return self.root / "control.sock"

    @property
    def trust(self) -> Path | None:
        """The authorities that hosts trust; None for those of this machine."""
        trusted = self.sources is not None and self.sources.trusted
        return self.root / "sources" / "trusted.crt" if trusted else None


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
