"""The payload without Kubernetes: one container per host, and MPI over SSH between them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from components.model.texts import RegistryUser
from components.model.units import (
    DnsLabel,
    Frozen,
    PinnedImage,
    ReleaseText,
    SecretRef,
    Sha256,
    TcpPort,
)

DOCKER_HUB: Final = "docker.io"
"""The registry of an image that names none."""


class RegistryLogin(Frozen):
    """Login to a registry."""

    user: RegistryUser
    password: SecretRef
    """Secret with the password or token."""


class ImageBuild(Frozen):
    """How the first host builds the multi-node image."""

    base: PinnedImage
    """`FROM`: the guide's is `nvcr.io/nvaie/tensorflow:21.07-tf1-py3`."""
    login: RegistryLogin | None = None
    """Login to the registry of `base`, where that is another one than the image's: NVIDIA's
    `nvcr.io/nvaie` wants the user `$oauthtoken` and an NGC key."""
    mofed_version: ReleaseText | None = None
    """NVIDIA's user-space RDMA libraries in the image, the hosts' driver version.

    With `mofed_sha256`; without both the image takes rdma-core of its own system.
    """
    mofed_sha256: Sha256 | None = None
    """Checksum of NVIDIA's archive of that version."""
    os_version: ReleaseText = "ubuntu20.04"
    """NVIDIA's name of the image's system."""


class Containers(Frozen):
    """One container per host, as in NVIDIA AI Enterprise's multi-node guide."""

    image: PinnedImage
    """Image that all hosts run, with its registry: it is pushed there after the build."""
    build: ImageBuild | None = None
    """Build and push the image; None: it is only pulled."""
    login: RegistryLogin | None = None
    """Login to the image's registry."""
    name: DnsLabel = "mpicont"
    """Name of the container."""
    ssh_port: TcpPort | None = None
    """SSH port of the hosts among each other, by which `mpirun` starts its daemons; default each
    host's `ssh.port`."""
    shm_size_gib: Annotated[int, Field(ge=1)] = 1
    """Shared memory in GiB; NCCL's shared-memory transport lives there."""
    stack_bytes: Annotated[int, Field(gt=0)] = 67108864
    """`--ulimit stack`: 64 MiB, the guide's value."""


def registry_of(image: str) -> str:
    """The registry of an image: its first part, if that has a dot or a port."""
    first, slash, _ = image.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if named else DOCKER_HUB
