"""Certificates of the lab's control planes: authorities, leaves and key pairs, made on the spot.

All keys are ECDSA P-256, save the pair that signs service account tokens, which is RSA as the
Kubernetes default expects. Private keys are files of mode 0600.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from components.core.record import record

_ISSUING = threading.Lock()
"""Nodes that join at the same time ask for the same pair."""
_CLOCK_SKEW = dt.timedelta(minutes=5)
_CA_LIFE = dt.timedelta(days=3650)
_LEAF_LIFE = dt.timedelta(days=365)
"""K3s issues leaf certificates for 365 days (K3s docs, "Client and Server certificates")."""
_RENEW_BEFORE = dt.timedelta(days=90)
"""It renews them at a start when fewer days are left (sources.md#k3s)."""


@record
class KeyPair:
    """A certificate file and its private key file."""

    cert: Path
    key: Path


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(data)
    draft.replace(path)


def _name(common_name: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Authority:
    """A certificate authority kept as two files, made at first use and then read again."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the authority `name` under `folder`, and make it where it does not exist."""
        self.files = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        if not self.files.key.exists():
            self._create(name)
        self._cert = x509.load_pem_x509_certificate(self.files.cert.read_bytes())
        key = serialization.load_pem_private_key(self.files.key.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.files.key} is no ECDSA key; remove the folder and start again")
        self._key = key

    def _create(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        subject = _name(f"railyard-lab-{name}@{int(now.timestamp())}", "")
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=True,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        ski = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        cert = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(ski, critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(self.files.cert, cert.public_bytes(serialization.Encoding.PEM))
        write_private(self.files.key, _private_pem(key))

    def issue(
        self, files: KeyPair, common_name: str, organization: str = "", sans: Sequence[str] = ()
    ) -> KeyPair:
        """Issue a leaf for both TLS roles and write it to `files`; keep one that still serves.

        Args:
            files: where the certificate and its key go.
            common_name: the subject's CN; the user's name for a client of the API.
            organization: the subject's O; the user's group for a client of the API.
            sans: DNS names and addresses the leaf serves.
        """
        with _ISSUING:
            if not self._still_serves(files, _name(common_name, organization), sans):
                self._issue(files, common_name, organization, sans)
        return files

    def _issue(
        self, files: KeyPair, common_name: str, organization: str, sans: Sequence[str]
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(common_name, organization))
            .issuer_name(self._cert.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if sans:
            names = x509.SubjectAlternativeName([_san(name) for name in dict.fromkeys(sans)])
            builder = builder.add_extension(names, critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        write_private(files.key, _private_pem(key))
        write_private(files.cert, cert.public_bytes(serialization.Encoding.PEM))

    def _still_serves(self, files: KeyPair, subject: x509.Name, sans: Sequence[str]) -> bool:
        if not (files.cert.exists() and files.key.exists()):
            return False
        cert = x509.load_pem_x509_certificate(files.cert.read_bytes())
        try:
            found = list(cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except x509.ExtensionNotFound:
            found = []
        fresh = cert.not_valid_after_utc - dt.datetime.now(dt.UTC) > _RENEW_BEFORE
        same = cert.subject == subject and found == [_san(name) for name in dict.fromkeys(sans)]
        return fresh and same and cert.issuer == self._cert.subject


def ensure_token_keys(folder: Path) -> KeyPair:
    """Make the RSA pair that signs service account tokens, once: `sa.pub` and `sa.key`."""
    files = KeyPair(folder / "sa.pub", folder / "sa.key")
    if files.key.exists():
        return files
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_private(files.cert, public)
    write_private(files.key, _private_pem(key))
    return files
