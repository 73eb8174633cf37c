"""Judge rendered manifests without a cluster: by the schemas of their releases, field by field.

An API server drops a field that it does not know; here it is a mistake. `jsonschema` validates, and
this module only says in its words what is Kubernetes' own: closed objects, quantities, numbers or
texts, and texts that hold JSON.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml
from jsonschema import Draft202012Validator, ValidationError

from components.kubernetes.manifest import load_vendored

FOLDER: Final = Path(__file__).parent
DATA: Final = FOLDER / "data"
VENDORED: Final = (
    ("components.pod_network", "multus-crd-v4.3.0.json.gz"),
    ("components.pod_network", "whereabouts-crds-v0.9.4.json.gz"),
)
"""Definitions that the product itself installs; those of the MPI operator are smaller there."""
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = {"type": ["integer", "string"]}
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_META: Final = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}


def closed(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """The schema as a validator reads it, in which an object has no field that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return _closed(cast("dict[str, Any]", schema))


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return _EITHER
    found = {key: _part(key, item) for key, item in schema.items()}
    if isinstance(ref := found.get("$ref"), str):
        found["$ref"] = ref.replace("#/components/schemas/", "#/$defs/")
    if "properties" in found and not schema.get(_OPEN):
        found.setdefault("additionalProperties", False)
    if found.pop("nullable", False) and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _part(key: str, item: Any) -> Any:  # noqa: ANN401 - any JSON
    if key == "properties":
        return {name: closed(each) for name, each in item.items()}
    return item if key in ("default", "enum", "required") else closed(item)


