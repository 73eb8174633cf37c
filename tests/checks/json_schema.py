"""A judge of values by our JSON schema: the keywords that it uses, and no others."""

from __future__ import annotations

import re
from typing import Final

from components.core.problem import Json

_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_SILENT: Final = frozenset(
    {"$defs", "$schema", "default", "deprecated", "description", "discriminator", "format", "title"}
)
_JUDGED: Final = frozenset(
    {"$ref", "additionalProperties", "anyOf", "const", "enum", "exclusiveMinimum", "items"}
    | {"maxItems", "maximum", "minItems", "minimum", "oneOf", "pattern", "patternProperties"}
    | {"properties", "not", "multipleOf"}
    | {"propertyNames", "required", "type", "exclusiveMaximum", "maxLength", "minLength"}
)


def find_schema_errors(schema: dict[str, Json], value: Json) -> list[str]:
    """Judge a value; each error ends with the key or value that it is about."""
    return _judge(schema, value, schema)


def _judge(schema: Json, value: Json, root: dict[str, Json]) -> list[str]:
    if isinstance(schema, bool):
        return [] if schema else [f"nothing is allowed, not {value!r}"]
    assert isinstance(schema, dict)
    assert schema.keys() <= _JUDGED | _SILENT, schema.keys() - _JUDGED - _SILENT
    if "$ref" in schema:
        return _judge(_at(str(schema["$ref"]), root), value, root)
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list):
        errors = [_judge(choice, value, root) for choice in choices]
        return _excluded(schema, value, root) if [] in errors else errors[0]
    if "type" in schema and not _is_kind(schema["type"], value):
        return [f"no {schema['type']} is {value!r}"]
    if isinstance(value, dict):
        return _judge_mapping(schema, value, root)
    return _judge_list(schema, value, root) if isinstance(value, list) else _plain(schema, value)


def _excluded(schema: dict[str, Json], value: Json, root: dict[str, Json]) -> list[str]:
    excluded = schema.get("not", False)
    return [] if _judge(excluded, value, root) else [f"excluded: {value!r}"]


def _is_kind(kinds: Json, value: Json) -> bool:
    names = kinds if isinstance(kinds, list) else [kinds]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _KINDS[str(name)]) for name in names)


def _at(reference: str, root: dict[str, Json]) -> Json:
    found: Json = root
    for part in reference.removeprefix("#/").split("/"):
        assert isinstance(found, dict)
        found = found[part]
    return found


def _judge_list(schema: dict[str, Json], value: list[Json], root: dict[str, Json]) -> list[str]:
    items = schema.get("items", True)
    length = [f"wrong number of items {len(value)}"] if _is_outside(schema, len(value)) else []
    return length + [each for item in value for each in _judge(items, item, root)]


def _is_outside(schema: dict[str, Json], length: int) -> bool:
    least, most = schema.get("minItems", 0), schema.get("maxItems", length)
    assert isinstance(least, int)
    assert isinstance(most, int)
    return not least <= length <= most


def _plain(schema: dict[str, Json], value: Json) -> list[str]:
    errors: list[str] = []
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list) and value not in allowed:
        errors.append(f"not among {allowed}: {value!r}")
    if isinstance(value, str) and not re.search(str(schema.get("pattern", "")), value):
        errors.append(f"not of the form {schema['pattern']}: {value}")
    if isinstance(value, str) and not _has_length(schema, len(value)):
        errors.append(f"of the wrong length: {value}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        errors += _judge_number(schema, value)
    return errors


def _has_length(schema: dict[str, Json], length: int) -> bool:
    least, most = schema.get("minLength", 0), schema.get("maxLength", length)
    assert isinstance(least, int)
    assert isinstance(most, int)
    return least <= length <= most


def _judge_number(schema: dict[str, Json], value: float) -> list[str]:
    limits = {
        key: limit
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        if isinstance(limit := schema.get(key), int | float)
    }
    wrong = {
        "minimum": value < limits.get("minimum", value),
        "maximum": value > limits.get("maximum", value),
        "exclusiveMinimum": value <= limits.get("exclusiveMinimum", value - 1),
        "exclusiveMaximum": value >= limits.get("exclusiveMaximum", value + 1),
    }
    errors = [f"beyond the {key}: {value}" for key, is_wrong in wrong.items() if is_wrong]
    step = schema.get("multipleOf")
    is_off = isinstance(step, int) and value % step != 0
    return [*errors, f"no multiple of {step}: {value}"] if is_off else errors


def _judge_mapping(
    schema: dict[str, Json], value: dict[str, Json], root: dict[str, Json]
) -> list[str]:
    known, required = schema.get("properties") or {}, schema.get("required") or []
    assert isinstance(known, dict)
    assert isinstance(required, list)
    other, names = schema.get("additionalProperties", True), schema.get("propertyNames", True)
    errors = [f"no {key}" for key in required if key not in value]
    patterns = schema.get("patternProperties") or {}
    assert isinstance(patterns, dict)
    for key, item in value.items():
        errors += _judge(names, key, root)
        fitting = [each for pattern, each in patterns.items() if re.search(pattern, key)]
        errors += [found for each in fitting for found in _judge(each, item, root)]
        if key not in known and fitting:
            continue
        if key not in known and other is False:
            errors.append(f"unknown {key}")
        else:
            errors += _judge(known.get(key, other), item, root)
    return errors
