"""From one state of a Cumulus switch to another: NVUE lines, all in one revision.

The order does not matter to NVUE, which checks and applies the revision as a whole; lines that are
equal on several ports are written once, with a list of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.native import is_default, is_written, sources
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import (
    CANDIDATE_PREFIX,
    Change,
    Guard,
    Occupied,
    Unreadable,
    Unsettable,
)
from components.fabric.systems.cumulus import profiles
from components.fabric.systems.cumulus.facts import AUTO_SAVE
from components.fabric.systems.cumulus.link import NEW_WORDS, link_lines
from components.fabric.systems.cumulus.read import BRIDGE
from components.fabric.systems.cumulus.routing import (
    has_left_over,
    routing_changes,
    spreading_changes,
    whole_words,
)
from components.fabric.systems.cumulus.splits import coming_splits, leaving_splits
from components.fabric.systems.membership import fill_membership
from components.fabric.systems.ranges import collapse_vlans, port_key, port_runs


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The lines from `actual` to `target`, for one revision; empty when they agree.

    Raises:
        Unsettable: The profile is the wanted one and does not give what it should.
    """
    moves = (
        *_vlan_lines(actual, target),
        *profiles.profile_changes(actual, target),
        *spreading_changes(actual, target),
        *_port_changes(actual, target),
        *routing_changes(actual, target),
    )
    changes = [*_around_splits(moves, actual, target), *_cable_lines(actual, target)]
    if target.roce is not None and target.roce != actual.roce:
        unset = target.roce == "none"
        line = "nv unset qos roce" if unset else f"nv set qos roce mode {target.roce}"
        changes.append(Change((line,)))
    else:
        _require_profile(actual, target)
    return tuple(changes)


def _around_splits(
    moves: Iterable[Change], actual: SwitchState, target: SwitchState
) -> Iterator[Change]:
    """What goes, ports that are whole again, ports that are split, and what comes.

    A line that unsets a port takes its split along, and parts have settings, are in bundles and
    have neighbours only where they are. Without a split the lines stay in their order.
    """
    changes = (*moves,)
    splits = (*leaving_splits(actual, target), *coming_splits(actual, target))
    going = {change for change in changes if splits and change.lines[0].startswith("nv unset")}
    yield from (change for change in changes if change in going)
    yield from splits
    yield from (change for change in changes if change not in going)


