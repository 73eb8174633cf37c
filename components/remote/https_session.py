"""An API over HTTPS as a session: a command is a request, its output the body of the answer.

The certificate is the pinned one, or nothing is sent. Each request has a connection of its own:
what a server does with an idle one is its own affair.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.limits import Deadline, end_within, read_all, timed
from components.remote.step import Endpoint

LONGEST_ANSWER: Final = 64 << 20
"""Bytes: 64,000 members of a partition take some 6 MB."""


@dataclass(slots=True)
class HttpsSession:
    """One login at an API. Nothing is open between two requests."""

    endpoint: Endpoint
    password: str = field(repr=False)
    deadline: Deadline
    """For all requests together."""

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.endpoint.where

    def run(self, command: str) -> str:
        """Send one request, `GET /path` or `POST /path {…}`; `{user}` in a path is the login.

        Returns:
            The body; where the status is no success, `[status N] reason: ` is before it.

        Raises:
            UnreachableError: Nothing answers in time.
            HostKeyError: The certificate is another one.
            DeviceError: The login is refused.
        """
        method, _, rest = command.partition(" ")
        path, _, body = rest.partition(" ")
        path = path.replace("{user}", quote(self.endpoint.user, safe=""))
        status, reason, text = self._answer(method, path, body)
        if status == HTTPStatus.UNAUTHORIZED:
            raise DeviceError(
                f"{self.where}: the password of user {self.endpoint.user} is refused; check the "
                f"secret {self.endpoint.password_secret}. This request changed nothing."
            )
        if status // 100 == 2:  # noqa: PLR2004 - the class of successes (RFC 9110)
            return text
        return f"[status {status}] {reason}: {text.strip()}"

    def left_s(self) -> float:
        """Seconds to the deadline."""
        return self.deadline.ends_at_s - self.deadline.clock()

    def renew(self) -> None:
        """Begin the deadline again, to put back what was changed."""
        self.deadline = Deadline(self.deadline.seconds)

    def _answer(self, method: str, path: str, body: str) -> tuple[int, str, str]:
        connection = HTTPSConnection(
            self.endpoint.address, self.endpoint.port, context=timed(_unverified())
        )
        try:
            connection.timeout = self.deadline.left_s()
            connection.connect()
            self._compare(connection)
            connection.request(method, path, body or None, self._headers(body))
            with end_within(self.deadline):
                answer = connection.getresponse()
                data = read_all(answer.read1, self.deadline, LONGEST_ANSWER)
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"{self.where}: {_why(error, self.deadline.seconds)}") from error
        finally:
            connection.close()
        return answer.status, answer.reason, data.decode("utf-8", "replace")

    def _compare(self, connection: HTTPSConnection) -> None:
        """Nothing was sent yet but the handshake."""
        offered = connection.sock.getpeercert(binary_form=True)
        digest = hashlib.sha256(offered or b"").hexdigest()
        if digest != self.endpoint.host_key:
            raise HostKeyError(
                f"{self.where}: the certificate is not the pinned one; no password was sent.\n"
                f"  pinned   {self.endpoint.host_key}\n"
                f"  offered  {digest}\n"
                "  fix      if it was renewed, write the new certificate_sha256"
            )

    def _headers(self, body: str) -> dict[str, str]:
        login = f"{self.endpoint.user}:{self.password}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        return headers | ({"Content-Type": "application/json"} if body else {})

    def __enter__(self) -> Self:
        """The session itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is open."""


def _unverified() -> ssl.SSLContext:
    """No authority and no name is asked: the certificate is compared as a whole."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _why(error: OSError | HTTPException, deadline_s: float) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; nothing listens there"
    if isinstance(error, TimeoutError):
        return f"no answer within {deadline_s:g} s"
    return f"no answer over HTTPS: {' '.join(str(error).split()) or type(error).__name__}"


def open_https(endpoint: Endpoint, secrets: Mapping[str, str], deadline_s: float) -> HttpsSession:
    """A login at an API; the first request is the first that is sent.

    Args:
        endpoint: Where, as whom, and the SHA-256 of the certificate.
        secrets: Secret name to value.
        deadline_s: For all requests together.
    """
    password = secrets[endpoint.password_secret or ""]
    return HttpsSession(endpoint, password, Deadline(deadline_s))
