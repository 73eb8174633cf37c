"""What one word of YAML means, by the core schema of YAML 1.2 with `_` in numbers.

`yes` and `on` are words, `0o17` is 15, `1.30` is a number, whichever reader found the word.
"""

from __future__ import annotations

import re
from typing import Final

from components.core.problem import Json

TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9_]+)")
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9_]+(?:[eE][-+][0-9]+)?)"
)
_NUMBER_STARTS: Final = frozenset("-+.0123456789")
_WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def plain_scalar(text: str) -> Json:
    """What a word without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS:
        if _INT.fullmatch(text):
            return _number("int", text)
        if _FLOAT.fullmatch(text):
            return _number("float", text)
    return text


def tagged_scalar(tag: str, text: str) -> Json:
    """What a word means whose type is written before it, `!!int "5"`; other tags mean text."""
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    return _number(tag, text)


def _number(tag: str, text: str) -> Json:
    """A number where the text is one; `017` and a number of thousands of digits stay text."""
    digits = text.replace("_", "")
    try:
        if tag == "int":
            return int(digits, 0)
        return float(digits) if tag == "float" else text
    except ValueError:
        return text
