"""Why there was no SSH session, or no answer, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.limits import TooLongError
from components.core.plain_text import one_line
from components.remote.ssh_library import asyncssh
from components.remote.step import RSA, Endpoint


@dataclass(frozen=True, slots=True)
class Doing:
    """How far a session is, and the deadline of that part."""

    part: Literal["connect", "run"]
    deadline_s: float

    def failed(self, error: BaseException) -> str:
        """What ended it: a host that is down, or one that is there and too slow."""
        timed_out = isinstance(error, TimeoutError)
        words = one_line(str(error)) or type(error).__name__
        within = f"within {self.deadline_s:g} s"
        if self.part == "connect":
            return f"is not reachable {within}: {'no answer' if timed_out else words}"
        if timed_out:
            return f"accepted the login, but did not finish {within}: check its load and its disks"
        if isinstance(error, TooLongError):
            return f"accepted the login, but its answer was not taken: {words}"
        return f"accepted the login, but the connection was lost: {words}"


def explain(endpoint: Endpoint, error: BaseException, presented: str, doing: Doing) -> DeviceError:
    """Say in words why there was no answer.

    Args:
        endpoint: Whose.
        error: What the SSH client raised.
        presented: The host key that came in place of the pinned one.
        doing: How far it was.
    """
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(_changed_key(endpoint, presented))
    if isinstance(error, asyncssh.PermissionDenied):
        return DeviceError(
            f"{endpoint.where} refused our {_credential(endpoint)}: {one_line(error.reason)}"
        )
    if isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in str(error).lower():
        return HostKeyError(_no_common_key(endpoint))
    if isinstance(error, asyncssh.ChannelOpenError) and endpoint.jump:
        return UnreachableError(
            f"{endpoint.where}: the jump host {endpoint.jump[-1].where} does not open the way to"
            f" {endpoint.place}: {one_line(error.reason)}\n"
            "  fix        see its AllowTcpForwarding and PermitOpen, and its route to that address"
        )
    return UnreachableError(f"{endpoint.where} {doing.failed(error)}")


def _credential(endpoint: Endpoint) -> str:
    if endpoint.agent:
        return "SSH keys (those of the agent)"
    if endpoint.private_key_secret:
        return f"SSH key (secret {endpoint.private_key_secret})"
    return f"password (secret {endpoint.password_secret})"


def _changed_key(endpoint: Endpoint, presented: str) -> str:
    return (
        f"{endpoint.where}: the host key is not the pinned one; nothing was sent.\n"
        f"  pinned     {endpoint.host_key}\n"
        f"  presented  {presented or 'none of the pinned type'}\n"
        f"  fix        if the host was reinstalled, pin the key that its console shows:"
        f" ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
    )


def _no_common_key(endpoint: Endpoint) -> str:
    kind = endpoint.host_key.partition(" ")[0]
    signed = " by SHA-2 signatures" if endpoint.host_key.startswith(RSA) else ""
    return (
        f"{endpoint.where}: it offers no {kind} host key{signed}, and that one is pinned; nothing"
        " was sent.\n"
        "  fix        log in at its console, where `ls /etc/ssh/ssh_host_*_key.pub` lists its keys,"
        " and pin one of those"
    )
