"""The registry's login in the cluster: one Secret a namespace, whose value no plan holds."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Final

from components.artefacts.naming import registry_host
from components.artefacts.resolve import PULL_SECRET
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.model.cluster import ClusterSpec

LOGIN_HOLE: Final = "railyard:registry-login"
"""In the place of the value, which is put in when the object is made."""
LOGIN_DATA: Final = {".dockerconfigjson": LOGIN_HOLE}


@dataclass(frozen=True, slots=True)
class RegistryAccount:
    """Who pulls: everything but the password."""

    host: str
    user: str
    secret: str
    """Name of the secret with the password."""


def registry_account(spec: ClusterSpec) -> RegistryAccount | None:
    """The account that nodes and pods pull with, or None where the registry wants none."""
    registry = spec.sources.registry
    if registry is None or registry.login is None:
        return None
    login = registry.login
    return RegistryAccount(registry_host(registry), login.user, login.password.name)


def login_manifests(
    spec: ClusterSpec, owner: str, namespace: str, group: int
) -> tuple[Manifest, ...]:
    """The Secret by which the pods of a namespace pull; none without a login."""
    if registry_account(spec) is None:
        return ()
    body: Body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": PULL_SECRET, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {**LOGIN_DATA},
    }
    return (make_manifest(f"{owner}-{namespace}", body, group),)


def login_value(account: RegistryAccount, password: str) -> str:
    """The value of the Secret: Docker's configuration in base64."""
    auth = base64.b64encode(f"{account.user}:{password}".encode()).decode()
    entry = {"username": account.user, "password": password, "auth": auth}
    config = json.dumps({"auths": {account.host: entry}}, sort_keys=True)
    return base64.b64encode(config.encode()).decode()
