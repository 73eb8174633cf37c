"""What differs between the live state (as far as the program declared it) and the new inputs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from standins.kubernetes.quantity import is_quantity_path, same_quantity
from standins.kubernetes.values import Json, JsonMap, as_map, as_text
from standins.values import has_unknown, is_unknown

Path: TypeAlias = "tuple[str | int, ...]"
Change: TypeAlias = Literal["add", "delete", "update"]

_SPECIAL_IN_KEYS = frozenset('."[]')
_READ_ONLY_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)


class _Missing:
    """The value of a key that is not there: not the same as null."""


_MISSING = _Missing()
_Item: TypeAlias = "Json | _Missing"


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One field that differs."""

    path: Path
    change: Change
    replaces: bool

    @property
    def text(self) -> str:
        """The path in Pulumi's spelling, for example `spec.ports[0]["a.b"]`."""
        parts: list[str] = []
        for step in self.path:
            if isinstance(step, int):
                parts.append(f"[{step}]")
            elif _SPECIAL_IN_KEYS & set(step):
                quoted = step.replace('"', '\\"')
                parts.append(f'["{quoted}"]')
            else:
                parts.append(f".{step}" if parts else step)
        return "".join(parts)


def prune(live: JsonMap, shape: JsonMap) -> JsonMap:
    """Returns the part of a live object that also is in the shape."""
    return {key: _prune_value(live[key], shape[key]) for key in live if key in shape}


def _prune_value(live: Json, shape: Json) -> Json:
    if isinstance(live, dict) and isinstance(shape, dict):
        return prune(live, shape)
    if isinstance(live, list) and isinstance(shape, list):
        if live and shape and type(live[0]) is not type(shape[0]):
            return live
        return [_prune_value(*pair) for pair in zip(live, shape, strict=False)]
    return live


def normalize(obj: JsonMap) -> JsonMap:
    """Returns an object as the API server would store it, as far as diffs need it.

    Read-only metadata goes; a Secret's `stringData` moves into `data`; a CRD loses its status and
    a false `preserveUnknownFields`, as the server drops both.
    """
    result = dict(obj)
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        kept = {key: item for key, item in metadata.items() if key not in _READ_ONLY_METADATA}
        result["metadata"] = kept
    if result.get("kind") == "Secret" and not has_unknown(obj):
        result = _normalize_secret(result)
    if result.get("kind") == "CustomResourceDefinition":
        result.pop("status", None)
        spec = as_map(result.get("spec"))
        if spec.get("preserveUnknownFields") is False:
            result["spec"] = {k: v for k, v in spec.items() if k != "preserveUnknownFields"}
    return result


def _normalize_secret(obj: JsonMap) -> JsonMap:
    data = {key: _canonical_base64(item) for key, item in as_map(obj.get("data")).items()}
    for key, item in as_map(obj.get("stringData")).items():
        data[key] = base64.b64encode(as_text(item).encode()).decode()
    kept = {key: item for key, item in obj.items() if key != "stringData"}
    return {**kept, "data": data} if data else kept


def _canonical_base64(value: Json) -> Json:
    try:
        return base64.b64encode(base64.b64decode(as_text(value), validate=False)).decode()
    except (binascii.Error, ValueError):
        return value


def diff_fields(
    old: JsonMap, new: JsonMap, *, force_new: Sequence[str], built_in: bool
) -> list[FieldDiff]:
    """Compares two objects field by field.

    Args:
        old: What is there, pruned to what the program declared.
        new: What the program declares now; it may hold unknowns.
        force_new: Fields whose change replaces the object.
        built_in: Whether the API server canonicalises quantities and drops empty maps.

    Returns:
        Every field that differs, in path order.
    """
    found = [
        FieldDiff(path, change, any(_matches(path, pattern) for pattern in force_new))
        for path, change in _walk((), old, new, built_in=built_in)
    ]
    return sorted(found, key=lambda field: field.text)


def _walk(path: Path, old: _Item, new: _Item, *, built_in: bool) -> Iterator[tuple[Path, Change]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            pair = (old.get(key, _MISSING), new.get(key, _MISSING))
            yield from _walk((*path, key), *pair, built_in=built_in)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            pair = (_at(old, index), _at(new, index))
            yield from _walk((*path, index), *pair, built_in=built_in)
    else:
        change = _leaf_change(path, old, new, built_in=built_in)
        if change is not None:
            yield path, change


def _at(items: list[Json], index: int) -> _Item:
    return items[index] if index < len(items) else _MISSING


def _leaf_change(path: Path, old: _Item, new: _Item, *, built_in: bool) -> Change | None:
    if isinstance(new, _Missing) or new is None:
        gone = isinstance(old, _Missing) or old is None
        return None if gone else "delete"
    if isinstance(old, _Missing) or old is None:
        dropped = built_in and new in ({}, [])
        return None if dropped else "add"
    same = old == new and not is_unknown(new) and isinstance(old, bool) == isinstance(new, bool)
    if same or (built_in and is_quantity_path(path) and same_quantity(old, new)):
        return None
    return "update"


def _matches(path: Path, pattern: str) -> bool:
    """Says whether a changed path is the pattern's field, inside it, or holds it."""
    wanted = pattern.replace("[*]", ".*").strip(".").split(".")
    return all(
        expected in ("*", actual) for expected, actual in zip(wanted, path, strict=False)
    ) and bool(path)


def parse_property_path(text: str) -> Path:
    """Parses Pulumi's property path (`spec.list[0]["a.b"]`); `[*]` becomes the step `*`."""
    steps: list[str | int] = []
    rest = text
    while rest:
        if rest.startswith('["'):
            key, _, rest = rest[2:].partition('"]')
            steps.append(key)
        elif rest.startswith("["):
            key, _, rest = rest[1:].partition("]")
            steps.append(int(key) if key.isdigit() else key)
        else:
            rest = rest.removeprefix(".")
            end = min((i for i in (rest.find("."), rest.find("[")) if i > 0), default=len(rest))
            steps.append(rest[:end])
            rest = rest[end:]
    return tuple(steps)


def without_ignored(fields: Sequence[FieldDiff], ignored: Sequence[str]) -> list[FieldDiff]:
    """Drops the fields that lie at or under an ignored path."""
    prefixes = [parse_property_path(text) for text in ignored]
    return [field for field in fields if not any(_under(field.path, prefix) for prefix in prefixes)]


def _under(path: Path, prefix: Path) -> bool:
    if len(path) < len(prefix):
        return False
    return all(want in ("*", got) for want, got in zip(prefix, path, strict=False))


def merge_patch(old: JsonMap, new: JsonMap) -> JsonMap:
    """Returns the JSON merge patch (RFC 7386) that turns one object into the other."""
    patch: JsonMap = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch
