"""Adaptive routing of a Cumulus switch: of the whole, and of each routed port. Pure.

Up to release 5.14 NVUE says `enable on`, later `state enabled` (NVUE reference, page Adaptive
Routing); the header of the configuration tells the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.native import WRITTEN, is_written
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.cumulus.routing import NEW_WORDS, whole_words
from components.fabric.systems.cumulus.tree import Tree, child

WORDS: Final = "adaptive routing in words"
"""In `whole_words` of a switch whose configuration says whether it is on."""
KEY: Final = "adaptive_routing"
_FIRST_NEW: Final = (5, 15)
_BRANCH: Final = "router adaptive-routing"
_ON: Final = frozenset({"on", "enabled"})
"""NVUE reference: up to 5.12 it restarts, later it reloads."""


def spreads(tree: Tree) -> bool | None:
    """Whether it is on, of the switch or of a port; None: nothing is written."""
    found = child(tree, "router", "adaptive-routing")
    said = found.get("state", found.get("enable"))
    return None if said is None else str(said) in _ON


def words_of(release: tuple[int, ...], said: bool | None) -> tuple[str, ...]:  # noqa: FBT001 - what was read
    """What a reading tells of the whole switch."""
    new = (NEW_WORDS,) if release >= _FIRST_NEW else ()
    return (*new, *(() if said is None else (WORDS,)))


def port_native(said: bool | None) -> dict[str, str]:  # noqa: FBT001 - what was read
    """The same of a port."""
    return {} if said is None else {KEY: WRITTEN}


def spreading_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """The switch before its ports, so that no port waits for it."""
    new = NEW_WORDS in whole_words(actual)
    written = WORDS in whole_words(target)
    tail = _tail(actual.adaptive_routing, target.adaptive_routing, written=written, new=new)
    if tail:
        yield Change((f"nv {tail[0]} {tail[1]}",))
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState()).adaptive_routing
        written = is_written(port.native, KEY)
        tail = _tail(was, port.adaptive_routing, written=written, new=new)
        if tail:
            yield Change((f"nv {tail[0]} interface {name} {tail[1]}",))


def _tail(
    was: bool | None,  # noqa: FBT001 - a setting
    wanted: bool | None,  # noqa: FBT001 - the same
    *,
    written: bool,
    new: bool,
) -> tuple[str, str] | None:
    """Off is what an undo wants: in words only where it was in words."""
    if wanted is None or wanted == was or (was is None and not wanted and not written):
        return None
    if not wanted and not written:
        return "unset", _BRANCH
    word = f"state {'enabled' if wanted else 'disabled'}" if new else f"enable {_ON_OFF[wanted]}"
    return "set", f"{_BRANCH} {word}"


_ON_OFF: Final = {True: "on", False: "off"}
