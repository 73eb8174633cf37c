"""The forms of the texts in `native`: what a driver keeps beside the neutral settings.

A text belongs to one setting, or to the whole switch. The driver that read it is the only one that
looks into it; everybody else keeps it or leaves it out as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import TypeAdapter
from pydantic_core import to_json

WRITTEN: Final = "written"
"""The configuration says this setting in words."""
DEFAULT: Final = "default"
"""It is in no line of the configuration, so that the system's default gives it. Undo leaves nothing
behind by it."""
WHOLE: Final = "whole"
"""Key of a switch's `native` that holds words on the whole configuration."""
_LIST: Final = TypeAdapter(tuple[str, ...])
_FIELDS: Final = TypeAdapter(dict[str, str])


def sources(**written: bool) -> dict[str, str]:
    """Where each setting comes from: `WRITTEN` or `DEFAULT`."""
    return {key: WRITTEN if is_in_words else DEFAULT for key, is_in_words in written.items()}


def is_default(native: Mapping[str, str], key: str) -> bool:
    """Whether a setting is recorded as one that no line gives."""
    return native.get(key) == DEFAULT


def is_written(native: Mapping[str, str], key: str) -> bool:
    """Whether a setting is recorded as one that a line gives."""
    return native.get(key) == WRITTEN


def write_list(words: Iterable[str]) -> str:
    """Words as one text."""
    return write_text(tuple(words))


def read_list(text: str | None) -> tuple[str, ...] | None:
    """The other way; None: nothing is recorded."""
    return None if text is None else _LIST.validate_json(text)


def write_fields(fields: Mapping[str, str]) -> str:
    """Names and their values as one text."""
    return write_text(fields)


def read_fields(text: str | None) -> dict[str, str]:
    """The other way; what is not recorded, or only with its source, is empty."""
    return {} if text in {None, WRITTEN, DEFAULT} else _FIELDS.validate_json(text or "")


def write_text(value: object) -> str:
    """Anything that JSON can hold, as one short text."""
    return to_json(value).decode()
