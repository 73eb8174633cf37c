"""From one routing of an EOS switch to another: configuration lines of the same session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.parts import read_list
from components.fabric.state import ALWAYS_UP, MTU_WORD, BgpState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.eos.routing import (
    FAMILY,
    FORWARDING,
    GROUP,
    IPV4_ONLY,
    LINK_LOCAL,
    MODEL,
    NO_AUTOSTATE,
    WITHIN,
    WORDS,
    address_lines,
    bare,
    bfd_line,
    bgp_of,
    group_lines,
    is_ours,
    negate,
    read_peers,
    router_lines,
    there,
)

_OURS: Final = ("router-id ", "maximum-paths ", f"neighbor {GROUP} ", FAMILY)
"""How lines begin that leave with us; neighbours and networks are looked at one by one."""


def _words(state: SwitchState) -> tuple[str, ...] | None:
    return read_list(state.native.get(WORDS))


def leaving_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What goes before a port is switched again."""
    for name, wanted in (target.addresses or {}).items():
        held = (actual.addresses or {}).get(name)
        recorded = _words(target)
        was_absent = recorded is not None and there(name) not in recorded
        if held is not None and not wanted and was_absent and bare(name) in (_words(actual) or ()):
            yield Change((f"no interface {name}",))
            continue
        lines = tuple(_removals(held or (), wanted))
        if lines:
            yield Change((f"interface {name}", *lines, "exit"))


def coming_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What comes once a port is routed, and BGP.

    Raises:
        Unsettable: The switch has a setting of others in the way.
    """
    for name, wanted in (target.addresses or {}).items():
        held = (actual.addresses or {}).get(name, ())
        lines = tuple(_additions(name, held, wanted))
        if lines:
            yield Change((f"interface {name}", *lines, "exit"))
    if target.bgp is None:
        return
    if target.bgp.forwards is not None:
        yield from _forwarding_changes(target.bgp.forwards, actual, target)
    yield from _bgp_changes(actual, target, target.bgp)


def _mtu_of(entries: tuple[str, ...]) -> str | None:
    """The last one: others' own, where there is one, comes first."""
    found = [each for each in entries if each.startswith(MTU_WORD)]
    return found[-1] if found else None


def _plain(entries: tuple[str, ...]) -> list[str]:
    beside = (LINK_LOCAL, ALWAYS_UP, MTU_WORD)
    return [each for each in entries if not each.startswith(beside)]