@cache
def _packed(name: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def raw_kinds() -> dict[str, Any]:
    """The schema of each packed kind, as the newest release of its project has it."""
    found: dict[str, Any] = {}
    for file in sorted(DATA.iterdir()):
        found |= _packed(file.name)["kinds"]
    return found


def packed_releases(project: str) -> list[str]:
    """The releases of a project that are packed, oldest first: `v26.3.3`, `v26.7.0`."""
    names = (file.name for file in DATA.glob(f"{project}-v*.json.gz"))
    return sorted(name.removeprefix(f"{project}-").removesuffix(".json.gz") for name in names)


@cache
def _schemas() -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """The kinds of each file, and the definitions that those of Kubernetes refer to."""
    kinds: dict[str, Any] = {}
    for room, name in VENDORED:
        for body in load_vendored(room, name):
            spec: Any = body["spec"]
            for version in spec["versions"]:
                kind = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
                kinds[kind] = version["schema"]["openAPIV3Schema"]
    definitions: dict[str, Any] = {}
    editions = [kinds]
    for file in sorted(DATA.iterdir()):
        editions.append(_packed(file.name)["kinds"])
        definitions |= _packed(file.name)["definitions"]
    found = tuple({kind: closed(schema) for kind, schema in each.items()} for each in editions)
    for schema in (schema for each in found for schema in each.values()):
        if "properties" in schema:
            schema["properties"] |= {"metadata": {"$ref": _META}, "apiVersion": {}, "kind": {}}
    known = {name: closed(schema) for name, schema in definitions.items()}
    known[_QUANTITY] = {"type": ["number", "string"]}
    return found, known


def without_required(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """The schema of a patch, which holds a part of its object."""
    if isinstance(schema, list):
        return [without_required(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    return {key: without_required(item) for key, item in table.items() if key != "required"}


@cache
def _validators(kind: str, *, patch: bool) -> tuple[Draft202012Validator, ...]:
    """One for each release whose project has the kind."""
    editions, definitions = _schemas()
    schemas = [kinds[kind] for kinds in editions if kind in kinds]
    return tuple(
        Draft202012Validator(
            {**(without_required(schema) if patch else schema), "$defs": definitions}
        )
        for schema in schemas
    )


def judge(body: Mapping[str, Any], *, patch: bool = False) -> list[str]:
    """What is wrong with an object for any packed release, each with its place."""
    kind = f"{body.get('apiVersion')} {body.get('kind')}"
    validators = _validators(kind, patch=patch)
    if not validators:
        return [f"{kind}: there is no schema of it in tests/schemas/data"]
    errors = [error for validator in validators for error in _errors(validator, body)]
    said = dict.fromkeys(f"{error.json_path}: {error.message}" for error in errors)
    return [*said, *(f"{place}: {what}" for place, what in _judge_texts(body))]


def _errors(validator: Draft202012Validator, value: object) -> list[ValidationError]:
    found: list[ValidationError] = [*cast("Any", validator).iter_errors(value)]
    return found


def _judge_texts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for place, schema, text in _texts(body):
        try:
            value = json.loads(text)
        except ValueError as error:
            yield place, f"no JSON: {error}"
            continue
        for error in _errors(_text_validator(schema), value):
            yield f"{place} {error.json_path}", error.message


def _texts(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The texts of an object that a program parses, each with the name of its schema."""
    if body["kind"] == "NetworkAttachmentDefinition":
        yield "spec.config", "attachment", body["spec"]["config"]
    if body["kind"] == "NicClusterPolicy":
        for key, schema in (
            ("sriovDevicePlugin", "sriov_device_plugin"),
            ("rdmaSharedDevicePlugin", "shared_device_plugin"),
        ):
            if (part := body["spec"].get(key)) and "config" in part:
                yield f"spec.{key}.config", schema, part["config"]
    if body["kind"] == "ConfigMap" and "config.json" in body.get("data", {}):
        shared = "configList" in body["data"]["config.json"]
        schema = "shared_device_plugin" if shared else "sriov_device_plugin"
        yield "data.config.json", schema, body["data"]["config.json"]
    if plugins := body.get("spec", {}).get("metaPlugins"):
        yield "spec.metaPlugins", "plugins_list", f"[{plugins}]"
    if "ipam" in body.get("spec", {}) and isinstance(body["spec"]["ipam"], str):
        yield "spec.ipam", "ipam", body["spec"]["ipam"]


@cache
def _text_validator(name: str) -> Draft202012Validator:
    known = yaml.safe_load((FOLDER / "texts.yaml").read_text("utf-8"))
    known["ipam_text"] = {"$ref": "#/$defs/ipam"}
    known["plugins_list"] = {"type": "array", "items": {"$ref": "#/$defs/plugin"}}
    defs = {
        "texts": _TEXTS,
        "net_device": _object(known["net_device"]),
        "plugin": _by_type(known["plugins"]),
        "ipam": _by_type(known["ipam"]),
    }
    schema = {"$ref": "#/$defs/ipam"} if name == "ipam" else known[name]
    return Draft202012Validator({**schema, "$defs": defs})


def _object(properties: Any) -> Any:  # noqa: ANN401 - any JSON
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _by_type(kinds: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """An object of one of the types, which has the keys of that type and no other."""
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": [*kinds]}},
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}}, "then": _object(properties)}
            for name, properties in kinds.items()
        ],
    }


def packed_values(chart: str, release: str) -> Mapping[str, Any]:
    """The keys of a chart's release, with their defaults."""
    return cast("Mapping[str, Any]", _packed(f"{chart}-{release}.json.gz")["values"])


def unknown_values(chart: str, values: Mapping[str, Any]) -> list[str]:
    """The keys of values that a packed release of a chart does not have: Helm takes any key."""
    known = [packed_values(chart, release) for release in packed_releases(chart)]
    return [*dict.fromkeys(key for each in known for key in unknown_keys(each, values))]


def unknown_keys(known: Any, values: Mapping[str, Any], above: str = "") -> Iterator[str]:  # noqa: ANN401
    """The keys that a release whose values are `known` does not have, with their places."""
    for key, value in values.items():
        if key not in known:
            yield f"{above}{key}"
        elif isinstance(value, Mapping) and isinstance(known[key], dict) and known[key]:
            yield from unknown_keys(known[key], cast("Mapping[str, Any]", value), f"{above}{key}.")
