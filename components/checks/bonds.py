"""Rules on bundles of switch ports, and on pairs of switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from components.checks.rule import Finding, at
from components.core.problem import Place, SpecPath
from components.fabric.bond_plan import pair_vlan
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.rail_subnets import link_of
from components.model.switch_ports import Bond, Mlag
from components.reading.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class _Placed:
    """A bundle and its place in the file."""

    switch: Switch
    name: str
    bond: Bond
    path: SpecPath

    @property
    def named(self) -> str:
        """For people."""
        return f"{self.name} of {self.switch.name}"

    @property
    def far(self) -> str:
        """The host or switch at the other end."""
        return self.bond.to.replace(":", "/").partition("/")[0]


def _list_bonds(spec: ClusterSpec) -> Iterator[_Placed]:
    for s, switch in enumerate(spec.switches):
        for name, bond in switch.bonds.items():
            yield _Placed(switch, name, bond, ("switches", s, "bonds", name))


def check_bond_port(spec: ClusterSpec) -> Iterator[Finding]:
    """A port is in one bundle, and never on an RDMA rail.

    The hash of a bundle, and not the rail, chooses the link of a packet, and a queue pair moves
    when a member fails (DeepOps RoCE guide). A bundle is for management or storage. What carries
    our own session stays out of it.
    """
    for s, switch in enumerate(spec.switches):
        head: SpecPath = ("switches", s)
        taken: dict[str, tuple[str, Place]] = {
            name: (f"leads to {port.to}", at((*head, "ports", name), port.to))
            for name, port in switch.ports.items()
        }
        if switch.inband is not None:
            place = at((*head, "inband", "port"), switch.inband.port)
            taken[switch.inband.port] = ("carries our own session", place)
        for name, port, path in _uses(s, switch):
            place = at((*path, "ports"), port)
            other = taken.setdefault(port, (f"is in {name}", place))
            if other[1] is not place:
                yield _twice(switch, port, name, (other, place))
            elif (rest := _same_cage(switch, port, taken)) is not None:
                what, there = taken[rest]
                yield Finding(
                    f"ports {port} and {rest} of {switch.name} are a whole port and a part of it: "
                    f"{port} is in {name}, and {rest} {what}.",
                    (place, there),
                    "use the whole port, or its parts only.",
                )
            elif (why := _why_no_port(switch, port)) is not None:
                yield Finding(why, (place,), "name ports that the switch has.")


def _uses(s: int, switch: Switch) -> Iterator[tuple[str, str, SpecPath]]:
    """Each bundle, the link of a pair too, with each of its ports and its place in the file."""
    for name, bond in switch.bonds.items():
        yield from ((name, port, ("switches", s, "bonds", name)) for port in bond.ports)
    if switch.mlag is not None:
        link = "the link of its pair"
        yield from ((link, port, ("switches", s, "mlag")) for port in switch.mlag.ports)


def _same_cage(switch: Switch, port: str, taken: Iterable[str]) -> str | None:
    """A port that is not there beside this one, since one of the two is a part of the other."""
    model = switch.hardware
    if model is None:
        return None
    wholes = {name: model.whole_port(switch.os, name) for name in taken}
    return next(
        (
            name
            for name in wholes
            if port != name and (wholes[port] == name or wholes[name] == port)
        ),
        None,
    )


def _twice(
    switch: Switch, port: str, name: str, places: tuple[tuple[str, Place], Place]
) -> Finding:
    (what, first), second = places
    is_rail = what.startswith("leads to") and "/" in what
    fix = "take the port out of one of them."
    if is_rail:
        fix = "take the port out of the bundle: each card of a rail has a port of its own."
    return Finding(f"port {port} of {switch.name} {what}, and is in {name}.", (second, first), fix)


def _why_no_port(switch: Switch, port: str) -> str | None:
    model = switch.hardware
    if model is None or model.has_port(switch.os, port):
        return None
    return f"{model.described} has no port {port}."


def check_bond(spec: ClusterSpec) -> Iterator[Finding]:
    """A bundle carries VLANs, of no rail, and leads to a host or a switch that is known.

    The bond of a host is the host's own: Railyard sets the cards under `nics` alone. A bundle
    between two switches of the file is written on both.
    """
    placed_at = {(each.switch.name, each.name): each for each in _list_bonds(spec)}
    for placed in _list_bonds(spec):
        if placed.switch.carries != "roce":
            yield Finding(
                f"{placed.named} is on an InfiniBand switch, which has no bundles.",
                (at(placed.path, placed.bond.to),),
                "remove it: InfiniBand uses several cables at once by its routes.",
            )
            continue
        yield from _vlans(spec, placed)
        yield from _far_end(spec, placed)
        yield from _other_end(spec, placed, placed_at)


def _vlans(spec: ClusterSpec, placed: _Placed) -> Iterator[Finding]:
    bond = placed.bond
    if not bond.vlans and bond.untagged is None:
        yield Finding(
            f"{placed.named} carries no VLAN.",
            (at((*placed.path, "vlans")),),
            "write vlans: [300], or untagged: 300 for an access port.",
        )
    if bond.untagged in bond.vlans:
        yield Finding(
            f"{placed.named} has VLAN {bond.untagged} tagged and untagged.",
            (at((*placed.path, "untagged"), bond.untagged),),
            "leave it in one of the two.",
        )
    for r, rail in enumerate(spec.rails):
        if rail.vlan in (*bond.vlans, bond.untagged):
            key = "untagged" if rail.vlan == bond.untagged else "vlans"
            yield Finding(
                f"{placed.named} carries VLAN {rail.vlan}, which is that of {rail.name}.",
                (at((*placed.path, key), rail.vlan), at(("rails", r, "vlan"), rail.vlan)),
                "take it out: an RDMA rail is in no bundle, and each of its cards has a port.",
            )


def _other_end(
    spec: ClusterSpec, placed: _Placed, placed_at: Mapping[tuple[str, str], _Placed]
) -> Iterator[Finding]:
    """The switch at the other end, where it is one of the file, names this one or its pair."""
    far, colon, name = placed.bond.to.partition(":")
    if not colon or all(switch.name != far for switch in spec.switches):
        return
    other, mlag = placed_at.get((far, name)), placed.switch.mlag
    back = other.bond.to.partition(":") if other else ("", "", "")
    is_pair = bool(placed.bond.mlag and mlag and back[0] == mlag.peer)
    if (back[0], back[2]) == (placed.switch.name, placed.name) or is_pair:
        return
    says = f"there leads to {other.bond.to}" if other else f"is no bundle of {far} in the file"
    yield Finding(
        f"{placed.named} leads to {name} of {far}, which {says}.",
        (
            at((*placed.path, "to"), placed.bond.to),
            *([at((*other.path, "to"), other.bond.to)] if other else []),
        ),
        f"write both ends: on {far} the bundle {name} as {placed.switch.name}:{placed.name}.",
    )


def _far_end(spec: ClusterSpec, placed: _Placed) -> Iterator[Finding]:
    is_host = "/" in placed.bond.to
    kind, form = ("host", "<host>/<its bond>") if is_host else ("switch", "<switch>:<its bond>")
    switches = [each.name for each in (*spec.switches, *spec.other_switches)]
    known = [host.name for host in spec.hosts] if is_host else switches
    if placed.far not in known:
        more = "" if is_host else "; a switch of another network is under other_switches"
        yield Finding(
            f"{placed.named} leads to {kind} {placed.far!r}, which is not there."
            f"{did_you_mean(placed.far, known)}",
            (at((*placed.path, "to"), placed.bond.to),),
            f"name a {kind} of the file, as {form}{more}.",
        )


def check_mlag(spec: ClusterSpec) -> Iterator[Finding]:
    """A pair is two equal switches that name each other, with one address and the same bundles.

    A bundle that one of them numbers and the other does not, or whose VLANs differ, is shut by
    the switches (`protodown`), or loses packets when a cable fails.
    """
    at_place = {switch.name: (s, switch) for s, switch in enumerate(spec.switches)}
    for s, switch in enumerate(spec.switches):
        path: SpecPath = ("switches", s, "mlag")
        numbered = {bond.mlag: name for name, bond in switch.bonds.items() if bond.mlag}
        if switch.mlag is None:
            for number, name in numbered.items():
                yield Finding(
                    f"{name} of {switch.name} has the number {number}, and {switch.name} is half "
                    "of no pair.",
                    (at(("switches", s, "bonds", name, "mlag"), number),),
                    "add mlag: {peer: …, ports: […], mac: …} to both switches (EOS: address in "
                    "place of mac), or remove the number.",
                )
            continue
        yield from _pair_vlan(spec, s, switch)
        found = at_place.get(switch.mlag.peer)
        if found is None or found[1].mlag is None or found[1].mlag.peer != switch.name:
            yield Finding(
                f"{switch.name} is a pair with {switch.mlag.peer}, which "
                f"{'is no switch of the file' if found is None else 'does not say so'}."
                f"{'' if found else did_you_mean(switch.mlag.peer, [*at_place])}",
                (at((*path, "peer"), switch.mlag.peer),),
                f"write mlag: {{peer: {switch.name}, …}} on the other switch of the pair.",
            )
        elif found[0] > s:
            yield from _differing(spec, (s, switch), found)


def _differing(
    spec: ClusterSpec, one: tuple[int, Switch], other: tuple[int, Switch]
) -> Iterator[Finding]:
    (s, first), (o, second) = one, other
    pair = f"{first.name} and {second.name}"
    if first.mlag is None or second.mlag is None:
        return
    for key, ours, theirs in (
        ("mlag.mac", first.mlag.mac, second.mlag.mac),
        ("os", first.os, second.os),
        ("model", first.model, second.model),
        ("release", first.release, second.release),
    ):
        if ours != theirs and None not in {ours, theirs}:  # `bond-system` tells a missing mac
            keys = key.split(".")
            yield Finding(
                f"{pair} are a pair, and their {keys[-1]} is {ours} and {theirs}.",
                (at(("switches", s, *keys), ours), at(("switches", o, *keys), theirs)),
                f"give both the same {keys[-1]}.",
            )
    yield from _differing_bundles(one, other)
    yield from _addresses((s, first.mlag), (o, second.mlag), pair)
    macs = {switch.mlag.mac: switch.name for switch in spec.switches if switch.mlag is not None}
    if first.mlag.mac and macs.get(first.mlag.mac) not in {first.name, second.name}:
        yield Finding(
            f"{pair} have the address {first.mlag.mac}, which {macs[first.mlag.mac]} has too.",
            (at(("switches", s, "mlag", "mac"), first.mlag.mac),),
            "give each pair an address of its own.",
        )


def _addresses(one: tuple[int, Mlag], other: tuple[int, Mlag], pair: str) -> Iterator[Finding]:
    """The two addresses on the link between the switches, where they have some."""
    (s, first), (o, second) = one, other
    if first.address is None or second.address is None:
        return
    wanted = link_of(first.address)[1]
    if second.address != wanted:
        yield Finding(
            f"{pair} are a pair, and {first.address} and {second.address} are not the two "
            "addresses of one /31.",
            (
                at(("switches", s, "mlag", "address"), str(first.address)),
                at(("switches", o, "mlag", "address"), str(second.address)),
            ),
            f"write address: {wanted} on the other switch.",
        )


def _pair_vlan(spec: ClusterSpec, s: int, switch: Switch) -> Iterator[Finding]:
    """The VLAN in which a pair speaks is no other's: spanning tree is off there."""
    vlan, head = pair_vlan(switch), ("switches", s, "bonds")
    if vlan is None:
        return
    places = [
        at((*head, name, "vlans" if vlan in bond.vlans else "untagged"), vlan)
        for name, bond in switch.bonds.items()
        if vlan in (*bond.vlans, bond.untagged)
    ]
    places += [
        at(("switches", s, "ports", name, "untagged"), vlan)
        for name, port in switch.ports.items()
        if port.untagged == vlan
    ]
    places += [
        at(("rails", r, "vlan"), vlan) for r, each in enumerate(spec.rails) if each.vlan == vlan
    ]
    if places:
        yield Finding(
            f"{switch.name} speaks with the other switch of its pair in VLAN {vlan}, which carries "
            "something else too.",
            (places[0],),
            "use another VLAN there.",
        )


