"""A thin client of Crusoe's REST API: signed requests, pages, and one error type per meaning.

Paths and forms come from the vendor's Swagger file (gateway v1). The client repeats only requests
that change nothing. If the answer to a change is lost, the caller must find out what happened.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Event
from typing import Final, cast
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from pydantic import JsonValue
from urllib3.exceptions import HTTPError

from components.core import limits
from components.core.errors import DeviceError, UsageError
from components.core.record import record
from components.core.templates import fault_text

Query = Sequence[tuple[str, str]]
_ASK_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_GOOD: Final = 2
_FAILED: Final = 5
"""The first digit of a status."""
_FIRST_PAUSE_S: Final = 0.1
_PAGE: Final = "100"
"""Objects per request if the API pages its list, which it does only for instances."""
_QUOTA: Final = "the project's quota does not reach"
_QUOTA_FIX: Final = (
    "ask the vendor for more, or free some; then run again: Railyard keeps the objects that exist "
    "and makes the rest"
)
_MEANINGS: Final = {
    401: "it does not accept the access key, or this machine's clock is wrong",
    403: "the access key lacks the right for this in this project",
    429: "Railyard sent too many requests",
}
Document = Mapping[str, JsonValue]


class CloudError(DeviceError):
    """The API refused or failed. This never means that an object is absent."""

    exit_code = 4

    def __init__(self, text: str, status: int = 0) -> None:
        """Keep the HTTP status; 0 if no answer came."""
        super().__init__(text)
        self.status = status


class AmbiguousError(CloudError):
    """The answer to a change was lost: the change may or may not have happened."""


class NotFoundError(CloudError):
    """The API does not know the id; the object is gone only if a list lacks it too."""


def canonical_query(query: Query) -> str:
    """Sort by key, keep the order of equal keys, and form-encode (a space becomes `+`)."""
    return urlencode(sorted(query, key=lambda item: item[0]))


def sign(secret: str, method: str, path: str, query: Query, timestamp: str) -> str:
    """The signature of one request.

    `secret` is the secret key as the vendor shows it: base64 for URLs, without padding. `path` has
    the version (`/v1/capacities`), `query` the parameters as they are sent, and `timestamp` is the
    header `X-Crusoe-Timestamp`.
    """
    padded = secret + "=" * (-len(secret) % 4)
    try:
        key = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(fault_text(__file__, "wrong-key")) from error
    message = f"{path}\n{canonical_query(query)}\n{method}\n{timestamp}\n"
    digest = hmac.new(key, message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Deadline:
    """A time limit for polling, with short pauses at first because many tasks end quickly."""

    def __init__(self, seconds: float, poll_s: float) -> None:
        """Start now; `poll_s` is the longest pause between two polls."""
        self._ends_at_s = time.monotonic() + seconds
        self._poll_s = poll_s
        self._pause_s = min(_FIRST_PAUSE_S, poll_s)

    @property
    def passed(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() > self._ends_at_s

    def pause(self) -> None:
        """Wait until the next poll; each pause is twice as long as the one before."""
        Event().wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, self._poll_s)


@record
class Patience:
    """How long to wait for the API, in seconds."""

    request_s: float = 30.0
    """For one answer."""
    poll_s: float = 2.0
    """Longest pause between two polls; the vendor's own tools take 2."""
    reads: int = 4
    """How often to try a read."""
    settle_s: float = 30.0
    """For an object to appear in a list after an answer was lost."""
    operation_s: float = 180.0
    """To make a network object, or to delete any object."""
    boot_s: float = 600.0
    """For an instance to run and answer SSH: the vendor's article says up to 7 minutes."""

    def until(self, seconds: float) -> Deadline:
        """A deadline that many seconds from now, which polls at this pace."""
        return Deadline(seconds, self.poll_s)


