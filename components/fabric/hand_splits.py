"""Ports that people split: whether they are as the file names them, and what to type if not.

Pure. Where a split drops a port's configuration, or comes only with the next boot, no update does
it: an undo could not put that back (docs/decisions/0039-split-ports.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from components.fabric.state import SwitchState
from components.fabric.systems.base import Change, Driver, HandSplit, Unsettable
from components.fabric.systems.ranges import port_key

Splits = dict[str, tuple[str, ...]]


def find_splits(wanted: Splits, names: Collection[str]) -> Splits:
    """How the ports are split of which `wanted` says so, from the names of all ports."""
    return {whole: _parts(whole, parts, names) for whole, parts in wanted.items()}


def _parts(whole: str, parts: tuple[str, ...], names: Collection[str]) -> tuple[str, ...]:
    if whole in names and whole not in parts:
        return (whole,)
    first, second = port_key(parts[0]), port_key(parts[1])
    # Where parts are called by their lanes, the next port begins where the last part ends.
    step = second[-1] - first[-1]
    end = first[-1] + step * len(parts) if whole in parts else 9
    found = (
        name
        for name in names
        if (key := port_key(name))[:-1] == first[:-1]
        and len(key) == len(first)
        and first[-1] <= key[-1] < end
    )
    return tuple(sorted(found, key=port_key)) or (whole,)


def without_missing(wanted: SwitchState, names: Collection[str]) -> SwitchState:
    """What can be read: without the parts that are not there."""
    parts = {part for each in (wanted.splits or {}).values() for part in each}
    ports = {n: port for n, port in wanted.ports.items() if n in names or n not in parts}
    return wanted.model_copy(update={"ports": ports})


def plan_changes(driver: Driver, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The way of a driver, where every port is there that the target names.

    Raises:
        Unsettable: It is not, or no line leads there.
    """
    refuse_missing(driver, actual, target)
    return driver.plan_changes(actual, target)


def refuse_missing(driver: Driver, actual: SwitchState, target: SwitchState) -> None:
    """Refuse a target with parts that are not there.

    Raises:
        Unsettable: With the lines that split those ports, as a person types them.
    """
    if not isinstance(driver, HandSplit) or not target.splits:
        return
    held = actual.splits or {}
    other = {
        whole: parts
        for whole, parts in target.splits.items()
        # What a person split is never joined by us.
        if len(parts) > 1 and whole in held and held[whole] != parts
    }
    if other:
        raise Unsettable("; ".join(_words(driver, held, other)))


def _words(driver: HandSplit, held: Splits, other: Splits) -> Iterator[str]:
    by_count: dict[tuple[int, int], list[str]] = {}
    for whole, parts in other.items():
        by_count.setdefault((len(held[whole]), len(parts)), []).append(whole)
    for (has, wants), wholes in by_count.items():
        is_now = f"split in {has}" if has > 1 else "whole"
        lines = (line.format(whole=wholes[0], parts=wants) for line in driver.by_hand.lines)
        more = f", and the same for {_and_more(wholes[1:])}" if wholes[1:] else ""
        yield (
            f"port {_and_more(wholes)} is {is_now}, and the file wants {wants} parts of it. No "
            f"update splits it: {driver.by_hand.why}. Type {', '.join(f'`{x}`' for x in lines)}"
            f"{more}; save, and update again"
        )


def _and_more(names: Iterable[str]) -> str:
    first, *rest = names
    return f"{first} (and {len(rest)} more)" if rest else first
