"""A real S3 server (versitygw), run with TLS on one loopback address; objects are files."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from components.core.record import field, record
from lab.cluster.pki import KeyPair
from lab.cluster.process import Child, wait_until
from lab.registry.build import S3

READY_DEADLINE_S: Final = 20.0
"""It listens after 0.3 s on an idle core."""


@record
class S3Place:
    """Where one server listens, and what it keeps."""

    host: str
    """`address:port`."""
    folder: Path
    pair: KeyPair
    authority: str
    """The certificate that signed that of `pair`, in PEM form."""
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"

    @property
    def data(self) -> Path:
        """The folder of the buckets: each is a folder."""
        return self.folder / "data"


@contextmanager
def run_s3(place: S3Place) -> Generator[None]:
    """Run a server until the block ends.

    Raises:
        DeviceError: It did not build, or does not answer; the text holds its own words.
    """
    attributes, log = place.folder / "attributes", place.folder / "log"
    for folder in (place.data, attributes):
        folder.mkdir(parents=True, exist_ok=True)
    child = Child(
        "versitygw",
        [
            *(str(S3.program()), "--port", place.host, "--region", place.region, "--quiet"),
            *("--cert", str(place.pair.cert), "--key", str(place.pair.key)),
            *("posix", "--sidecar", str(attributes), str(place.data)),
        ],
        log,
    )
    child.start({"ROOT_ACCESS_KEY": place.access_key, "ROOT_SECRET_KEY": place.secret_key})

    def answers() -> bool:
        child.check_running()
        context = ssl.create_default_context(cadata=place.authority)
        asked = http.client.HTTPSConnection(place.host, timeout=5, context=context)
        try:
            asked.request("GET", "/")
            return asked.getresponse().status > 0
        except OSError:  # nothing listens yet
            return False
        finally:
            asked.close()

    try:
        wait_until(f"the S3 server at {place.host}, see {log}", answers, READY_DEADLINE_S)
        yield
    finally:
        child.stop()
