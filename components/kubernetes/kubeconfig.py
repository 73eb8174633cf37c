"""The administrator's kubeconfig: rewritten for its users, and checked for expiry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from cryptography import x509
from pydantic import AliasPath, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from components.core.errors import DeviceError

RENEWAL_WINDOW: Final = timedelta(days=90)
"""K3s renews its certificates at a start if they end within 90 days."""


def _at(items: str, kind: str, key: str) -> Any:  # noqa: ANN401 - pydantic's own type
    return Field(validation_alias=AliasPath(items, 0, kind, key), min_length=1)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


_One = Annotated[tuple[JsonValue, ...], Field(min_length=1, max_length=1)]


class _Kubeconfig(_Part):
    clusters: _One
    users: _One
    ca: Annotated[str, _at("clusters", "cluster", "certificate-authority-data")]
    certificate: Annotated[str, _at("users", "user", "client-certificate-data")]
    key: Annotated[str, _at("users", "user", "client-key-data")]


class _NamedCluster(_Part):
    name: str
    cluster: dict[str, JsonValue]


class _NamedUser(_Part):
    name: str
    user: dict[str, JsonValue]


class _Choice(_Part):
    cluster: str
    user: str


class _NamedContext(_Part):
    name: str
    context: _Choice


class _AnyKubeconfig(_Part):
    clusters: tuple[_NamedCluster, ...]
    users: tuple[_NamedUser, ...]
    contexts: tuple[_NamedContext, ...]
    current: Annotated[str, Field(alias="current-context")] = ""


def _parse(text: str) -> _Kubeconfig:
    try:
        return _Kubeconfig.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as error:
        # Never show the text or the parser's error: both contain the client's key.
        raise DeviceError(
            "the server's kubeconfig cannot be used: one cluster with certificate-authority-data "
            "and one user with client-certificate-data and client-key-data are expected"
        ) from error.__cause__


def render_kubeconfig(raw: str, server_url: str, cluster: str) -> str:
    """Make a server's own kubeconfig usable from elsewhere.

    `raw` is `/etc/rancher/k3s/k3s.yaml`: its address is 127.0.0.1, and every name is `default`.
    """
    parsed = _parse(raw)
    server: dict[str, JsonValue] = {"certificate-authority-data": parsed.ca, "server": server_url}
    client: dict[str, JsonValue] = {
        "client-certificate-data": parsed.certificate,
        "client-key-data": parsed.key,
    }
    return _render(cluster, server, client)


def choose_context(raw: str, context: str | None, cluster: str) -> str:
    """Make a kubeconfig with one context, its cluster and its user, out of a user's.

    Without `context` it is the current one; `cluster` is the name of all three in the answer.
    """
    try:
        parsed = _AnyKubeconfig.model_validate(yaml.safe_load(raw))
    except (yaml.YAMLError, ValidationError) as error:
        # Never show the text or the parser's error: both may contain a token or a key.
        raise DeviceError(
            "the secret kubeconfig cannot be used: clusters, contexts and users are expected"
        ) from error.__cause__
    wanted = context or parsed.current
    chosen = next((each.context for each in parsed.contexts if each.name == wanted), None)
    if chosen is None:
        names = ", ".join(sorted(each.name for each in parsed.contexts)) or "none"
        raise DeviceError(f"the secret kubeconfig lacks the context {wanted!r}; it has: {names}")
    server = next((each.cluster for each in parsed.clusters if each.name == chosen.cluster), None)
    user = next((each.user for each in parsed.users if each.name == chosen.user), None)
    if server is None or user is None:
        raise DeviceError(
            f"context {wanted!r} of the secret kubeconfig names a cluster or a user that the file "
            "lacks"
        )
    return _render(cluster, server, user)


def _render(cluster: str, server: dict[str, JsonValue], user: dict[str, JsonValue]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": server}],
            "users": [{"name": cluster, "user": user}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "current-context": cluster,
        }
    )


def client_certificate_end(kubeconfig: str) -> datetime:
    """When the client certificate ends, in UTC; DeviceError if it is not readable."""
    encoded = _parse(kubeconfig).certificate
    try:
        pem = base64.b64decode(encoded, validate=True)
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except (binascii.Error, ValueError) as error:
        raise DeviceError("the kubeconfig's client certificate cannot be read") from error


def renewal_note(kubeconfig: str, now: datetime | None = None) -> str:
    """Why access must be read again, or an empty text while the certificate is good.

    The note is an input of the `cluster-access` step, so it names the end and not the present day:
    it stays the same until the certificate is replaced.
    """
    end = client_certificate_end(kubeconfig)
    if end - (now or datetime.now(UTC)) > RENEWAL_WINDOW:
        return ""
    return f"the client certificate ends on {end:%Y-%m-%d}"


POD_ACCESS: Final = "the pod's own access"
"""Name of the kubeconfig of a pod among the secrets; no site can name a secret so."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod has its token (Kubernetes, "Accessing the Kubernetes API from a Pod")."""


def pod_access(environ: Mapping[str, str], account: Path = _ACCOUNT) -> dict[str, str]:
    """The kubeconfig of the service account of this pod, as a secret; empty outside of a pod."""
    host, token = environ.get("KUBERNETES_SERVICE_HOST", ""), account / "token"
    if not host or not token.is_file():
        return {}
    place = f"[{host}]" if ":" in host else host
    server = f"https://{place}:{environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    cluster: dict[str, JsonValue] = {
        "server": server,
        "certificate-authority": str(account / "ca.crt"),
    }
    return {POD_ACCESS: _render("pod", cluster, {"tokenFile": str(token)})}
