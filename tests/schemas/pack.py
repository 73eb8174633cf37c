"""Pack the schemas of a release: `python -m tests.schemas.pack TARGET.json.gz SOURCE…`.

A source is a YAML with custom resource definitions, the `/openapi/v3/…` document of an API server,
or a chart's `values.yaml`. Texts go; all else that an API server judges stays.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import yaml

_REF: Final = "#/components/schemas/"
_TEXTS: Final = frozenset({"description", "title", "externalDocs"})
KINDS: Final = frozenset(
    {
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Namespace",
        "Node",
        "Pod",
        "ConfigMap",
        "Secret",
        "Service",
        "ServiceAccount",
        "DaemonSet",
    }
    | {"Deployment", "Job", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    | {"CustomResourceDefinition", "RuntimeClass", "PriorityClass"}
    | {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
)
"""The kinds of Kubernetes itself that are kept: what Railyard renders, and its neighbours."""


def without_texts(value: Any, *, names: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """The schema without what people read; a property that is called `description` stays."""
    if isinstance(value, list):
        return [without_texts(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: without_texts(item, names=key in ("properties", "schemas") and not names)
        for key, item in cast("dict[str, Any]", value).items()
        if names or key not in _TEXTS
    }


def kinds_of_definition(body: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    """Each version of a custom resource, as `mellanox.com/v1alpha1 NicClusterPolicy`."""
    spec = body["spec"]
    for version in spec["versions"]:
        name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
        yield name, without_texts(version["schema"]["openAPIV3Schema"])


def kinds_of_openapi(document: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401
    """The kinds that are kept, and the definitions that they need."""
    schemas = document["components"]["schemas"]
    kinds: dict[str, Any] = {}
    for name, schema in schemas.items():
        for known in schema.get("x-kubernetes-group-version-kind", ()):
            if known["kind"] in KINDS:
                group = f"{known['group']}/" if known["group"] else ""
                kinds[f"{group}{known['version']} {known['kind']}"] = {"$ref": f"{_REF}{name}"}
    found: dict[str, Any] = {}
    todo = [ref["$ref"].removeprefix(_REF) for ref in kinds.values()]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = without_texts(schemas[name])
            todo += [each.removeprefix(_REF) for each in _refs(found[name])]
    return kinds, found


def _refs(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "$ref" and isinstance(item, str):
                yield item
            else:
                yield from _refs(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _refs(item)


def pack(sources: list[Path]) -> bytes:
    """The kinds and definitions of all sources; the same ones give the same bytes."""
    kinds: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    values: Any = None
    for source in sources:
        text = source.read_text("utf-8")
        bodies = [json.loads(text)] if source.suffix == ".json" else yaml.safe_load_all(text)
        for body in bodies:
            if not body:
                continue
            if "openapi" in body:
                more, needed = kinds_of_openapi(body)
                kinds |= more
                definitions |= needed
            elif body.get("kind") == "CustomResourceDefinition":
                kinds |= dict(kinds_of_definition(body))
            else:
                values = body
    packed = {"kinds": kinds, "definitions": definitions, "values": values}
    return gzip.compress(
        json.dumps(packed, separators=(",", ":"), sort_keys=True).encode(), mtime=0
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pack([Path(each) for each in sys.argv[2:]]))
