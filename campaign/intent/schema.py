"""Values for any key of the site file, drawn from its own JSON schema."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from components.model.cluster import ClusterSpec

_WORDS: Final = ("rail-0", "leaf-01", "default", "sriov", "none", "auto", "10.20.0.0/24", "v1")
HALF: Final = 0.5
DEEPEST: Final = 3
"""Deep enough for each form of the file."""
Schema = Mapping[str, Any]


@cache
def _whole() -> Schema:
    return ClusterSpec.model_json_schema()


def sample_key(
    chance: random.Random, path: Sequence[str | int], held: Mapping[str, Any]
) -> tuple[str, object] | None:
    """A key that may stand at a place, and a value for it; None if the schema says nothing.

    Args:
        chance: Which one.
        path: The place, from the top of the file.
        held: What stands there, which says which form of several it is.
    """
    schema = _resolve(_at(_whole(), path, held), held)
    properties = cast("Schema", schema.get("properties") or {})
    if not properties:
        return None
    key = chance.choice([*properties])
    return key, _sample(chance, properties[key], held.get(key), 0)


def _at(schema: Schema, path: Sequence[str | int], held: Mapping[str, Any]) -> Schema:
    for word in path:
        schema = _resolve(schema, held, word)
        if isinstance(word, int):
            schema = cast("Schema", schema.get("items") or {})
            continue
        properties = cast("Schema", schema.get("properties") or {})
        more = schema.get("additionalProperties")
        schema = cast("Schema", properties.get(word) or (more if isinstance(more, dict) else {}))
    return schema


def _resolve(schema: Schema, held: Mapping[str, Any], word: str | int | None = None) -> Schema:
    """Follow references; of several forms, the one that has the most of the held keys."""
    while "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = cast("Schema", _whole()["$defs"][name])
    forms = cast("list[Schema]", schema.get("anyOf") or schema.get("oneOf") or [])
    if not forms:
        return schema
    resolved = [_resolve(each, held) for each in forms]
    wanted: set[object] = {*held, word}

    def fit(form: Schema) -> int:
        if isinstance(word, int):
            return int("items" in form)
        return len(wanted & {*cast("Schema", form.get("properties") or {})})

    return max(resolved, key=fit)


def _sample(chance: random.Random, schema: Schema, old: object, depth: int) -> object:
    while "$ref" in schema:
        schema = cast("Schema", _whole()["$defs"][str(schema["$ref"]).rpartition("/")[2]])
    if forms := schema.get("anyOf") or schema.get("oneOf"):
        return _sample(chance, chance.choice(cast("list[Schema]", forms)), old, depth)
    if choices := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return chance.choice(cast("list[object]", choices))
    kinds = {
        "boolean": lambda: not old if isinstance(old, bool) else chance.random() < HALF,
        "integer": lambda: _number(chance, schema, old),
        "number": lambda: _number(chance, schema, old),
        "string": lambda: _text(chance, schema, old),
        "array": lambda: _list(chance, schema, depth),
        "object": lambda: _object(chance, schema, depth),
    }
    make = kinds.get(str(schema.get("type")))
    return make() if make is not None and depth <= DEEPEST else None


def _list(chance: random.Random, schema: Schema, depth: int) -> list[object]:
    item = _sample(chance, cast("Schema", schema.get("items") or {}), None, depth + 1)
    return [] if chance.random() < HALF else [item]


def _object(chance: random.Random, schema: Schema, depth: int) -> dict[str, object]:
    properties = cast("Schema", schema.get("properties") or {})
    wanted = [*cast("list[str]", schema.get("required") or [])]
    spare = [key for key in properties if key not in wanted]
    if spare and chance.random() < HALF:
        wanted.append(chance.choice(spare))
    return {key: _sample(chance, properties[key], None, depth + 1) for key in wanted}


def _number(chance: random.Random, schema: Schema, old: object) -> int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum", max(int(low) + 1, 10000)))
    near = [int(old) + 1, int(old) - 1, int(old) * 2] if isinstance(old, int | float) else []
    fits = [each for each in near if low <= each <= high]
    return chance.choice([*fits, *fits, int(low), int(high), chance.randint(int(low), int(high))])


def _text(chance: random.Random, schema: Schema, old: object) -> str:
    held = [old[:-1] + chance.choice("0123456789ab")] if isinstance(old, str) and old else []
    examples = cast("list[str]", schema.get("examples") or [])
    return chance.choice([*held, *held, *held, *examples, *_WORDS])
