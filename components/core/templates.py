"""Objects as data: the templates of a room's `objects.yaml`, with words filled in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, cast

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SPREAD: Final = "..."
"""The key of a mapping that adds its own keys to those around it."""


@cache
def _templates(package: str) -> Mapping[str, object]:
    text = resources.files(package).joinpath("objects.yaml").read_text("utf-8")
    return yaml.load(text, _LOADER)  # noqa: S506 - a safe one


def object_of(package: str, template: str, /, **words: object) -> dict[str, Any]:
    """Fill in the words in braces of an object in a room's `objects.yaml`.

    A text of one word alone becomes the value of the word; None removes its key. The mapping at
    `...` adds its keys to those around it.
    """
    return cast("dict[str, Any]", _filled(_templates(package)[template], words))


def _filled(value: object, words: Mapping[str, object]) -> object:
    if isinstance(value, str):
        word = value[1:-1]
        return words[word] if value == f"{{{word}}}" and word in words else value.format(**words)
    if isinstance(value, list):
        return [_filled(item, words) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    found: dict[str, object] = {}
    for key, item in cast("dict[str, object]", value).items():
        made = _filled(item, words)
        found |= cast("dict[str, object]", made) if key == _SPREAD else {key: made}
    return {key: item for key, item in found.items() if item is not None}
