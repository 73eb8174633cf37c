"""Routed interfaces and BGP of a Cumulus switch: reading NVUE's tree, and the lines.

Paths and keys: the vendor's page "BGP, Configuration Example" of release 5.15, with what NVUE adds
by itself (`enable: on`, `type: …`); docs/explanation/sources.md#cumulus. A neighbour is a port, so
that no address is needed between switches, or an address. Several paths from one autonomous system
are all used by default (page "Optional BGP Configuration", ECMP).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.fabric.native import WHOLE, WRITTEN, is_written, read_list
from components.fabric.state import BgpState, PortState, SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.cumulus.tree import Tree, child
from components.fabric.systems.ranges import port_key

Expand = Callable[[str], Iterable[str]]
GLOBAL: Final = "router bgp"
VRF: Final = "vrf default router bgp"
FAMILY: Final = f"{VRF} address-family ipv4-unicast"
_ROUTED: Final = re.compile(r"lo|vlan\d+")
_PORT: Final = re.compile(r"swp\d+(?:s\d+)?")
"""A port has more than an address, and never leaves with it."""
_SWITCHED_ON: Final = frozenset({"enable", "state"})
"""What NVUE writes by itself when something below is set: `enable: on`, later `state: enabled`."""
NEW_WORDS: Final = "states in words"
"""In `whole_words` of a switch whose release, 5.15 or later, says `state enabled`."""
_THERE: Final = "stands"
"""Marks an interface that is in the configuration; recorded baselines hold it."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What is in the configuration."""

    addresses: dict[str, tuple[str, ...]]
    bgp: BgpState
    implied: tuple[str, ...]
    """Interfaces that are there (with a mark), other branches that are not (`router bgp`),
    and `<branch> rest` where nothing is in one but what is read here."""


def parse_routing(tree: Tree, interfaces: Mapping[str, Tree], expand: Expand) -> Routing:
    """Read addresses of the switch's own interfaces, and the BGP of the default VRF."""
    routed = {name: entry for name, entry in interfaces.items() if _ROUTED.fullmatch(name)}
    addresses = {
        name: tuple(child(entry, "ip", "address")) for name, entry in sorted(routed.items())
    }
    addresses |= {
        name: own
        for name, entry in sorted(interfaces.items())
        if _PORT.fullmatch(name) and (own := tuple(child(entry, "ip", "address")))
    }
    there = [f"interface {name} {_THERE}" for name in routed]
    bare = [
        f"interface {name} rest"
        for name, entry in routed.items()
        if {*entry} <= {"ip", "type", "vlan"} and {*child(entry, "ip")} <= {"address"}
    ]
    common, own = child(tree, "router", "bgp"), child(tree, "vrf", "default", "router", "bgp")
    family = child(own, "address-family", "ipv4-unicast")
    peers = {
        name: peer if isinstance(peer, dict) else {}
        for key, peer in child(own, "neighbor").items()
        for name in expand(key)
    }
    asn, router_id = (own.get(key, common.get(key)) for key in ("autonomous-system", "router-id"))
    state = BgpState(
        asn=int(asn) if isinstance(asn, int | str) and str(asn).isdigit() else None,
        router_id=str(router_id) if router_id is not None else None,
        neighbors={
            name: str(peers[name].get("remote-as", ""))
            for name in sorted(peers, key=lambda name: (port_key(name), name))
        },
        networks=tuple(child(family, "network")),
        bfd=tuple(name for name, peer in peers.items() if has_bfd(peer)),
    )
    implied = (*there, *bare, *_branches(common, own, family, peers), *words_of_bfd(tree))
    return Routing(addresses, state, implied)


def _branches(common: Tree, own: Tree, family: Tree, peers: Mapping[str, Tree]) -> Iterator[str]:
    plain = all(
        {*peer} <= {"remote-as", "type", "bfd", *_SWITCHED_ON}
        and {*child(peer, "bfd")} <= _BFD_KEYS
        for peer in peers.values()
    )
    families = child(own, "address-family")
    bare_family = {*family} <= {"network", *_SWITCHED_ON}
    known = (
        (GLOBAL, common, {*common} <= {"autonomous-system", "router-id", *_SWITCHED_ON}),
        (FAMILY, family, bare_family),
        (
            VRF,
            own,
            plain
            and bare_family
            and {*families} <= {"ipv4-unicast"}
            and {*own} <= {"neighbor", "address-family", *_SWITCHED_ON},
        ),
    )
    for branch, held, bare in known:
        if not held:
            yield branch
        if bare:
            yield f"{branch} rest"


