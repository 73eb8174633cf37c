"""The lab's registry on a free port of 127.0.0.1, with TLS and a login."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lab.cluster.pki import KeyPair
from lab.registry.images import Images
from lab.registry.server import RegistryPlace, run_registry
from tests.artefacts.certificates import ADDRESS, Authority

USER, PASSWORD = "ada", "right-one"
Registry = Images


@contextmanager
def registry(folder: Path, authority: Authority) -> Generator[Registry]:
    """Run a registry until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = KeyPair(*authority.write(folder))
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        host = f"{ADDRESS}:{free.getsockname()[1]}"
    with run_registry(
        RegistryPlace(host, folder, pair, authority.pem, f"{USER}:{PASSWORD}")
    ) as images:
        yield images
