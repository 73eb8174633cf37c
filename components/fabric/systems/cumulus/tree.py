"""NVUE's configuration as a tree of keys, of which some stand for several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

Tree = dict[str, JsonValue]
_SPAN: Final = re.compile(r"(?P<head>.*?)(?P<first>\d+)-(?:(?P=head))?(?P<last>\d+)")


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; what is not there is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def expand_names(key: str) -> Iterator[str]:
    """Spell out a key of the tree: `swp1-4,swp7` are five interfaces, `10-12,20` four VLANs."""
    for part in key.split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None:
            yield part.strip()
            continue
        for number in range(int(span["first"]), int(span["last"]) + 1):
            yield f"{span['head']}{number}"