def whole_words(state: SwitchState) -> tuple[str, ...]:
    """What a state says of the whole configuration; nothing where it was not read."""
    return read_list(state.native.get(WHOLE)) or ()


def routing_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """The lines from one routing to another; a branch of ours alone leaves as a whole."""
    held = actual.addresses or {}
    for name, wanted in (target.addresses or {}).items():
        yield from _address_lines(name, held.get(name), wanted, actual, target)
    if target.bgp is not None:
        yield from _bgp_lines(actual.bgp or BgpState(), target.bgp, actual, target)


def has_left_over(name: str, actual: SwitchState, target: SwitchState) -> bool:
    """Whether an interface keeps an address: then it does not leave as a whole."""
    held = (actual.addresses or {}).get(name, ())
    return bool(held and (target.addresses or {}).get(name, held))


def _address_lines(
    name: str,
    held: tuple[str, ...] | None,
    wanted: tuple[str, ...],
    actual: SwitchState,
    target: SwitchState,
) -> Iterator[Change]:
    branch = f"interface {name}"
    recorded = read_list(target.native.get(WHOLE))
    absent = (
        _ROUTED.fullmatch(name) and recorded is not None and f"{branch} {_THERE}" not in recorded
    )
    bare = f"{branch} rest" in whole_words(actual)
    if not wanted and absent and bare:
        if held is not None:
            yield Change((f"nv unset {branch}",))
        return
    for address in held or ():
        if address not in wanted:
            yield Change((f"nv unset {branch} ip address {address}",))
    for address in wanted:
        if address not in (held or ()):
            yield Change((f"nv set {branch} ip address {address}",))


def _bgp_lines(
    was: BgpState, wanted: BgpState, actual: SwitchState, target: SwitchState
) -> Iterator[Change]:
    no_identity = (wanted.asn, wanted.router_id) == (None, None)
    if not _leaves(GLOBAL, actual, target, empty=no_identity):
        for key, held, value in (
            ("autonomous-system", was.asn, wanted.asn),
            ("router-id", was.router_id, wanted.router_id),
        ):
            if held != value:
                line = f"unset {GLOBAL} {key}" if value is None else f"set {GLOBAL} {key} {value}"
                yield Change((f"nv {line}",))
    elif (was.asn, was.router_id) != (None, None):
        yield Change((f"nv unset {GLOBAL}",))
    empty = not (wanted.neighbors or wanted.networks)
    if not _leaves(VRF, actual, target, empty=empty):
        yield from _peer_lines(was, wanted, actual, target)
    elif was.neighbors or was.networks:
        yield Change((f"nv unset {VRF}",))
    if NEW_WORDS in whole_words(actual):
        recorded = read_list(target.native.get(WHOLE))
        yield from switch_changes(whole_words(actual), recorded, wanted)


def _peer_lines(
    was: BgpState, wanted: BgpState, actual: SwitchState, target: SwitchState
) -> Iterator[Change]:
    for name in was.neighbors:
        if name not in wanted.neighbors:
            yield Change((f"nv unset {VRF} neighbor {name}",))
    for name, asn in wanted.neighbors.items():
        if was.neighbors.get(name) != asn:
            verb, value = ("set", f" {asn}") if asn else ("unset", "")
            yield Change((f"nv {verb} {VRF} neighbor {name} remote-as{value}",))
    yield from peer_changes(VRF, was, wanted, new=NEW_WORDS in whole_words(actual))
    if not _leaves(FAMILY, actual, target, empty=not wanted.networks):
        yield from _list_lines(f"{FAMILY} network", was.networks, wanted.networks)
    elif was.networks:
        yield Change((f"nv unset {FAMILY}",))


def _leaves(branch: str, actual: SwitchState, target: SwitchState, *, empty: bool) -> bool:
    """Whether a branch goes as a whole: it was not there once, and all that is left is ours."""
    return empty and branch in whole_words(target) and f"{branch} rest" in whole_words(actual)


def _list_lines(head: str, held: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[Change]:
    for name in held:
        if name not in wanted:
            yield Change((f"nv unset {head} {name}",))
    for name in wanted:
        if name not in held:
            yield Change((f"nv set {head} {name}",))


PROFILE: Final = "railyard"
_STATE: Final = "router bfd state"
_PROFILES: Final = "router bfd profile"
_TIMES: Final = "detect-multiplier 3"
"""The default, as 300 ms either way is: a profile has to have something in it to be there."""
_BFD_KEYS: Final = frozenset({"enable", "profile"})
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
