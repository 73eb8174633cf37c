"""Write values as lines of YAML, in the style of the examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from components.core.problem import Json

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*( [A-Za-z][A-Za-z0-9._/-]*)*")
"""Texts that need no quotes, apart from YAML's own words."""
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_STEP: Final = 2
"""Blanks per level if the text does not show its indentation."""


def flow(value: Json) -> str:
    """Write a value on one line, as the examples write cards."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value)
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value)


def block(key: str, value: Json) -> list[str]:
    """Write a key and its value on lines, with one line for each mapping of a list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [f"{flow(key)}:", *(f"{' ' * _STEP}- {flow(each)}" for each in value)]
    if isinstance(value, dict):
        inner = (line for name, each in value.items() for line in block(name, each))
        return [f"{flow(key)}:", *(f"{' ' * _STEP}{line}" for line in inner)]
    return [f"{flow(key)}: {flow(value)}"]


def item(entry: Mapping[str, Json]) -> list[str]:
    """Write one entry of a list on lines."""
    lines = [line for key, value in entry.items() for line in block(key, value)]
    return [f"{'- ' if number == 0 else '  '}{line}" for number, line in enumerate(lines)]