def _cable_lines(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """The headroom of the lossless buffer; what leaves with the profile needs no line."""
    wanted = target.roce_cable_m
    if wanted is None or wanted == (actual.roce_cable_m or 0) or target.roce == "none":
        return
    line = f"nv set qos roce cable-length {wanted}" if wanted else "nv unset qos roce cable-length"
    yield Change((line,))


def _require_profile(actual: SwitchState, target: SwitchState) -> None:
    """What only the profile sets must be there with it.

    A port that leaves the file would have less, and keeps what the profile gives to every port.
    """
    if target.roce in {None, "none"}:
        return
    found: list[str] = []
    moved = profiles.moved_ports(actual, target)
    culprit = next(iter(target.ports), "swp1")
    if target.pfc_priorities not in {None, actual.pfc_priorities}:
        found.append(f"pfc_priorities are {actual.pfc_priorities}, want {target.pfc_priorities}")
    for name, port in target.ports.items():
        was, before = actual.ports.get(name, PortState()), len(found)
        if port.trust not in {None, was.trust}:
            found.append(f"trust of {name} is {was.trust}, want {port.trust}")
        found += [
            f"ECN of class {tc} is {was.ecn.get(tc)}, want {ecn}"
            for tc, ecn in port.ecn.items()
            if ecn is not None and was.ecn.get(tc) != ecn and (name, profiles.MARKING) not in moved
        ]
        strict = {*(port.strict_classes or ())} - {*(was.strict_classes or ())}
        if strict and (name, profiles.SHARES) not in moved:
            found.append(f"strict classes are {was.strict_classes}, want {port.strict_classes}")
        culprit = name if not before and found else culprit
    if found:
        raise Unsettable(
            f"the RoCE profile {target.roce} is active, but other QoS settings on the switch "
            f"override it: {'; '.join(dict.fromkeys(found))}. Find them under `qos` in `nv config "
            f"show` and unset them, for example `nv unset interface {culprit} qos mapping`"
        )


def _vlan_lines(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    was, wanted = whole_words(actual), whole_words(target)
    if not target.vlans and "bridge" in wanted and "rest" in was and "bridge" not in was:
        # There was no bridge, and all that is left of it is ours.
        yield Change((f"nv unset bridge domain {BRIDGE}",))
        return
    new = {*target.vlans} - {*actual.vlans}
    if new:
        yield Change((f"nv set bridge domain {BRIDGE} vlan {collapse_vlans(new)}",))
    for vlan in sorted({*actual.vlans} - {*target.vlans}):
        yield Change((f"nv unset bridge domain {BRIDGE} vlan {vlan}",))


def _port_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    groups: dict[tuple[str, str], list[str]] = {}
    link = partial(link_lines, new=NEW_WORDS in whole_words(actual))
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        if has_left_over(name, actual, target):
            was = was.model_copy(update={"native": was.native | sources(rest=True)})
        lines = (_l2_lines, link, _mtu_lines, _admin_lines, _watchdog_lines)
        for verb, tail in (line for lines_of in lines for line in lines_of(was, port)):
            groups.setdefault((verb, tail), []).append(name)
    # What goes is unset first on every port: a VLAN is either the access one or in the list.
    for (verb, tail), names in sorted(groups.items(), key=lambda item: item[0][0] == "set"):
        line = f"nv {verb} interface {collapse_ports(names)} {tail}".rstrip()
        yield Change((line,))


def _mtu_lines(was: PortState, port: PortState) -> Iterator[tuple[str, str]]:
    if port.mtu_bytes is None:
        return
    unwritten = is_default(port.native, "mtu_bytes")
    same_source = unwritten == is_default(was.native, "mtu_bytes")
    if port.mtu_bytes == was.mtu_bytes and (same_source or "mtu_bytes" not in port.native):
        return
    yield ("unset", "link mtu") if unwritten else ("set", f"link mtu {port.mtu_bytes}")


def _admin_lines(was: PortState, port: PortState) -> Iterator[tuple[str, str]]:
    if port.admin_up is None or port.admin_up == was.admin_up:
        return
    unnamed = is_default(port.native, "admin_up") and is_default(was.native, "rest")
    if unnamed and not port.admin_up:
        # No line named it, which is what keeps a port shut, and all that is left of it is ours.
        yield "unset", ""
    else:
        yield "set", f"link state {'up' if port.admin_up else 'down'}"


def _watchdog_lines(was: PortState, port: PortState) -> Iterator[tuple[str, str]]:
    if port.pfc_watchdog is None:
        return
    key = "pfc_watchdog"
    if is_default(port.native, key):
        if is_written(was.native, key):
            yield "unset", "qos pfc-watchdog"
    elif port.pfc_watchdog != (was.pfc_watchdog or False) or (
        is_written(port.native, key) and is_default(was.native, key)
    ):
        yield "set", f"qos pfc-watchdog state {'enable' if port.pfc_watchdog else 'disable'}"


@dataclass(frozen=True, slots=True)
class _Member:
    """How a port is a member of the bridge, as NVUE writes it."""

    joined: bool = False
    access: int | None = None
    untagged: str | None = None
    vlans: frozenset[int] | None = None
    """None: no list, so every VLAN of the bridge."""


def _member(port: PortState) -> _Member:
    if port.mode in {None, "routed"}:
        return _Member()
    if port.mode == "access":
        return _Member(joined=True, access=port.access_vlan)
    untagged = None
    if port.mode == "hybrid":
        untagged = str(port.access_vlan or "none")
    trunk = port.trunk_vlans
    return _Member(
        joined=True,
        untagged=untagged,
        vlans=None if trunk is None or trunk == "all" else frozenset(trunk),
    )


def _l2_lines(was: PortState, port: PortState) -> Iterator[tuple[str, str]]:
    """Access, untagged and tagged VLANs exclude each other, so what goes is unset first."""
    head = f"bridge domain {BRIDGE}"
    old, new = _member(was), _member(fill_membership(was, port))
    if old == new:
        return
    if not new.joined:
        yield "unset", head
        return
    if old.access is not None and new.access is None:
        yield "unset", f"{head} access"
    if old.untagged is not None and new.untagged is None:
        yield "unset", f"{head} untagged"
    if old.vlans is not None and new.vlans is None:
        yield "unset", f"{head} vlan"
    for vlan in sorted((old.vlans or frozenset()) - (new.vlans or frozenset())):
        if new.vlans is not None:
            yield "unset", f"{head} vlan {vlan}"
    yield from _joined_lines(head, old, new)


def _joined_lines(head: str, old: _Member, new: _Member) -> Iterator[tuple[str, str]]:
    if new.access not in {None, old.access}:
        yield "set", f"{head} access {new.access}"
    if new.untagged not in {None, old.untagged}:
        yield "set", f"{head} untagged {new.untagged}"
    added = (new.vlans or frozenset()) - (old.vlans or frozenset())
    if added:
        yield "set", f"{head} vlan {collapse_vlans(added)}"
    if not old.joined and new == _Member(joined=True):
        yield "set", head


def collapse_ports(names: Iterable[str]) -> str:
    """Write ports as one argument: `swp1-3,swp7,swp9s0-1`."""
    runs: list[list[str]] = []
    for run in port_runs(names, whole=1):
        after = runs and _follows(runs[-1][-1], run[0])
        runs[-1:] = [[*runs[-1], *run]] if after else [*runs[-1:], run]
    return ",".join(
        run[0] if len(run) == 1 else f"{run[0]}-{port_key(run[-1])[-1]}" for run in runs
    )


def _follows(one: str, other: str) -> bool:
    """Whether two names are neighbouring parts of one port."""
    before, after = port_key(one), port_key(other)
    is_part = len(before) == len(after) > 1
    return is_part and (*before[:-1], before[-1] + 1) == after


REVISIONS: Final = "nv config revision -o json"
"""An older release refuses it, and is applied to for good."""
TIMER_RELEASE: Final = (5, 5)
"""First one with that command (NVUE reference)."""
ROLLBACK_S: Final = 300
"""The second reading takes some seconds; NVUE's own default is ten minutes."""
WAITING: Final = "confirm"
"""State of a revision that is in force and not confirmed (public clients)."""
_ROWS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])