class CrusoeApi:
    """Send signed requests to one project."""

    def __init__(
        self, endpoint: str, project: str, keys: tuple[str, str], patience: Patience | None = None
    ) -> None:
        self.patience = patience or Patience()
        self._base, self._project = urlsplit(endpoint.rstrip("/")), project
        self._access_key, self._secret_key = keys
        self._pool = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(total=self.patience.request_s),
            ssl_context=limits.timed(ssl.create_default_context()),
        )

    def below_project(self, path: str) -> str:
        """A path below this project."""
        return f"/projects/{quote(self._project, safe='')}/{path}"

    def get(self, path: str, query: Query = ()) -> Document:
        """Read; try again while the API fails or does not answer."""
        again = self.patience.until(self.patience.operation_s)
        for _ in range(self.patience.reads - 1):
            try:
                return self._send("GET", path, query, None)
            except AmbiguousError:
                again.pause()
        return self._send("GET", path, query, None)

    def list_items(self, path: str, query: Query = ()) -> Iterator[Document]:
        """Read a list to its last page."""
        token = ""
        while True:
            pages = [("limit", _PAGE)] if path.endswith("/instances") else []
            pages += [("next_token", token)] if token else []
            answer = self.get(path, [*query, *pages])
            items = answer.get("items", [])
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise CloudError(f"{self._where('GET', path)}: the answer lacks the list `items`")
            yield from cast("list[Document]", items)
            token = str(answer.get("next_page_token") or "")
            if not token:
                return

    def change(self, method: str, path: str, body: Document | None = None) -> Document:
        """Ask for a change, once.

        Raises: AmbiguousError: the answer was lost, or the API failed, and the caller must find out
        what happened. Any other CloudError: the API refused, and nothing was changed.
        """
        return self._send(method, path, (), body)

    def _send(self, method: str, path: str, query: Query, body: Document | None) -> Document:
        full = f"{self._base.path}{path}"
        text = canonical_query(query)
        url = f"{self._base.scheme}://{self._base.netloc}{full}{'?' if text else ''}{text}"
        now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # RFC 3339
        signature = sign(self._secret_key, method, full, query, now)
        headers = {
            "X-Crusoe-Timestamp": now,
            "Authorization": f"Bearer 1.0:{self._access_key}:{signature}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        total = limits.Deadline(self.patience.request_s)
        try:
            with limits.end_within(total):
                answer = self._pool.request(
                    method,
                    url,
                    body=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    redirect=False,
                    preload_content=False,
                )
                data = limits.read_all(answer.read1, total, limits.ANSWER_BYTES)
            answer.release_conn()
        except (HTTPError, OSError) as error:
            raise AmbiguousError(f"{self._where(method, path)}: no answer: {error}") from error
        return self._read(method, path, answer.status, data)

    def _read(self, method: str, path: str, status: int, data: bytes) -> Document:
        where, document = self._where(method, path), None
        with suppress(ValueError):  # an empty answer gives an empty object
            value = cast("JsonValue", json.loads(data.strip() or b"{}"))
            document = value if isinstance(value, dict) else None
        if status // 100 == _GOOD and document is not None:
            return document
        # The API's explanation of a refusal is `{code, message}` in the vendor's form.
        words = data.decode(errors="replace").strip()[:200] or "without a word"
        if document is not None and "message" in document:
            words = " ".join(str(document.get(key, "")) for key in ("code", "message")).strip()
        said = f"{status} {words}"
        if status == HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"{where}: {said}", status)
        if status in _ASK_AGAIN or status // 100 in {_GOOD, _FAILED}:
            raise AmbiguousError(f"{where}: {said}", status)
        meaning = _QUOTA if "quota_exceeded" in said else _MEANINGS.get(status, "")
        text = f"{where}: {said}{': ' if meaning else ''}{meaning}. This request changed nothing."
        raise CloudError(f"{text}\n  fix    {_QUOTA_FIX}" if meaning == _QUOTA else text, status)

    def _where(self, method: str, path: str) -> str:
        return f"the cloud's API ({method} {self._base.netloc}{self._base.path}{path})"
