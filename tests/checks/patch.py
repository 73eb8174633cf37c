"""A patch of a site's text, as the cases write it.

Three kinds of lines. `@@ TEXT` goes on to the line that says TEXT, however far it is indented; it
may be repeated (`@@ - name: gpu02`, then `@@ nics:`). `-LINE` takes that line out, and `+LINE` puts
one in. Lines to take out without an `@@ TEXT` before them must be in the site exactly once. A
bare `@@` parts lines that are taken out in two places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class PatchError(Exception):
    """A patch that does not name one place, or changes nothing."""


@dataclass(slots=True)
class _Hunk:
    anchors: list[str] = field(default_factory=list[str])
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])


def patched(text: str, patch: str) -> str:
    """Give the text after a patch, whose hunks are in the order of the text.

    Raises:
        PatchError: A line is nowhere or in several places, or the text stays as it is.
    """
    lines = text.splitlines()
    done: list[str] = []
    at = 0
    for hunk in _hunks(patch):
        start = _place(hunk, lines, at)
        done += [*lines[at:start], *hunk.new]
        at = start + len(hunk.old)
    done += lines[at:]
    if done == lines:
        raise PatchError("the patch changes nothing")
    return "\n".join(done) + "\n"


def _hunks(patch: str) -> Iterator[_Hunk]:
    hunk = _Hunk()
    for line in patch.splitlines():
        mark, rest = line[:1], line[1:]
        if (mark == "@" and (hunk.old or hunk.new)) or (mark == "-" and hunk.new):
            yield hunk
            hunk = _Hunk()
        if mark == "@":
            hunk.anchors += [anchor] if (anchor := line.removeprefix("@@").strip()) else []
        elif mark in {"-", "+"}:
            (hunk.old if mark == "-" else hunk.new).append(rest)
        else:
            raise PatchError(f"a line of a patch begins with @@, - or +, not so {line!r}")
    yield hunk


def _place(hunk: _Hunk, lines: list[str], at: int) -> int:
    """The index of the first line that a hunk takes out, or before which it puts its own."""
    for anchor in hunk.anchors:
        at = _next([anchor], [line.strip() for line in lines], at) + 1
    if not hunk.old:
        if not hunk.anchors:
            raise PatchError(f"nothing says where to put {hunk.new}")
        return at
    start = _next(hunk.old, lines, at)
    if not hunk.anchors and any(_is_at(hunk.old, lines, other) for other in _others(lines, start)):
        raise PatchError(f"in several places: {hunk.old}; put an @@ line before it")
    return start


def _next(wanted: list[str], lines: list[str], at: int) -> int:
    found = (index for index in range(at, len(lines)) if _is_at(wanted, lines, index))
    start = next(found, None)
    if start is None:
        raise PatchError(f"not in the site, from line {at + 1} on: {wanted}")
    return start


def _is_at(wanted: list[str], lines: list[str], index: int) -> bool:
    return lines[index : index + len(wanted)] == wanted


def _others(lines: list[str], start: int) -> Iterator[int]:
    return (index for index in range(len(lines)) if index != start)
