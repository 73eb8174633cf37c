"""Many names as one short text, as Slurm's host lists have them: `gpu[001-950,960],mgmt01`.

What is carried once for each host must not grow with the number of hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_NUMBERED: Final = re.compile(r"(.+?)([0-9]+)", re.ASCII | re.DOTALL)
_ITEM: Final = re.compile(r"([^,\[\]]+)(?:\[([0-9,-]+)\])?")


def fold_names(names: Iterable[str]) -> str:
    """Write names in their order; neighbours that count upwards become one range.

    Args:
        names: Labels of DNS, which hold neither commas nor brackets.
    """
    groups: list[tuple[str, list[list[str]]]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        head, number = match.groups() if match else (name, "")
        before, runs = groups[-1] if groups else ("", [["", ""]])
        last = runs[-1][1]
        if before != head or not number or not last:
            groups.append((head, [[number, number]]))
        elif f"{int(last) + 1:0{len(last)}}" == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(_folded(head, runs) for head, runs in groups)


def _folded(head: str, runs: list[list[str]]) -> str:
    written = [first if first == last else f"{first}-{last}" for first, last in runs]
    together = ",".join(written)
    return head + (together if len(runs) == 1 and "-" not in together else f"[{together}]")


def unfold_names(text: str) -> tuple[str, ...]:
    """Read what `fold_names` wrote."""
    return tuple(name for head, numbers in _ITEM.findall(text) for name in _unfolded(head, numbers))


def _unfolded(head: str, numbers: str) -> Iterator[str]:
    if not numbers:
        yield head
        return
    for run in numbers.split(","):
        first, _, last = run.partition("-")
        width = len(first)
        yield from (
            f"{head}{number:0{width}}" for number in range(int(first), int(last or first) + 1)
        )
