"""The two SSH key pairs of a payload: made once, and kept as a secret of the stack's state."""

from __future__ import annotations

import base64
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

PAIRS: Final = ("container", "host")
"""From container to container, through the forced command; and from host to host."""


def make_keys(comment: str) -> str:
    """Two new ed25519 pairs as `<pair>.private=` and `<pair>.public=` lines.

    A value is the whole file in OpenSSH's form, in base64, so that a shell script can take it out.

    Args:
        comment: Ends the public keys, so that a reader of authorized_keys knows whose they are.
    """
    lines: list[str] = []
    for pair in PAIRS:
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        lines.append(_line(f"{pair}.private", private))
        lines.append(_line(f"{pair}.public", public + f" railyard-{pair}@{comment}\n".encode()))
    return "\n".join(lines)


def _line(name: str, content: bytes) -> str:
    return f"{name}={base64.b64encode(content).decode()}"
