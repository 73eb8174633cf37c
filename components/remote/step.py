"""`RemoteStep`: the one unit of remote work, as a plain value.

A step says where it runs, what it wants, how it applies that, how it takes it back, and how it
proves it. It knows no Pulumi and opens no connection: `component.py` makes the resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.errors import Bug

TargetKind = Literal["host", "switch"]
REPAIR_LINE = "repair="
"""Begins the last line of a host's stdin where there is a repair note: no key of a host's state."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one device is reached: addresses and the names of secrets, never their values."""

    device: str
    kind: TargetKind
    address: str
    port: int
    user: str
    host_key: str
    """Pinned public key line, for example `ssh-ed25519 AAAA…`."""
    password_secret: str | None = None
    private_key_secret: str | None = None

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return f"{self.device} ({self.user}@{self.address}:{self.port})"


@dataclass(frozen=True, slots=True)
class RemoteStep:
    """One piece of remote work, safe to run twice and safe to run after half a run."""

    name: str
    """`<target>-<work>`: it becomes the resource name, so it is an API."""
    endpoint: Endpoint
    dialect: Literal["sh", "device"]
    """`sh`: a script on a Linux host over one SSH exec. `device`: `railyard device …` here."""
    desired: str
    """Desired state on stdin: sorted `key=value` lines (`sh`) or indented JSON (`device`)."""
    apply: str
    """Script text (`sh`) or `railyard` arguments (`device`)."""
    deadline_s: float
    """The step ends itself after this long; the engine has no deadline of its own."""
    undo: str | None = None
    """What `destroy` runs, with the same stdin."""
    why_no_undo: str | None = None
    reboots: bool = False
    secret_stdin: str | None = None
    """Name of the secret that is the stdin of this step instead of `desired`."""
    secret_stdout: bool = False

    def __post_init__(self) -> None:
        """Refuse a step that neither undoes nor says why not.

        Raises:
            Bug: Both or neither of `undo` and `why_no_undo` are set.
        """
        if (self.undo is None) == (self.why_no_undo is None):
            raise Bug(f"step {self.name}: exactly one of undo and why_no_undo must be set")
