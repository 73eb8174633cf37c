"""Connect by SSH: one connection to each jump host in a run, and explanations of failures."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.limits import TooLongError
from components.core.plain_text import one_line
from components.core.templates import fault_text, read_table
from components.remote.login import SSH_RSA, Client, client_options
from components.remote.session_profile import last_line
from components.remote.ssh_library import asyncssh
from components.remote.step import RSA, Endpoint

SHOWN: Final = 200
"""Most characters of a device's line in a message."""
LINES: Final = 6
"""Last lines to search for a question: an expired password prints four (sonic-mgmt#6628)."""
_BY_HAND: Final = "log in yourself (`ssh -p {0.port} {0.user}@{0.address}`)"
_UNKNOWN: Final = (
    "it has not the form of a prompt that Railyard knows",
    "{by_hand}; give this user the factory prompt, and start no other program at login",
)
_FORBIDDEN: Final = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, section 5.1)."""
CONNECT_DEADLINE_S: Final = 20.0
"""Seconds for the login on a host; a host that is down does not answer at all."""
CLOSE_DEADLINE_S: Final = 5.0


def cut_off(endpoint: Endpoint, error: BaseException, within_s: float) -> UnreachableError:
    """Explain why a host gave no whole answer after the login, or took no command."""
    words = one_line(str(error)) or type(error).__name__
    why = f"the connection was lost: {words}"
    if isinstance(error, TooLongError):
        why = f"its answer was not taken: {words}"
    elif isinstance(error, TimeoutError):
        why = f"did not finish within {within_s:g} s: check its load and its disks"
    # In these words, the error of asyncssh means that the connection itself was lost.
    elif isinstance(error, asyncssh.ChannelOpenError) and words != "SSH connection closed":
        why = fault_text(__file__, "no-session", why=words)
    return UnreachableError(f"{endpoint.where} accepted the login, but {why}")


def _explain(
    endpoint: Endpoint, error: BaseException, client: Client, within_s: float
) -> DeviceError:
    """Explain why a login failed, by the error and the client's record of the server's answers."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(_changed_key(endpoint, client.presented))
    if isinstance(error, asyncssh.PermissionDenied):
        return DeviceError(_refused_login(endpoint, error.reason, client.asked))
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return _no_common_algorithm(endpoint, str(error))
    if isinstance(error, asyncssh.ChannelOpenError) and endpoint.jump:
        words = {"endpoint": endpoint, "jump": endpoint.jump[-1], "why": one_line(error.reason)}
        row = "forbidden-way" if error.code == _FORBIDDEN else "closed-way"
        return UnreachableError(fault_text(__file__, row, **words))
    why = "no answer" if isinstance(error, TimeoutError) else one_line(str(error))
    if endpoint.kind == "switch" and not isinstance(error, ConnectionRefusedError):
        if isinstance(error, (ConnectionResetError, asyncssh.ConnectionLost)):
            why = fault_text(__file__, "reset", why=why)
        return no_session(endpoint, why or type(error).__name__, within_s)
    said = ": connection refused; nothing listens there"
    if endpoint.kind != "switch":
        said = f" is not reachable within {within_s:g} s: {why or type(error).__name__}"
    return UnreachableError(f"{endpoint.where}{said}")


def no_session(endpoint: Endpoint, why: str, within_s: float | None) -> UnreachableError:
    """Report a reachable switch without a session; None if the deadline was not the cause."""
    within = "" if within_s is None else f" within {within_s:g} s"
    return UnreachableError(f"{endpoint.where}: no session{within}: {why}")


def _refused_login(endpoint: Endpoint, reason: str, asked: str) -> str:
    more = f"; it asks `{one_line(asked)[:SHOWN]}`{_meaning(endpoint, asked)}" if asked else ""
    if endpoint.kind == "host":
        key, password = endpoint.private_key_secret, endpoint.password_secret
        ours = f"SSH key (secret {key})" if key else f"password (secret {password})"
        ours = "SSH keys (those of the agent)" if endpoint.agent else ours
        return f"{endpoint.where} refused our {ours}: {one_line(reason)}{more}"
    who = "switch" if endpoint.kind == "switch" else "jump host"
    if asked:
        taken = "takes the password, and the login goes no further"
        return f"{endpoint.where}: the {who} {taken}{more}"
    what = "key" if endpoint.private_key_secret else "password"
    advice = f"check the secret {endpoint.private_key_secret or endpoint.password_secret}"
    if endpoint.agent:
        what = "keys of the SSH agent"
        advice = "`ssh-add -l` lists them; a server allows at most six tries"
    words = {"endpoint": endpoint, "who": who, "what": what, "advice": advice}
    return fault_text(__file__, "refused-login", **words)


def _changed_key(endpoint: Endpoint, presented: str) -> str:
    row, pinned = "other-host-key", ""
    if endpoint.kind == "switch":
        row, pinned = "other-switch-key", _fingerprint(endpoint.host_key)
        presented = presented and _fingerprint(presented)
    words = {"pinned": pinned, "presented": presented or "none of the pinned type"}
    return fault_text(__file__, row, endpoint=endpoint, **words)


