"""Fetch over https, with certificates, logins, redirects and proxies; detect cut answers.

A proxy comes from `HTTPS_PROXY` and `NO_PROXY`, as for every other program. A login goes only to
its own server, and never with a redirect to another one.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import ssl
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final, cast
from urllib.parse import urlsplit

from components.artefacts.naming import digest_of
from components.core.errors import RailyardError
from components.core.limits import Deadline, end_within, timed
from components.core.record import record
from components.core.templates import finding_of

TIMEOUT_S: Final = 30.0
"""Seconds without a byte after which a server counts as silent."""
ANSWER_DEADLINE_S: Final = 300.0
"""For one whole index or manifest: NVIDIA's 5 MB take that long at 17 kB/s."""
FILE_DEADLINE_S: Final = 14_400.0
"""For one whole file or layer: 20 GB take some 3 hours at 2 MB/s.

Received bytes are kept, and the next try continues from there.
"""
_PIECE: Final = 1 << 20
_LONGEST_ANSWER: Final = 64 << 20
"""Most bytes of an index or manifest: NVIDIA's chart index has some 5 MB."""
_SHORT: Final = 4096
"""Bytes of a refusal to read: S3 explains one in some 400."""
_FIXES: Final[Mapping[int, str]] = {
    401: "give a login: `login` of the source, and its secret in the stack or the environment",
    403: "the login lacks the right to read it, or the server refuses this address",
    404: "correct the address or version; upstream may have taken it away",
    407: "the proxy wants a login: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
    429: "the server limits requests: log in, or try again later",
}


class FetchError(RailyardError):
    """One address could not be fetched: the address, the answer, and the fix."""

    exit_code = 4

    def __init__(self, address: str, what: str, fix: str, status: int = 0) -> None:
        super().__init__(f"{address}: {what}\n  fix    {fix}.")
        self.address, self.what, self.fix, self.status = address, what, fix, status
        self.headers: Mapping[str, str] = {}
        self.body = b""
        """The beginning of the server's own words."""


class WrongContentError(FetchError):
    """The content arrived, and is not the expected one."""

    exit_code = 1


def wrong_checksum(address: str, found: str, wanted: str) -> WrongContentError:
    """The error of content with another checksum than the wanted one."""
    what = f"its checksum is {found}, want {wanted}; it was not used"
    fix = "take it with `railyard pin SITE --update NAME`"
    return WrongContentError(address, what, f"if upstream replaced it for a good reason, {fix}")


def fetch_error(address: str, row: str, **words: object) -> FetchError:
    """The error of a row in `findings.yaml`."""
    found = finding_of(__file__, row, device="", actual="", **words)
    return FetchError(address, found.what, found.fix)


@record
class Login:
    """User and password of one server."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of `Authorization`."""
        text = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {text}"


@record
class Access:
    """Certificates and login for one server."""

    ca: str | None = None
    """Its certificates in PEM form; None for those that this machine trusts."""
    login: Login | None = None
    insecure: bool = False
    """Plain http: only for a registry that the site marks as insecure."""


