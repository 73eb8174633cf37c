"""Compare a wanted object with the live one: each applied field, and additions by others. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import zip_longest
from typing import Final, cast

from pydantic import JsonValue

from components.core.difference import ABSENT
from components.core.plain_text import one_line
from components.core.record import record
from components.kubernetes.manifest import Body, map_at

_FORM: Final = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+|[a-zA-Z]*)")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18
}  # fmt: skip
"""`1E` is an exa, and `1E3` an exponent."""
_MAPS: Final = frozenset({"limits", "requests", "capacity", "allocatable", "hard", "overhead"})
_FIELDS: Final = frozenset({"sizeLimit", "storage", "divisor"})
Path = tuple[str, ...]
THERE: Final = "there"
HIDDEN: Final = "another value (a secret, not shown)"
_LONGEST: Final = 60
"""Characters of a value in a report: a line shows two values and a path."""
_MERGE_KEYS: Final[Mapping[str, str]] = {
    "containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "imagePullSecrets": "name", "hostAliases": "ip",
    "versions": "name", "webhooks": "name", "additionalPrinterColumns": "name",
}  # fmt: skip
_PORT_KEYS: Final = ("containerPort", "port")
_TELLING: Final = frozenset({"containers", "initContainers", "env", "volumes", "volumeMounts"})
"""Lists in which an extra item changes how our pods run; in other lists, extra items are
ignored."""
_STEERING: Final = frozenset({"nodeSelector", "affinity", "runtimeClassName", "hostNetwork"})
"""Fields of a pod without a default that decide where and how it runs."""
_FILLED: Final = frozenset({"caBundle", "clusterIP"})
"""Fields that a chart leaves empty for the cluster to fill."""
_NO_DEFAULT: Final = frozenset({"automountServiceAccountToken", "allowPrivilegeEscalation"})
"""Fields whose absence means true instead of false."""
_TELLS_EMPTY: Final = frozenset({"emptyDir"})
"""Fields whose empty value has a meaning."""
_OF_PROVIDER: Final = "pulumi.com/"
"""Prefix of annotations that configure the provider's wait; the object need not have them."""
_SKIPPED: Final = frozenset({"apiVersion", "kind", "metadata", "status", "stringData"})


def holds_quantity(path: tuple[str, ...]) -> bool:
    """Whether the field at this path is an amount of a resource."""
    *before, leaf = path
    return leaf in _FIELDS or (before != [] and before[-1] in _MAPS)


