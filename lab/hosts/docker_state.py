"""What Docker holds on one lab host, and the registry that the hosts of a lab share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

STATE: Final = "var/lib/docker/railyard-lab.json"
PUBLIC_REGISTRIES: Final = ("docker.io", "nvcr.io", "quay.io", "ghcr.io", "registry.k8s.io")
"""Whatever is asked of these exists; every other registry holds what was pushed to it."""


@dataclass(slots=True)
class Image:
    """One image."""

    id: str
    """`sha256:…` of what it was made from."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Repository to the digest that its registry gave."""


@dataclass(slots=True)
class Container:
    """One container, as `docker run` was told."""

    id: str
    name: str
    image: str
    image_id: str
    command: tuple[str, ...]
    running: bool
    boot_id: str
    options: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Long option name to its values, in their order."""
    runtime: str = "runc"
    exit_code: int = 0

    def option(self, name: str, default: str = "") -> str:
        """The last value of an option."""
        return (self.options.get(name) or [default])[-1]

    @property
    def restarts(self) -> bool:
        """It comes back after a reboot."""
        return self.option("restart").partition(":")[0] in ("always", "unless-stopped")


@dataclass(slots=True)
class DockerState:
    """All images by reference and containers by name."""

    images: dict[str, Image] = field(default_factory=dict[str, Image])
    containers: dict[str, Container] = field(default_factory=dict[str, Container])


@dataclass(slots=True)
class Registry:
    """What was pushed, by reference."""

    images: dict[str, Image] = field(default_factory=dict[str, Image])


_STATE = TypeAdapter(DockerState)
_REGISTRY = TypeAdapter(Registry)


def load_state(root: Path) -> DockerState:
    """Docker's state on the host whose folders lie below `root`."""
    path = root / STATE
    return _STATE.validate_json(path.read_bytes()) if path.exists() else DockerState()


def save_state(root: Path, state: DockerState) -> None:
    """Write Docker's state where it survives a reboot."""
    (root / STATE).parent.mkdir(parents=True, exist_ok=True)
    (root / STATE).write_bytes(_STATE.dump_json(state, indent=1))


def load_registry(lab: Path) -> Registry:
    """The lab's registry."""
    path = lab / "registry.json"
    return _REGISTRY.validate_json(path.read_bytes()) if path.exists() else Registry()


def save_registry(lab: Path, registry: Registry) -> None:
    """Write the lab's registry."""
    (lab / "registry.json").write_bytes(_REGISTRY.dump_json(registry, indent=1))


def full_reference(name: str) -> str:
    """A reference with its tag: `latest` where neither tag nor digest is there."""
    if "@" in name or ":" in name.rpartition("/")[2]:
        return name
    return f"{name}:latest"


def repository(reference: str) -> str:
    """A reference without tag and digest."""
    plain = reference.partition("@")[0]
    head, _, tail = plain.rpartition("/")
    name = tail.partition(":")[0]
    return f"{head}/{name}" if head else name


def registry_host(reference: str) -> str:
    """The registry that a reference names; `docker.io` where it names none."""
    first, sign, _ = reference.partition("/")
    return first if sign and ("." in first or ":" in first or first == "localhost") else "docker.io"


def digest_of(*parts: str) -> str:
    """A stable `sha256:…` of texts."""
    return "sha256:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()
