"""Upstream manifests that ride along: packed once from a pinned release, read at plan time.

`python -m components.kubernetes.vendored RELEASE.yaml TARGET.json.gz` packs one: comments go, and
CRDs get the small schema of `crd_schema`, so that the state stays small.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, cast

import yaml
from pydantic import JsonValue, TypeAdapter

from components.kubernetes.manifest import Body

Schema = dict[str, JsonValue]

_TEXTS: Final = frozenset({"description"})
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_DEFAULT: Final = "atomic"
"""What the API server takes for a list of a CRD that says nothing (apiextensions.k8s.io/v1)."""
_KEPT: Final = {"containers": frozenset({"env", "resources", "volumeMounts"})}
"""Lists of a pod to the parts of one entry that are kept one level deeper."""
_VOLUMES: Final = "volumes"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""The only `anyOf` that a quantity has; the API server takes it as said by int-or-string."""


def slim_schema(value: JsonValue, *, in_properties: bool = False) -> JsonValue:
    """The same CRD with the smaller schema; a property that is called `description` stays."""
    if isinstance(value, list):
        return [slim_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    slim: Schema = {
        key: slim_schema(item, in_properties=key == "properties" and not in_properties)
        for key, item in value.items()
        if in_properties or not _says_nothing(key, item)
    }
    if _is_pod(slim):
        return _with_open_pod(slim)
    return _with_open_status(slim) if _is_kind(slim) else slim


def _says_nothing(key: str, item: JsonValue) -> bool:
    """Texts, defaults, and the two types that `x-kubernetes-int-or-string` already names."""
    return key in _TEXTS or (key, item) in ((_LIST_TYPE, _LIST_DEFAULT), ("anyOf", _EITHER))


def _properties(schema: JsonValue) -> Schema:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _is_pod(schema: Schema) -> bool:
    return {"containers", "volumes", "restartPolicy"} <= _properties(schema).keys()


def _is_kind(schema: Schema) -> bool:
    return {"apiVersion", "kind", "metadata", "status"} <= _properties(schema).keys()


def _with_open_status(kind: Schema) -> Schema:
    return {**kind, "properties": {**_properties(kind), "status": {"type": "object", _OPEN: True}}}


def _with_open_pod(pod: Schema) -> Schema:
    parts: Schema = {
        name: _open_entries(part, _KEPT[name]) if name in _KEPT else part
        for name, part in _properties(pod).items()
        if name in _KEPT or _opened(part, levels=0) == part
    }
    parts[_VOLUMES] = _named_volumes(_properties(pod)[_VOLUMES])
    return {**pod, _OPEN: True, "properties": parts}


def _named_volumes(volumes: JsonValue) -> JsonValue:
    """Each volume has its name, once; of what kind it is, the API server judges."""
    listed = cast("Schema", volumes)
    entry = cast("Schema", listed["items"])
    name: Schema = {"name": _properties(entry)["name"]}
    return {**listed, "items": {**entry, "properties": name, _OPEN: True}}


def _open_entries(part: JsonValue, kept: frozenset[str]) -> JsonValue:
    """A list of containers: the entries stay, and what they hold is opened below its own fields."""
    entry = cast("Schema", cast("Schema", part)["items"])
    fields: Schema = {
        name: _opened(field, levels=1 if name in kept else 0)
        for name, field in _properties(entry).items()
    }
    return {**cast("Schema", part), "items": {**entry, "properties": fields}}


def _opened(schema: JsonValue, levels: int) -> JsonValue:
    """The schema with so many levels of its fields; anything is taken below them."""
    if not isinstance(schema, dict):
        return schema
    items = schema.get("items")
    if isinstance(items, dict) and _properties(items):
        if levels:
            return {**schema, "items": _opened(items, levels)}
        return {"type": "array", "items": {_OPEN: True}}
    if not _properties(schema):
        return schema
    if not levels:
        return {"type": "object", _OPEN: True}
    fields: Schema = {
        name: _opened(field, levels - 1) for name, field in _properties(schema).items()
    }
    return {**schema, "properties": fields}


_BODIES: Final = TypeAdapter(list[Body])


@cache
def _packed(package: str, name: str) -> bytes:
    return resources.files(package).joinpath("vendor", name).read_bytes()


def load_vendored(package: str, name: str) -> list[Body]:
    """Read the objects of one packed release, in their order.

    Args:
        package: The room that owns it, for example `components.jobs`.
        name: File below its `vendor` folder, ending in `.json.gz`.
    """
    return _BODIES.validate_json(gzip.decompress(_packed(package, name)))


def pack(text: str) -> bytes:
    """Pack the objects of a multi-document YAML; the same text gives the same bytes."""
    bodies = _BODIES.validate_python([body for body in yaml.safe_load_all(text) if body])
    slim = [
        cast("Body", slim_schema(body)) if body["kind"] == "CustomResourceDefinition" else body
        for body in bodies
    ]
    packed = json.dumps(slim, separators=(",", ":"), sort_keys=True).encode()
    return gzip.compress(packed, mtime=0)


def main() -> None:
    """Pack one file, named by the arguments."""
    source, target = (Path(argument) for argument in sys.argv[1:3])
    target.write_bytes(pack(source.read_text("utf-8")))


if __name__ == "__main__":
    main()
