"""The provider's configuration: parsing, differences, and whether its cluster can be reached."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from standins.kubernetes.client import ApiError, Client, UnreachableError
from standins.kubernetes.kubeconfig import (
    Access,
    KubeconfigError,
    Overrides,
    active_cluster,
    load_ambient,
    load_document,
    resolve,
)
from standins.kubernetes.values import JsonMap, as_map, as_text
from standins.values import has_unknown, reveal

OLDEST_VERSION = (1, 13)  # the oldest Kubernetes that the real plugin accepts
CLUSTER_IDENTIFIER = "clusterIdentifier"
CONNECTION_KEYS = ("kubeconfig", "context", "cluster")


@dataclass(frozen=True, slots=True)
class Settings:
    """Switches of the provider, with the environment as the second source."""

    server_side_apply: bool = True
    mutable_config_maps: bool = False
    mutable_secrets: bool = False
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    patch_force: bool = False
    upsert_existing: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """The configured cluster; without a client it is unreachable, for the given reason."""

    settings: Settings
    namespace: str
    access: Access | None = None
    client: Client | None = None
    unreachable_reason: str = ""


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """What changed in the provider's configuration, and what of it replaces everything."""

    changed: tuple[str, ...]
    replaces: tuple[str, ...]


def parse_settings(variables: Mapping[str, str]) -> Settings:
    """Reads the switches out of the provider's variables (`kubernetes:config:…`)."""

    def switch(key: str, environment: str, *, default: bool = False) -> bool:
        text = variables.get(f"kubernetes:config:{key}") or os.environ.get(environment, "")
        return text == "true" if text else default

    return Settings(
        server_side_apply=switch(
            "enableServerSideApply", "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY", default=True
        ),
        mutable_config_maps=switch("enableConfigMapMutable", "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE"),
        mutable_secrets=switch("enableSecretMutable", "PULUMI_K8S_ENABLE_SECRET_MUTABLE"),
        delete_unreachable=switch("deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE"),
        skip_update_unreachable=switch(
            "skipUpdateUnreachable", "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE"
        ),
        patch_force=switch("enablePatchForce", "PULUMI_K8S_ENABLE_PATCH_FORCE"),
        upsert_existing=switch("upsertExistingObjects", "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"),
    )


def connect(variables: Mapping[str, str]) -> Cluster:
    """Reaches for the configured cluster; an unusable or silent one is no error here.

    Raises:
        KubeconfigError: The cluster is older than the plugin supports.
    """
    settings = parse_settings(variables)
    overrides = Overrides(
        context=variables.get("kubernetes:config:context", ""),
        cluster=variables.get("kubernetes:config:cluster", ""),
        namespace=variables.get("kubernetes:config:namespace", ""),
    )
    namespace = overrides.namespace or "default"
    text = variables.get("kubernetes:config:kubeconfig", "")
    try:
        access = resolve(load_document(text) if text else load_ambient(), overrides)
        client = Client(access)
    except (KubeconfigError, OSError, ValueError) as error:
        reason = f"unable to load Kubernetes client configuration from kubeconfig: {error}"
        return Cluster(settings, namespace, unreachable_reason=reason)
    try:
        version = client.version()
    except (ApiError, UnreachableError) as error:
        reason = f"unable to load schema information from the API server: {error}"
        return Cluster(settings, access.namespace, access, unreachable_reason=reason)
    if version < OLDEST_VERSION:
        raise KubeconfigError(f"minimum supported cluster version is v1.13, found {version}")
    return Cluster(settings, access.namespace, access, client)


def diff_config(olds: JsonMap, news: JsonMap) -> ConfigDiff:
    """Compares two configurations of the provider.

    A changed `clusterIdentifier` replaces every resource; a set and unchanged one never does.
    Without it the entry of the active cluster decides, and an unknown connection replaces.
    """
    old, new = as_map(reveal(olds)), as_map(reveal(news))
    changed = tuple(sorted(key for key in {**old, **new} if old.get(key) != new.get(key)))
    unknown = tuple(key for key in CONNECTION_KEYS if has_unknown(new.get(key)))
    changed = tuple(dict.fromkeys((*changed, *unknown)))
    before, after = old.get(CLUSTER_IDENTIFIER), new.get(CLUSTER_IDENTIFIER)
    if before and before == after:
        return ConfigDiff(changed, ())
    identity = (CLUSTER_IDENTIFIER,) if before and after else ()
    if unknown:
        return ConfigDiff(changed, (*identity, *unknown))
    same = _active_cluster_of(old) == _active_cluster_of(new)
    moved = () if same else tuple(key for key in CONNECTION_KEYS if key in changed)
    return ConfigDiff(changed, (*identity, *moved))


def _active_cluster_of(config: JsonMap) -> JsonMap | None:
    value = config.get("kubeconfig")
    text = json.dumps(value) if isinstance(value, dict) else as_text(value)
    if not text:
        return None
    overrides = Overrides(as_text(config.get("context")), as_text(config.get("cluster")))
    return active_cluster(load_document(text), overrides)
