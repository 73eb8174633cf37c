"""JSON as switches print it: indented, one value a line."""

from __future__ import annotations

from typing import Final

from pydantic_core import to_json

SPACES: Final = 2
"""Of Onyx and NVUE; EOS and SONiC have 4."""


def indented(value: object, spaces: int = SPACES) -> str:
    """The same text as that of `json.dumps` (but for DEL), whose indentation is slow Python.

    Args:
        value: Of plain JSON.
        spaces: Of each level.
    """
    return to_json(value, indent=spaces, ensure_ascii=True).decode() + "\n"
