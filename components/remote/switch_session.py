"""One command-line session with a switch: netmiko, one SSH connection, one deadline."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import TracebackType
from typing import Any, Final, Self

from cryptography.hazmat.primitives import hashes
from paramiko import Channel, RSAKey, SSHException, Transport
from paramiko.kex_group14 import KexGroup14SHA256
from paramiko.ssh_exception import BadAuthenticationType

from components.core.errors import Bug, UnreachableError
from components.core.limits import Held, TooLongError
from components.remote.netmiko_base import BaseConnection, NetmikoBaseException
from components.remote.session_profile import SessionProfile
from components.remote.step import COMMAND_S, Endpoint
from components.remote.switch_errors import classified
from components.remote.switch_login import CONNECT_S, credentials, known_name, way_to
from components.remote.switch_rights import rise

_USUAL: Final[Any] = Transport
"""Its tables of algorithms are not public."""
_RSA: Final[Any] = RSAKey
_SSH_RSA: Final = "ssh-rsa"
"""RSA signed with SHA-1 (RFC 4253, section 6.6)."""


class _Group14Sha1(KexGroup14SHA256):
    name = "diffie-hellman-group14-sha1"
    hash_algo = sha1


class _OldRsa(_RSA):
    HASHES = {**_RSA.HASHES, _SSH_RSA: hashes.SHA1}  # noqa: RUF012 - as in its base


class LegacyTransport(Transport):
    """Takes SHA-1 after everything else: RSA host keys, and the key exchange of group 14.

    It is for switches that have nothing else. paramiko dropped SHA-1 with release 5, and has no
    setting that brings it back.
    """

    _preferred_keys = (*_USUAL._preferred_keys, _SSH_RSA)  # noqa: SLF001 - see above
    _key_info = {**_USUAL._key_info, _SSH_RSA: _OldRsa}  # noqa: SLF001, RUF012 - the same
    _preferred_kex = (*_USUAL._preferred_kex, _Group14Sha1.name)  # noqa: SLF001 - the same
    _kex_info = {**_USUAL._kex_info, _Group14Sha1.name: _Group14Sha1}  # noqa: SLF001, RUF012 - the same


SHORTEST_S: Final = 0.01
"""A socket timeout of 0 would mean not to wait at all."""
CHUNK_BYTES: Final = 65536
TAIL: Final = 4096
"""Characters at the end of an answer that are searched for the prompt: the whole answer would be
searched again for each chunk. A prompt with the line of the status before it has some 100."""
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


class _LegacyKeyboardFirst(LegacyTransport, _KeyboardFirst):
    """Both."""


_TRANSPORTS: Final[dict[tuple[bool, bool], type[Transport]]] = {
    (True, False): _KeyboardFirst,
    (False, True): LegacyTransport,
    (True, True): _LegacyKeyboardFirst,
}
"""Whether the keyboard is first, and old algorithms are let pass, to another client than usual."""


class _Connection(BaseConnection):
    """A netmiko session that waits for what the switch says, and for nothing else."""

    def __init__(
        self,
        profile: SessionProfile,
        rise: Callable[[BaseConnection, float], None],
        *,
        legacy: bool,
        **login: Any,  # noqa: ANN401 - netmiko's own arguments
    ) -> None:
        self._profile, self._rise, self._legacy = profile, rise, legacy
        super().__init__(**login)

    def _connect_params_dict(self) -> dict[str, object]:
        transport = _TRANSPORTS.get((self._profile.keyboard_first, self._legacy))
        more = {"transport_factory": transport} if transport else {}
        return {**super()._connect_params_dict(), **more}

    def _try_session_preparation(self, force_data: bool = True) -> None:  # noqa: FBT001, FBT002 - netmiko's own signature
        """Skip netmiko's first return: a switch that already hung up has said why; read that."""
        del force_data
        super()._try_session_preparation(force_data=False)

    def session_preparation(self) -> None:
        """Read the prompt of the login, and send what the profile sends first."""
        ends_at_s = time.monotonic() + self.conn_timeout
        read_to(self, self._profile.prompt, ends_at_s)
        self._rise(self, ends_at_s)
        for line in self._profile.prepare:
            self.write_channel(f"{line}\n")
            read_to(self, self._profile.prompt, ends_at_s)


