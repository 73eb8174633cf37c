"""How changes reach NVUE: `nv set` and `nv unset` lines, documents of them, and revisions.

People see the lines. They are sent as documents for `nv config patch`, since each `nv set` starts a
program and takes a second or two. A document is not ordered, and cannot `unset` and `set` the same
object (page "NVUE CLI"), so one document unsets, and the next one sets.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, Literal, Self

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import Bug
from components.fabric.moves import Packed
from components.fabric.systems import base
from components.fabric.systems.cumulus.tree import SWP, Tree, expand_names

Verb = Literal["set", "unset"]
ImpliedPaths = Sequence[tuple[str, str | int]]
"""Paths and words that `nv set` adds to a line on its own; a document must name them."""


class Line(str):
    """One `nv set` or `nv unset` as a person types it, with its place in the tree."""

    __slots__ = ("implied", "path", "value", "verb")
    verb: Verb
    path: str
    """The words of the path; a list such as `swp1-4` means several keys."""
    value: JsonValue
    """The value at the end; None: the path ends with a key."""
    implied: ImpliedPaths

    def __new__(
        cls, verb: Verb, path: str, value: int | str | None = None, implied: ImpliedPaths = ()
    ) -> Self:
        """Write it; a value of digits is a number."""
        line = super().__new__(cls, f"nv {verb} {path}{'' if value is None else f' {value}'}")
        line.verb, line.path, line.implied = verb, path, implied
        line.value = int(value) if value is not None and str(value).isdecimal() else value
        return line


FILE: Final = "~/.railyard.yaml"
"""On the switch, in the login's home. It is free of secrets, and removed once it was taken."""
PATCH: Final = f"nv config patch {FILE} && rm {FILE}"
PIECE: Final = 400
"""Characters of a document in one command: the terminal of the session may have 511 columns."""
_LISTS: Final = frozenset({"interface", "vlan", "traffic-class"})
"""Words of a path that a list of keys may follow."""


def documents(lines: Sequence[str]) -> Iterator[Packed]:
    """The commands that put lines into the pending revision, each once.

    Raises:
        Bug: A line is not a `Line`.
    """
    for verb in ("unset", "set"):
        some = [line for line in lines if isinstance(line, Line) and line.verb == verb]
        text = json.dumps([{verb: _tree_of(some)}])
        pieces = textwrap.wrap(text, PIECE, break_long_words=False, break_on_hyphens=False)
        for number, piece in enumerate(pieces if some else ()):
            yield Packed(f"printf '%s\\n' {shlex.quote(piece)} {'>>' if number else '>'} {FILE}")
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
            for place, word in (*_implied_types(path), *line.implied) if line.verb == "set" else ():
                _place(tree, place.split(), word)
    return tree


def _paths(path: str) -> Iterable[tuple[str, ...]]:
    words = path.split()
    above = ("", *words)
    return product(
        *([*expand_names(w)] if a in _LISTS else [w] for a, w in zip(above, words, strict=False))
    )


def _implied_types(path: Sequence[str]) -> Iterator[tuple[str, str | int]]:
    """The types that NVUE derives from a name (page "BGP, Configuration Example")."""
    *entry, last = path
    if last == "remote-as":
        kind = "unnumbered" if SWP.fullmatch(entry[-1]) else "numbered"
        yield f"{' '.join(entry)} type", kind
    elif path[0] == "interface":
        name, here = path[1], " ".join(path[:2])
        if name.startswith("vlan"):
            yield f"{here} type", "svi"
            yield f"{here} vlan", int(name[4:])
        else:
            yield f"{here} type", "loopback" if name == "lo" else "swp"


def _place(tree: Tree, path: Sequence[str], end: JsonValue) -> None:
    """Write the end of a path; a removed branch takes everything below along."""
    *above, last = path
    here: JsonValue = tree
    for key in above:
        here = here.setdefault(key, {}) if isinstance(here, dict) else None
    if isinstance(here, dict) and not (isinstance(here.get(last), dict) and end == {}):
        here[last] = end


REVISIONS: Final = "nv config revision -o json"
"""An older release refuses it; a change there cannot be taken back by a timer."""
WAITING: Final = "confirm"
"""State of an unconfirmed revision in force (public clients)."""
_ROWS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])


def _waiting(text: str) -> dict[str, str]:
    """Each revision that awaits confirmation to its row as text."""
    try:
        rows = _ROWS.validate_json(text.strip())
    except ValidationError as error:
        why = f"no table of revisions: {error.errors()[0]['msg']}"
        raise base.Unreadable(REVISIONS, text, why) from error
    return {name: json.dumps(row) for name, row in rows.items() if row.get("state") == WAITING}


def find_stale(text: str) -> tuple[str, ...]:
    """Our revisions that a killed run left unconfirmed.

    Which key holds the message of an apply is not public, so our mark is looked for in the row.

    Raises:
        Unreadable: The answer is not a table of revisions.
        Occupied: Another user's revision awaits confirmation, and our apply would end it.
    """
    waiting = _waiting(text)
    for name, row in waiting.items():
        if base.CANDIDATE_PREFIX not in row:
            raise base.Occupied(
                f"revision {name} awaits confirmation and is not Railyard's; wait for it, confirm"
                f" it by `nv config apply {name} --confirm-yes`, or end it by `--confirm-no`"
            )
    return tuple(waiting)


def find_id(text: str, name: str) -> str:
    """The revision applied under our name; blank if none awaits confirmation."""
    waiting = _waiting(text)
    return next(
        (revision for revision, row in waiting.items() if name in row), next(iter(waiting), "")
    )
