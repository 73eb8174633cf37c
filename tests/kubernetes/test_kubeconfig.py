"""The administrator's kubeconfig, with a certificate made here."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from components.core.errors import DeviceError
from components.kubernetes.kubeconfig import (
    choose_context,
    client_certificate_end,
    render_kubeconfig,
    renewal_note,
)

END = datetime(2027, 6, 1, tzinfo=UTC)


def raw_kubeconfig() -> str:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:admin")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(END - timedelta(days=365))
        .not_valid_after(END)
        .sign(key, None)
    )
    encoded = base64.b64encode(certificate.public_bytes(Encoding.PEM)).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "default",
                    "cluster": {
                        "certificate-authority-data": "Q0E=",
                        "server": "https://127.0.0.1:6443",
                    },
                }
            ],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
            "users": [
                {
                    "name": "default",
                    "user": {"client-certificate-data": encoded, "client-key-data": "S0VZ"},
                }
            ],
        }
    )


def test_address_and_names_are_the_clusters() -> None:
    text = render_kubeconfig(raw_kubeconfig(), "https://192.168.1.10:6443", "dgx-roce")
    config = yaml.safe_load(text)
    assert config["clusters"][0]["name"] == "dgx-roce"
    assert config["clusters"][0]["cluster"]["server"] == "https://192.168.1.10:6443"
    assert config["clusters"][0]["cluster"]["certificate-authority-data"] == "Q0E="
    assert config["contexts"] == [
        {"name": "dgx-roce", "context": {"cluster": "dgx-roce", "user": "dgx-roce"}}
    ]
    assert config["current-context"] == "dgx-roce"
    assert "127.0.0.1" not in text


def test_rendering_twice_gives_the_same() -> None:
    once = render_kubeconfig(raw_kubeconfig(), "https://a:6443", "x")
    assert render_kubeconfig(once, "https://a:6443", "x") == once


def test_the_end_of_the_certificate_is_read() -> None:
    assert client_certificate_end(raw_kubeconfig()) == END


@pytest.mark.parametrize(
    ("days_left", "note"),
    [(365, ""), (91, ""), (89, "the client certificate ends on 2027-06-01")],
)
def test_renewal_is_asked_for_in_the_last_ninety_days(days_left: int, note: str) -> None:
    assert renewal_note(raw_kubeconfig(), END - timedelta(days=days_left)) == note


@pytest.mark.parametrize("text", ["", "{", "clusters: []", "users: [{user: {token: secret-1}}]"])
def test_another_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(DeviceError) as refused:
        render_kubeconfig(text, "https://a:6443", "x")
    assert "secret-1" not in str(refused.value)


OTHERS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [
        {"name": "a", "cluster": {"server": "https://a:6443"}},
        {"name": "b", "cluster": {"server": "https://b:6443"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret-1"}}],
    "contexts": [
        {"name": "at-a", "context": {"cluster": "a", "user": "me", "namespace": "x"}},
        {"name": "at-b", "context": {"cluster": "b", "user": "me"}},
        {"name": "at-c", "context": {"cluster": "c", "user": "me"}},
    ],
    "current-context": "at-a",
}


@pytest.mark.parametrize(
    ("context", "server"), [(None, "https://a:6443"), ("at-b", "https://b:6443")]
)
def test_one_context_is_taken_out_of_a_kubeconfig(context: str | None, server: str) -> None:
    config = yaml.safe_load(choose_context(yaml.safe_dump(OTHERS), context, "site"))
    assert config["clusters"] == [{"name": "site", "cluster": {"server": server}}]
    assert config["users"] == [{"name": "site", "user": {"token": "secret-1"}}]
    assert config["current-context"] == "site"


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        (yaml.safe_dump(OTHERS), "at-d", "lacks the context 'at-d'; it has: at-a, at-b, at-c"),
        (yaml.safe_dump(OTHERS), "at-c", "names a cluster or a user that the file lacks"),
        ("token: secret-1", None, "cannot be used"),
        ("{", None, "cannot be used"),
    ],
)
def test_a_kubeconfig_without_the_context_is_refused(
    text: str, context: str | None, words: str
) -> None:
    with pytest.raises(DeviceError, match=words) as refused:
        choose_context(text, context, "site")
    assert "secret-1" not in str(refused.value)
