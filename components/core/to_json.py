"""Plans as JSON: one stable form for `railyard plan --format json`, digests and goldens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from typing import Any, Final, cast

from pydantic import BaseModel

OMIT_EMPTY: Final = {"omit_empty": True}
"""Metadata of a field that came later: while it is empty, plans and their digests stay as they
were, and nothing is proven again for its sake."""


HIDDEN: Final = {"hidden": True}
"""Metadata of a field that another one names by its digest: a long text, which no plan shows."""


def _shown(value: object, each: Field[Any]) -> bool:
    if each.metadata.get("hidden"):
        return False
    return bool(getattr(value, each.name)) or not each.metadata.get("omit_empty")


def to_json(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Turn a plan value into plain JSON data, keys as in the types.

    Raises:
        TypeError: The value is of no type that a plan may hold.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        found = {
            each.name: getattr(value, each.name) for each in fields(value) if _shown(value, each)
        }
        return {name: to_json(item) for name, item in found.items()}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        return {str(key): to_json(item) for key, item in items.items()}
    if isinstance(value, Sequence | set | frozenset):
        data = [to_json(item) for item in cast("Sequence[object]", value)]
        # A set has no order of its own, and another one in each process.
        return data if isinstance(value, Sequence) else sorted(data, key=json.dumps)
    raise TypeError(f"a plan must not hold a {type(value).__name__}")
