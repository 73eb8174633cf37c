"""Bundles of an EOS switch and its half of a pair: read from configuration lines, and set. Pure.

`interface Port-Channel1` has the VLANs, a port is in it by `channel-group 1 mode active`, and
`mlag configuration` is the pair: manual "Multi-Chassis Link Aggregation", aristanetworks/avd,
captures of vEOS; docs/explanation/sources.md#eos. What a bundle or a pair is beside our lines
stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import TypeAdapter

from components.fabric.native import write_text
from components.fabric.parts import BondState, MlagState
from components.fabric.state import SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.eos.config import Section
from components.fabric.systems.membership import refuse_taken
from components.fabric.systems.ranges import collapse_vlans, parse_vlan_ranges, port_key

PAIR: Final = "show running-config sanitized | section ^mlag configuration"
VLAN_LINES: Final = "show running-config sanitized | section ^vlan"
TREE: Final = "show running-config sanitized | include ^no spanning-tree vlan-id"
PEER_LINK: Final = "Port-Channel1000"
"""A number that people seldom give to a bundle; a channel group has 1 to 2000 (AVD's schema)."""
PEER_VLAN: Final = 4094
"""The VLAN of the manual, of AVD and of all captures."""
WORDS: Final = "bonds"
"""Key of a switch's `native`: the lines as they are, by the block that they are in."""
_GROUP: Final = "RAILYARD"
"""Our trunk group: by it no other trunk carries the pair's VLAN."""
_NAME: Final = "Port-Channel"
_IN: Final = "interface "
_MLAG: Final = "mlag configuration"
_VLAN: Final = f"vlan {PEER_VLAN}"
_WHOLE: Final = ""
"""Lines that are in no block."""
_NO_TREE: Final = f"no spanning-tree vlan-id {PEER_VLAN}"
_TRUNK_GROUP: Final = "trunk group "
_TAKE_OUT: Final = "interface {port}`, `no channel-group"
_MEMBER: Final = re.compile(r"channel-group (\d+) mode (\w+)")
_HEADS: Final = (
    *("switchport access vlan", "switchport trunk native vlan", "switchport trunk allowed vlan"),
    *("mlag", "channel-group", "reload-delay mlag", "reload-delay non-mlag"),
    *("peer-address heartbeat", "domain-id", "local-interface", "peer-address", "peer-link"),
)
"""Lines with a value, which another one is written over."""
_OF_PAIR: Final = (*_HEADS[-4:], "shutdown")
_OF_BUNDLE: Final = (*_HEADS[:3], "switchport mode", "no switchport", "mlag ", "shutdown")
Lines = Mapping[str, tuple[str, ...]]
_LINES: Final = TypeAdapter(dict[str, tuple[str, ...]])


def bond_lines(sections: Mapping[str, Section], answers: Mapping[str, str]) -> Lines:
    """The lines of bundles, of their ports and, where they were asked for, of the pair."""
    found: dict[str, tuple[str, ...]] = {}
    for name, section in sections.items():
        own = [line for line in section.lines if _MEMBER.fullmatch(line)]
        if name.startswith(_NAME) or own:
            found[f"{_IN}{name}"] = section.lines if name.startswith(_NAME) else tuple(own)
    return found | dict(_pair_lines(answers))


def _pair_lines(answers: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    block = answers.get(PAIR, "").replace("\r", "").splitlines()
    if _MLAG in block:
        yield _MLAG, tuple(line.strip() for line in block if line.startswith(" "))
    groups, is_inside = list[str](), False
    for line in answers.get(VLAN_LINES, "").splitlines():
        numbers = re.fullmatch(r"vlan ([\d,-]+)\s*", line)
        is_inside = is_inside if numbers is None else PEER_VLAN in parse_vlan_ranges(numbers[1])
        if is_inside and line.strip().startswith(_TRUNK_GROUP):
            groups.append(line.strip())
    if groups:
        yield _VLAN, tuple(groups)
    off = re.findall(r"^no spanning-tree vlan-id ([\d,-]+)", answers.get(TREE, ""), re.MULTILINE)
    if any(PEER_VLAN in parse_vlan_ranges(numbers) for numbers in off):
        yield _WHOLE, (_NO_TREE,)


def bond_words(lines: Lines) -> dict[str, str]:
    """The lines as `SwitchState.native` holds them."""
    return {WORDS: write_text(lines)}


def _lines_of(state: SwitchState) -> dict[str, tuple[str, ...]]:
    text = state.native.get(WORDS)
    return {} if text is None else _LINES.validate_json(text)


def bonds_of(lines: Lines) -> dict[str, BondState] | None:
    """Every bundle; None: there is none."""
    names = {owner.removeprefix(_IN) for owner in lines if owner.startswith(f"{_IN}{_NAME}")}
    names |= {
        f"{_NAME}{found[1]}"
        for owner, own in lines.items()
        if owner.startswith(_IN)
        for line in own
        if (found := _MEMBER.fullmatch(line))
    }
    return {name: _bond(name, lines) for name in sorted(names, key=port_key)} or None


def _bond(name: str, lines: Lines) -> BondState:
    own = lines.get(f"{_IN}{name}", ())
    number = _value(own, "mlag")
    tagged, untagged = _vlans(own)
    modes = dict(_modes(name, lines))
    return BondState(
        members=tuple(sorted(modes, key=port_key)),
        vlans=tagged if f"{_IN}{name}" in lines else (),
        untagged=untagged if f"{_IN}{name}" in lines else None,
        mlag=int(number) if number else None,
        is_peer_link=name == PEER_LINK,
        static=tuple(sorted((port for port in modes if modes[port] == "on"), key=port_key)),
    )


def _modes(name: str, lines: Lines) -> Iterator[tuple[str, str]]:
    """Each port of a bundle, and whether it speaks LACP."""
    for owner, own in lines.items():
        for line in own if owner.startswith(_IN) else ():
            found = _MEMBER.fullmatch(line)
            if found is not None and f"{_NAME}{found[1]}" == name:
                yield owner.removeprefix(_IN), found[2]


def _vlans(own: tuple[str, ...]) -> tuple[tuple[int, ...] | None, int | None]:
    """Tagged VLANs and the untagged one; a native VLAN that is not allowed is not carried."""
    if "no switchport" in own:
        return (), None
    if "switchport mode trunk" not in own:
        return (), int(_value(own, "switchport access vlan") or 1)
    said, native = (_value(own, f"switchport trunk {key} vlan") for key in ("allowed", "native"))
    untagged = int(native) if native and native.isdigit() else None
    if said in {None, "all"}:
        return None, untagged
    allowed = parse_vlan_ranges(said or "")
    if untagged not in allowed:
        return allowed, None
    return tuple(vlan for vlan in allowed if vlan != untagged), untagged


def _value(own: tuple[str, ...], head: str) -> str | None:
    found = (line.removeprefix(f"{head} ") for line in own if line.startswith(f"{head} "))
    return next(found, None)


def pair_of(lines: Lines) -> MlagState | None:
    """What is said of the pair; None: nothing."""
    own = lines.get(_MLAG)
    if own is None:
        return None
    works = (
        _shares_group(lines)
        and _NO_TREE in lines.get(_WHOLE, ())
        and {f"local-interface Vlan{PEER_VLAN}", f"peer-link {PEER_LINK}"} <= {*own}
        and "shutdown" not in own
    )
    peers = [line for line in own if re.fullmatch(r"peer-address [\d.]+", line)]
    return MlagState(
        domain=_value(own, "domain-id") if works else None,
        peer=peers[0].split()[1] if peers else None,
    )


def _shares_group(lines: Lines) -> bool:
    """Whether the VLAN is carried by the link of the pair, and by no trunk of all VLANs."""
    link = lines.get(f"{_IN}{PEER_LINK}", ())
    groups = (line for line in lines.get(_VLAN, ()) if line.startswith(_TRUNK_GROUP))
    return any(f"switchport {group}" in link for group in groups)


def leaving_bonds(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What goes: ports before their bundle.

    Raises:
        Unsettable: A port is in a bundle that is not of the file.
    """
    refuse_taken(actual, target, _TAKE_OUT)
    held, aim = _lines_of(actual), _aim(actual, target)
    for owner in sorted(held, key=_is_bundle):
        gone = _gone(held[owner], aim.get(owner, ()))
        if owner not in aim and (_is_bundle(owner) or owner == _MLAG):
            yield Change((f"no {owner}",))
        elif gone and owner == _WHOLE:
            yield Change(gone)
        elif gone:
            yield Change((owner, *gone, "exit"))


def _is_bundle(owner: str) -> bool:
    return owner.startswith(f"{_IN}{_NAME}")


def coming_bonds(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What comes: bundles before their ports, and the pair last."""
    held, aim = _lines_of(actual), _aim(actual, target)
    for owner in sorted(aim, key=lambda owner: (owner == _MLAG, not _is_bundle(owner))):
        new = tuple(line for line in aim[owner] if line not in held.get(owner, ()))
        if new and owner == _WHOLE:
            yield Change(new)
        elif new or owner not in held:
            yield Change((owner, *new, "exit"))


def _gone(held: tuple[str, ...], aim: tuple[str, ...]) -> tuple[str, ...]:
    """The lines that take away what is not to be, but for what another value is written over."""
    kept = {head for line in aim if (head := _head(line))}
    if any(line.endswith(" mode on") for line in (*held, *aim)):
        kept.discard("channel-group")  # ports with and without LACP may not be in one bundle
    gone = [line for line in held if line not in aim and (_head(line) or line) not in kept]
    return tuple(_undo(line) for line in gone)


def _head(line: str) -> str | None:
    return next((head for head in _HEADS if line.startswith(f"{head} ")), None)


def _undo(line: str) -> str:
    if line == "switchport mode trunk":
        return "switchport mode access"
    return line.removeprefix("no ") if line.startswith("no ") else f"no {_head(line) or line}"


def _aim(actual: SwitchState, target: SwitchState) -> Lines:
    """The lines as they shall be: those of before where that is what is wanted."""
    aim, recorded = _lines_of(actual), _lines_of(target)
    for name, wanted in (target.bonds or {}).items():
        if wanted.members and _bond(name, aim) == wanted:
            continue
        before = {owner: own for owner, own in recorded.items() if _is_of(owner, own, name)}
        is_before = _bond(name, recorded) == wanted
        ours = before if is_before else _wanted(name, wanted, aim)
        rest = {owner: own for owner, own in aim.items() if not _is_of(owner, own, name)}
        aim = rest | ours
    return aim if target.mlag is None else _pair_aim(target.mlag, aim, recorded)


def _is_of(owner: str, own: tuple[str, ...], name: str) -> bool:
    if _is_bundle(owner):
        return owner == f"{_IN}{name}"
    return any((found := _MEMBER.fullmatch(line)) and f"{_NAME}{found[1]}" == name for line in own)


def _wanted(name: str, bond: BondState, held: Lines) -> dict[str, tuple[str, ...]]:
    """Our lines; what others say of the bundle itself stays."""
    if not bond.members:
        return {}
    own = held.get(f"{_IN}{name}", ())
    others = (line for line in own if not line.startswith(_OF_BUNDLE))
    lines: dict[str, tuple[str, ...]] = {f"{_IN}{name}": (*_own_lines(bond), *others)}
    mode = f"channel-group {name.removeprefix(_NAME)} mode active"
    return lines | {f"{_IN}{port}": (mode,) for port in bond.members}


def _own_lines(bond: BondState) -> Iterator[str]:
    if bond.vlans == ():
        if bond.untagged not in {None, 1}:
            yield f"switchport access vlan {bond.untagged}"
    else:
        if bond.untagged is not None:
            yield f"switchport trunk native vlan {bond.untagged}"
        if bond.vlans is not None:
            native = () if bond.untagged is None else (bond.untagged,)
            yield f"switchport trunk allowed vlan {collapse_vlans((*bond.vlans, *native))}"
        yield "switchport mode trunk"
    if bond.mlag is not None:
        yield f"mlag {bond.mlag}"


def _pair_aim(wanted: MlagState, aim: Lines, recorded: Lines) -> Lines:
    if pair_of(aim) == wanted and wanted.domain is not None:
        return aim
    owners = (_MLAG, _VLAN, _WHOLE)
    if (pair_of(recorded) or MlagState()) == wanted:
        rest = {owner: own for owner, own in aim.items() if owner not in owners}
        return rest | {owner: recorded[owner] for owner in owners if owner in recorded}
    link = f"{_IN}{PEER_LINK}"
    others = (line for line in aim.get(_MLAG, ()) if not _is_of_pair(line))
    ours = {
        _WHOLE: (_NO_TREE,),
        _MLAG: (*_pair_own_lines(wanted), *others),
    }
    if not _shares_group(aim):
        group = f"{_TRUNK_GROUP}{_GROUP}"
        ours[_VLAN] = (*(line for line in aim.get(_VLAN, ()) if line != group), group)
        ours[link] = (*aim.get(link, ()), f"switchport {group}")
    return {**aim, **ours}


def _is_of_pair(line: str) -> bool:
    return (_head(line) or line) in _OF_PAIR


def _pair_own_lines(wanted: MlagState) -> Iterator[str]:
    yield f"domain-id {wanted.domain}"
    yield f"local-interface Vlan{PEER_VLAN}"
    yield from [f"peer-address {wanted.peer}"] if wanted.peer else []
    yield f"peer-link {PEER_LINK}"
