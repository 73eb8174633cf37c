"""BFD of a Cumulus switch's BGP neighbours: two vocabularies, by release. Pure.

Up to 5.14 a neighbour has `bfd enable on`; from 5.15 on it names a profile of times, and BFD itself
is switched on for the whole switch, which restarts routing (page "Bidirectional Forwarding
Detection" of 5.15, NVUE reference).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from components.fabric.state import BgpState
from components.fabric.systems.base import Change
from components.fabric.systems.cumulus.tree import Tree, child

PROFILE: Final = "railyard"
_STATE: Final = "router bfd state"
_PROFILES: Final = "router bfd profile"
_TIMES: Final = "detect-multiplier 3"
"""The default, as 300 ms either way is: a profile has to have something in it to be there."""
KNOWN: Final = frozenset({"enable", "profile"})
"""What we write of one neighbour."""


def has_bfd(peer: Tree) -> bool:
    """Whether a neighbour's loss is noticed by BFD."""
    held = child(peer, "bfd")
    return str(held.get("enable")) == "on" or bool(held.get("profile"))


def words_of_bfd(tree: Tree) -> tuple[str, ...]:
    """What a reading tells of the whole switch."""
    held = child(tree, "router", "bfd")
    state = (f"{_STATE} {held['state']}",) if "state" in held else ()
    return (*state, *(f"{_PROFILES} {name}" for name in child(held, "profile")))


def switch_changes(
    words: Iterable[str], recorded: Iterable[str] | None, wanted: BgpState
) -> Iterator[Change]:
    """BFD of the whole switch, and our profile: while a neighbour has it; else as it was."""
    held, before = {*words}, {*(recorded or ())}
    on, profile = f"{_STATE} enabled", f"{_PROFILES} {PROFILE}"
    if wanted.bfd:
        if on not in held:
            yield Change((f"nv set {on}",))
        if profile not in held:
            yield Change((f"nv set {profile} {_TIMES}",))
    elif recorded is not None:
        if profile in held - before:
            yield Change((f"nv unset {profile}",))
        states = [next((w for w in each if w.startswith(_STATE)), "") for each in (held, before)]
        if states[0] != states[1] and states[0] == on:
            back = f"nv set {states[1]}" if states[1] else f"nv unset {_STATE}"
            yield Change((back,))


def peer_changes(vrf: str, was: BgpState, wanted: BgpState, *, new: bool) -> Iterator[Change]:
    """Of the neighbours that stay or come; one that goes takes it along."""
    for name in wanted.neighbors:
        before, after = name in was.bfd, name in wanted.bfd
        if after and not before:
            tail = f"profile {PROFILE}" if new else "enable on"
            yield Change((f"nv set {vrf} neighbor {name} bfd {tail}",))
        elif before and not after:
            yield Change((f"nv unset {vrf} neighbor {name} bfd",))
