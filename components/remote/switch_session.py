"""One command-line session with a switch: netmiko, one SSH connection, one deadline."""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import TracebackType
from typing import Any, Final, Self

from netmiko import BaseConnection
from netmiko.exceptions import (
    NetmikoAuthenticationException,
    NetmikoBaseException,
)
from paramiko import Channel, SSHException, Transport
from paramiko.ssh_exception import (
    BadAuthenticationType,
    BadHostKeyException,
    NoValidConnectionsError,
)

from components.core.errors import Bug, DeviceError, HostKeyError, SpecError, UnreachableError
from components.remote.session_profile import SessionProfile
from components.remote.step import Endpoint

CONNECT_S: Final = 10.0
"""To open a TCP connection and log in: a switch that is up answers in about one second."""
SHORTEST_S: Final = 0.01
"""A socket timeout of 0 would mean not to wait at all."""
CHUNK_BYTES: Final = 65536
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])")
_STATUS: Final = re.compile(r"\[status (\d+)\]\n?$")


class _KeyboardFirst(Transport):
    """Logs in by keyboard-interactive, which Onyx offers, and only then by plain password.

    paramiko's own order costs a failed attempt, and asks twice for the login service, which
    stricter servers end the connection for.
    """

    def auth_password(
        self,
        username: str,
        password: str,
        event: Event | None = None,
        fallback: bool = True,  # noqa: FBT001, FBT002 - paramiko's signature
    ) -> list[str]:
        del fallback

        def answer(_title: str, _text: str, fields: list[tuple[str, bool]]) -> list[str]:
            return [password] * len(fields)

        try:
            return self.auth_interactive(username, answer)
        except BadAuthenticationType:
            return super().auth_password(username, password, event, fallback=False)


class _Connection(BaseConnection):
    """A netmiko session that waits for what the switch says, and for nothing else."""

    def __init__(self, profile: SessionProfile, **login: Any) -> None:  # noqa: ANN401 - netmiko's own arguments
        self._profile = profile
        super().__init__(**login)

    def _connect_params_dict(self) -> dict[str, object]:
        keyboard = {"transport_factory": _KeyboardFirst} if self._profile.keyboard_first else {}
        return {**super()._connect_params_dict(), **keyboard}

    def _try_session_preparation(self, force_data: bool = True) -> None:  # noqa: FBT001, FBT002 - netmiko's own signature
        """Skip netmiko's first return: a switch that already hung up has said why; read that."""
        del force_data
        super()._try_session_preparation(force_data=False)

    def session_preparation(self) -> None:
        """Read the prompt of the login, and send what the profile sends first."""
        ends_at_s = time.monotonic() + self.conn_timeout
        _read_to_prompt(self, self._profile.prompt, ends_at_s)
        for line in self._profile.prepare:
            self.write_channel(f"{line}\n")
            _read_to_prompt(self, self._profile.prompt, ends_at_s)


@dataclass(slots=True)
class SwitchSession:
    """An open session. Use it in one thread, and as a context manager."""

    endpoint: Endpoint
    connection: BaseConnection
    ends_at_s: float
    deadline_s: float
    profile: SessionProfile

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.endpoint.where

    def run(self, command: str) -> str:
        """Send one line and return what it printed, without echo, prompt and escapes.

        Where there are exit statuses, one other than 0 is at the end as `[status N]`.

        Raises:
            UnreachableError: The session ended, or the deadline passed, before the prompt.
        """
        try:
            tail = '; echo "[status $?]"' if self.profile.has_status else ""
            self.connection.write_channel(f"{command}{tail}\n")
            raw = _read_to_prompt(self.connection, self.profile.prompt, self.ends_at_s)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self.where}: no prompt after `{command}` within the deadline of "
                f"{self.deadline_s:g} s"
            ) from error
        except (NetmikoBaseException, OSError, SSHException, EOFError) as error:
            raise UnreachableError(
                f"{self.where}: the session ended while `{command}` ran"
            ) from error
        text = _clean(raw, self.profile.prompt)
        return _judged(text) if self.profile.has_status else text

    def __enter__(self) -> Self:
        """The session itself, already open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; a switch that is already gone is no error."""
        client = self.connection.remote_conn_pre
        if client is not None:
            client.close()


def _judged(text: str) -> str:
    """Take the mark of success away, so that an output is as the command printed it."""
    found = _STATUS.search(text)
    if found is None:
        return f"{text}\n[status unknown]\n"
    return text[: found.start()] if found[1] == "0" else text


