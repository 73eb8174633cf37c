"""The administrator's kubeconfig: rewritten for its users, and checked for expiry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from pydantic import JsonValue

from components.core.errors import DeviceError
from components.core.templates import fault_text

RENEWAL_WINDOW: Final = timedelta(days=90)
"""K3s renews its certificates at a start if they end within 90 days."""
_MALFORMED: Final = (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError)
_Part = dict[str, JsonValue]
_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("certificate-authority-data",),
    "user": ("client-certificate-data", "client-key-data"),
}
"""Keys of a server's own kubeconfig."""
POD_ACCESS: Final = "the pod's own access"
"""Name of the kubeconfig of a pod among the secrets; no site can name a secret so."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod has its token (Kubernetes, "Accessing the Kubernetes API from a Pod")."""


def _own_parts(text: str) -> tuple[_Part, _Part]:
    """The CA, and the certificate and key, in a server's own kubeconfig."""
    try:
        document = yaml.safe_load(text)
        parts: list[_Part] = []
        for kind, keys in _OWN.items():
            (only,) = document[f"{kind}s"]
            parts.append({key: only[kind][key] for key in keys})
        if not all(isinstance(each, str) and each for part in parts for each in part.values()):
            raise ValueError("a value is not a text")
    except _MALFORMED:
        # Never show the text or the parser's error: both contain the client's key.
        raise DeviceError(fault_text(__file__, "server-kubeconfig")) from None
    return parts[0], parts[1]


def render_kubeconfig(raw: str, server_url: str, cluster: str) -> str:
    """Make a server's own kubeconfig usable from elsewhere.

    `raw` is `/etc/rancher/k3s/k3s.yaml`: its address is 127.0.0.1, and every name is `default`.
    """
    server, client = _own_parts(raw)
    return _render(cluster, {**server, "server": server_url}, client)


def choose_context(raw: str, context: str | None, cluster: str) -> str:
    """Make a kubeconfig with one context, its cluster and its user, out of a user's.

    Without `context` it is the current one; `cluster` is the name of all three in the answer.
    """
    try:
        document = yaml.safe_load(raw)
        # Of equal names the first one counts.
        contexts, clusters, users = (
            {str(each["name"]): {**each[kind]} for each in reversed(document[f"{kind}s"])}
            for kind in ("context", "cluster", "user")
        )
        wanted = context or document.get("current-context", "")
        names = {name: (each["cluster"], each["user"]) for name, each in contexts.items()}
    except _MALFORMED:
        # Never show the text or the parser's error: both may contain a token or a key.
        raise DeviceError(fault_text(__file__, "secret-kubeconfig")) from None
    if wanted not in names:
        known = ", ".join(sorted(names)) or "none"
        raise DeviceError(fault_text(__file__, "no-context", context=wanted, known=known))
    server, user = names[wanted]
    if server not in clusters or user not in users:
        raise DeviceError(fault_text(__file__, "half-context", context=wanted))
    return _render(cluster, clusters[server], users[user])


def _render(cluster: str, server: _Part, user: _Part) -> str:
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
    encoded = _own_parts(kubeconfig)[1]["client-certificate-data"]
    try:
        pem = base64.b64decode(str(encoded), validate=True)
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


def pod_access(environ: Mapping[str, str], account: Path = _ACCOUNT) -> dict[str, str]:
    """The kubeconfig of the service account of this pod, as a secret; empty outside of a pod."""
    host, token = environ.get("KUBERNETES_SERVICE_HOST", ""), account / "token"
    if not host or not token.is_file():
        return {}
    place = f"[{host}]" if ":" in host else host
    server = f"https://{place}:{environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    cluster: _Part = {"server": server, "certificate-authority": str(account / "ca.crt")}
    return {POD_ACCESS: _render("pod", cluster, {"tokenFile": str(token)})}
