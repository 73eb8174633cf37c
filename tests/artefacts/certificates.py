"""A certificate authority for tests, and certificates of 127.0.0.1 that it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS = "127.0.0.1"
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """One authority; two of the same name do not trust each other."""

    name: str

    @cached_property
    def key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def certificate(self) -> x509.Certificate:
        builder = _builder(self.name, self.name, self.key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        return builder.add_extension(identifier, critical=False).sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Certificate and key of a server on 127.0.0.1, as two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))])
        builder = _builder(ADDRESS, self.name, key.public_key())
        builder = builder.add_extension(names, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        certificate, private = folder / "server.pem", folder / "server.key"
        certificate.write_bytes(signed.public_bytes(_PEM))
        private.write_bytes(
            key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return certificate, private


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(name: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    return x509.CertificateBuilder(
        named(issuer),
        named(name),
        key,
        x509.random_serial_number(),
        now - timedelta(minutes=5),
        now + timedelta(days=1),
    )
