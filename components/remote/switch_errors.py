"""Why there was no session with a switch, in words."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Generator
from contextlib import contextmanager

from paramiko import AuthenticationException, SSHException
from paramiko.ssh_exception import BadHostKeyException, IncompatiblePeer, NoValidConnectionsError

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.remote.netmiko_base import NetmikoAuthenticationException, NetmikoBaseException
from components.remote.step import Endpoint


@contextmanager
def classified(endpoint: Endpoint, connect_s: float) -> Generator[None]:
    """Put what netmiko or paramiko raise while they connect into words.

    Raises:
        UnreachableError: Nothing listens or answers in time, or the session breaks.
        HostKeyError: The host key is another one.
        DeviceError: The login is refused.
    """
    try:
        yield
    except (NetmikoAuthenticationException, AuthenticationException) as error:
        who = "switch" if endpoint.kind == "switch" else "jump host"
        raise DeviceError(
            f"{endpoint.where}: the {who} refuses the {_credential(endpoint)} of user"
            f" {endpoint.user}; {_advice(endpoint)}. Nothing was changed."
        ) from error
    except (NetmikoBaseException, SSHException, OSError, EOFError) as error:
        chain = _chain(error)
        # What netmiko raises while it tidies up hides what the switch said before it hung up.
        telling = [each for each in chain if isinstance(each, (BadHostKeyException, EOFError))]
        cause = (telling or chain[1:] or chain)[0]
        if isinstance(cause, BadHostKeyException):
            raise HostKeyError(_changed_key(endpoint, cause)) from error
        raise UnreachableError(_why_unreachable(endpoint, connect_s, cause)) from error


def _credential(endpoint: Endpoint) -> str:
    if endpoint.agent:
        return "keys of the SSH agent"
    return "key" if endpoint.private_key_secret else "password"


def _advice(endpoint: Endpoint) -> str:
    if endpoint.agent:
        return "`ssh-add -l` lists them; a server takes no more than six tries"
    return f"check the secret {endpoint.private_key_secret or endpoint.password_secret}"


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
        "  fix      compare the offered key with what the switch's own console shows first:"
        " another device may answer at this address. Pin it only if the two are the same;"
        f" `ssh-keyscan -p {endpoint.port} {endpoint.address}` prints the line for the file"
    )


def _why_unreachable(endpoint: Endpoint, connect_s: float, cause: BaseException) -> str:
    causes = cause.errors.values() if isinstance(cause, NoValidConnectionsError) else (cause,)
    if any(isinstance(each, ConnectionRefusedError) for each in causes):
        return f"{endpoint.where}: connection refused; nothing listens there"
    if "known_hosts" in str(cause):
        return f"{endpoint.where}: the switch offers no key of the pinned type"
    if isinstance(cause, IncompatiblePeer):
        return (
            f"{endpoint.where}: it has no algorithm in common with us: {cause}\n"
            "  fix      update the switch; legacy_algorithms: true takes SHA-1 as well"
        )
    why = " ".join(str(cause).split()) or type(cause).__name__
    return f"{endpoint.where}: no session within {connect_s:g} s: {why}"


def _fingerprint(key_line: str) -> str:
    kind, _, rest = key_line.strip().partition(" ")
    return f"{kind} {_sha256(base64.b64decode(rest.split()[0]))}"


def _sha256(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
