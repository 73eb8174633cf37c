"""Targets of split ports: what an apply, an edit and an undo make of them. Pure."""

from __future__ import annotations

from typing import TypeAlias

from components.fabric.state import SwitchState

Splits: TypeAlias = "dict[str, tuple[str, ...]] | None"


def overlay_splits(base: Splits, top: Splits) -> Splits:
    """One state over another, port by port."""
    return base if top is None else {**(base or {}), **top}


def drop_splits(previous: Splits, desired: Splits) -> Splits:
    """Ports that were split by us and are so no longer."""
    gone = {
        whole: parts
        for whole, parts in (previous or {}).items()
        if (desired or {}).get(whole) != parts
    }
    return gone or None


def restore_splits(actual: SwitchState, owned: SwitchState, baseline: SwitchState) -> Splits:
    """What an undo makes of the ports that we split: what was recorded, the whole port else.

    A split stays where another one than we configures a part, and where nothing was recorded,
    since the values are of a release before splits were ours.
    """
    if owned.splits is None:
        return None
    held = actual.splits or {}
    if baseline.splits is None:
        return {whole: held.get(whole, (whole,)) for whole in owned.splits}
    return {
        whole: held[whole]
        if whole in held and _is_used(whole, held[whole], actual, owned)
        else baseline.splits.get(whole, (whole,))
        for whole in owned.splits
    }


def _is_used(whole: str, parts: tuple[str, ...], actual: SwitchState, owned: SwitchState) -> bool:
    others = {*(actual.configured_parts or ())} - {*owned.ports}
    return len(parts) > 1 and bool(others & {*parts} - {whole})