def _differing_bundles(one: tuple[int, Switch], other: tuple[int, Switch]) -> Iterator[Finding]:
    (s, first), (o, second) = one, other
    mine, others = _by_number(first), _by_number(second)
    for number in sorted({*mine, *others}):
        ours, theirs = mine.get(number), others.get(number)
        if ours is None or theirs is None:
            held, place, lacking = (first, s, second) if ours else (second, o, first)
            name = (ours or theirs or ("", None))[0]
            yield Finding(
                f"{name} of {held.name} has the number {number}, and {lacking.name} has no bundle "
                "of that number.",
                (at(("switches", place, "bonds", name, "mlag"), number),),
                f"add the bundle to {lacking.name}, or remove the number.",
            )
        elif (ours[1].vlans, ours[1].untagged) != (theirs[1].vlans, theirs[1].untagged):
            yield Finding(
                f"the bundles of number {number} on {first.name} and {second.name} carry different "
                "VLANs.",
                (
                    at(("switches", s, "bonds", ours[0], "vlans")),
                    at(("switches", o, "bonds", theirs[0], "vlans")),
                ),
                "write the same vlans and untagged on both switches.",
            )


def _by_number(switch: Switch) -> dict[int, tuple[str, Bond]]:
    return {bond.mlag: (name, bond) for name, bond in switch.bonds.items() if bond.mlag}
