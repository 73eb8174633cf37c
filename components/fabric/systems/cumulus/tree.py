"""NVUE's configuration as a tree of keys, of which some stand for several; and lines as documents.

A change is a list of `nv set` and `nv unset` lines, which people see. They are sent as documents
for `nv config patch`, since each `nv set` starts a program and takes a second or two. A document
takes no order, and no `unset` beside a `set` of the same object (page "NVUE CLI"), so what goes is
a document of its own, before the one of what comes.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, Literal, Self

from pydantic import JsonValue

from components.core.errors import Bug
from components.fabric.moves import Packed
from components.fabric.systems.ranges import port_key, port_runs

Tree = dict[str, JsonValue]
BRIDGE: Final = "br_default"
MOST: Final = 4096
"""Names that one key can mean; a bridge has at most 4,094 VLANs, and a switch fewer ports."""
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
        ValueError: It is not clear which names the key means, or they are too many.
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
            raise ValueError(f"the key {key!r} means more than {MOST} names")
        yield from names


def _span(key: str, first: str, last: str | None) -> range:
    span = range(int(first), int(last or first) + 1)
    if not 0 < len(span) <= MOST:
        raise ValueError(f"the key {key!r} has a range that no switch can mean")
    return span


def collapse_ports(names: Iterable[str]) -> str:
    """Write ports as one argument: `swp1-3,swp7,swp9s0-1`."""
    runs: list[list[str]] = []
    for run in port_runs(names, whole=1):
        after = runs and _follows(runs[-1][-1], run[0])
        runs[-1:] = [[*runs[-1], *run]] if after else [*runs[-1:], run]
    return ",".join(
        run[0] if len(run) == 1 else f"{run[0]}-{port_key(run[-1])[-1]}" for run in runs
    )


def _follows(one: str, other: str) -> bool:
    """Whether two names are neighbouring parts of one port."""
    before, after = port_key(one), port_key(other)
    is_part = len(before) == len(after) > 1
    return is_part and (*before[:-1], before[-1] + 1) == after


Verb = Literal["set", "unset"]
Beside = Sequence[tuple[str, str]]
"""Paths and words that NVUE writes by itself beside a line; a document says them."""


class Line(str):
    """One `nv set` or `nv unset`, with what it means in the tree."""

    __slots__ = ("beside", "path", "value", "verb")
    verb: Verb
    path: str
    """The words of the path; a list such as `swp1-4` means several keys."""
    value: JsonValue
    """What ends it; None: the path ends with a key."""
    beside: Beside

    def __new__(cls, verb: Verb, path: str, value: int | str | None = None,
                beside: Beside = ()) -> Self:  # fmt: skip
        """Write it as a person would type it."""
        line = super().__new__(cls, f"nv {verb} {path}{'' if value is None else f' {value}'}")
        line.verb, line.path, line.beside = verb, path, beside
        line.value = int(value) if value is not None and str(value).isdecimal() else value
        return line


FILE: Final = "~/.railyard.yaml"
"""On the switch, in the home of the login. It holds no secret, and goes when it was taken."""
PATCH: Final = f"nv config patch {FILE} && rm {FILE}"
PIECE: Final = 400
"""Characters of a document in one command: the terminal of the session may have 511 columns."""
_LISTS: Final = frozenset({"interface", "vlan", "traffic-class"})
"""Words of a path that a list of keys may follow."""


def documents(lines: Sequence[str]) -> Iterator[Packed]:
    """The commands that put lines into the pending revision, each once.

    Raises:
        Bug: A line is no `Line`.
    """
    for verb in ("unset", "set"):
        some = [line for line in lines if isinstance(line, Line) and line.verb == verb]
        text = json.dumps([{verb: _tree_of(some)}])
        pieces = textwrap.wrap(text, PIECE, break_long_words=False, break_on_hyphens=False)
        for number, piece in enumerate(pieces if some else ()):
            ends = ">>" if number else ">"
            yield Packed(f"printf '%s\\n' {shlex.quote(piece)} {ends} {FILE}")
        if some:
            yield Packed(PATCH, some)
    if not all(isinstance(line, Line) for line in lines):
        raise Bug(f"lines without a place in the tree: {lines}")


def _tree_of(lines: Iterable[Line]) -> Tree:
    tree: Tree = {}
    for line in lines:
        end = None if line.verb == "unset" else {} if line.value is None else line.value
        for path in _paths(line.path):
            _place(tree, path, end)
            if line.verb == "set" and path[0] == "interface":
                for key, word in _type_of(path[1]).items():
                    _place(tree, (*path[:2], key), word)
        for path, word in line.beside:
            _place(tree, path.split(), word)
    return tree


def _type_of(name: str) -> Tree:
    """What NVUE writes of an interface by its name (page "BGP, Configuration Example")."""
    if name == "lo":
        return {"type": "loopback"}
    return {"type": "svi", "vlan": int(name[4:])} if name.startswith("vlan") else {"type": "swp"}


def _paths(path: str) -> Iterable[tuple[str, ...]]:
    words = path.split()
    keys = [
        [*expand_names(word)] if number and words[number - 1] in _LISTS else [word]
        for number, word in enumerate(words)
    ]
    return product(*keys)


def _place(tree: Tree, path: Sequence[str], end: JsonValue) -> None:
    """Write the end of a path; a branch that goes takes what is below it along."""
    here = tree
    for key in path[:-1]:
        below = here.setdefault(key, {})
        if not isinstance(below, dict):
            return
        here = below
    held = here.get(path[-1])
    if not (isinstance(held, dict) and end == {}):
        here[path[-1]] = end
