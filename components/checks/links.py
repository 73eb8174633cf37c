"""Rules on the links between switches: both ends say the same, and no frame goes in circles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.checks.rule import Finding, at
from components.checks.topology import PlacedPort, list_all_ports, list_link_ports
from components.core.problem import Place
from components.fabric.marking import link_speed
from components.fabric.splits import part_speeds
from components.model.cluster import ClusterSpec
from components.model.switch_ports import LinkSettings
from components.reading.wording import did_you_mean, show_value


def check_link_ends(spec: ClusterSpec) -> Iterator[Finding]:
    """Each end of a link between switches is named by the other end.

    A link of which the file has one end only would get VLANs, MTU and queues on one side. A port
    that two others name is plugged twice.
    """
    ends = {(port.switch.name, port.name): port for port in list_link_ports(spec)}
    broken = {key: port for key, port in ends.items() if not _is_answered(key, port, ends)}
    seen: set[tuple[str, str]] = set()
    # `switch-transport` reports a switch of the other transport.
    other_kind = {each.name for each in spec.switches if each.carries != "roce"}
    # First those whose other end is not broken itself: the others may only be their far ends.
    for key in sorted(broken, key=lambda key: broken[key].port.peer in broken):
        port, peer = broken[key], broken[key].port.peer or ("", "")
        if peer in seen or peer[0] in other_kind:
            continue
        seen.add(key)
        other = ends.get(peer)
        yield Finding(
            f"port {port.name} of {port.switch.name} is a link to {port.port.to}, and "
            f"{_why_no_end(spec, port)}",
            tuple(dict.fromkeys(at(end.path, end.port.to) for end in (port, other) if end)),
            _end_fix(spec, port),
        )


def _end_fix(spec: ClusterSpec, port: PlacedPort) -> str:
    name, far = port.port.peer or ("", "")
    if name == port.switch.name:
        return "name the switch and the port at the other end of the cable."
    if all(switch.name != name for switch in spec.switches):
        return "correct the name of the switch, as <switch>:<port>."
    return f"write both ends: on {name} the port {far} as {port.switch.name}:{port.name}."


def _is_answered(
    key: tuple[str, str], port: PlacedPort, ends: Mapping[tuple[str, str], PlacedPort]
) -> bool:
    other = ends.get(port.port.peer or ("", ""))
    return other is not None and other is not port and other.port.peer == key


def _why_no_end(spec: ClusterSpec, port: PlacedPort) -> str:
    switches = [switch.name for switch in spec.switches]
    name, far = port.port.peer or ("", "")
    switch = next((each for each in spec.switches if each.name == name), None)
    if name == port.switch.name:
        return "that is the switch itself."
    if switch is None:
        return f"there is no switch {name!r}.{did_you_mean(name, switches)}"
    if far not in switch.ports:
        return f"{name} has no port {far} in the file."
    return f"{name} says that {switch.ports[far].to} is plugged in there."


def check_link_form(spec: ClusterSpec) -> Iterator[Finding]:
    """A link between switches is a trunk of rails or routed; a port to a host carries one rail.

    `vlan` is one host's exception, and `rails` are those of a trunk. A routed port is in no VLAN.
    """
    rails = [rail.name for rail in spec.rails]
    for port in list_all_ports(spec):
        is_link = port.port.peer is not None
        named = f"port {port.name} of {port.switch.name}"
        if is_link and port.port.mode == "access":
            yield _misplaced(
                port, "mode", f"{named} is a link, and an access port carries one rail"
            )
        if is_link and port.port.vlan is not None:
            yield _misplaced(port, "vlan", f"{named} is a link, which carries rails, not a VLAN")
        if not is_link and port.port.mode == "routed" and port.port.vlan is not None:
            yield _misplaced(port, "vlan", f"{named} is routed, and is in no VLAN")
        if port.port.rails is not None and (not is_link or port.port.mode == "routed"):
            kind = "is routed" if is_link else "leads to a host"
            yield _misplaced(port, "rails", f"{named} {kind}, and rails are those of a trunk")
        for rail in port.port.rails or ():
            if rail not in rails:
                hint = did_you_mean(rail, rails)
                yield _misplaced(port, "rails", f"{named} carries {rail!r}, which is no rail", hint)


def _misplaced(port: PlacedPort, key: str, what: str, hint: str = "") -> Finding:
    return Finding(
        f"{what}.{hint}",
        (at((*port.path, key), getattr(port.port, key)),),
        f"write {{to: {port.port.to}, mode: trunk}}, with rails if it is not to carry all of them, "
        "or mode: routed on a link."
        if port.port.peer
        else f"remove {key}.",
    )


def check_link_match(spec: ClusterSpec) -> Iterator[Finding]:
    """Both ends of a link have the same mode, MTU and rails, and run at the same.

    A trunk against a routed port carries nothing. The smaller MTU drops the large packets of the
    other side silently, and a rail that one end does not carry ends there. A part of a split port
    has no link with a faster or slower part; a whole port has one where its module is as slow. Two
    ends have no link with unlike speed or error correction, and none where one of them negotiates
    and the other does not; where one end says nothing of it, its switch may choose alike.
    """
    for one, other in list_pairs(spec):
        yield from _speeds(one, other)
        yield from _settings(one, other)
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
            yield Finding(
                f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name} "
                f"has {key} {_shown(ours)} at one end and {_shown(theirs)} at the other.",
                (at((*one.path, key), ours), at((*other.path, key), theirs)),
                f"write the same {key} at both ends.",
            )


def _speeds(one: PlacedPort, other: PlacedPort) -> Iterator[Finding]:
    """A part of a split port, or a port whose speed is set, and what it leads to."""
    ends = (one, other)
    said = [end.switch.link_of(end.name).speed_gbit_s is not None for end in ends]
    parts = [end.name in part_speeds(end.switch) for end in ends]
    if any(said) and not any(parts):
        parts = said
    ours, theirs = (link_speed(end.switch, end.name) for end in ends)
    if not any(parts) or 0 in {ours, theirs} or ours == theirs:
        return
    if all(said):
        return  # `_settings` says it
    is_stuck = parts[ours < theirs]  # the faster end is a part
    if any(said):
        yield Finding(
            f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name} is "
            f"set to {(ours, theirs)[said[1]]} Gbit/s at one end, and the other is left at "
            f"{(theirs, ours)[said[1]]}.",
            tuple(at(end.path, end.port.to) for end in ends),
            "write the same speed_gbit_s at both ends.",
            "error" if is_stuck else "warning",
        )
        return
    yield Finding(
        f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name} has "
        f"{ours} Gbit/s at one end and {theirs} at the other.",
        tuple(at(end.path, end.port.to) for end in ends),
        "split the ports at both ends alike, or neither."
        if is_stuck
        else "split the ports at both ends alike, or neither; where the module of the whole port "
        "is as slow as the part, waive the rule with that reason.",
        "error" if is_stuck else "warning",
    )


def _settings(one: PlacedPort, other: PlacedPort) -> Iterator[Finding]:
    """What both ends set, and not alike."""
    ours, theirs = (end.switch.link_of(end.name) for end in (one, other))
    for key in LinkSettings.model_fields:
        values = [getattr(each, key) for each in (ours, theirs)]
        if None in values or values[0] == values[1]:
            continue
        yield Finding(
            f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name} has "
            f"{key} {show_value(values[0])} at one end and {show_value(values[1])} at the other.",
            (link_place(one, key), link_place(other, key)),
            f"write the same {key} at both ends.",
        )


def link_place(port: PlacedPort, key: str) -> Place:
    """Where the file says what a link runs at: at the port, or once for all of them."""
    own = getattr(port.port, key)
    if own is not None:
        return at((*port.path, key), own)
    return at((*port.path[:2], "links", key), getattr(port.switch.links, key))


def _shown(value: str | int | tuple[str, ...] | None) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "all" if value is None else str(value)


def list_pairs(spec: ClusterSpec) -> Iterator[tuple[PlacedPort, PlacedPort]]:
    """Every pair of ends that name each other, once, in the order of the file."""
    ends = {(port.switch.name, port.name): port for port in list_link_ports(spec)}
    seen: set[tuple[str, str]] = set()
    for key, port in ends.items():
        other = ends.get(port.port.peer or ("", ""))
        if other is None or other.port.peer != key or key in seen or other is port:
            continue
        seen.add((other.switch.name, other.name))
        yield port, other
