"""Signatures in the format of minisign (jedisct1.github.io/minisign), which its tools verify too.

A key is Ed25519 and an identifier of 8 bytes. It signs the BLAKE2b digest of a text; a second
signature covers the first one and the trusted comment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from components.core.errors import UsageError

_KEY: Final = b"Ed"
_HASHED: Final = b"ED"
"""A signature of the text's digest; signatures of whole texts (`Ed`) are older, and refused."""
_ID: Final = slice(2, 10)
_SECRET: Final = slice(62, 94)
"""The seed in a secret key: algorithms (6), salt (32), two limits (16) and the identifier (8) come
before it, the public key and a checksum after it."""
_SECRET_BYTES: Final = 158
_SIGNATURE_BYTES: Final = 74
_COMMENT: Final = "trusted comment: "
_LINES: Final = 4


class SignatureError(UsageError):
    """A signature that proves nothing; the text is one clause about it."""


@dataclass(frozen=True, slots=True)
class Signer:
    """A secret key without a password: its store encrypts it."""

    identifier: bytes
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, as the second line of minisign's file has it."""
        raw = self.key.public_key().public_bytes_raw()
        return base64.b64encode(_KEY + self.identifier + raw).decode()

    def sign(self, text: bytes, comment: str) -> str:
        """The signature file of a text; `comment` is one line, and is signed too."""
        own = self.key.sign(hashlib.blake2b(text).digest())
        whole = base64.b64encode(self.key.sign(own + comment.encode())).decode()
        first = base64.b64encode(_HASHED + self.identifier + own).decode()
        return f"untrusted comment: signature by railyard\n{first}\n{_COMMENT}{comment}\n{whole}\n"


def parse_secret_key(text: str) -> Signer:
    """Read a secret key: minisign's file, or its second line alone.

    Raises:
        SignatureError: It is another text, or has a password.
    """
    raw = _decode((text.strip().splitlines() or [""])[-1])
    if len(raw) != _SECRET_BYTES or not raw.startswith(_KEY):
        raise SignatureError("is not a secret key of minisign")
    if raw[2:4] != b"\0\0":
        raise SignatureError("is a key with a password, which `minisign -C -W` removes")
    return Signer(raw[54:62], Ed25519PrivateKey.from_private_bytes(raw[_SECRET]))


def verify(text: bytes, signature: str, trusted: Sequence[str]) -> str:
    """Verify the signature of a text, and return its trusted comment.

    Args:
        text: The signed text.
        signature: The contents of its `.minisig` file.
        trusted: Public keys; one of them must have signed.

    Raises:
        SignatureError: It is not a signature, of no trusted key, or of another text.
    """
    lines = signature.splitlines()
    raw, whole = (_decode(lines[1]), _decode(lines[3])) if len(lines) == _LINES else (b"", b"")
    if len(raw) != _SIGNATURE_BYTES or not raw.startswith(_HASHED):
        raise SignatureError("is not a signature of minisign")
    keys = {key[_ID]: key for key in map(_decode, trusted)}
    if (key := keys.get(raw[_ID])) is None:
        name = raw[_ID][::-1].hex().upper()
        raise SignatureError(f"is by the key {name}, which `trusted_keys` does not list")
    comment, public = lines[2].removeprefix(_COMMENT), Ed25519PublicKey.from_public_bytes(key[10:])
    try:
        public.verify(raw[10:], hashlib.blake2b(text).digest())
        public.verify(whole, raw[10:] + comment.encode())
    except InvalidSignature:
        raise SignatureError("does not hold: the text was cut short or changed") from None
    return comment


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""
