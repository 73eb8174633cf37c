"""Lines of routing: what each does to the configuration that is being edited.

Lines: configurations of aristanetworks/avd, captures of cEOS and vEOS (sources.md#eos).
Refusals whose words no source shows are marked as guesses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Interface, IPv4Network
from typing import Final

from lab.switches.eos.config import Port
from lab.switches.eos.configure import Place
from lab.switches.eos.grammar import INVALID, EosError, Handler, port_name, table, within
from lab.switches.eos.routed import Bgp, Forwarding, Group, Interface, Neighbor

_MAX_ASN: Final = 4_294_967_295
_MAX_PATHS: Final = 128
_LONGEST: Final = 31
"""Prefix length of a link with two ends (RFC 3021)."""


def _forward(form: Forwarding) -> Handler:
    def answer(place: Place) -> str:
        place.config.routing.forwarding = form
        return ""

    return answer


def _ipv6(*, on: bool) -> Handler:
    def answer(place: Place) -> str:
        place.config.routing.ipv6 = on
        return ""

    return answer


def _interface(place: Place, name: str) -> str:
    name = name.capitalize()
    place.config.routing.interfaces.setdefault(name, Interface())
    place.interface = name
    return ""


def _no_interface(place: Place, name: str) -> str:
    place.config.routing.interfaces.pop(name.capitalize(), None)
    return ""


def _router(place: Place, text: str) -> str:
    asn, held = within(text, 1, _MAX_ASN), place.config.routing.bgp
    if held is not None and held.asn != asn:
        raise EosError(f"% BGP is already running with AS number {held.asn}")
    place.config.routing.bgp = held or Bgp(asn=asn)
    place.router = True
    return ""


def _no_router(place: Place, text: str) -> str:
    held = place.config.routing.bgp
    if held is None or held.asn != int(text):
        raise EosError("% BGP is not running with this AS number")  # a guess
    place.config.routing.bgp = None
    return ""


GLOBAL: Final = table(
    (
        ("ip routing", _forward("ipv4")),
        ("no ip routing", _forward("off")),
        ("ip routing ipv6 interfaces", _forward("ipv6 interfaces")),
        # That plain IPv4 stays on is a guess, on which the driver does not depend.
        ("no ip routing ipv6 interfaces", _forward("ipv4")),
        ("ipv6 unicast-routing", _ipv6(on=True)),
        ("no ipv6 unicast-routing", _ipv6(on=False)),
        ("interface <svi>", _interface),
        ("no interface <svi>", _no_interface),
        ("router bgp <int>", _router),
        ("no router bgp <int>", _no_router),
    )
)


def _routed(place: Place) -> Interface | Port:
    if place.interface is not None:
        return place.config.routing.interfaces[place.interface]
    return place.held()


def _set(**values: object) -> Handler:
    def answer(place: Place) -> str:
        for key, value in values.items():
            setattr(_routed(place), key, value)
        return ""

    return answer


def _address(place: Place, text: str) -> str:
    try:
        address = IPv4Interface(text)
    except ValueError:
        raise EosError(INVALID) from None
    loopback = (place.interface or "").startswith("Loopback")
    if "/" not in text or (not loopback and address.network.prefixlen > _LONGEST):
        raise EosError(INVALID)  # a guess
    _routed(place).address = text
    return ""


def _no_address(place: Place, text: str = "") -> str:
    held = _routed(place)
    if text in {"", held.address}:
        held.address = None
    return ""


def _mtu(place: Place, text: str) -> str:
    return _set(mtu=within(text, 68, 65535))(place)


def _described(place: Place, text: str) -> str:
    return _set(description=text)(place)


def _autostate(*, on: bool) -> Handler:
    def answer(place: Place) -> str:
        if place.interface is None or not place.interface.startswith("Vlan"):
            raise EosError(INVALID)
        place.config.routing.interfaces[place.interface].autostate = on
        return ""

    return answer


ROUTED: Final = table(
    (
        ("description <text>", _described),
        ("shutdown", _set(shutdown=True)),
        ("no shutdown", _set(shutdown=False)),
        ("mtu <int>", _mtu),
        ("no mtu", _set(mtu=None)),
        ("ip address <word>", _address),
        ("no ip address", _no_address),
        ("no ip address <word>", _no_address),
        ("ipv6 enable", _set(ipv6=True)),
        ("no ipv6 enable", _set(ipv6=False)),
        ("autostate", _autostate(on=True)),
        ("no autostate", _autostate(on=False)),
    )
)
"""Of every routed interface; a port has more."""


def _bgp(place: Place) -> Bgp:
    if place.config.routing.bgp is None:
        raise EosError(INVALID)
    return place.config.routing.bgp


def _known(place: Place, name: str) -> Group:
    groups = _bgp(place).groups
    if name not in groups:
        raise EosError(f"% Peer group {name} does not exist")  # a guess
    return groups[name]


def _router_id(place: Place, text: str = "") -> str:
    _bgp(place).router_id = text or None
    return ""


def _paths(place: Place, text: str = "1", _ecmp: str = "") -> str:
    _bgp(place).max_paths = within(text, 1, _MAX_PATHS)
    return ""


def _group(place: Place, name: str) -> str:
    _bgp(place).groups.setdefault(name, Group())
    return ""


def _no_group(place: Place, name: str) -> str:
    """Its neighbours go with it: a guess, on which the driver does not depend."""
    bgp = _bgp(place)
    bgp.groups.pop(name, None)
    bgp.ports = {port: held for port, held in bgp.ports.items() if held[0] != name}
    return ""


def _of_group(key: str, *, on: bool) -> Callable[[Place, str], str]:
    def answer(place: Place, name: str) -> str:
        held = _bgp(place).addresses.get(name)
        if held is not None:
            setattr(held, key, on)
        elif on or name in _bgp(place).groups:
            setattr(_known(place, name), key, on)
        return ""

    return answer


def _peer(place: Place, port: str, group: str, asn: str) -> str:
    name = port_name(port)
    if name not in place.config.ports:
        raise EosError(INVALID)
    _known(place, group)
    _bgp(place).ports[name] = (group, within(asn, 1, _MAX_ASN))
    return ""


def _no_peer(place: Place, port: str) -> str:
    _bgp(place).ports.pop(port_name(port), None)
    return ""


def _neighbor(place: Place, address: str, asn: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+){3}", address):
        raise EosError(INVALID)
    found = _bgp(place).addresses.setdefault(address, Neighbor(asn=1))
    found.asn = within(asn, 1, _MAX_ASN)
    return ""


def _described_neighbor(place: Place, address: str, text: str) -> str:
    if address not in _bgp(place).addresses:
        raise EosError(INVALID)  # a guess: peer groups are not modelled with one
    _bgp(place).addresses[address].description = text
    return ""


def _no_described_neighbor(place: Place, address: str) -> str:
    held = _bgp(place).addresses.get(address)
    if held is not None:
        held.description = None
    return ""


def _no_neighbor(place: Place, address: str) -> str:
    _bgp(place).addresses.pop(address, None)
    return ""


def _carry(*, on: bool) -> Handler:
    def answer(place: Place) -> str:
        _bgp(place).carries = on
        return ""

    return answer


def _network(place: Place, text: str) -> str:
    try:
        name = str(IPv4Network(text))
    except ValueError:
        raise EosError(INVALID) from None
    networks = _bgp(place).networks
    _bgp(place).networks = sorted({*networks, name}, key=IPv4Network)
    return ""


def _no_network(place: Place, text: str) -> str:
    _bgp(place).networks = [each for each in _bgp(place).networks if each != text]
    return ""


def _family(place: Place) -> str:
    place.family = True
    return ""


ROUTER: Final = table(
    (
        ("router-id <word>", _router_id),
        ("no router-id", _router_id),
        ("maximum-paths <int>", _paths),
        ("maximum-paths <int> ecmp <int>", _paths),
        ("no maximum-paths", _paths),
        ("neighbor <word> peer group", _group),
        ("no neighbor <word> peer group", _no_group),
        ("neighbor <word> bfd", _of_group("bfd", on=True)),
        ("no neighbor <word> bfd", _of_group("bfd", on=False)),
        ("neighbor <word> shutdown", _of_group("shutdown", on=True)),
        ("no neighbor <word> shutdown", _of_group("shutdown", on=False)),
        ("neighbor interface <port> peer-group <word> remote-as <int>", _peer),
        ("no neighbor interface <port>", _no_peer),
        ("neighbor <word> remote-as <int>", _neighbor),
        ("neighbor <word> description <text>", _described_neighbor),
        ("no neighbor <word> description", _no_described_neighbor),
        ("no neighbor <word>", _no_neighbor),
        ("bgp default ipv4-unicast", _carry(on=True)),
        ("no bgp default ipv4-unicast", _carry(on=False)),
        ("network <word>", _network),
        ("no network <word>", _no_network),
        ("address-family ipv4", _family),
    )
)
FAMILY: Final = table(
    (
        ("neighbor <word> activate", _of_group("active", on=True)),
        ("no neighbor <word> activate", _of_group("active", on=False)),
        (
            "neighbor <word> next-hop address-family ipv6 originate",
            _of_group("over_ipv6", on=True),
        ),
        (
            "no neighbor <word> next-hop address-family ipv6 originate",
            _of_group("over_ipv6", on=False),
        ),
        ("network <word>", _network),
        ("no network <word>", _no_network),
    )
)
