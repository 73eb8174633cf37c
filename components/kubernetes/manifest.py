"""One Kubernetes object as a plain value, the registry's login, and upstream manifests.

The login is one Secret a namespace; plans do not contain its value. Upstream manifests are packed
once from a pinned release by `ci/pack_manifest.py`, shipped with the code, and read at plan time.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from components.artefacts.naming import registry_host
from components.artefacts.resolve import PULL_SECRET
from components.core.record import record
from components.core.templates import reader_of
from components.model.cluster import ClusterSpec

Body: TypeAlias = dict[str, JsonValue]
"""The JSON of one object; only here does the plan allow free keys."""

WAIT_FOR: Final = "pulumi.com/waitFor"
"""Annotation: a JSONPath or condition that must hold before the object counts as made."""
REPAIR: Final = "railyard.dev/repair"
"""Annotation with the drift last found in the object; a new text makes the engine write it."""
HELD: Final = "kubernetes-held"
"""The note of an update that leaves all objects and charts unchanged, since the API is dead."""
AGAIN: Final = "-made-again"
"""Suffix of the note for an object that this update must make again."""
_SETTLED: Final = {
    "CustomResourceDefinition": "condition=Established",
    "ClusterRole": "jsonpath={.rules[0].verbs[0]}",
}
"""Kind to the condition under which the cluster has finished its own changes to an object: a
definition is served, and an aggregated role has its rules. A state recorded earlier differs from
the next refresh, and the engine then prints the whole change in a preview, although our fields are
unchanged. `hide_diffs` does not help: with it the engine prints every object at every refresh."""
_SHARED: Final = frozenset({"CustomResourceDefinition", "Namespace"})
_FROM_OTHERS: Final = "aggregationRule"
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
LOGIN_HOLE: Final = "railyard:registry-login"
"""Replaces the value, which is filled in when the object is made."""
LOGIN_DATA: Final = {".dockerconfigjson": LOGIN_HOLE}


@record
class Manifest:
    """One object, and its place in the order."""

    resource_name: str
    """Name of the Pulumi resource, unique because it contains the component."""
    api_version: str
    kind: str
    """The provider's name of the type: `<Kind>Patch` for a patch of an object owned by others."""
    body: Body
    group: int
    """Objects of one group may be made together; a group waits for the one before it."""

    @property
    def is_patch(self) -> bool:
        """Whether it patches an object owned by others."""
        return self.kind != self.body["kind"]

    @property
    def name(self) -> str:
        """The object's name in the cluster."""
        return name_of(self.body)


def outlives(manifest: Manifest, *, foreign: bool) -> bool:
    """Whether an object stays after its stack is destroyed: others may have objects in it.

    Deleting a definition deletes all of its objects, also those of users. If one has a finalizer
    whose controller was deleted before, the definition is never deleted. In our own cluster,
    definitions and namespaces are deleted with the cluster.
    """
    return foreign and manifest.kind in _SHARED


def make_manifest(owner: str, body: Body, group: int) -> Manifest:
    """Make the manifest of an object that we own completely; `owner` is one like `multus`."""
    name, kind = name_of(body), str(body["kind"])
    if kind in _SETTLED and (kind != "ClusterRole" or _FROM_OTHERS in body):
        body = _annotated(body, {WAIT_FOR: _SETTLED[kind], **annotations_of(body)})
    resource_name = f"{owner}-{kind.lower()}-{name}" if name != owner else f"{owner}-{kind.lower()}"
    return Manifest(resource_name, str(body["apiVersion"]), kind, body, group)


def repaired(body: Body, note: str) -> Body:
    """The body with its repair note, if it has one."""
    return _annotated(body, {**annotations_of(body), REPAIR: note}) if note else body


def annotations_of(body: Body) -> Body:
    """The annotations of an object, possibly empty."""
    return {**map_at(body, "metadata", "annotations")}


def _annotated(body: Body, annotations: Body) -> Body:
    return {**body, "metadata": {**map_at(body, "metadata"), "annotations": annotations}}


def map_at(owner: object, *path: str) -> Mapping[str, Any]:
    """The mapping at a path of keys."""
    found = owner
    for key in path:
        found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def list_at(owner: object, *path: str) -> list[Mapping[str, Any]]:
    """The mappings of the list at a path of keys."""
    found: object = map_at(owner, *path[:-1]).get(path[-1])
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("Mapping[str, Any]", each) for each in items if isinstance(each, Mapping)]


def name_of(body: object) -> str:
    """The object's own name."""
    return str(map_at(body, "metadata").get("name", ""))


def pods_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every pod in an object: each mapping with a list of containers."""
    if isinstance(value, list):
        for item in value:
            yield from pods_in(item)
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for item in value.values():
            yield from pods_in(item)


def containers_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every container of every pod in an object."""
    for pod in pods_in(value):
        for key in _LISTS:
            for item in cast("list[JsonValue]", pod.get(key) or []):
                if isinstance(item, dict):
                    yield item


def with_image(body: Body, image: str) -> Body:
    """The same object with another image in all its containers."""
    changed = copy.deepcopy(body)
    for container in containers_in(changed):
        container["image"] = image
    return changed


def pulling(spec: ClusterSpec, body: Body) -> Body:
    """The same object, whose pods pull with the Secret of `login_manifests`, if there is one."""
    if registry_account(spec) is None:
        return body
    changed = copy.deepcopy(body)
    for pod in pods_in(changed):
        pod["imagePullSecrets"] = [{"name": PULL_SECRET}]
    return changed


@record
class RegistryAccount:
    """The account for pulls, without the password."""

    host: str
    user: str
    secret: str
    """Name of the secret with the password."""


def registry_account(spec: ClusterSpec) -> RegistryAccount | None:
    """The account with which nodes and pods pull, or None if the registry wants no login."""
    registry = spec.sources.registry
    if registry is None or (login := registry.login) is None:
        return None
    return RegistryAccount(registry_host(registry), login.user, login.password.name)


def login_manifests(
    spec: ClusterSpec, owner: str, namespace: str, group: int
) -> tuple[Manifest, ...]:
    """The Secret with which the pods of a namespace pull; empty without a login."""
    if registry_account(spec) is None:
        return ()
    metadata: Body = {"name": PULL_SECRET, "namespace": namespace}
    body: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    body |= {"type": "kubernetes.io/dockerconfigjson", "data": {**LOGIN_DATA}}
    return (make_manifest(f"{owner}-{namespace}", body, group),)


def login_value(account: RegistryAccount, password: str) -> str:
    """The value of the Secret: Docker's configuration in base64."""
    auth = base64.b64encode(f"{account.user}:{password}".encode()).decode()
    entry = {"username": account.user, "password": password, "auth": auth}
    config = json.dumps({"auths": {account.host: entry}}, sort_keys=True)
    return base64.b64encode(config.encode()).decode()


def load_vendored(package: str, name: str) -> list[Body]:
    """Read the objects of one packed release: a file below the `vendor` folder of a room."""
    packed = resources.files(package).joinpath("vendor", name).read_bytes()
    return reader_of(list[Body]).validate_json(gzip.decompress(packed))
