"""From one state of a Cumulus switch to another: NVUE lines, all in one revision.

The order does not matter to NVUE, which checks and applies the revision as a whole; lines that are
equal on several ports are written once, with a list of them. `tree.py` sends them as documents.

Split ports: NVUE reference, `link breakout`, from 5.4 on; page "Switch Port Attributes". To remove
a split, the parts are unset first, and the split is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.native import is_default, is_written, read_list, sources, write_list
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import (
    CANDIDATE_PREFIX,
    Change,
    Guard,
    Occupied,
    Unreadable,
    Unsettable,
)
from components.fabric.systems.cumulus import roce
from components.fabric.systems.cumulus.read import PortConfig
from components.fabric.systems.cumulus.routing import has_left_over, routing_lines
from components.fabric.systems.cumulus.rows import (
    CABLE,
    EDGE,
    LINK,
    MTU,
    PORT,
    SAVES,
    SPREADS,
    WATCHDOG,
    Tail,
    leaf,
    leaves,
    port_lines,
    release_of,
    whole_words,
)
from components.fabric.systems.cumulus.tree import BRIDGE, Line, collapse_ports, documents
from components.fabric.systems.membership import fill_membership
from components.fabric.systems.ranges import collapse_vlans

_DOMAIN: Final = f"bridge domain {BRIDGE}"


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The lines from `actual` to `target`, for one revision; empty when they agree.

    Raises:
        Unsettable: The profile is the wanted one and does not give what it should.
    """
    moves = (
        *_vlan_lines(actual, target),
        *roce.profile_changes(actual, target),
        *_spreading(actual, target),
        *_port_lines(actual, target),
        *routing_lines(actual, target),
    )
    cable = () if target.roce == "none" else leaf(CABLE, actual, target, release_of(actual))
    lines = (*_around_splits(moves, actual, target), *cable, *roce.mode_lines(actual, target))
    return tuple(Change((line,)) for line in lines)


def _around_splits(
    moves: tuple[Line, ...], actual: SwitchState, target: SwitchState
) -> Iterator[Line]:
    """What goes, ports that are whole again, ports that are split, and what comes.

    A line that unsets a port takes its split along, and parts have settings and neighbours only
    while they are there. Without a split the lines stay in their order.
    """
    splits = (*leaving_splits(actual, target), *coming_splits(actual, target))
    going = [splits and line.verb == "unset" for line in moves]
    yield from (line for line, goes in zip(moves, going, strict=True) if goes)
    yield from splits
    yield from (line for line, goes in zip(moves, going, strict=True) if not goes)


