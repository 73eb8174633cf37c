"""Rules on links between switches: both ends agree, and frames cannot loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from components.checks.rule import Finding, Findings, Here, at, find, walk
from components.checks.topology import PlacedPort, list_all_ports, list_cables, list_link_ports
from components.core.judge import needs
from components.core.problem import Place
from components.fabric.links import list_links
from components.fabric.ports import link_speed, part_speeds, speeds_of, splits_by_speed, splits_of
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.switch_models import Fec, LinkSettings
from components.reading.wording import did_you_mean, show_value

ALWAYS_RS_GBIT_S: Final = 200
"""200 and 400 Gbit/s have Reed-Solomon on each kind of lane (IEEE 802.3bs, clause 119), and 800
Gbit/s has it too (802.3df)."""
PAM4_LANE_GBIT_S: Final = 50
"""Lanes that carry two bits a symbol have Reed-Solomon alone (802.3cd, clauses 134 and 91)."""
NRZ_LANE_GBIT_S: Final = 25
"""Reed-Solomon by 802.3by (clause 108) and 802.3bj (clause 91)."""
FIRE_CODE_GBIT_S: Final = (25, 50)
"""Speeds on lanes of 25 Gbit/s that also support Fire code: 802.3by, and the 25G Ethernet
Consortium for two lanes. 100 Gbit/s on four lanes does not."""
_ALL: Final[tuple[Fec, ...]] = ("rs", "fc", "none")


@needs("switches")
def check_link_ends(spec: ClusterSpec) -> Findings:
    """Each end of a link between switches is named by the other end.

    A link with only one end in the file would get VLANs, MTU and queues on one side. If two ports
    name the same far end, one of them is wrong.
    """
    ends = {(port.switch.name, port.name): port for port in list_link_ports(spec)}
    answered = {end.path for pair in _list_pairs(spec) for end in pair}
    broken = {key: port for key, port in ends.items() if port.path not in answered}
    seen: set[tuple[str, str]] = set()
    ports = {switch.name: switch.ports for switch in spec.switches}
    # `switch-transport` reports a switch of the other transport.
    other_kind = {each.name for each in spec.switches if each.carries != "roce"}
    # Report ends with a sound other end first: the others may only be their far ends.
    for key in sorted(broken, key=lambda key: broken[key].port.peer in broken):
        port, peer = broken[key], broken[key].port.peer or ("", "")
        if peer in seen or peer[0] in other_kind:
            continue
        seen.add(key)
        other, (name, far) = ends.get(peer), peer
        fix = f"write both ends: on {name} the port {far} as {port.switch.name}:{port.name}."
        if name == port.switch.name:
            why = "this is the switch itself."
            fix = "name the switch and the port at the other end of the cable."
        elif name not in ports:
            why = f"the file lacks a switch {name!r}.{did_you_mean(name, [*ports])}"
            fix = "correct the name of the switch, as <switch>:<port>."
        elif far not in ports[name]:
            why = f"{name} lacks port {far} in the file."
        else:
            why = f"{name} names {ports[name][far].to} there."
        where = tuple(dict.fromkeys(end.place for end in (port, other) if end))
        yield Finding(f"{port} is a link to {port.port.to}, but {why}", where, fix)


@needs("rails")
def check_link_form(spec: ClusterSpec) -> Findings:
    """A link between switches is a trunk of rails or routed; a port to a host carries one rail.

    A routed port is in no VLAN.
    """
    rails = [rail.name for rail in spec.rails]
    for port in list_all_ports(spec):
        is_link, own = port.port.peer is not None, port.port
        routed, wrong = own.mode == "routed", list[tuple[str, str]]()
        if is_link and own.mode == "access":
            wrong += [("mode", "is a link, but an access port carries one rail.")]
        if own.vlan is not None and (is_link or routed):
            carries = "a link, so it carries rails, not a VLAN."
            wrong += [("vlan", f"is {carries if is_link else 'routed, so it has no VLAN.'}")]
        if own.rails is not None and (not is_link or routed):
            kind = "is routed" if is_link else "leads to a host"
            wrong += [("rails", f"{kind}, but rails are those of a trunk.")]
        for rail in [rail for rail in own.rails or () if rail not in rails]:
            hint = did_you_mean(rail, rails)
            wrong += [("rails", f"carries {rail!r}, but the file lacks that rail.{hint}")]
        trunk = f"write {{to: {own.to}, mode: trunk}}, with rails for some of them, or mode: "
        for key, why in wrong:
            fix = f"{trunk}routed." if own.peer else f"remove {key}."
            yield Finding(f"{port} {why}", (at((*port.path, key), getattr(own, key)),), fix)


def check_link_match(spec: ClusterSpec) -> Findings:
    """Both ends of a link have the same mode, MTU, rails and link settings.

    A part of a split port gets no link with a faster or slower part; a whole port gets one if its
    module is as slow. Ends with different speeds, error corrections or negotiation get no link; an
    end without a setting may choose a matching one.
    """
    for one, other in _list_pairs(spec):
        yield from _speeds(one, other)
        for key in LinkSettings.model_fields:
            ours, theirs = (getattr(end.switch.link_of(end.name), key) for end in (one, other))
            if None not in (ours, theirs) and ours != theirs:
                where = (_link_place(one, key), _link_place(other, key))
                yield _unlike(one, other, key, (show_value(ours), show_value(theirs)), where)
        default, mode_differs = spec.rdma.port_mtu_bytes, False
        for key, ours, theirs in (
            ("mode", one.port.mode, other.port.mode),
            ("mtu_bytes", one.port.mtu_bytes or default, other.port.mtu_bytes or default),
            ("rails", one.port.rails, other.port.rails),
        ):
            if ours == theirs:
                continue
            if "access" in {one.port.mode, other.port.mode} or (key == "rails" and mode_differs):
                continue  # `link-form` reports it; rails are those of trunks
            mode_differs = key == "mode"
            where = (at((*one.path, key), ours), at((*other.path, key), theirs))
            yield _unlike(one, other, key, (_shown(ours), _shown(theirs)), where)


def _named(one: PlacedPort, other: PlacedPort) -> str:
    return f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name}"


def _unlike(
    one: PlacedPort, other: PlacedPort, key: str, values: Sequence[str], where: tuple[Place, ...]
) -> Finding:
    what = f"{_named(one, other)} has {key} {values[0]} at one end and {values[1]} at the other."
    return Finding(what, where, f"write the same {key} at both ends.")


def _speeds(one: PlacedPort, other: PlacedPort) -> Findings:
    """Compare a part of a split port, or a port with a set speed, with its other end."""
    ends = (one, other)
    said = [end.switch.link_of(end.name).speed_gbit_s is not None for end in ends]
    parts = [end.name in part_speeds(end.switch) for end in ends]
    parts = said if any(said) and not any(parts) else parts
    ours, theirs = (link_speed(end.switch, end.name) for end in ends)
    if not any(parts) or 0 in {ours, theirs} or ours == theirs or all(said):
        return  # `_unlike` reports two set speeds
    is_stuck = parts[ours < theirs]  # whether the faster end is a part
    what = f"has {ours} Gbit/s at one end and {theirs} at the other."
    fix = "split the ports at both ends alike, or neither"
    slow = "; if the whole port's module is as slow as the part, waive the rule."
    fix += "." if is_stuck else slow
    if any(said):
        set_to, left_at = (theirs, ours) if said[1] else (ours, theirs)
        what = f"is set to {set_to} Gbit/s at one end, but the other stays at {left_at}."
        fix = "write the same speed_gbit_s at both ends."
    where, severity = (one.place, other.place), "error" if is_stuck else "warning"
    yield Finding(f"{_named(one, other)} {what}", where, fix, severity)


def _link_place(port: PlacedPort, key: str) -> Place:
    """The place of a link setting in the file: at the port, or once for all ports."""
    own = port.at(key)[0]
    above = Here(port.switch.links, (*port.path[:2], "links"))
    return own if own.value is not None else above(key)[0]


def _shown(value: str | int | tuple[str, ...] | None) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "all" if value is None else str(value)


def _list_pairs(spec: ClusterSpec) -> list[tuple[PlacedPort, PlacedPort]]:
    """Return every pair of ends that name each other, once, in the order of the file."""
    ends = {(port.switch.name, port.name): port for port in list_link_ports(spec)}
    pairs = [(link.one.key, link.other.key) for link in list_links(spec)]
    return [(ends[one], ends[other]) for one, other in pairs if one in ends and other in ends]


def check_link_setting(spec: ClusterSpec) -> Findings:
    """A port runs only at settings that it, its system and its card support.

    Lanes of 50 Gbit/s and more get no link without Reed-Solomon (IEEE 802.3bs, 802.3cd). A card
    slower than the set speed of its port gets no link. EOS sets auto-negotiation together with the
    speed, and the speed together with its lanes.
    """
    # `ib-port` reports single InfiniBand ports.
    for switch, here in walk(spec, "switches.*", Switch):
        form = system_of(switch.os).links
        if switch.carries != "roce" and switch.links != LinkSettings() and isinstance(form, str):
            what = f"links of {switch.name} cannot be set on {system_of(switch.os).title}: {form}."
            yield Finding(what, here("links", "os"), "remove links.")
    for port in list_all_ports(spec):
        said = port.switch.link_of(port.name)
        if said != LinkSettings():
            yield from _port(port, said)
    for cable in list_cables(spec):
        nic, speed = cable.nic.nic, cable.port.switch.link_of(cable.port.name).speed_gbit_s
        able = link_speed(cable.port.switch, cable.port.name) == speed
        if speed is not None and able and nic.speed_gbit_s < speed:
            where = (*cable.nic.at("speed_gbit_s"), _link_place(cable.port, "speed_gbit_s"))
            yield find("link-setting-card", *where, cable=cable, nic=nic, speed=speed)


def _port(port: PlacedPort, said: LinkSettings) -> Findings:
    system, keys = system_of(port.switch.os), [key for key, value in said if value is not None]
    form, title, named = system.links, system.title, " and ".join(keys)
    if isinstance(form, str):
        where = _where(port, *keys)
        yield find("link-setting-system", *where, named=named, port=port, title=title, form=form)
        return
    if said.autoneg is not None and said.speed_gbit_s is None and form.by_lanes:
        yield find("link-setting-autoneg", *_where(port, "autoneg"), title=title, port=port)
    # A speed that the port lacks; else error correction that the speed excludes.
    known, model = speeds_of(port.switch, port.name), port.switch.hardware
    split = any(port.name in each.parts for each in splits_of(port.switch).values())
    if not known or model is None:
        return  # `switch-model` and `port-capability` name the cause
    speed = said.speed_gbit_s or max(known)
    able = fecs_of(speed, known.get(speed))
    if said.speed_gbit_s is not None and said.speed_gbit_s not in known:
        has = "its part" if split else f"a port of {model.described}"
        lanes = " on known lanes" if splits_by_speed(system_of(port.switch.os)) else ""
        what = f"{port} is set to {speed} Gbit/s, but {has} has {_listed(known)}{lanes}."
        fix = f"set speed_gbit_s to {_listed(known, 'or')}, or remove it."
        yield Finding(what, _where(port, "speed_gbit_s"), fix)
    elif said.fec is not None and said.fec not in able:
        where = _where(port, "fec", *(["speed_gbit_s"] if said.speed_gbit_s else []))
        fix = f"set fec to {' or '.join(able)}, or remove it."
        yield Finding(f"{port} cannot run at {speed} Gbit/s with fec {said.fec}.", where, fix)


def _where(port: PlacedPort, *keys: str) -> tuple[Place, ...]:
    """Return the port, for the count of ports, and the place of a setting for all ports."""
    places = tuple(_link_place(port, key) for key in keys)
    own = any(place.path[:4] == port.path for place in places)
    return places if own else (port.place, *places)


def _listed(speeds: Iterable[int], word: str = "and") -> str:
    *most, last = [str(each) for each in sorted(speeds)]
    return f"{', '.join(most)} {word} {last}" if most else last


def fecs_of(speed_gbit_s: int, lanes: int | None) -> tuple[Fec, ...]:
    """Return the error corrections for a speed on so many lanes; None: unknown."""
    lane = speed_gbit_s / lanes if lanes else 0
    if speed_gbit_s >= ALWAYS_RS_GBIT_S or lane >= PAM4_LANE_GBIT_S:
        return ("rs",)
    if 0 < lane < NRZ_LANE_GBIT_S:
        return ("fc", "none")
    if lanes is None:
        return _ALL
    return _ALL if speed_gbit_s in FIRE_CODE_GBIT_S else ("rs", "none")


@needs("switches")
def check_link_loop(spec: ClusterSpec) -> Findings:
    """The trunks between switches form no loop.

    Spanning tree would block one link of each loop. Use routed links for several paths at once.
    """
    group = {switch.name: switch.name for switch in spec.switches}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for one, other in _list_pairs(spec):
        if "routed" in {one.port.mode, other.port.mode}:
            continue
        first, second = root(one.switch.name), root(other.switch.name)
        if first != second:
            group[second] = first
            continue
        fix = "remove one link of the loop, or make the links routed: mode: routed at both ends."
        oses = [end.switch.os for end in (one, other)]
        for os in [os for os in oses if isinstance(system_of(os).routing, str)][:1]:
            fix = f"remove one link of the loop: {system_of(os).title} cannot route."
        yield find("link-loop", one.place, other.place, link=_named(one, other), fix=fix)


def check_mlag_peer(spec: ClusterSpec) -> Findings:
    """Both switches of an MLAG pair name each other.

    Railyard then changes them in different waves.
    """
    peers = {switch.name: switch.mlag_peer for switch in spec.switches}
    for switch, here in walk(spec, "switches.*", Switch):
        peer, others = switch.mlag_peer, [name for name in peers if name != switch.name]
        if peer is None or (peer in others and peers[peer] == switch.name):
            continue
        if peer not in others:
            why = f"but the file lacks another switch of that name.{did_you_mean(peer, others)}"
            fix = "name the other switch of the pair, or remove mlag_peer."
        else:
            far = peers[peer]
            why = f"but {peer} {'lacks mlag_peer' if far is None else f'names {far}'}."
            fix = f"write mlag_peer: {switch.name} on {peer}, or correct it here."
        yield find("mlag-peer", *here("mlag_peer"), switch=switch, peer=peer, why=why, fix=fix)
