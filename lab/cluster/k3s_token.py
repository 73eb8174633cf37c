"""K3s join tokens: `K10<CA hash>::<user>:<password>`, or a bare password.

Source: K3s docs, cli/token.md (sources.md#k3s). The hash is the SHA-256 of the cluster
CA's PEM file as it is served.
"""

from __future__ import annotations

import hashlib

from components.core.errors import DeviceError
from components.core.record import record

_PREFIX = "K10"
_HASH_LENGTH = 64


@record
class Token:
    """A token taken apart; `ca_hash` is empty for the short form, which checks no CA."""

    password: str
    user: str = ""
    ca_hash: str = ""


@record
class Passwords:
    """What a server lets others in with, by the user of their token."""

    server: str
    node: str
    """Of agents: that of servers, where none is given."""


def hash_ca(pem: bytes) -> str:
    """Hash a cluster CA the way a token carries it."""
    return hashlib.sha256(pem).hexdigest()


def hash_password(password: str) -> str:
    """What one server tells another of a password, to compare it with its own."""
    return hashlib.sha256(password.encode()).hexdigest()


def format_token(ca_pem: bytes, user: str, password: str) -> str:
    """Make the secure form of a token."""
    return f"{_PREFIX}{hash_ca(ca_pem)}::{user}:{password}"


def parse_token(text: str) -> Token:
    """Take a token apart.

    Raises:
        DeviceError: K3s would refuse its form; the text is K3s' own.
    """
    if not text:
        raise DeviceError("token must not be empty")
    if not text.startswith(_PREFIX):
        return Token(text)
    ca_hash, found, credentials = text.removeprefix(_PREFIX).partition("::")
    if not found:
        ca_hash, credentials = "", ca_hash
    if ca_hash and len(ca_hash) != _HASH_LENGTH:
        raise DeviceError("invalid token CA hash length")
    user, colon, password = credentials.partition(":")
    if not colon or not password:
        raise DeviceError("invalid token format")
    return Token(password, user, ca_hash)


def check_ca(token: Token, ca_pem: bytes) -> None:
    """Refuse a cluster whose CA is not the one the token names.

    Raises:
        DeviceError: the hashes differ; the text is K3s' own.
    """
    actual = hash_ca(ca_pem)
    if token.ca_hash and token.ca_hash != actual:
        raise DeviceError(
            "token CA hash does not match the Cluster CA certificate hash: "
            f"{token.ca_hash} != {actual}"
        )
