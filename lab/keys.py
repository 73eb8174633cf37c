"""SSH keys of the lab, derived from seeds that are committed.

The keys are public on purpose: they open nothing but emulated devices on loopback addresses, and
being the same on every machine they let the committed dev file pin them.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from components.core.record import record

KeyKind = Literal["ed25519", "ecdsa"]
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the group of NIST P-256 (FIPS 186-4, D.1.2.3): private keys are 1 to one less."""


@record
class KeyPair:
    """A key pair in OpenSSH's text forms."""

    private_openssh: str
    public_openssh: str


def host_key(seed: str, kind: KeyKind = "ed25519") -> KeyPair:
    """Derive the host key of a lab device.

    Args:
        seed: The device's `host_key_seed` of the lab file, for example `dev/gpu01`.
        kind: What such a device has: ESXi has no ed25519 key (sources.md#esxi).
    """
    return _derive(b"railyard-lab/" + seed.encode(), kind)


@record
class Certificate:
    """A certificate that signs itself, as UFM's does."""

    certificate_pem: str
    key_pem: str
    sha256: str
    """Of its DER form: what a site file pins."""


def certificate(seed: str, address: str) -> Certificate:
    """Derive the certificate of a lab server: an Ed25519 signature is the same each time.

    Args:
        seed: The device's, for example `quantum-ufm/ufm`.
        address: Where it listens.
    """
    digest = hashlib.sha256(b"railyard-lab-tls/" + seed.encode()).digest()
    key = Ed25519PrivateKey.from_private_bytes(digest)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(digest[:8]))
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2126, 1, 1, tzinfo=UTC))
        .sign(key, None)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate(
        made.public_bytes(Encoding.PEM).decode(),
        private.decode(),
        hashlib.sha256(made.public_bytes(Encoding.DER)).hexdigest(),
    )


def client_key(stack: str) -> KeyPair:
    """Derive the key with which Railyard logs in to the hosts of one lab stack.

    It is of ECDSA, because an ESXi host takes no key of ed25519 (sources.md#esxi).
    """
    return _derive(b"railyard-lab-client/" + stack.encode(), "ecdsa")


def client_secrets(stack: str) -> dict[str, str]:
    """The secrets with which the hosts of one lab stack are reached, by the examples' names."""
    return {"ssh_private_key": client_key(stack).private_openssh}


def _derive(seed: bytes, kind: KeyKind) -> KeyPair:
    digest = hashlib.sha256(seed).digest()
    key: Ed25519PrivateKey | EllipticCurvePrivateKey = (
        Ed25519PrivateKey.from_private_bytes(digest)
        if kind == "ed25519"
        else derive_private_key(int.from_bytes(digest) % (_ORDER - 1) + 1, SECP256R1())
    )
    # OpenSSH's private form holds a random check number, so two calls differ in bytes, not in key.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())
