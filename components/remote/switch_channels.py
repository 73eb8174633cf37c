"""Connections for a switch session: a terminal over asyncssh, or an API over HTTPS.

All connections run in one background thread, which starts with the first terminal and ends with the
last one. So simultaneous terminals share the connections to their jump hosts.

Over HTTPS a command is a request, and its output is the answer's body. Nothing is sent unless the
certificate is the pinned one. Each request has its own connection, so a server may close idle ones.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import ssl
from codecs import getincrementaldecoder
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.limits import Deadline, end_within, read_all, timed
from components.core.plain_text import one_line
from components.core.templates import fault_text
from components.remote.ssh import JumpHosts, end, login, no_session
from components.remote.ssh_library import asyncssh
from components.remote.step import Endpoint

TERMINAL: Final = "vt100"
SIZE: Final = (511, 1000)
"""Columns and rows: netmiko's, which work on all known systems (systems/eos/WHY.md)."""
CHUNK_BYTES: Final = 32768
"""Most bytes of a channel's packet; a peer with a longer one breaks the protocol."""
HELD_BYTES: Final = 1 << 20
"""Most unread bytes; SSH's flow control holds the rest."""
LONGEST_ESCAPE: Final = 1024
"""Most characters kept of an unfinished title or other terminal string."""
_STRING: Final = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\r\n]*"
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_ESCAPE: Final = re.compile(
    # ECMA-48, 5.3 to 5.6; xterm also ends an OSC with BEL.
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)|{_CSI}[@-~]|\x1b[ -/]{{1,8}}[0-~]|\x1b[0-~]"
)
_UNFINISHED: Final = re.compile(rf"(?:{_STRING}\x1b?|{_CSI}|\x1b[ -/]{{0,8}})\Z")
_BEGIN: Final = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
_LAST: Final = 2
"""Only the last two starts can be unfinished, since ESC also ends a sequence."""
_ResultT = TypeVar("_ResultT")
LONGEST_ANSWER: Final = 64 << 20
"""Most bytes: 64,000 members of a partition take some 6 MB."""


@dataclass(slots=True)
class PlainStream:
    """Terminal text without escape sequences, even if one arrives in two pieces."""

    _decoder: Any = field(default_factory=lambda: getincrementaldecoder("utf-8")("replace"))
    held: str = ""
    """The start of an unfinished sequence."""

    def feed(self, data: bytes) -> str:
        """Return the text of a new piece, without a second search of earlier text."""
        text = self.held + self._decoder.decode(data)
        self.held = ""
        begins = [found.start() for found in _BEGIN.finditer(text)]
        for begin in begins[-_LAST:]:
            if _UNFINISHED.match(text, begin):
                text, held = text[:begin], text[begin:]
                # Its end may be ESC and a letter.
                self.held = held[:LONGEST_ESCAPE] + "\x1b" * held.endswith("\x1b", LONGEST_ESCAPE)
                break
        return _ESCAPE.sub("", text)