def _waiting(text: str) -> dict[str, str]:
    """Revision to its row as text, of those that await confirmation."""
    try:
        rows = _ROWS.validate_json(text.strip())
    except ValidationError as error:
        why = f"no table of revisions: {error.errors()[0]['msg']}"
        raise Unreadable(REVISIONS, text, why) from error
    return {name: json.dumps(row) for name, row in rows.items() if row.get("state") == WAITING}


def find_stale(text: str) -> tuple[str, ...]:
    """Revisions of ours that a killed run left unconfirmed.

    Which key holds the message of an apply is not public, so our mark is looked for in the row.

    Raises:
        Unreadable: The answer is no table of revisions.
        Occupied: Another user's revision awaits confirmation, and our apply would end it.
    """
    waiting = _waiting(text)
    others = [name for name, row in waiting.items() if CANDIDATE_PREFIX not in row]
    if others:
        raise Occupied(
            f"revision {others[0]} awaits confirmation and is not Railyard's; wait for it, confirm"
            f" it by `nv config apply {others[0]} --confirm-yes`, or end it by `--confirm-no`"
        )
    return tuple(waiting)


def find_id(text: str, name: str) -> str:
    """The revision that was applied under our name; empty where none awaits confirmation.

    Raises:
        Unreadable: The answer is no table of revisions.
    """
    waiting = _waiting(text)
    named = [revision for revision, row in waiting.items() if name in row]
    return next(iter((*named, *waiting)), "")


_DIFF: Final = "nv config diff"
"""It changes nothing: it puts what is about to happen into the session's record."""
GUARD: Final = Guard(
    open=None,
    force=(_DIFF, f"nv config apply --confirm {ROLLBACK_S}s -y -m {{name}}"),
    confirm="nv config apply {id} --confirm-yes",
    abandon="nv config detach",
    revert="nv config apply {id} --confirm-no",
    rollback_s=ROLLBACK_S,
    list_command=REVISIONS,
    find_stale=find_stale,
    find_id=find_id,
    plain=(_DIFF, "nv config apply -y"),
    since=TIMER_RELEASE,
    saves_itself=lambda state: AUTO_SAVE in whole_words(state),
)
