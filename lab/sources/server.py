"""The two servers, started and stopped with the lab, and what a test can spoil on the web."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from components.core.errors import UsageError
from lab.cluster.https import Request, Response, serve_tls
from lab.cluster.pki import Authority, KeyPair
from lab.hosts.lab_file import LabFile, SourcesLab
from lab.registry.server import RegistryPlace, run_registry
from lab.sources.content import IMAGES, served_files

WEB: Final = "web"
"""How control requests name the web server."""
WEB_PORT: Final = 8443
REGISTRY_PORT: Final = 5000
PUBLIC: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""The authorities that a Debian machine trusts, in the file from which OpenSSL and curl read."""
USAGE: Final = "usage: fault altered PATH | gone PATH | mended PATH, PATH as the mirror has it"


def authority_of(root: Path) -> Authority:
    """The authority of a lab's servers, made at first use; `root` is the lab's folder."""
    return Authority(root / "sources", "authority")


class Sources:
    """A lab's web server and registry."""

    def __init__(self, lab: LabFile, config: SourcesLab) -> None:
        """Describe them, and write what hosts trust; nothing listens yet."""
        self._config, self._folder = config, lab.root / "sources"
        self._authority = authority_of(lab.root)
        self._files = served_files()
        self._altered: set[str] = set()
        self._gone: set[str] = set()
        self._running = ExitStack()
        if (trust := lab.trust) is not None:
            trust.write_bytes(PUBLIC.read_bytes() + self._authority.files.cert.read_bytes())

    def start(self) -> None:
        """Listen, and fill the registry.

        Raises:
            DeviceError: The registry does not come up.
        """
        address = self._config.address
        files = KeyPair(self._folder / "server.crt", self._folder / "server.key")
        pair = self._authority.issue(files, address, sans=(address,))
        with ExitStack() as opened:
            web = serve_tls((address, WEB_PORT), pair, self.answer)
            opened.callback(web.server_close)
            opened.callback(web.shutdown)
            place = RegistryPlace(
                f"{address}:{REGISTRY_PORT}",
                self._folder / "registry",
                pair,
                self._authority.files.cert.read_text(),
                self._config.login,
            )
            images = opened.enter_context(run_registry(place))
            for name in IMAGES:
                images.put_image(name)
            self._running = opened.pop_all()

    def stop(self) -> None:
        """Stop both; the registry's images stay on disk."""
        self._running.close()

    def answer(self, request: Request) -> Response:
        """Serve one file, if whoever asks may have it."""
        if not self._may(request.headers.get("authorization", "")):
            return Response(HTTPStatus.UNAUTHORIZED, b"login required")
        path = unquote(request.path).lstrip("/")
        body = self._files.get(path)
        if body is None or path in self._gone:
            return Response(HTTPStatus.NOT_FOUND, b"not found")
        if path in self._altered:
            body += b"\n"
        return Response(HTTPStatus.OK, body, "application/octet-stream")

    def _may(self, sent: str) -> bool:
        login = self._config.web_login
        wanted = base64.b64encode(login.encode()).decode()
        return not login or hmac.compare_digest(sent, f"Basic {wanted}")

    def fault(self, args: Sequence[str]) -> str:
        """Take one order of `railyard lab fault`.

        Raises:
            UsageError: There is no such fault or file.
        """
        match args:
            case ["altered" | "gone" | "mended" as what, path] if path in self._files:
                self._altered.discard(path)
                self._gone.discard(path)
                {"altered": self._altered, "gone": self._gone}.get(what, set[str]()).add(path)
                return f"{path} is {what}"
            case ["altered" | "gone" | "mended", _]:
                raise UsageError(f"the web has no such file; it has {', '.join(self._files)}")
            case _:
                raise UsageError(USAGE)
