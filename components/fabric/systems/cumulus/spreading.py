"""Adaptive routing of a Cumulus switch: of the whole, and of each routed port. Pure.

Up to release 5.14 NVUE says `enable on`, later `state enabled` (NVUE reference, page Adaptive
Routing); the header of the configuration tells the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.native import DEFAULT, WRITTEN, is_default
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.cumulus.routing import whole_words
from components.fabric.systems.cumulus.tree import Tree, child

NEW_WORDS: Final = "states in words"
"""In `whole_words` of a switch whose release says `state enabled`."""
UNWRITTEN: Final = "no adaptive routing"
"""In `whole_words` of a switch whose configuration says nothing of it."""
_FIRST_NEW: Final = (5, 15)
_BRANCH: Final = "router adaptive-routing"
_ON: Final = frozenset({"on", "enabled"})
_RESTART: Final = "switchd restarts or reloads"
"""NVUE reference: up to 5.12 it restarts, later it reloads."""


def spreads(tree: Tree) -> bool | None:
    """Whether it is on, of the switch or of a port; None: nothing is written."""
    found = child(tree, "router", "adaptive-routing")
    said = found.get("state", found.get("enable"))
    return None if said is None else str(said) in _ON


def words_of(release: tuple[int, ...], said: bool | None) -> tuple[str, ...]:  # noqa: FBT001 - what was read
    """What a reading that was asked for adaptive routing tells of the whole switch."""
    new = (NEW_WORDS,) if release >= _FIRST_NEW else ()
    return (*new, *((UNWRITTEN,) if said is None else ()))


def port_native(said: bool | None) -> dict[str, str]:  # noqa: FBT001 - what was read
    """The same of a port."""
    return {"adaptive_routing": DEFAULT if said is None else WRITTEN}


def spreading_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """The switch before its ports, so that no port waits for it."""
    new = NEW_WORDS in whole_words(actual)
    wanted, said = target.adaptive_routing, actual.adaptive_routing or False
    unwritten = UNWRITTEN in whole_words(actual)
    if wanted is not None and UNWRITTEN in whole_words(target):
        if not unwritten:
            yield Change((f"nv unset {_BRANCH}",), interrupts=_RESTART)
    elif wanted is not None and (wanted != said or (not wanted and unwritten)):
        yield Change((f"nv set {_BRANCH} {_word(on=wanted, new=new)}",), interrupts=_RESTART)
    for name, port in target.ports.items():
        tail = _port_tail(actual.ports.get(name, PortState()), port, new=new)
        if tail:
            verb, rest = tail
            yield Change((f"nv {verb} interface {name} {rest}",), interrupts=_RESTART)


def _port_tail(was: PortState, port: PortState, *, new: bool) -> tuple[str, str] | None:
    key, wanted = "adaptive_routing", port.adaptive_routing
    if wanted is None:
        return None
    if is_default(port.native, key):
        return None if is_default(was.native, key) else ("unset", _BRANCH)
    if wanted == was.adaptive_routing and not (not wanted and is_default(was.native, key)):
        return None
    return "set", f"{_BRANCH} {_word(on=wanted, new=new)}"


def _word(*, on: bool, new: bool) -> str:
    if new:
        return f"state {'enabled' if on else 'disabled'}"
    return f"enable {'on' if on else 'off'}"
