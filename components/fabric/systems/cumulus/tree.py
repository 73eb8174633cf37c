"""NVUE's configuration as a tree of keys, of which some stand for several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

Tree = dict[str, JsonValue]
_NUMBERS: Final = re.compile(r"\d+(?:-\d+)?")
_SPAN: Final = re.compile(r"(?P<head>.*?)(?P<first>\d+)-(?:(?P=head))?(?P<last>\d+)")


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; what is not there is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def expand_names(key: str) -> Iterator[str]:
    """Spell out a key of the tree: `swp1,51-54` are five interfaces, `10-12,20` four VLANs.

    NVUE prints what the names begin with once (tests/fabric/forms/README.md). A part that is only a
    number or a range goes on with all before the last number of the part to its left, and a part
    such as `2s0-1` with the letters only.
    """
    head = ""
    for text in key.split(","):
        part = text.strip()
        if part[:1].isdecimal():
            part = (head if _NUMBERS.fullmatch(part) else re.sub(r"\d.*", "", head)) + part
        span = _SPAN.fullmatch(part)
        head = span["head"] if span else part.rstrip("0123456789")
        if span is None:
            yield part
            continue
        for number in range(int(span["first"]), int(span["last"]) + 1):
            yield f"{head}{number}"