def amount_of(value: JsonValue) -> Fraction | None:
    """The exact amount; None if the value is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = _FORM.fullmatch(str(value).strip())
    if found is None:
        return None
    number, suffix = Fraction(found[1]), found[2]
    if suffix in _BINARY:
        return number * 1024 ** (_BINARY.index(suffix) + 1)
    is_exponent = suffix[:1] in {"e", "E"} and suffix[1:]
    power = int(suffix[1:]) if is_exponent else _DECIMAL.get(suffix)
    return None if power is None else number * Fraction(10) ** power


@record
class FieldDrift:
    """One field that differs from the applied one."""

    path: str
    """`spec.template.spec.containers[multus].image`; empty for the object itself."""
    actual: str
    want: str
    ours: bool = True
    """False if another added it to our object: an update removes nothing that others added."""

    def __str__(self) -> str:
        """The words of reports and repair notes."""
        if not self.path:
            return one_line(f"is {self.actual}, want {self.want}")
        beside = "" if self.ours else " (outside the plan: remove it yourself)"
        return one_line(f"{self.path} is {self.actual}, want {self.want}{beside}")


def compare_object(want: Body, live: Body | None) -> tuple[FieldDrift, ...]:
    """The fields of `want` in which an object differs; `live` is None if it does not exist."""
    if live is None:
        return (FieldDrift("", ABSENT, THERE),)
    leaving = map_at(live, "metadata").get("deletionTimestamp")
    if leaving is not None:
        return (FieldDrift("metadata.deletionTimestamp", _shown(leaving), ABSENT),)
    return tuple(_fields(want, live))


def _fields(want: Body, live: Body) -> Iterator[FieldDrift]:
    for key in ("labels", "annotations"):
        given = map_at(want, "metadata", key).items()
        ours: Body = {name: value for name, value in given if not name.startswith(_OF_PROVIDER)}
        yield from _walk(ours, map_at(live, "metadata").get(key) or {}, ("metadata", key))
    # The cluster writes the rules of an aggregated role.
    skipped = _SKIPPED | {"rules"} if "aggregationRule" in want else _SKIPPED
    secret = want.get("kind") == "Secret"
    for key, value in want.items():
        if key in skipped:
            continue
        for each in _walk(value, live.get(key), (key,)):
            actual = each.actual if each.actual == ABSENT else HIDDEN
            is_hidden = secret and key == "data"
            yield FieldDrift(each.path, actual, "the applied one") if is_hidden else each
    if want.get("kind") == "ConfigMap":
        yield from _beside(map_at(want, "data"), map_at(live, "data"), ("data",))
    if map_at(live, "spec").get("paused") and not map_at(want, "spec").get("paused"):
        yield FieldDrift("spec.paused", "true", ABSENT, ours=False)


def _walk(want: JsonValue, live: JsonValue, path: Path) -> Iterator[FieldDrift]:
    # The API server leaves out what means the same as an absent field.
    empty = want is None or (want in ("", 0, {}, []) and path[-1] not in _TELLS_EMPTY)
    empty = path[-1] not in _NO_DEFAULT if want is False else empty
    if (live is None and empty) or (want == "" and path[-1] in _FILLED):
        return
    if isinstance(want, dict) and (isinstance(live, dict) or (want and live is None)):
        yield from _walk_map(want, map_at(live), path)
    elif isinstance(want, list) and isinstance(live, list):
        yield from _walk_list(want, live, path)
    elif isinstance(want, str) and isinstance(live, str):
        yield from _walk_text(want, live, path)
    elif want is not None and not _same(want, live, path):
        yield FieldDrift(_spell(path), _shown(live), _shown(want))


def _walk_map(
    want: Mapping[str, JsonValue], live: Mapping[str, JsonValue], path: Path
) -> Iterator[FieldDrift]:
    for key, value in want.items():
        yield from _walk(value, live.get(key), (*path, key))
    is_pod = isinstance(want.get("containers"), list)
    # Others may have added fields that decide where a pod runs, such as a node selector.
    for key in _STEERING & live.keys() if is_pod else ():
        if key == "nodeSelector":
            yield from _beside(map_at(want, key), map_at(live, key), (*path, key))
        elif key not in want and live[key]:
            yield FieldDrift(_spell((*path, key)), _shown(live[key]), ABSENT, ours=False)
    if is_pod or (path[-1].endswith("]") and isinstance(want.get("image"), str)):
        # Lists that only the live object has, such as `env` in a container without variables.
        for key in _TELLING & (live.keys() - want.keys()):
            yield from _walk_list([], cast("list[JsonValue]", live[key]), (*path, key))


def _beside(
    want: Mapping[str, JsonValue], live: Mapping[str, JsonValue], path: Path
) -> Iterator[FieldDrift]:
    for key in live.keys() - want.keys():
        yield FieldDrift(_spell((*path, key)), _shown(live[key]), ABSENT, ours=False)


def _walk_list(want: list[JsonValue], live: list[JsonValue], path: Path) -> Iterator[FieldDrift]:
    wanted, found = _by_key(want, path[-1]), _by_key(live, path[-1])
    if wanted is None or found is None:
        if len(want) != len(live) or not all(isinstance(item, dict | list) for item in want):
            if not _same(want, live, path):
                yield FieldDrift(_spell(path), _shown(live), _shown(want))
            return
        wanted, found = (
            {str(number): item for number, item in enumerate(items)} for items in (want, live)
        )
    for name, item in wanted.items():
        place = (*path, f"[{name}]")
        if name not in found:
            yield FieldDrift(_spell(place), ABSENT, _shown(item))
        else:
            yield from _walk(item, found[name], place)
    if path[-1] in _TELLING:
        for name in found.keys() - wanted.keys():
            yield FieldDrift(_spell((*path, f"[{name}]")), _shown(found[name]), ABSENT, ours=False)


def _by_key(items: list[JsonValue], field: str) -> dict[str, JsonValue] | None:
    """The items by their merge key; None without a usable key: then their order counts."""
    found: dict[str, JsonValue] = {}
    keys = _PORT_KEYS if field == "ports" else [_MERGE_KEYS[field]] if field in _MERGE_KEYS else ()
    for item in items:
        if not isinstance(item, dict):
            return None
        name = next((str(item[key]) for key in keys if key in item), None)
        if field == "ports" and name is not None:
            name += f"/{item.get('protocol') or 'TCP'}"
        if name is None or name in found:
            return None
        found[name] = item
    return found if items or field in _MERGE_KEYS else None


def _walk_text(want: str, live: str, path: Path) -> Iterator[FieldDrift]:
    """Compare two texts: by fields if both are JSON, else by the first line that differs."""
    if _same(want, live, path):
        return
    ours, theirs = _document(want), _document(live)
    if ours is not None and theirs is not None:
        yield from _exactly(ours, theirs, path)
    elif "\n" in want.strip() or "\n" in live.strip():
        actual, wanted = ([_shown(line) for line in text.splitlines()] for text in (live, want))
        pairs = enumerate(zip_longest(actual, wanted, fillvalue=ABSENT), 1)
        most = max(len(actual), len(wanted))
        number, pair = next((each for each in pairs if each[1][0] != each[1][1]), (most, ("", "")))
        yield FieldDrift(f"{_spell(path)} line {number}", *pair)
    else:
        yield FieldDrift(_spell(path), _shown(live), _shown(want))


def _document(text: str) -> JsonValue:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return cast("JsonValue", json.loads(text))
    except ValueError:
        return None


def _exactly(want: JsonValue, live: JsonValue, path: Path) -> Iterator[FieldDrift]:
    """A document within a text is wholly ours: a missing, changed or extra value is drift."""
    if isinstance(want, dict) and isinstance(live, dict):
        for key in (*want, *(key for key in live if key not in want)):
            if key not in live:
                yield FieldDrift(_spell((*path, key)), ABSENT, _shown(want[key]))
            elif key not in want:
                yield FieldDrift(_spell((*path, key)), _shown(live[key]), ABSENT)
            else:
                yield from _exactly(want[key], live[key], (*path, key))
    elif isinstance(want, list) and isinstance(live, list) and len(want) == len(live):
        for number, (item, other) in enumerate(zip(want, live, strict=True)):
            yield from _exactly(item, other, (*path, f"[{number}]"))
    elif want != live or isinstance(want, bool) != isinstance(live, bool):
        yield FieldDrift(_spell(path), _shown(live), _shown(want))


def _same(want: JsonValue, live: JsonValue, path: Path) -> bool:
    if holds_quantity(path) and (amount := amount_of(want)) is not None:
        return amount == amount_of(live)
    if isinstance(want, bool) or isinstance(live, bool):
        return want is live
    if isinstance(want, str | int | float) and isinstance(live, str | int | float):
        return want == live or str(want) == str(live)
    return want == live


def _spell(path: Path) -> str:
    """`spec.containers[multus].image`; a key with dots in quotes."""
    named = (f'."{step}"' if "." in step else f".{step}" for step in path)
    parts = (step if step[:1] == "[" else name for step, name in zip(path, named, strict=True))
    return "".join(parts).removeprefix(".")


def _shown(value: JsonValue) -> str:
    if value is None:
        return ABSENT
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
