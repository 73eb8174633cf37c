"""Kubeconfig: content or path, the active cluster and user, and the overrides of the provider."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from standins.kubernetes.values import Json, JsonMap, as_list, as_map, as_text, dig


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the provider's own settings put in place of the kubeconfig's."""

    context: str = ""
    cluster: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one cluster. Certificates and keys are PEM text; empty where not given."""

    server: str
    namespace: str
    ca_pem: str
    client_cert_pem: str
    client_key_pem: str
    token: str
    skip_tls_verify: bool
    server_name: str
    document: JsonMap
    """The kubeconfig as a document with the overrides written in, for helm."""


def load_document(path_or_content: str) -> JsonMap:
    """Loads a kubeconfig from a path, or parses it where the text is no existing path.

    Raises:
        KubeconfigError: The text is neither a path nor a YAML map.
    """
    text = path_or_content
    if "\n" not in text and len(text) < os.pathconf("/", "PC_PATH_MAX"):
        path = Path(text).expanduser()
        if path.is_file():
            text = path.read_text(encoding="utf-8")
    try:
        document = cast("Json", yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise KubeconfigError(f"the kubeconfig is no YAML: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError("the kubeconfig is neither an existing file nor a YAML map")
    return document


def load_ambient() -> JsonMap:
    """Loads `$KUBECONFIG` or `~/.kube/config`; an empty document where there is neither."""
    path = Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()
    return load_document(str(path)) if path.is_file() else {}


def active_cluster(document: JsonMap, overrides: Overrides) -> JsonMap | None:
    """Returns the cluster entry in use, or None where the document names none."""
    context = _named(document, "contexts", "context", _context_name(document, overrides))
    name = overrides.cluster or as_text(as_map(context).get("cluster"))
    return _named(document, "clusters", "cluster", name)


def resolve(document: JsonMap, overrides: Overrides) -> Access:
    """Reads from a kubeconfig how to reach its active cluster.

    Raises:
        KubeconfigError: No active cluster, or a file that it names cannot be read.
    """
    name = _context_name(document, overrides)
    context = as_map(_named(document, "contexts", "context", name))
    cluster = active_cluster(document, overrides)
    if cluster is None or not as_text(cluster.get("server")):
        raise KubeconfigError("invalid configuration: no configuration has been provided")
    user = as_map(_named(document, "users", "user", as_text(context.get("user"))))
    namespace = overrides.namespace or as_text(context.get("namespace")) or "default"
    return Access(
        server=as_text(cluster.get("server")).rstrip("/"),
        namespace=namespace,
        ca_pem=_pem(cluster, "certificate-authority"),
        client_cert_pem=_pem(user, "client-certificate"),
        client_key_pem=_pem(user, "client-key"),
        token=_token(user),
        skip_tls_verify=cluster.get("insecure-skip-tls-verify") is True,
        server_name=as_text(cluster.get("tls-server-name")),
        document=_narrowed(cluster, user, namespace),
    )


def _narrowed(cluster: JsonMap, user: JsonMap, namespace: str) -> JsonMap:
    context: JsonMap = {"cluster": "active", "user": "active", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "active",
        "clusters": [{"name": "active", "cluster": cluster}],
        "users": [{"name": "active", "user": user}],
        "contexts": [{"name": "active", "context": context}],
    }


def _context_name(document: JsonMap, overrides: Overrides) -> str:
    return overrides.context or as_text(document.get("current-context"))


def _named(document: JsonMap, section: str, key: str, name: str) -> JsonMap | None:
    for entry in as_list(document.get(section)):
        if dig(entry, "name") == name:
            return as_map(dig(entry, key))
    return None


def _pem(entry: JsonMap, key: str) -> str:
    data = as_text(entry.get(f"{key}-data"))
    if data:
        return base64.b64decode(data).decode()
    return _read(as_text(entry.get(key)))


def _token(user: JsonMap) -> str:
    return as_text(user.get("token")) or _read(as_text(user.get("tokenFile"))).strip()


def _read(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise KubeconfigError(f"the kubeconfig names {path}, which cannot be read: {error}") from (
            error
        )
