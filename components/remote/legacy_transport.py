"""SHA-1 for switches that have nothing else, where the site file says so.

paramiko dropped it with release 5, and has no setting that brings it back.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from paramiko import RSAKey, Transport
from paramiko.kex_group14 import KexGroup14SHA256

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
    """Takes SHA-1 after everything else: RSA host keys, and the key exchange of group 14."""

    _preferred_keys = (*_USUAL._preferred_keys, _SSH_RSA)  # noqa: SLF001 - see above
    _key_info = {**_USUAL._key_info, _SSH_RSA: _OldRsa}  # noqa: SLF001, RUF012 - the same
    _preferred_kex = (*_USUAL._preferred_kex, _Group14Sha1.name)  # noqa: SLF001 - the same
    _kex_info = {**_USUAL._kex_info, _Group14Sha1.name: _Group14Sha1}  # noqa: SLF001, RUF012 - the same
