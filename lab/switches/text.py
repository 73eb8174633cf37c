"""Text as switches write it: JSON, tables, lists of numbers, releases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic_core import to_json


def indented(value: object, spaces: int = 2) -> str:
    """The text that `json.dumps` would print (except for DEL), but rendered faster.

    Args:
        value: Of plain JSON.
        spaces: Of each level; Onyx and NVUE have 2, EOS and SONiC 4.
    """
    return to_json(value, indent=spaces, ensure_ascii=True).decode() + "\n"


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a release: `3.9.2504` is (3, 9, 2504), `4.32.1F` is (4, 32, 1)."""
    return tuple(map(int, re.findall(r"\d+", text)))


def runs(values: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last number of each consecutive run."""
    found: list[tuple[int, int]] = []
    for value in sorted(values):
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def collapse(values: Iterable[int], name: Callable[[int], str] = str) -> str:
    """Write numbers, or their names, as `10,111-112`."""
    return ",".join(
        name(first) if first == last else f"{name(first)}-{name(last)}"
        for first, last in runs(values)
    )


def expand(text: str) -> Iterator[int]:
    """Spell out `10,111-112`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def columns(rows: Iterable[Sequence[object]], *widths: int) -> str:
    """Lines of cells, each at least as wide as its column; the last column may have no width."""
    lines = (zip(row, (*widths, 0), strict=False) for row in rows)
    return "".join(
        "".join(f"{cell!s:<{width}}" for cell, width in line).rstrip() + "\n" for line in lines
    )


def ruled(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0, margin: int = 0
) -> str:
    """A table with a rule below its head, as `tabulate` prints it.

    Args:
        header: The head of each column.
        rows: The cells.
        right: Number of columns to align right; negative: all.
        margin: Least extra width of a column beyond its head.
    """
    widths = [
        max(len(head) + margin, *(len(row[n]) for row in (header, *rows)))
        for n, head in enumerate(header)
    ]
    count = len(header) if right < 0 else right
    lines = [
        "  ".join(
            cell.rjust(width) if n < count else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    ]
    return "\n".join(lines) + "\n"
