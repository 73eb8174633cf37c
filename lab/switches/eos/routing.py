"""Routing: the effect of its lines, their printed form, and the resulting view for packets.

Lines: configurations of aristanetworks/avd, captures of cEOS and vEOS (sources.md#eos). If no
source shows the words of a refusal, they are marked as a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from typing import Final

from lab.switches.command_line import (
    CliError,
    Handler,
    Lines,
    Row,
    assign,
    commands_of,
    flag,
    forget,
    keyed_commands,
    lines_of,
    rows_of,
    table,
)
from lab.switches.eos.config import (
    INVALID,
    MAX_PATHS,
    Bgp,
    Config,
    Forwarding,
    Group,
    Interface,
    Neighbor,
    Place,
    Routing,
    entering,
    indent,
    port_name,
    port_order,
    within,
)
from lab.views import BfdView, RouterView

_MAX_ASN: Final = 4_294_967_295
_FAMILY_NAME: Final = "address-family ipv4"


def _forward(form: Forwarding) -> Handler:
    return assign(lambda place: place.config.routing, "forwarding", form)


def _interface(place: Place, name: str) -> None:
    place.enter("svi", name.capitalize())
    place.config.routing.interfaces.setdefault(name.capitalize(), Interface())


def _router(place: Place, text: str) -> None:
    asn, held = within(text, 1, _MAX_ASN), place.config.routing.bgp
    if held is not None and held.asn != asn:
        raise CliError(f"% BGP is already running with AS number {held.asn}")
    place.config.routing.bgp = held or Bgp(asn=asn)
    place.enter("router")


def _no_router(place: Place, text: str) -> None:
    held = place.config.routing.bgp
    if held is None or held.asn != int(text):
        raise CliError("% BGP is not running with this AS number")  # a guess
    place.config.routing.bgp = None


GLOBAL: Final = (
    ("ip routing", _forward("ipv4")),
    ("no ip routing", _forward("off")),
    ("ip routing ipv6 interfaces", _forward("ipv6 interfaces")),
    # Plain IPv4 stays on: a guess, on which the driver does not depend.
    ("no ip routing ipv6 interfaces", _forward("ipv4")),
    *commands_of(rows_of(Routing), lambda place: place.config.routing),
    ("interface <svi>", _interface),
    ("no interface <svi>", forget(lambda place: place.config.routing.interfaces, str.capitalize)),
    ("router bgp <int>", _router),
    ("no router bgp <int>", _no_router),
)


def _no_address(place: Place, text: str) -> None:
    held = place.held_interface()
    held.address = None if held.address == text else held.address


NO_ADDRESS: Final = ("no ip address <word>", _no_address)


def _of_vlan(place: Place) -> Interface:
    if not place.inside("svi").startswith("Vlan"):
        raise CliError(INVALID)
    return place.config.routing.interfaces[place.inside("svi")]


_AUTOSTATE = flag("autostate", "autostate")
_ANY = [row for row in rows_of(Interface) if row != _AUTOSTATE]
ROUTED: Final = table(
    (*commands_of(_ANY, Place.held_interface), *commands_of((_AUTOSTATE,), _of_vlan), NO_ADDRESS)
)


def _add_group(place: Place, name: str) -> None:
    place.held_bgp().groups.setdefault(name, Group())


def _no_group(place: Place, name: str) -> None:
    """Remove a group and its neighbours: a guess, on which the driver does not depend."""
    bgp = place.held_bgp()
    bgp.groups.pop(name, None)
    bgp.ports = {port: held for port, held in bgp.ports.items() if held[0] != name}


def _peers(place: Place, name: str, *, on: bool) -> Group | Neighbor | None:
    """Find a neighbour or a group; only a `no` line may name an unknown one."""
    bgp = place.held_bgp()
    found = bgp.addresses.get(name) or bgp.groups.get(name)
    if found is None and on:
        raise CliError(f"% Peer group {name} does not exist")  # a guess
    return found


def _described(place: Place, name: str, *, on: bool) -> Neighbor | None:
    found = place.held_bgp().addresses.get(name)
    if found is None and on:
        raise CliError(INVALID)  # a guess: peer groups are not modelled with one
    return found


def _peer(place: Place, port: str, group: str, asn: str) -> None:
    name = place.known_port(port)
    _peers(place, group, on=True)
    place.held_bgp().ports[name] = (group, within(asn, 1, _MAX_ASN))


def _neighbor(place: Place, address: str, asn: str) -> None:
    if not re.fullmatch(r"\d+(\.\d+){3}", address):
        raise CliError(INVALID)
    found = place.held_bgp().addresses.setdefault(address, Neighbor(asn=1))
    found.asn = within(asn, 1, _MAX_ASN)


def _paths(place: Place, text: str, _ecmp: str) -> None:
    place.held_bgp().max_paths = within(text, 1, MAX_PATHS)


def _network(place: Place, text: str) -> None:
    try:
        name = str(IPv4Network(text))
    except ValueError:
        raise CliError(INVALID) from None
    place.held_bgp().networks = sorted({*place.held_bgp().networks, name}, key=IPv4Network)


def _no_network(place: Place, text: str) -> None:
    bgp = place.held_bgp()
    bgp.networks = [each for each in bgp.networks if each != text]


_PEER: Final = "neighbor <word> "
_SHUT, _DESCRIPTION, _BFD, _ = rows_of(Neighbor)
_IN_FAMILY: Final = rows_of(Group)[2:]
_NETWORKS: Final = (("network <word>", _network), ("no network <word>", _no_network))
ROUTER: Final = table(
    (
        *commands_of(rows_of(Bgp), Place.held_bgp),
        ("maximum-paths <int> ecmp <int>", _paths),
        (f"{_PEER}peer group", _add_group),
        (f"no {_PEER}peer group", _no_group),
        *keyed_commands((_SHUT, _BFD), _peers, _PEER),
        ("neighbor interface <port> peer-group <word> remote-as <int>", _peer),
        ("no neighbor interface <port>", forget(lambda place: place.held_bgp().ports, port_name)),
        (f"{_PEER}remote-as <int>", _neighbor),
        *keyed_commands((_DESCRIPTION,), _described, _PEER),
        ("no neighbor <word>", forget(lambda place: place.held_bgp().addresses)),
        *_NETWORKS,
        (_FAMILY_NAME, entering("family")),
    )
)
FAMILY: Final = table((*keyed_commands(_IN_FAMILY, _peers, _PEER), *_NETWORKS))


def svi_lines(config: Config, kind: str) -> Iterator[str]:
    """The interfaces of one kind, `Loopback` or `Vlan`."""
    named = config.routing.interfaces.items()
    for name, held in sorted(named, key=lambda each: int(re.sub(r"\D", "", each[0]))):
        if name.startswith(kind):
            yield from (f"interface {name}", *indent(lines_of(rows_of(Interface), held)), "!")


def global_lines(config: Config) -> Iterator[str]:
    """Forwarding and BGP, at the end of a configuration."""
    routing = config.routing
    if routing.forwarding != "off":
        rest = "" if routing.forwarding == "ipv4" else f" {routing.forwarding}"
        yield from (f"ip routing{rest}", "!")
    for line in lines_of(rows_of(Routing), routing):
        yield from (line, "!")
    if routing.bgp is not None:
        lines = indent(_router_lines(routing.bgp))
        yield from (f"router bgp {routing.bgp.asn}", *lines, "!")


def _router_lines(bgp: Bgp) -> Iterator[str]:
    yield from lines_of(rows_of(Bgp), bgp)
    groups, addresses = sorted(bgp.groups.items()), sorted(bgp.addresses.items())
    for name, group in groups:
        yield f"neighbor {name} peer group"
        yield from _lines_of_peer(name, group, rows_of(Group)[:2])
    for name, peer in addresses:
        yield f"neighbor {name} remote-as {peer.asn}"
        yield from _lines_of_peer(name, peer, (_SHUT, _DESCRIPTION, _BFD))
    for port, (group, asn) in sorted(bgp.ports.items(), key=lambda each: port_order(each[0])):
        short = port.replace("Ethernet", "Et")  # as captures show it
        yield f"neighbor interface {short} peer-group {group} remote-as {asn}"
    inner = [
        *(line for name, held in groups for line in _lines_of_peer(name, held, _IN_FAMILY)),
        *(line for name, held in addresses for line in _lines_of_peer(name, held, _IN_FAMILY[:1])),
        *(f"network {network}" for network in bgp.networks),
    ]
    if inner:
        yield from ("!", _FAMILY_NAME, *indent(inner))


def _lines_of_peer(name: str, held: Group | Neighbor, rows: Iterable[Row | Lines]) -> Iterator[str]:
    return (f"neighbor {name} {line}" for line in lines_of(rows, held))


def router_view(switch: str, config: Config) -> RouterView:
    """The routing that packets see: without configuration, the switch routes nothing.

    The interface of a missing VLAN stays down. A session needs the link-local address of its port,
    and a group that carries IPv4.
    """
    routing, bgp = config.routing, config.routing.bgp or Bgp(asn=0)
    routes = routing.forwarding != "off"
    interfaces = {
        name.lower().replace("loopback0", "lo"): held
        for name, held in routing.interfaces.items()
        if not held.shutdown and _is_up(config, name)
    }
    interfaces |= {name: port for name, port in config.ports.items() if port.routed}
    over_ports = routing.forwarding == "ipv6 interfaces" and routing.ipv6
    return RouterView(
        switch=switch,
        addresses={n: (each.address,) for n, each in interfaces.items() if each.address and routes},
        asn=bgp.asn if bgp.asn and routes else None,
        neighbors={**(dict(_sessions(config, bgp)) if over_ports else {}), **_addressed(bgp)},
        networks=tuple(bgp.networks),
        max_paths=bgp.max_paths,
        drained=config.quiesced,
        bfd=dict.fromkeys(_watched(bgp), BfdView()),
    )


def _watched(bgp: Bgp) -> Iterator[str]:
    yield from (name for name, (group, _) in bgp.ports.items() if bgp.groups[group].bfd)
    yield from (name for name, peer in bgp.addresses.items() if peer.bfd)


def _is_up(config: Config, name: str) -> bool:
    vlan = name.removeprefix("Vlan")
    return not vlan.isdigit() or int(vlan) in config.vlans


def _addressed(bgp: Bgp) -> dict[str, str]:
    return {
        address: str(peer.asn)
        for address, peer in bgp.addresses.items()
        if not peer.shutdown and (bgp.carries or peer.active)
    }


def _sessions(config: Config, bgp: Bgp) -> Iterator[tuple[str, str]]:
    for name, (group, number) in bgp.ports.items():
        held, port = bgp.groups[group], config.ports[name]
        carries = held.active and held.over_ipv6 and not held.shutdown
        if carries and port.routed and port.ipv6:
            yield name, str(number)