def _vlan_lines(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    if not target.vlans and leaves(_DOMAIN, actual, target) and _DOMAIN not in whole_words(actual):
        yield Line("unset", _DOMAIN)
        return
    new = {*target.vlans} - {*actual.vlans}
    if new:
        yield Line("set", f"{_DOMAIN} vlan {collapse_vlans(new)}")
    for vlan in sorted({*actual.vlans} - {*target.vlans}):
        yield Line("unset", f"{_DOMAIN} vlan {vlan}")


def _spreading(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    """Adaptive routing: the switch before its ports, so that no port waits for it."""
    yield from leaf(SPREADS, actual, target, release_of(actual))


def _port_lines(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    groups: dict[Tail, list[str]] = {}
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        if has_left_over(name, actual, target):
            was = was.model_copy(update={"native": was.native | sources(rest=True)})
        release = release_of(actual)
        links = port_lines((*LINK, MTU), was, port, release)
        rest = port_lines((WATCHDOG, SPREADS), was, port, release)
        # Before a port leaves the bridge: what is below `bridge` goes with it.
        edge = port_lines(EDGE, was, port, release)
        for tail in (*edge, *_l2_lines(was, port), *links, *_admin_lines(was, port), *rest):
            groups.setdefault(tail, []).append(name)
    # What goes is unset first on every port: a VLAN is either the access one or in the list.
    for (verb, path, word), names in sorted(groups.items(), key=lambda item: item[0][0] == "set"):
        yield Line(verb, f"interface {collapse_ports(names)} {path}".rstrip(), word)


def _admin_lines(was: PortState, port: PortState) -> Iterator[Tail]:
    if port.admin_up is None or port.admin_up == was.admin_up:
        return
    unnamed = is_default(port.native, "admin_up") and is_default(was.native, "rest")
    if unnamed and not port.admin_up:
        # No line named it, which is what keeps a port shut, and all that is left of it is ours.
        yield "unset", "", None
    else:
        yield "set", f"link state {'up' if port.admin_up else 'down'}", None


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


def _l2_lines(was: PortState, port: PortState) -> Iterator[Tail]:
    """Access, untagged and tagged VLANs exclude each other, so what goes is unset first."""
    head = f"bridge domain {BRIDGE}"
    old, new = _member(was), _member(fill_membership(was, port))
    if old == new:
        return
    if not new.joined:
        yield "unset", head, None
        return
    if old.access is not None and new.access is None:
        yield "unset", f"{head} access", None
    if old.untagged is not None and new.untagged is None:
        yield "unset", f"{head} untagged", None
    if old.vlans is not None and new.vlans is None:
        yield "unset", f"{head} vlan", None
    for vlan in sorted((old.vlans or frozenset()) - (new.vlans or frozenset())):
        if new.vlans is not None:
            yield "unset", f"{head} vlan {vlan}", None
    yield from _joined_lines(head, old, new)


def _joined_lines(head: str, old: _Member, new: _Member) -> Iterator[Tail]:
    if new.access not in {None, old.access}:
        yield "set", f"{head} access", str(new.access)
    if new.untagged not in {None, old.untagged}:
        yield "set", f"{head} untagged", new.untagged
    added = (new.vlans or frozenset()) - (old.vlans or frozenset())
    if added:
        yield "set", f"{head} vlan {collapse_vlans(added)}", None
    if not old.joined and new == _Member(joined=True):
        yield "set", head, None


HELD: Final = "split_held"
"""Key of a switch's `native`: whole ports with settings that parts do not have."""
NAMED: Final = "split_named"
"""The same: whole ports of which the configuration says something beside their split."""
_KEY: Final = "link breakout"
_PLAIN: Final = PortConfig()


def read_splits(
    ports: Mapping[str, PortConfig], wanted: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Every port that is split, and those that were asked for."""
    split = {name: _parts(name, port.parts) for name, port in ports.items() if port.parts > 1}
    return {**{name: (name,) for name in wanted}, **split}


def _parts(whole: str, count: int) -> tuple[str, ...]:
    return tuple(f"{whole}s{number}" for number in range(count))


def find_words(ports: Mapping[str, PortConfig], routed: Collection[str]) -> dict[str, str]:
    """What whole ports have: beside a split at all, and more than being up or down."""
    wholes = {name: port for name, port in sorted(ports.items()) if _is_whole(name)}
    held = (name for name, port in wholes.items() if name in routed or _has_more(port))
    named = (name for name, port in wholes.items() if is_written(port.state.native, "admin_up"))
    return {HELD: write_list(held), NAMED: write_list(named)}


def _is_whole(name: str) -> bool:
    return name.startswith("swp") and name[3:].isdigit()


def _has_more(port: PortConfig) -> bool:
    """More than being up or down, and what a link runs at, which a split takes along."""
    native = port.state.native
    noted = any(is_written(native, key) for key in ("rest", *(row.setting for row in PORT)))
    return noted or port.state.mode != "routed" or bool(port.named)


def find_configured(ports: Iterable[str]) -> tuple[str, ...]:
    """Parts of which the configuration says something."""
    return tuple(name for name in ports if name.startswith("swp") and not _is_whole(name))


def leaving_splits(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    """Ports that become whole again, after the lines of their parts."""
    for whole, parts in (target.splits or {}).items():
        held = (actual.splits or {}).get(whole, (whole,))
        if len(held) > 1 and len(parts) == 1:
            # What stood there before stays, if it is blank; what did not goes.
            bare = whole not in _list(actual, NAMED) and whole not in _list(target, NAMED)
            yield Line("unset", f"interface {whole}" if bare else f"interface {whole} {_KEY}")


def _list(state: SwitchState, key: str) -> tuple[str, ...]:
    return read_list(state.native.get(key)) or ()


def coming_splits(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    """Ports that are split, before the lines of their parts.

    Raises:
        Unsettable: A port is split in another way, or has settings that parts do not have.
    """
    counts: dict[int, list[str]] = {}
    for whole, parts in (target.splits or {}).items():
        held = (actual.splits or {}).get(whole, (whole,))
        if len(parts) == 1 or held == parts:
            continue
        if len(held) > 1:
            raise Unsettable(
                f"port {whole} is split in {len(held)}, and the file wants {len(parts)} parts. "
                "What is on its parts would be lost: take them out of the file, update, and put "
                f"them back; or type `nv unset interface {','.join(held)}`, "
                f"`nv unset interface {whole} {_KEY}` and `nv config apply`"
            )
        _refuse_held(whole, actual, target)
        counts.setdefault(len(parts), []).append(whole)
    for count, wholes in counts.items():
        for whole in wholes:
            yield Line("set", f"interface {whole} {_KEY} {count}x")


def _refuse_held(whole: str, actual: SwitchState, target: SwitchState) -> None:
    if whole in _list(actual, HELD) and whole not in target.ports:
        raise Unsettable(
            f"port {whole} has settings that are not ours, which its parts would not have. Look at "
            f"`nv config show`; if they may go, type `nv unset interface {whole}` and "
            "`nv config apply`"
        )


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
    saves_itself=lambda state: SAVES in whole_words(state),
    pack=lambda lines: (*documents(lines),),
)