def _read_to_prompt(connection: BaseConnection, prompt: str, ends_at_s: float) -> str:
    """Read until the prompt; netmiko's own reader does not notice a session that died.

    Raises:
        TimeoutError: The deadline passed first.
        EOFError: The session ended first; its text is what was read.
    """
    channel = connection.remote_conn
    if not isinstance(channel, Channel):
        raise Bug("a switch session is an SSH session")
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text = ""
    while re.search(prompt, _ESCAPES.sub("", text)) is None:
        channel.settimeout(max(ends_at_s - time.monotonic(), SHORTEST_S))
        chunk = channel.recv(CHUNK_BYTES)
        if not chunk:
            raise EOFError(text)
        text += decode(chunk)
    return text


def _clean(raw: str, prompt: str) -> str:
    text = _ESCAPES.sub("", raw).replace("\r\n", "\n").replace("\r", "")
    _echo, _, rest = text.partition("\n")
    return re.sub(prompt, "", rest)


def open_session(
    endpoint: Endpoint, profile: SessionProfile, secret: str, deadline_s: float
) -> SwitchSession:
    """Log in to a switch whose host key is the pinned one.

    Args:
        endpoint: Where, as whom, and with which host key.
        profile: How the command line of its system is talked to.
        secret: The password.
        deadline_s: For the whole session, login included.

    Raises:
        UnreachableError: Nothing listens or answers in time, or the session breaks.
        HostKeyError: The host key is another one.
        DeviceError: The password is refused.
    """
    ends_at_s = time.monotonic() + deadline_s
    with _known_hosts(endpoint) as path, _classified(endpoint, min(CONNECT_S, deadline_s)):
        connection = _Connection(
            profile,
            host=endpoint.address,
            port=endpoint.port,
            username=endpoint.user,
            password=secret,
            ssh_strict=True,
            alt_host_keys=True,
            alt_key_file=str(path),
            conn_timeout=min(CONNECT_S, deadline_s),
            auth_timeout=min(CONNECT_S, deadline_s),
            banner_timeout=min(CONNECT_S, deadline_s),
        )
    return SwitchSession(endpoint, connection, ends_at_s, deadline_s, profile)


@contextmanager
def _known_hosts(endpoint: Endpoint) -> Generator[Path, None, None]:
    """A file with the one pinned key, as the SSH client wants it."""
    if not endpoint.host_key.strip():
        raise SpecError(f"{endpoint.where}: no host key is pinned; without it nothing connects")
    name = endpoint.address if endpoint.port == 22 else f"[{endpoint.address}]:{endpoint.port}"  # noqa: PLR2004 - SSH's default port, as known_hosts writes it
    with TemporaryDirectory(prefix="railyard-") as folder:
        path = Path(folder) / "known_hosts"
        path.write_text(f"{name} {endpoint.host_key.strip()}\n")
        yield path


@contextmanager
def _classified(endpoint: Endpoint, connect_s: float) -> Generator[None, None, None]:
    try:
        yield
    except NetmikoAuthenticationException as error:
        raise DeviceError(
            f"{endpoint.where}: the switch refuses the password of user {endpoint.user}; "
            f"check the secret {endpoint.password_secret}. Nothing was changed."
        ) from error
    except (NetmikoBaseException, SSHException, OSError, EOFError) as error:
        chain = _chain(error)
        # What netmiko raises while it tidies up hides what the switch said before it hung up.
        telling = [each for each in chain if isinstance(each, (BadHostKeyException, EOFError))]
        cause = (telling or chain[1:] or chain)[0]
        if isinstance(cause, BadHostKeyException):
            raise HostKeyError(_changed_key(endpoint, cause)) from error
        raise UnreachableError(_why_unreachable(endpoint, connect_s, cause)) from error


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, the last first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None:
        found.append(current)
        current = current.__context__
    return found


def _changed_key(endpoint: Endpoint, error: BadHostKeyException) -> str:
    return (
        f"{endpoint.where}: the host key is not the pinned one; nothing was sent.\n"
        f"  pinned   {_fingerprint(endpoint.host_key)}\n"
        f"  offered  {error.key.get_name()} {_sha256(error.key.asbytes())}\n"
        f"  fix      if the switch was replaced, pin its new key:"
        f" ssh-keyscan -p {endpoint.port} {endpoint.address}"
    )


def _why_unreachable(endpoint: Endpoint, connect_s: float, cause: BaseException) -> str:
    causes = cause.errors.values() if isinstance(cause, NoValidConnectionsError) else (cause,)
    if any(isinstance(each, ConnectionRefusedError) for each in causes):
        return f"{endpoint.where}: connection refused; nothing listens there"
    if "known_hosts" in str(cause):
        return f"{endpoint.where}: the switch offers no key of the pinned type"
    why = " ".join(str(cause).split()) or type(cause).__name__
    return f"{endpoint.where}: no session within {connect_s:g} s: {why}"


def _fingerprint(key_line: str) -> str:
    kind, _, rest = key_line.strip().partition(" ")
    return f"{kind} {_sha256(base64.b64decode(rest.split()[0]))}"


def _sha256(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