def _removals(held: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[str]:
    for entry in _plain(held):
        if entry not in wanted:
            yield f"no ip address {entry}"
    if LINK_LOCAL in held and LINK_LOCAL not in wanted:
        yield "no ipv6 enable"
    if ALWAYS_UP in held and ALWAYS_UP not in wanted:
        yield NO_AUTOSTATE.removeprefix("no ")
    if _mtu_of(held) and not _mtu_of(wanted):
        yield "no mtu"


def _additions(name: str, held: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[str]:
    first = [each for each in _plain(wanted) if not each.endswith(" secondary")]
    if len(first) > 1:
        raise Unsettable(
            f"{name} has the address {first[0]}, and the file wants {first[1]}; EOS has one there. "
            f"Remove that one by hand, or give the file another"
        )
    mtu = _mtu_of(wanted)
    if mtu is not None and mtu != _mtu_of(held):
        yield mtu
    for entry in _plain(wanted):
        if entry not in held:
            yield f"ip address {entry}"
    if LINK_LOCAL in wanted and LINK_LOCAL not in held:
        yield "ipv6 enable"
    if ALWAYS_UP in wanted and ALWAYS_UP not in held:
        yield NO_AUTOSTATE


def _forwarding_changes(
    wanted: bool,  # noqa: FBT001 - a setting
    actual: SwitchState,
    target: SwitchState,
) -> Iterator[Change]:
    held, recorded = _words(actual) or (), _words(target) or ()
    for line in FORWARDING:
        stays = wanted or line in recorded
        if stays and line not in held:
            yield Change((line,))
        elif not stays and line in held:
            # Whether this leaves plain IPv4 on is not documented, so that is said too.
            rest = (IPV4_ONLY if IPV4_ONLY in recorded else f"no {IPV4_ONLY}",)
            yield Change((f"no {line}", *(rest if line.startswith(IPV4_ONLY) else ())))


def _bgp_changes(actual: SwitchState, target: SwitchState, wanted: BgpState) -> Iterator[Change]:
    was, held = actual.bgp or BgpState(), router_lines(_words(actual))
    if wanted.asn is not None and MODEL not in (_words(actual) or ()):
        raise Unsettable(
            f"BGP between ports needs `{MODEL}`, which the switch has not. It takes a "
            "reload, so we do not set it: do so once, save, reload the switch, and run this again"
        )
    others = tuple(line for line in held if not is_ours(line, held))
    if was.asn is not None and wanted.asn != was.asn and _is_ours(others):
        if wanted.asn is None and (wanted.neighbors or wanted.networks):
            wanted = wanted.model_copy(update={"asn": was.asn})
        else:
            yield Change((f"no router bgp {was.asn}",))
            was, held = BgpState(), ()
    elif wanted.asn is None and was.asn is not None:
        wanted = wanted.model_copy(update={"asn": was.asn})  # others' lines are in it by now
    elif was.asn is not None and wanted.asn != was.asn:
        raise Unsettable(
            f"the switch runs BGP {was.asn} with more in it than ours, and another number than "
            f"{wanted.asn} would take all of that away: look at `show running-config | section "
            f"router bgp`, and write asn: {was.asn} or remove it by hand"
        )
    if wanted.asn is None:
        return
    recorded = router_lines(_words(target))
    lines = [*_bgp_lines(was, wanted, held, recorded)]
    top = [line for line in lines if WITHIN not in line]
    inner = [line.rpartition(WITHIN)[2] for line in lines if WITHIN in line]
    if top or inner or was.asn is None:
        block = (FAMILY, *inner, "exit") if inner else ()
        yield Change((f"router bgp {wanted.asn}", *top, *block, "exit"))


def _is_ours(held: tuple[str, ...]) -> bool:
    """Whether there is nothing in it but the kinds of lines that we write."""
    return all(
        any(peer.group == GROUP for peer in read_peers((line,)).values())
        or line.startswith(("network ", f"{FAMILY}{WITHIN}network "))
        or (line.startswith(_OURS) and (WITHIN not in line or line in group_lines(GROUP)))
        for line in held
    )


def _bgp_lines(
    was: BgpState, wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> Iterator[str]:
    """Each line with the address family that it is in."""
    if wanted.router_id != was.router_id:
        yield f"router-id {wanted.router_id}" if wanted.router_id else "no router-id"
    if wanted.max_paths is not None and wanted.max_paths != (was.max_paths or 0):
        said = [line for line in recorded if line.split()[:2] == _paths(wanted)]
        plain = " ".join(_paths(wanted))
        yield (said[0] if said else plain) if wanted.max_paths else "no maximum-paths"
    yield from _group_lines(wanted, held, recorded)
    yield from address_lines(was, wanted, held, recorded)
    yield from _peer_lines(was, wanted, held, recorded)
    inner = f"{FAMILY}{WITHIN}network "
    gone = (each for each in was.networks if each not in wanted.networks)
    yield from (negate(f"{inner}{each}") for each in gone)
    yield from (f"{inner}{each}" for each in wanted.networks if each not in was.networks)


def _peer_lines(
    was: BgpState, wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> Iterator[str]:
    """Neighbours that are ports."""
    before, now = read_peers(recorded), read_peers(held)
    recorded_numbers = bgp_of(None, recorded).neighbors
    for name in was.neighbors:
        if name in now and name not in wanted.neighbors:
            yield f"no neighbor interface {name}"
    for name, number in wanted.neighbors.items():
        if was.neighbors.get(name) == number or not name.startswith("Ethernet"):
            continue
        own = f"neighbor interface {name} peer-group {GROUP} remote-as {number}"
        yield before[name].line if before.get(name) and recorded_numbers[name] == number else own


def _paths(wanted: BgpState) -> list[str]:
    return ["maximum-paths", str(wanted.max_paths)]


def _group_lines(
    wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> Iterator[str]:
    """What our group needs while a neighbour is in it; else what was there of it before."""
    peers = read_peers(held) | read_peers(recorded)
    inside = [
        name
        for name in wanted.neighbors
        if name.startswith("Ethernet") and (name not in peers or peers[name].group == GROUP)
    ]
    bfd = {bfd_line(GROUP)} if {*inside} & {*wanted.bfd} else set[str]()
    ours = {*group_lines(GROUP)} | bfd if inside else set[str]()
    before, now = ({line for line in lines if _of_group(line)} for lines in (recorded, held))
    aim = ours | (before - {bfd_line(GROUP)} if inside else before)
    order = (*group_lines(GROUP), bfd_line(GROUP))
    yield from sorted(aim - now, key=lambda line: order.index(line) if line in order else 9)
    gone = sorted(now - aim)
    yield from map(negate, order[:1] if order[0] in gone else gone)


def _of_group(line: str) -> bool:
    return line.rpartition(WITHIN)[2].startswith(f"neighbor {GROUP} ")
