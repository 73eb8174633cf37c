"""NVUE's configuration as a tree of keys, of which some stand for several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

Tree = dict[str, JsonValue]
MOST: Final = 4096
"""Names that one key can stand for; a bridge has at most 4,094 VLANs, and a switch fewer ports."""
_PART: Final = re.compile(
    r"(?P<head>[A-Za-z_]*)(?P<first>\d+)(?:-(?:(?P=head))?(?P<last>\d+))?"
    r"(?:s(?P<lane>\d+)(?:-(?P<end>\d+))?)?"
)


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; what is not there is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def expand_names(key: str) -> Iterator[str]:
    """Spell out a key of the tree: `swp1,51-54` are five interfaces, `10-12,20` four VLANs.

    NVUE prints the letters once, and split ports by both numbers: `swp1-2s0-3` are eight. After
    the lanes of one port, `s5-6` and a bare number are further lanes of it
    (tests/fabric/forms/README.md).

    Raises:
        ValueError: It is not clear which names the key stands for, or they are too many.
    """
    head, port, count = "", "", 0
    for text in key.split(","):
        part = text.strip()
        found = _PART.fullmatch(part)
        if found is None:
            head, port = "", ""
            names = [part]
        elif port and (found["head"] == "s" or part.replace("-", "").isdecimal()):
            names = [f"{port}s{lane}" for lane in _span(key, found["first"], found["last"])]
        else:
            head = found["head"] or head
            ports = [f"{head}{number}" for number in _span(key, found["first"], found["last"])]
            lanes = found["lane"] and _span(key, found["lane"], found["end"])
            port = ports[0] if lanes and len(ports) == 1 else ""
            names = [f"{each}s{lane}" for each in ports for lane in lanes] if lanes else ports
        count += len(names)
        if count > MOST:
            raise ValueError(f"the key {key!r} stands for more than {MOST} names")
        yield from names


def _span(key: str, first: str, last: str | None) -> range:
    span = range(int(first), int(last or first) + 1)
    if not 0 < len(span) <= MOST:
        raise ValueError(f"the key {key!r} has a range that no switch can mean")
    return span
