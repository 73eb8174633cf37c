"""The real registry (distribution), run with TLS on one loopback address."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

import bcrypt
import yaml

from components.core.record import field, record
from lab.cluster.pki import KeyPair
from lab.cluster.process import Child, wait_until
from lab.registry.build import registry_program
from lab.registry.images import Images

READY_DEADLINE_S: Final = 20.0
"""It listens after 0.1 s on an idle core."""
_BCRYPT_ROUNDS: Final = 4
"""The fewest that bcrypt has: the passwords of a lab are public."""


@record
class RegistryPlace:
    """Where one registry listens, and what it keeps."""

    host: str
    """`address:port`."""
    folder: Path
    """Images, settings and the log; what is there from an earlier run is served again."""
    pair: KeyPair
    authority: str
    """The certificate that signed that of `pair`, in PEM form."""
    login: str = field(default="", repr=False)
    """`user:password` that everybody must give; empty: nobody is asked."""

    @property
    def storage(self) -> Path:
        """The folder of its images."""
        return self.folder / "storage"


@contextmanager
def run_registry(place: RegistryPlace) -> Generator[Images]:
    """Run a registry until the block ends, and give the means to fill it.

    Raises:
        DeviceError: It did not build, or does not answer; the text holds its own words.
    """
    place.folder.mkdir(parents=True, exist_ok=True)
    settings = place.folder / "config.yml"
    settings.write_text(yaml.safe_dump(_settings(place)))
    log = place.folder / "log"
    child = Child("registry", [str(registry_program()), "serve", str(settings)], log)
    child.start()
    images = Images(place.host, place.authority, place.login)

    def answers() -> bool:
        child.check_running()
        try:
            return images.call("GET", "/v2/")[0] == HTTPStatus.OK
        except OSError:  # nothing listens yet
            return False

    try:
        wait_until(f"the registry at {place.host}, see {log}", answers, READY_DEADLINE_S)
        yield images
    finally:
        child.stop()


def _settings(place: RegistryPlace) -> dict[str, object]:
    """Its configuration (distribution's page "Configuring a registry")."""
    found: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(place.storage)},
            "delete": {"enabled": True},
        },
        "http": {
            "addr": place.host,
            "tls": {"certificate": str(place.pair.cert), "key": str(place.pair.key)},
        },
    }
    if place.login:
        user, _, password = place.login.partition(":")
        salt = bcrypt.gensalt(_BCRYPT_ROUNDS, prefix=b"2b")
        known = place.folder / "htpasswd"
        known.write_text(f"{user}:{bcrypt.hashpw(password.encode(), salt).decode()}\n")
        found["auth"] = {"htpasswd": {"realm": "lab", "path": str(known)}}
    return found