@dataclass(slots=True)
class Answer:
    """An open answer."""

    address: str
    """The final address, after redirects."""
    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: io.BufferedIOBase = field(repr=False)
    deadline: Deadline = field(default_factory=lambda: Deadline(FILE_DEADLINE_S))

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece; FetchError if it ends before the promised length."""
        promised, got = self.headers.get("content-length"), 0
        try:
            while piece := self.body.read1(_PIECE):
                got += len(piece)
                self.deadline.left_s()
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise _cut(self.address, got, promised, str(error)) from error
        if promised is not None and got != int(promised):
            raise _cut(self.address, got, promised, "the connection was closed")

    def whole(self) -> bytes:
        """The body of an index or manifest; FetchError if it was cut, or is far too long."""
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if len(found) > _LONGEST_ANSWER:
                raise fetch_error(self.address, "endless")
        return bytes(found)


def _cut(address: str, got: int, promised: str | None, why: str) -> FetchError:
    return fetch_error(address, "cut", got=got, promised=promised or "unknown", why=why)


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follow redirects over https only, and send a login only to its own server."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise fetch_error(req.full_url, "not-https", to=newurl)
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None and _server(newurl) == _server(req.full_url):
            for name, value in req.unredirected_hdrs.items():
                if name.lower() == "authorization":
                    found.add_unredirected_header(name, value)
        return found


def _server(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


@record
class Call:
    """One request."""

    address: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    data: bytes | IO[bytes] | None = None
    authorization: str = field(default="", repr=False)
    deadline_s: float = ANSWER_DEADLINE_S


@contextmanager
def open_call(call: Call, access: Access) -> Generator[Answer]:
    """Send one request; the answer is open inside the block. A FetchError gives the fix."""
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked below
        call.address, call.data, dict(call.headers), method=call.method
    )
    if not call.address.startswith("https:" if not access.insecure else ("http:", "https:")):
        raise FetchError(call.address, "it is not https", "write an https address")
    sent = call.authorization or (access.login.header if access.login else "")
    if sent:
        request.add_unredirected_header("Authorization", sent)
    deadline, trusted = Deadline(call.deadline_s), ssl.create_default_context(cadata=access.ca)
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=timed(trusted)), _SameServer()
    )
    try:
        with end_within(deadline), opener.open(request, timeout=TIMEOUT_S) as raw:
            found = cast("http.client.HTTPResponse", raw)
            headers = {name.lower(): value for name, value in found.headers.items()}
            yield Answer(found.url, found.status, headers, found, deadline)
    except urllib.error.HTTPError as error:
        phrase = HTTPStatus(error.code).phrase if error.code in set(HTTPStatus) else ""
        redirected = f" (redirected to {error.url})" if call.address != error.url else ""
        what = f"the server answered {error.code} {phrase}".rstrip()
        fix = _FIXES.get(error.code, "try again later, and read the server's log")
        refused = FetchError(f"{call.address}{redirected}", what, fix, error.code)
        refused.headers = {name.lower(): value for name, value in error.headers.items()}
        with error, suppress(OSError, http.client.HTTPException):
            refused.body = error.read(_SHORT)
        raise refused from error
    except urllib.error.URLError as error:
        raise _unreachable(call.address, error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(call.address, error) from error


def _unreachable(address: str, reason: object) -> FetchError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return fetch_error(address, "untrusted", reason=reason)
    words = "no answer in time" if isinstance(reason, TimeoutError) else str(reason)
    if "Tunnel connection failed: " in words:
        return fetch_error(address, "proxy", said=words.partition("failed: ")[2])
    return fetch_error(address, "unreached", words=words)


def fetch(address: str, access: Access, headers: Mapping[str, str] | None = None) -> bytes:
    """The whole of a small answer."""
    with open_call(Call(address, headers=headers or {}), access) as answer:
        return answer.whole()


def measure(address: str, access: Access) -> tuple[str, int]:
    """SHA-256 and size in bytes of a served file; nothing is kept."""
    digest, size = hashlib.sha256(), 0
    with open_call(Call(address, deadline_s=FILE_DEADLINE_S), access) as answer:
        for piece in answer.pieces():
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size


def length_of(address: str, access: Access) -> int:
    """Size in bytes of a served file, without fetching it; 0 if the server does not say."""
    with open_call(Call(address, "HEAD"), access) as answer:
        return int(answer.headers.get("content-length", "0"))


def download(
    address: str, access: Access, target: Path, sha256: str, authorization: str = ""
) -> None:
    """Fetch a file, or its rest, to its path, where it appears only with the right checksum."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    there = part.stat().st_size if part.is_file() else 0
    call = Call(address, headers={"Range": f"bytes={there}-"} if there else {})
    call = replace(call, authorization=authorization, deadline_s=FILE_DEADLINE_S)
    try:
        with open_call(call, access) as answer:
            again = answer.status == HTTPStatus.PARTIAL_CONTENT
            with part.open("ab" if again else "wb") as file:
                for piece in answer.pieces():
                    file.write(piece)
    except FetchError as error:
        if error.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()
        download(address, access, target, sha256, authorization)
        return
    found = digest_of(part)
    if found != sha256:
        part.unlink()
        raise wrong_checksum(address, found, sha256)
    part.replace(target)
