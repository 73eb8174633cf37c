"""Settings of a switch for people: ports that have the same said of them stand on one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

_NUMBERED = re.compile(r"(.*_)(0|[1-9]\d*)")
_SHORTEST_RUN = 3
"""Fewer neighbouring ports are written one by one."""


def group_settings(words: Mapping[tuple[str, str], str], order: Mapping[str, int]) -> Iterator[str]:
    """Each place once, with its settings below it; ports of which the same is said are one place.

    Args:
        words: (where, setting), as in `SwitchState.settings`, to what is said of it.
        order: Port to its number on the switch; ports that it lacks are named one by one.
    """
    by_place: dict[str, dict[str, list[str]]] = {}
    for (where, setting), said in words.items():
        by_place.setdefault(where, {}).setdefault(said, []).append(setting)
    alike: dict[tuple[str, ...], list[str]] = {}
    for where, changes in by_place.items():
        lines = (f"{_names(settings)}: {said}" for said, settings in changes.items())
        alike.setdefault(tuple(sorted(lines)), []).append(where)
    for changes, places in alike.items():
        ports = [place.removeprefix("port ") for place in places if place.startswith("port ")]
        others = [place for place in places if not place.startswith("port ")]
        yield ", ".join([*others, *([collapse(ports, order)] if ports else [])])
        yield from (f"  {line}" for line in changes)


def _names(settings: Sequence[str]) -> str:
    """`vlan_111`, `vlan_112`, `vlan_113` as `vlan_111-113`."""
    runs: list[tuple[str, int, int]] = []
    for setting in settings:
        head, number = _split_number(setting)
        last = runs[-1] if runs else None
        if last and number is not None and last[0] == head and last[2] + 1 == number:
            runs[-1] = (head, last[1], number)
        else:
            runs.append((head, -1, -1) if number is None else (head, number, number))
    return ", ".join(
        head if first < 0 else f"{head}{first}" if first == last else f"{head}{first}-{last}"
        for head, first, last in runs
    )


def _split_number(setting: str) -> tuple[str, int | None]:
    """`vlan_111` is `vlan_` and 111; a name without a plain number at its end is itself."""
    found = _NUMBERED.fullmatch(setting)
    return (found[1], int(found[2])) if found else (setting, None)


def collapse(ports: Iterable[str], order: Mapping[str, int]) -> str:
    """Ports for people: `ports swp1 to swp16, swp32`; names that the model lacks come last."""
    known = sorted((each for each in ports if each in order), key=order.__getitem__)
    runs: list[list[str]] = []
    for name in known:
        if runs and order[runs[-1][-1]] + 1 == order[name]:
            runs[-1].append(name)
        else:
            runs.append([name])
    words = [text for run in runs for text in _run(run)] + [p for p in ports if p not in order]
    single = len(words) == 1 and " " not in words[0]
    return f"{'port' if single else 'ports'} {', '.join(words)}"


def _run(ports: Sequence[str]) -> Sequence[str]:
    return ports if len(ports) < _SHORTEST_RUN else (f"{ports[0]} to {ports[-1]}",)
