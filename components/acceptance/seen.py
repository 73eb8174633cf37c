"""The base of observed values: texts of logs and devices, of any length, cut to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from pydantic import ConfigDict, model_validator

from components.model.units import Frozen

LONGEST_SEEN: Final = 2000
"""Characters to keep of one text: enough to recognise a line by, and far from the 64 KiB at which
the engine's plugin protocol breaks lines."""
_CUT: Final = " …"


def cut_text(text: str) -> str:
    """Cut a text to its longest length, and replace broken characters."""
    if len(text) > LONGEST_SEEN:
        text = text[: LONGEST_SEEN - len(_CUT)] + _CUT
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class Seen(Frozen):
    """A part of the evidence. A long text is cut, not refused, because it comes from outside."""

    model_config = ConfigDict(str_max_length=None)

    @model_validator(mode="before")
    @classmethod
    def _cut(cls, value: object) -> object:
        return cut_texts(value)


def cut_texts(value: object) -> object:
    """The same value with every text in it cut."""
    if isinstance(value, str):
        return cut_text(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {cut_texts(key): cut_texts(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        return tuple(cut_texts(item) for item in cast("tuple[object, ...]", value))
    return value