def _fingerprint(key_line: str) -> str:
    key = asyncssh.import_public_key(key_line)
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def _no_common_algorithm(endpoint: Endpoint, said: str) -> DeviceError:
    offered = re.split(r"[\s,]+", said.partition(" and received ")[2])
    is_rsa = endpoint.host_key.startswith(RSA)
    about_key = "host key" in said.lower()
    if about_key and not (is_rsa and SSH_RSA in offered and endpoint.kind != "host"):
        kind = endpoint.host_key.partition(" ")[0]
        signed = " by SHA-2 signatures" if is_rsa else ""
        words = {"endpoint": endpoint, "kind": kind, "signed": signed}
        return HostKeyError(fault_text(__file__, "other-key-type", **words))
    fix = "update the switch; legacy_algorithms: true takes old algorithms as well"
    fix = "update its SSH server" if endpoint.kind == "host" else fix
    words = {"endpoint": endpoint, "said": one_line(said), "fix": fix}
    return UnreachableError(fault_text(__file__, "no-algorithm", **words))


@cache
def _questions() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    """The known questions of switches, with their meanings and fixes (`questions.yaml`)."""
    rows = read_table(__file__, "questions")
    return tuple((re.compile(row["asks"], re.IGNORECASE), row["means"], row["fix"]) for row in rows)


def _meaning(endpoint: Endpoint, text: str, default: tuple[str, str] | None = None) -> str:
    known = (texts for pattern, *texts in _questions() if pattern.search(text))
    means, fix = next(known, default or ("", ""))
    by_hand, secret = _BY_HAND.format(endpoint), endpoint.password_secret or "of its password"
    fix = fix.format(by_hand=by_hand, secret=secret)
    return f"\n  means  {means}\n  fix    {fix}" if means else ""


def is_question(text: str) -> bool:
    """Whether a text ends with a known question, after which nothing more will come."""
    return any(pattern.search(last_line(text)) for pattern, *_ in _questions())


def printed_last(endpoint: Endpoint, text: str, *, waits: bool) -> str:
    """Describe the last line that a switch printed; explain it if the switch waits."""
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()][-LINES:]
    if not lines:
        return "it printed nothing"
    last = f"the last line that it printed is `{one_line(lines[-1].strip())[:SHOWN]}`"
    own = _meaning(endpoint, lines[-1]) or _meaning(endpoint, "\n".join(lines))
    return last + (own or (_meaning(endpoint, "", _UNKNOWN) if waits else ""))


class JumpHosts:
    """The connections to jump hosts in one event loop, each made once.

    An sshd limits simultaneous logins (`MaxStartups`) and drops some at random, so one login per
    device of a rack would fail; channels through one connection do not count.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._open: dict[tuple[Endpoint, ...], asyncio.Task[asyncssh.SSHClientConnection]] = {}

    async def through(
        self, hops: tuple[Endpoint, ...], secrets: Mapping[str, str] | None = None
    ) -> asyncssh.SSHClientConnection | None:
        """Return the connection to the last jump host, if any; a failed one is not tried again."""
        if not hops:
            return None
        task = self._open.get(hops)
        # If an established connection was lost, try again, but not after a refusal.
        is_up = task and task.done() and not task.cancelled() and not task.exception()
        if task is None or (is_up and task.result().is_closed()):
            task = asyncio.create_task(self._connect(hops, secrets or self._secrets))
            self._open[hops] = task
        return await asyncio.shield(task)

    async def _connect(
        self, hops: tuple[Endpoint, ...], secrets: Mapping[str, str]
    ) -> asyncssh.SSHClientConnection:
        before = await self.through(hops[:-1], secrets)
        return await login(replace(hops[-1], jump=hops[:-1]), secrets, before, CONNECT_DEADLINE_S)

    async def aclose(self) -> None:
        """Close all connections, the inner ones first, as `aclosing` of Python does at an end."""
        tasks = list(self._open.values())[::-1]
        self._open.clear()
        for task in tasks:
            task.cancel()
            with suppress(BaseException):
                await end(await task)


async def login(
    endpoint: Endpoint,
    secrets: Mapping[str, str],
    through: asyncssh.SSHClientConnection | None,
    deadline_s: float,
) -> asyncssh.SSHClientConnection:
    """Log in to one SSH server with a pinned key.

    Raises: UnreachableError: no session within the deadline. HostKeyError: it presented another
    key, or none is pinned; nothing was sent. DeviceError: it refused our key or password, or has
    none.
    """
    # We offer it last: a server that takes it supports nothing newer.
    warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")
    client = Client(secrets.get(endpoint.password_secret or ""))
    address, port = endpoint.address, endpoint.port
    try:
        async with (
            asyncio.timeout(deadline_s),
            client_options(endpoint, secrets, client) as options,
        ):
            return await asyncssh.connect(address, port, tunnel=through or (), options=options)
    except (TimeoutError, OSError, asyncssh.Error) as error:
        raise _explain(endpoint, error, client, deadline_s) from error


async def end(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection cleanly if that takes little time, else abort it."""
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await connection.wait_closed()
    except (TimeoutError, OSError, asyncssh.Error):
        connection.abort()
