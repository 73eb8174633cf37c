"""Pack an upstream manifest: `python -m ci.pack_manifest RELEASE.yaml TARGET.json.gz`.

It drops comments and gives CRDs a small schema, which keeps the state small.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Final, cast

import yaml
from pydantic import JsonValue, TypeAdapter

from components.kubernetes.manifest import Body

_BODIES: Final = TypeAdapter(list[Body])
Schema = dict[str, JsonValue]

_TEXTS: Final = frozenset({"description"})
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_DEFAULT: Final = "atomic"
"""The list type that the API server assumes if a CRD sets none (apiextensions.k8s.io/v1)."""
_KEPT: Final = {"containers": frozenset({"env", "resources", "volumeMounts"})}
"""Lists of a pod to the fields of an entry whose schema stays one level deeper."""
_VOLUMES: Final = "volumes"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""The only `anyOf` of a quantity; for the API server int-or-string implies it."""


def slim_schema(value: JsonValue, *, in_properties: bool = False) -> JsonValue:
    """The same CRD with the smaller schema; a property named `description` stays."""
    if isinstance(value, list):
        return [slim_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    slim: Schema = {
        key: slim_schema(item, in_properties=key == "properties" and not in_properties)
        for key, item in value.items()
        if in_properties
        or not (key in _TEXTS or (key, item) in ((_LIST_TYPE, _LIST_DEFAULT), ("anyOf", _EITHER)))
    }
    if {"containers", "volumes", "restartPolicy"} <= _properties(slim).keys():
        return _with_open_pod(slim)
    if not {"apiVersion", "kind", "metadata", "status"} <= _properties(slim).keys():
        return slim
    return {**slim, "properties": {**_properties(slim), "status": {"type": "object", _OPEN: True}}}


def _properties(schema: JsonValue) -> Schema:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _with_open_pod(pod: Schema) -> Schema:
    parts: Schema = {
        name: _open_entries(part, _KEPT[name]) if name in _KEPT else part
        for name, part in _properties(pod).items()
        if name in _KEPT or _opened(part, levels=0) == part
    }
    parts[_VOLUMES] = _named_volumes(_properties(pod)[_VOLUMES])
    return {**pod, _OPEN: True, "properties": parts}


def _named_volumes(volumes: JsonValue) -> JsonValue:
    """Each volume has a unique name; the API server checks the rest."""
    listed = cast("Schema", volumes)
    entry = cast("Schema", listed["items"])
    name: Schema = {"name": _properties(entry)["name"]}
    return {**listed, "items": {**entry, "properties": name, _OPEN: True}}


def _open_entries(part: JsonValue, kept: frozenset[str]) -> JsonValue:
    """A list of containers: the entries stay, and their fields accept any content."""
    entry = cast("Schema", cast("Schema", part)["items"])
    fields: Schema = {
        name: _opened(field, levels=1 if name in kept else 0)
        for name, field in _properties(entry).items()
    }
    return {**cast("Schema", part), "items": {**entry, "properties": fields}}


def _opened(schema: JsonValue, levels: int) -> JsonValue:
    """The schema with this many levels of its fields; below them any content is valid."""
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
