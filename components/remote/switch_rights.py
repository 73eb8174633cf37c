"""What a login on a switch must do before it may change anything: `enable`, or sudo's password."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from components.core.errors import DeviceError
from components.remote.netmiko_base import BaseConnection
from components.remote.session_profile import SessionProfile
from components.remote.step import Endpoint

Read: TypeAlias = Callable[[BaseConnection, str, float], str]
"""Reads up to a pattern at the end, until a time of the monotonic clock."""
_PASSWORD: Final = r"[Pp]assword: ?\Z"  # noqa: S105 - what a switch asks
_SUDO: Final = "railyard-asks-for-sudo:"
_ASKED: Final = re.compile(rf"{_PASSWORD}|{_SUDO} ?\Z")


def rise(
    endpoint: Endpoint,
    profile: SessionProfile,
    secrets: Mapping[str, str],
    read: Read,
    connection: BaseConnection,
    ends_at_s: float,
) -> None:
    """Get the rights that the file has a password for; the prompt of the login was read.

    The credential of sudo holds for this terminal, for as long as the switch's sudoers say (15
    minutes in Debian), and each command that uses it begins that time again.

    Raises:
        DeviceError: The switch refuses the password, or forgets it at once.
    """
    if endpoint.enable_secret is not None and profile.enables:
        said = _answer(profile, read, connection, ends_at_s)(
            "enable", _secret(endpoint.enable_secret, secrets)
        )
        if said.rstrip().endswith(">"):
            raise _refused(endpoint, "enable", endpoint.enable_secret, said)
    if endpoint.sudo_secret is not None and profile.has_status:
        ask = _answer(profile, read, connection, ends_at_s)
        said = ask(f"sudo -v -p {_SUDO}", _secret(endpoint.sudo_secret, secrets))
        left = ask("sudo -n true", "")
        if "sudo:" in left.partition("\n")[2]:
            raise _refused(endpoint, "sudo", endpoint.sudo_secret, said + left)


def _secret(name: str, secrets: Mapping[str, str]) -> str:
    return secrets.get(name, "")


def _answer(
    profile: SessionProfile, read: Read, connection: BaseConnection, ends_at_s: float
) -> Callable[[str, str], str]:
    """What sends a line, answers the question for a password once, and leaves at the prompt."""
    either = f"(?:{_PASSWORD}|{_SUDO} ?\\Z|{profile.end})"
    # A signal would throw away what is on its way to a shell; sudo takes the end of input as well.
    no_more = "\x04" if profile.has_status else "\x03"

    def send(line: str, password: str) -> str:
        connection.write_channel(f"{profile.line_of(line)}\n")
        said = read(connection, either, ends_at_s)
        if not _ASKED.search(said):
            return said
        connection.write_channel(f"{password}\n")
        said = read(connection, either, ends_at_s)
        while _ASKED.search(said):  # it asks again: no other answer is tried
            connection.write_channel(no_more)
            said += read(connection, either, ends_at_s)
        return said

    return send


def _refused(endpoint: Endpoint, what: str, secret: str, said: str) -> DeviceError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if re.search(r"try again|incorrect|denied|Bad|%|sudo:", line)]
    words = next(
        (line for line in reasons if "incorrect" in line), (*reasons, "no reason given")[0]
    )
    return DeviceError(
        f"{endpoint.where}: {what} refuses the password of the secret {secret}: {words}. Nothing"
        " was changed."
    )
