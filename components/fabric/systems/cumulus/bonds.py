"""Bundles of a Cumulus switch and its half of a pair: reading NVUE's tree, and the lines. Pure.

Pages "Bonding - Link Aggregation" and "Multi-Chassis Link Aggregation - MLAG" of release 5.15; what
NVUE writes by itself (`type: bond`, `mlag: enable: on`, `peerlink.4094`) is in the file of the
second one. LACP is the default mode, so that no line says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.fabric.native import WHOLE, read_list
from components.fabric.parts import BondState, MlagState
from components.fabric.state import SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.cumulus.routing import whole_words
from components.fabric.systems.cumulus.tree import Tree, child, expand_names
from components.fabric.systems.membership import refuse_taken
from components.fabric.systems.ranges import collapse_vlans, port_key, port_runs

PEER_LINK: Final = "peerlink"
PEER_VLAN: Final = f"{PEER_LINK}.4094"
"""NVUE makes it with the peer link."""
_BRIDGE: Final = "br_default"
_OURS: Final = {"bond", "bridge", "type"}
_NOT_SET: Final = "unset"
_TAKE_OUT: Final = "nv unset interface {bundle} bond member {port}"


def parse_bonds(interfaces: Mapping[str, Tree]) -> dict[str, BondState] | None:
    """Every bundle of the configuration; None: there is none."""
    found: dict[str, BondState] = {}
    for name, entry in interfaces.items():
        bond = child(entry, "bond")
        if bond or _is_bundle(name):
            names = {each for key in child(bond, "member") for each in expand_names(key)}
            number = child(bond, "mlag").get("id")
            found[name] = BondState(
                members=tuple(sorted(names, key=port_key)),
                vlans=_tagged(entry),
                untagged=_untagged(entry),
                mlag=int(str(number)) if number is not None else None,
                is_peer_link=name == PEER_LINK,
            )
    return found or None


def _is_bundle(name: str) -> bool:
    return name == PEER_LINK or name.startswith("bond")


def _tagged(entry: Tree) -> tuple[int, ...] | None:
    member = child(entry, "bridge", "domain", _BRIDGE)
    if _BRIDGE not in child(entry, "bridge", "domain") or "access" in member:
        return ()
    if "vlan" not in member:
        return None
    return tuple(sorted(int(n) for key in child(member, "vlan") for n in expand_names(key)))


def _untagged(entry: Tree) -> int | None:
    member = child(entry, "bridge", "domain", _BRIDGE)
    said = member.get("access", member.get("untagged"))
    return int(str(said)) if str(said).isdigit() else None


def parse_mlag(tree: Tree) -> MlagState | None:
    """What is said of the pair; None: nothing."""
    held = child(tree, "mlag")
    if not held:
        return None
    mac = held.get("mac-address")
    backups = [*child(held, "backup")]
    return MlagState(mac=str(mac).lower() if mac else None, backup=backups[0] if backups else None)


def words_of_bonds(tree: Tree, interfaces: Mapping[str, Tree]) -> Iterator[str]:
    """Which bundles have nothing but what we set, and whether the pair has."""
    for name, entry in interfaces.items():
        bond = child(entry, "bond")
        if name == PEER_VLAN or bond or _is_bundle(name):
            yield f"interface {name} is there"
            yield from [f"interface {name} rest"] if _is_plain(entry) else []
    if {*child(tree, "mlag")} <= {"mac-address", "backup", "peer-ip", "enable"}:
        yield "mlag rest"


def _is_plain(entry: Tree) -> bool:
    bond, bridge = child(entry, "bond"), child(entry, "bridge")
    member = child(bridge, "domain", _BRIDGE)
    return (
        {*entry} <= _OURS
        and {*bond} <= {"member", "mlag"}
        and {*child(bond, "mlag")} <= {"id", "enable"}
        and {*bridge} <= {"domain"}
        and {*child(bridge, "domain")} <= {_BRIDGE}
        and {*member} <= {"access", "untagged", "vlan"}
    )


def bond_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """The lines from some bundles to others, and the pair.

    Raises:
        Unsettable: A port is in a bundle that is not of the file.
    """
    refuse_taken(actual, target, _TAKE_OUT)
    held = actual.bonds or {}
    for name, wanted in (target.bonds or {}).items():
        was = held.get(name, BondState())
        if was != wanted and _leaves(name, wanted, actual, target):
            yield Change((f"nv unset interface {name}",))
            there = f"interface {PEER_VLAN} is there"
            recorded = read_list(target.native.get(WHOLE)) or ()
            if name == PEER_LINK and there in whole_words(actual) and there not in recorded:
                yield Change((f"nv unset interface {PEER_VLAN}",))
        elif was != wanted:
            yield from _bond_lines(name, was, wanted)
    if target.mlag is not None:
        yield from _pair_lines(actual.mlag or MlagState(), target.mlag, actual, target)


def _leaves(name: str, wanted: BondState, actual: SwitchState, target: SwitchState) -> bool:
    """Whether a bundle goes as a whole: it was not there once, and all that is left is ours."""
    recorded = read_list(target.native.get(WHOLE)) or ()
    is_new = f"interface {name} is there" not in recorded
    return not wanted.members and is_new and f"interface {name} rest" in whole_words(actual)


def _bond_lines(name: str, was: BondState, wanted: BondState) -> Iterator[Change]:
    head = f"interface {name}"
    gone = [port for port in was.members if port not in wanted.members]
    new = [port for port in wanted.members if port not in was.members]
    for port in gone:
        yield Change((f"nv unset {head} bond member {port}",))
    if new:
        yield Change((f"nv set {head} bond member {_collapse(new)}",))
    if wanted.mlag != was.mlag:
        verb, value = ("set", f" id {wanted.mlag}") if wanted.mlag else (_NOT_SET, "")
        yield Change((f"nv {verb} {head} bond mlag{value}",))
    yield from (Change((f"nv {line}",)) for line in _bridge_lines(head, was, wanted))


def _collapse(ports: Iterable[str]) -> str:
    runs = port_runs(ports, whole=1)
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{port_key(run[-1])[0]}" for run in runs)


def _access(bond: BondState) -> int | None:
    return bond.untagged if bond.vlans == () else None


def _bridge_lines(head: str, was: BondState, wanted: BondState) -> Iterator[str]:
    """Access, untagged and tagged VLANs exclude each other, so what goes is unset first."""
    branch = f"{head} bridge domain {_BRIDGE}"
    joined = [bond.vlans != () or bond.untagged is not None for bond in (was, wanted)]
    if not joined[1]:
        yield from [f"{_NOT_SET} {branch}"] if joined[0] else []
        return
    held, aim = {*(was.vlans or ())}, {*(wanted.vlans or ())}
    access = (_access(was), _access(wanted))
    untagged = tuple(bond.untagged if bond.vlans != () else None for bond in (was, wanted))
    words = (("access", access), ("untagged", untagged))
    yield from (
        f"{_NOT_SET} {branch} {word}"
        for word, (before, after) in words
        if before is not None and after is None
    )
    if held and not aim:
        yield f"{_NOT_SET} {branch} vlan"
    yield from (f"{_NOT_SET} {branch} vlan {vlan}" for vlan in sorted(held - aim) if aim)
    yield from (
        f"set {branch} {word} {after}"
        for word, (before, after) in words
        if after not in {None, before}
    )
    if aim - held:
        yield f"set {branch} vlan {collapse_vlans(aim - held)}"
    if wanted.vlans is None and not joined[0]:
        yield f"set {branch}"


def _pair_lines(
    was: MlagState, wanted: MlagState, actual: SwitchState, target: SwitchState
) -> Iterator[Change]:
    if was == wanted:
        return
    recorded = read_list(target.native.get(WHOLE))
    if wanted == MlagState() and recorded is not None and "mlag rest" in whole_words(actual):
        yield Change(("nv unset mlag",))
        return
    if wanted.mac != was.mac:
        line = f"set mlag mac-address {wanted.mac}" if wanted.mac else "unset mlag mac-address"
        yield Change((f"nv {line}",))
    if wanted.backup != was.backup:
        yield from [Change((f"nv unset mlag backup {was.backup}",))] if was.backup else []
        yield from [Change((f"nv set mlag backup {wanted.backup}",))] if wanted.backup else []
    if was == MlagState():
        yield Change(("nv set mlag peer-ip linklocal",))