class _Background:
    """The thread of all connections, which runs while terminals exist."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread()
        self.jumps = JumpHosts({})

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._loop, self.jumps = asyncio.new_event_loop(), JumpHosts({})
                self._thread = Thread(target=self._loop.run_forever, name="ssh", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self.run(self._wind_up())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def call(self, work: Callable[[], None]) -> None:
        """Run a function there without waiting."""
        self._loop.call_soon_threadsafe(work)

    async def _wind_up(self) -> None:
        await self.jumps.aclose()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def run(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Wait for work with its own deadline; a signal here cancels it there too."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_BACKGROUND: Final = _Background()


class _Channel(asyncssh.SSHClientSession[bytes]):
    """The far end of a terminal in the background: only it writes `came`, only readers `taken`."""

    def __init__(self) -> None:
        self.pieces = SimpleQueue[bytes]()
        self.came = self.taken = 0
        self.waits = False
        self.channel: Any = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        del datatype
        self.came += len(data)
        self.pieces.put(data)
        if self.came - self.taken > HELD_BYTES and not self.waits:
            self.waits = True
            self.channel.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.pieces.put(b"")

    def write(self, data: bytes) -> None:
        with suppress(OSError, asyncssh.Error):
            self.channel.write(data)

    def go_on(self) -> None:
        self.waits = False
        self.channel.resume_reading()


class Terminal:
    """An open terminal. Use it in one thread, and close it."""

    def __init__(self, connection: asyncssh.SSHClientConnection, channel: _Channel) -> None:
        self._connection, self._channel = connection, channel
        self._open = True

    def write(self, text: str) -> None:
        """Send text, or raise OSError if closed here; the next read reports an ended session."""
        if not self._open:
            raise OSError("the terminal is closed")
        _BACKGROUND.call(partial(self._channel.write, text.encode()))

    def read(self, within_s: float) -> bytes:
        """Return the next bytes, at most CHUNK_BYTES, none at the end; TimeoutError if late."""
        channel = self._channel
        try:
            data = channel.pieces.get(timeout=within_s)
        except Empty:
            raise TimeoutError from None
        channel.taken += len(data)
        if channel.waits and channel.came - channel.taken < HELD_BYTES:
            _BACKGROUND.call(channel.go_on)
        if not data:
            channel.pieces.put(data)  # later reads see the end too
        return data

    def close(self) -> None:
        """Close the connection, even if the switch has closed it already."""
        if not self._open:
            return
        self._open = False
        try:
            _BACKGROUND.run(end(self._connection))
        finally:
            _BACKGROUND.leave()


def open_terminal(endpoint: Endpoint, secrets: Mapping[str, str], within_s: float) -> Terminal:
    """Log in to a switch with a pinned key, then open a terminal; errors as of `ssh.login`."""
    _BACKGROUND.enter()
    try:
        return _BACKGROUND.run(_open(endpoint, secrets, within_s))
    except BaseException:
        _BACKGROUND.leave()
        raise


async def _open(endpoint: Endpoint, secrets: Mapping[str, str], within_s: float) -> Terminal:
    through = await _BACKGROUND.jumps.through(endpoint.jump, secrets)
    connection = await login(endpoint, secrets, through, within_s)
    untyped: Any = connection  # asyncssh does not declare that `encoding=None` gives bytes
    try:
        async with asyncio.timeout(within_s):
            _, channel = await untyped.create_session(
                _Channel, term_type=TERMINAL, term_size=SIZE, encoding=None, max_pktsize=CHUNK_BYTES
            )
    except (TimeoutError, OSError, asyncssh.Error) as error:
        with suppress(OSError, asyncssh.Error):
            connection.abort()
        why = "no answer" if isinstance(error, TimeoutError) else one_line(str(error))
        what = f"the switch takes the login and opens no terminal: {why or type(error).__name__}"
        fix = "see whether it has sessions left, and whether this user may have a terminal"
        raise no_session(endpoint, f"{what}\n  fix    {fix}", within_s) from error
    except BaseException:
        connection.abort()
        raise
    return Terminal(connection, channel)


@dataclass(slots=True)
class DeviceSession:
    """A login at a switch. Use it in one thread, and as a context manager."""

    endpoint: Endpoint

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.endpoint.where

    def close(self) -> None:
        """Close the connection, if one stays open between two commands."""

    def __enter__(self) -> Self:
        """Return the session itself, already open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection, even if the switch has closed it already."""
        self.close()


@dataclass(slots=True)
class HttpsSession(DeviceSession):
    """One login at an API. No connection is open between two requests."""

    password: str = field(repr=False)
    deadline: Deadline
    """For all requests together."""

    def run(self, command: str) -> str:
        """Send one request, `GET /path` or `POST /path {…}`; `{user}` in a path is the login.

        Returns the body, after a failure with `[status N] reason: ` before it. UnreachableError:
        nothing answers in time. HostKeyError: another certificate. DeviceError: a refused login.
        """
        method, _, rest = command.partition(" ")
        path, _, body = rest.partition(" ")
        path = path.replace("{user}", quote(self.endpoint.user, safe=""))
        status, reason, text = self._answer(method, path, body)
        if status == HTTPStatus.UNAUTHORIZED:
            raise DeviceError(fault_text(__file__, "api-password", endpoint=self.endpoint))
        if status // 100 == 2:  # noqa: PLR2004 - the class of successes (RFC 9110)
            return text
        return f"[status {status}] {reason}: {text.strip()}"

    def left_s(self) -> float:
        """Seconds to the deadline."""
        return self.deadline.ends_at_s - self.deadline.clock()

    def renew(self) -> None:
        """Restart the deadline, to restore changed values."""
        self.deadline = Deadline(self.deadline.seconds)

    def _answer(self, method: str, path: str, body: str) -> tuple[int, str, str]:
        # Accept any authority and name, since the whole certificate is compared.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(
            self.endpoint.address, self.endpoint.port, context=timed(context)
        )
        try:
            connection.timeout = self.deadline.left_s()
            connection.connect()
            # Compare the certificate before anything but the handshake is sent.
            offered = connection.sock.getpeercert(binary_form=True)
            digest = hashlib.sha256(offered or b"").hexdigest()
            if digest != self.endpoint.host_key:
                words = {"endpoint": self.endpoint, "digest": digest}
                raise HostKeyError(fault_text(__file__, "certificate", **words))
            login = base64.b64encode(f"{self.endpoint.user}:{self.password}".encode()).decode()
            headers = {"Content-Type": "application/json"} if body else {}
            headers["Authorization"] = f"Basic {login}"
            connection.request(method, path, body or None, headers)
            with end_within(self.deadline):
                answer = connection.getresponse()
                data = read_all(answer.read1, self.deadline, LONGEST_ANSWER)
        except (OSError, HTTPException) as error:
            why = f"no answer over HTTPS: {' '.join(str(error).split()) or type(error).__name__}"
            if isinstance(error, ConnectionRefusedError):
                why = "connection refused; nothing listens there"
            elif isinstance(error, TimeoutError):
                why = f"no answer within {self.deadline.seconds:g} s"
            raise UnreachableError(f"{self.where}: {why}") from error
        finally:
            connection.close()
        return answer.status, answer.reason, data.decode("utf-8", "replace")


def open_https(endpoint: Endpoint, secrets: Mapping[str, str], deadline_s: float) -> HttpsSession:
    """Return a login at an API; it sends nothing before the first request."""
    password = secrets[endpoint.password_secret or ""]
    return HttpsSession(endpoint, password, Deadline(deadline_s))
