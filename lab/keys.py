"""SSH keys of the lab, derived from seeds that are committed.

The keys are public on purpose: they open nothing but emulated devices on loopback addresses, and
being the same on every machine they let the committed dev file pin them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair in OpenSSH's text forms."""

    private_openssh: str
    public_openssh: str


def host_key(seed: str) -> KeyPair:
    """Derive the host key of a lab device.

    Args:
        seed: The device's `host_key_seed` of the lab file, for example `dev/gpu01`.
    """
    return _derive(b"railyard-lab/" + seed.encode())


def client_key(stack: str) -> KeyPair:
    """Derive the key with which Railyard logs in to the hosts of one lab stack."""
    return _derive(b"railyard-lab-client/" + stack.encode())


def _derive(seed: bytes) -> KeyPair:
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed).digest())
    # OpenSSH's private form holds a random check number, so two calls differ in bytes, not in key.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())
