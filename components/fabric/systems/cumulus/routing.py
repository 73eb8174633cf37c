"""Routed interfaces and BGP of a Cumulus switch: reading NVUE's tree, and the lines.

Paths and keys: the vendor's page "BGP, Configuration Example" of release 5.15, with what NVUE adds
by itself (`enable: on`, later `state: enabled`, `type: …`); docs/explanation/sources.md#cumulus. A
neighbour is a port, so that no address is needed between switches, or an address. Several paths
from one autonomous system are all used by default (page "Optional BGP Configuration", ECMP).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.fabric.parts import WHOLE, read_list
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.cumulus.rows import (
    BGP,
    FAMILY,
    GLOBAL,
    INTERFACE,
    STATES,
    VRF,
    leaf,
    leaves,
    release_of,
    switched_on,
    whole_words,
    within,
)
from components.fabric.systems.cumulus.tree import Beside, Line, Tree, child, expand_names
from components.fabric.systems.ranges import port_key

_ROUTED: Final = re.compile(r"lo|vlan\d+")
_PORT: Final = re.compile(r"swp\d+(?:s\d+)?")
"""A port has more than an address, and never leaves with it."""
_THERE: Final = "stands"
"""Marks an interface that is in the configuration; recorded baselines hold it."""
_STATE: Final = "router bfd state"
_PROFILES: Final = "router bfd profile"
_PROFILE: Final = "railyard"
_TIMES: Final = "detect-multiplier"
"""A profile has to have something in it to be there: the default, 3."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What is in the configuration."""

    addresses: dict[str, tuple[str, ...]]
    bgp: BgpState
    words: tuple[str, ...]
    """Interfaces that are there (with a mark), those that hold nothing of others (`rest`), and
    what is said of BFD."""


def parse_routing(tree: Tree, interfaces: Mapping[str, Tree]) -> Routing:
    """Read addresses of the switch's own interfaces and ports, and the BGP of the default VRF."""
    routed = {name: entry for name, entry in interfaces.items() if _ROUTED.fullmatch(name)}
    addresses = {name: _addresses(entry) for name, entry in sorted(routed.items())}
    addresses |= {
        name: own
        for name, entry in sorted(interfaces.items())
        if _PORT.fullmatch(name) and (own := _addresses(entry))
    }
    there = [f"interface {name} {_THERE}" for name in routed]
    bare = [f"interface {name} rest" for name, entry in routed.items() if within(entry, INTERFACE)]
    return Routing(addresses, _bgp(tree), (*there, *bare, *_words_of_bfd(tree)))


def _addresses(entry: Tree) -> tuple[str, ...]:
    """Below `ip` up to 5.14, below `ipv4` from 5.15 on."""
    return (*child(entry, "ip", "address"), *child(entry, "ipv4", "address"))


def _bgp(tree: Tree) -> BgpState:
    common, own = child(tree, "router", "bgp"), child(tree, "vrf", "default", "router", "bgp")
    peers = {
        name: peer if isinstance(peer, dict) else {}
        for key, peer in child(own, "neighbor").items()
        for name in expand_names(key)
    }
    asn, router_id = (own.get(key, common.get(key)) for key in ("autonomous-system", "router-id"))
    return BgpState(
        asn=int(asn) if isinstance(asn, int | str) and str(asn).isdigit() else None,
        router_id=str(router_id) if router_id is not None else None,
        neighbors={
            name: str(peers[name].get("remote-as", ""))
            for name in sorted(peers, key=lambda name: (port_key(name), name))
        },
        networks=tuple(child(own, "address-family", "ipv4-unicast", "network")),
        bfd=tuple(name for name, peer in peers.items() if _has_bfd(peer)),
    )


def _has_bfd(peer: Tree) -> bool:
    held = child(peer, "bfd")
    return str(held.get("enable")) == "on" or bool(held.get("profile"))


def _words_of_bfd(tree: Tree) -> Iterator[str]:
    held = child(tree, "router", "bfd")
    if "state" in held:
        yield f"{_STATE} {held['state']}"
    yield from (f"{_PROFILES} {name}" for name in child(held, "profile"))


