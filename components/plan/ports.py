"""The ports of a switch in few lines: what all have, then what each group of them has beside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from components.plan.flat import as_lines

_NUMBERED = re.compile(r"(.*?)(\d+)")
_RUN = 3
"""Ports in a row from which on only the first and the last are named."""


def port_lines(ports: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Settings that every port has, each on a line; then a line for ports that are alike."""
    if not ports:
        return
    first, *others = ports.values()
    common = {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }
    yield f"# Every one of {len(ports)} ports:" if others else "# The port:"
    yield from as_lines(common)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, settings in ports.items():
        own = as_lines({key: value for key, value in settings.items() if key not in common})
        groups.setdefault(own, []).append(name)
    for own, names in groups.items():
        if own or len(groups) > 1:
            yield f"# {', '.join(_runs(names))}: {'  '.join(own) or 'nothing more'}"


def _runs(names: Sequence[str]) -> Iterator[str]:
    """The names, with those that follow each other as `first to last`."""
    run: list[str] = []
    for name in names:
        if run and not _follows(name, run[-1]):
            yield _run(run)
            run = []
        run.append(name)
    yield _run(run)


def _follows(name: str, before: str) -> bool:
    found, last = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(before)
    if found is None or last is None:
        return False
    return found[1] == last[1] and int(found[2]) == int(last[2]) + 1


def _run(names: Sequence[str]) -> str:
    return f"{names[0]} to {names[-1]}" if len(names) >= _RUN else ", ".join(names)