@dataclass(slots=True)
class SwitchSession:
    """An open session. Use it in one thread, and as a context manager."""

    endpoint: Endpoint
    connection: BaseConnection
    ends_at_s: float
    deadline_s: float
    profile: SessionProfile
    way: ExitStack
    """What the session goes through, given back at its end."""
    sent: int = 0

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.endpoint.where

    def run(self, command: str) -> str:
        """Send one line and return what it printed, without echo, prompt and escapes.

        Each line moves the deadline a little, since a large switch needs more of them. Where there
        are exit statuses, one other than 0 is at the end as `[status N]`.

        Raises:
            UnreachableError: The session ended, or the deadline passed, before the prompt.
        """
        self.sent += 1
        self.ends_at_s += self._command_s
        try:
            self.connection.write_channel(f"{self.profile.line_of(command)}\n")
            raw = read_to(self.connection, self.profile.end, self.ends_at_s)
        except TooLongError as error:
            raise UnreachableError(f"{self.where}: the answer to `{command}`: {error}") from error
        except TimeoutError as error:
            raise UnreachableError(
                f"{self.where}: no prompt after `{command}` within the deadline of "
                f"{self.deadline_s:g} s, and {self._command_s:g} s for each of {self.sent} commands"
                "\n  fix    if the switch is slow and sound, write larger deadlines.switch into the"
                " file"
            ) from error
        except (NetmikoBaseException, OSError, SSHException, EOFError) as error:
            raise UnreachableError(
                f"{self.where}: the session ended while `{command}` ran"
            ) from error
        text = _clean(raw, self.profile.prompt)
        return _judged(text) if self.profile.has_status else text

    @property
    def _command_s(self) -> float:
        return self.endpoint.command_s or COMMAND_S

    def left_s(self) -> float:
        """Seconds to the deadline."""
        return self.ends_at_s - time.monotonic()

    def renew(self) -> None:
        """Begin the deadline again, to put back what was changed."""
        self.ends_at_s = time.monotonic() + self.deadline_s

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
        self.way.close()


def _judged(text: str) -> str:
    """Take the mark of success away, so that an output is as the command printed it."""
    found = _STATUS.search(text)
    if found is None:
        return f"{text}\n[status unknown]\n"
    return text[: found.start()] if found[1] == "0" else text


def read_to(connection: BaseConnection, prompt: str, ends_at_s: float) -> str:
    """Read until the prompt; netmiko's own reader does not notice a session that died.

    Raises:
        TimeoutError: The deadline passed first.
        TooLongError: The switch sent more than an answer can have.
        EOFError: The session ended first; its text is what was read.
    """
    channel = connection.remote_conn
    if not isinstance(channel, Channel):
        raise Bug("a switch session is an SSH session")
    held, tail = Held(), b""
    while re.search(prompt, _last_lines(tail)) is None:
        left_s = ends_at_s - time.monotonic()
        if left_s <= 0:  # a switch that never stops to send never lets the socket wait
            raise TimeoutError
        channel.settimeout(max(left_s, SHORTEST_S))
        chunk = channel.recv(CHUNK_BYTES)
        if not chunk:
            raise EOFError(held.text())
        held.add(chunk)
        tail = (tail + chunk)[-TAIL:]
    return held.text()


def _last_lines(tail: bytes) -> str:
    """The end of an answer without escapes, from the beginning of a line where it was cut."""
    text = tail.decode(errors="replace")
    return _ESCAPES.sub("", text.partition("\n")[2] if len(tail) == TAIL else text)


def _clean(raw: str, prompt: str) -> str:
    text = _ESCAPES.sub("", raw).replace("\r\n", "\n").replace("\r", "")
    _echo, _, rest = text.partition("\n")
    return re.sub(prompt, "", rest)


def open_session(
    endpoint: Endpoint, profile: SessionProfile, secrets: Mapping[str, str], deadline_s: float
) -> SwitchSession:
    """Log in to a switch whose host key is the pinned one.

    Args:
        endpoint: Where, as whom, and with which host key.
        profile: How the command line of its system is talked to.
        secrets: Secret name to value.
        deadline_s: For the whole session, login included.

    Raises:
        UnreachableError: Nothing listens or answers in time, or the session breaks.
        HostKeyError: The host key is another one.
        DeviceError: The login, the password of `enable`, or that of sudo is refused.
    """
    ends_at_s, within_s = time.monotonic() + deadline_s, min(CONNECT_S, deadline_s)
    with ExitStack() as way:
        sock = way.enter_context(way_to(endpoint, secrets, within_s))
        with _known_hosts(endpoint) as path, classified(endpoint, within_s):
            connection = _Connection(
                profile,
                partial(rise, endpoint, profile, secrets, read_to),
                legacy=endpoint.legacy_algorithms,
                host=endpoint.address,
                port=endpoint.port,
                username=endpoint.user,
                **credentials(endpoint, secrets),
                sock=sock,
                ssh_strict=True,
                alt_host_keys=True,
                alt_key_file=str(path),
                conn_timeout=within_s,
                auth_timeout=within_s,
                banner_timeout=within_s,
            )
        return SwitchSession(endpoint, connection, ends_at_s, deadline_s, profile, way.pop_all())


@contextmanager
def _known_hosts(endpoint: Endpoint) -> Generator[Path, None, None]:
    """A file with the one pinned key, as the SSH client wants it."""
    line = f"{known_name(endpoint)} {endpoint.host_key.strip()}\n"
    with TemporaryDirectory(prefix="railyard-") as folder:
        path = Path(folder) / "known_hosts"
        path.write_text(line)
        yield path