def routing_lines(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
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
) -> Iterator[Line]:
    branch = f"interface {name}"
    recorded = read_list(target.native.get(WHOLE))
    absent = (
        _ROUTED.fullmatch(name) and recorded is not None and f"{branch} {_THERE}" not in recorded
    )
    if not wanted and absent and f"{branch} rest" in whole_words(actual):
        if held is not None:
            yield Line("unset", branch)
        return
    below = "ipv4" if release_of(actual) >= STATES else "ip"
    yield from _keys(f"{branch} {below} address", held or (), wanted)


def _keys(head: str, held: Iterable[str], wanted: Iterable[str], beside: Beside = ()
          ) -> Iterator[Line]:  # fmt: skip
    was, now = [*held], [*wanted]
    yield from (Line("unset", f"{head} {key}") for key in was if key not in now)
    yield from (Line("set", f"{head} {key}", None, beside) for key in now if key not in was)


def _bgp_lines(
    was: BgpState, wanted: BgpState, actual: SwitchState, target: SwitchState
) -> Iterator[Line]:
    release = release_of(actual)
    if (wanted.asn, wanted.router_id) != (None, None) or not leaves(GLOBAL, actual, target):
        for row in BGP:
            yield from leaf(row, was, wanted, release, switched_on(GLOBAL, actual))
    elif (was.asn, was.router_id) != (None, None):
        yield Line("unset", GLOBAL)
    if wanted.neighbors or wanted.networks or not leaves(VRF, actual, target):
        yield from _peer_lines(was, wanted, actual, target)
    elif was.neighbors or was.networks:
        yield Line("unset", VRF)
    if release >= STATES:
        recorded = read_list(target.native.get(WHOLE))
        yield from _bfd_lines(whole_words(actual), recorded, wanted)


def _peer_lines(
    was: BgpState, wanted: BgpState, actual: SwitchState, target: SwitchState
) -> Iterator[Line]:
    peer, on = f"{VRF} neighbor", switched_on(VRF, actual)
    yield from (Line("unset", f"{peer} {name}") for name in was.neighbors
                if name not in wanted.neighbors)  # fmt: skip
    for name, asn in wanted.neighbors.items():
        if was.neighbors.get(name) != asn:
            kind = "unnumbered" if _PORT.fullmatch(name) else "numbered"
            path, beside = f"{peer} {name} remote-as", (*on, (f"{peer} {name} type", kind))
            yield Line("set", path, asn, beside) if asn else Line("unset", path)
    for name in wanted.neighbors:
        before, after = name in was.bfd, name in wanted.bfd
        if after and not before:
            key, word = (("profile", _PROFILE) if release_of(actual) >= STATES
                         else ("enable", "on"))  # fmt: skip
            yield Line("set", f"{peer} {name} bfd {key}", word)
        elif before and not after:
            yield Line("unset", f"{peer} {name} bfd")
    if wanted.networks or not leaves(FAMILY, actual, target):
        beside = (*on, *switched_on(FAMILY, actual))
        yield from _keys(f"{FAMILY} network", was.networks, wanted.networks, beside)
    elif was.networks:
        yield Line("unset", FAMILY)


def _bfd_lines(
    words: Iterable[str], recorded: Iterable[str] | None, wanted: BgpState
) -> Iterator[Line]:
    """BFD of the whole switch, and our profile: while a neighbour has it; else as it was."""
    held, before = {*words}, {*(recorded or ())}
    on, profile = f"{_STATE} enabled", f"{_PROFILES} {_PROFILE}"
    if wanted.bfd:
        if on not in held:
            yield Line("set", _STATE, "enabled")
        if profile not in held:
            yield Line("set", f"{profile} {_TIMES}", 3)
    elif recorded is not None:
        if profile in held - before:
            yield Line("unset", profile)
        states = [next((w for w in each if w.startswith(_STATE)), "") for each in (held, before)]
        if states[0] != states[1] and states[0] == on:
            word = states[1].removeprefix(_STATE).strip()
            yield Line("set", _STATE, word) if word else Line("unset", _STATE)
