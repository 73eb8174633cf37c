"""Fields of an object whose form nothing promises: what is not there is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


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
