"""How the configuration says routing, and what packets go by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.switches.eos.config import Config, Port, port_order
from lab.switches.eos.routed import Bgp, Group, Interface
from lab.views import BfdView, RouterView


def interface_lines(held: Interface | Port) -> Iterator[str]:
    """What a routed interface has beside what every port has."""
    if held.address is not None:
        yield f"ip address {held.address}"
    if held.ipv6:
        yield "ipv6 enable"


def svi_lines(config: Config, kind: str) -> Iterator[str]:
    """The interfaces of one kind, `Loopback` or `Vlan`."""
    named = config.routing.interfaces.items()
    for name, held in sorted(named, key=lambda each: int(re.sub(r"\D", "", each[0]))):
        if not name.startswith(kind):
            continue
        lines = [f"description {held.description}"] if held.description else []
        lines += ["shutdown"] if held.shutdown else []
        lines += [f"mtu {held.mtu}"] if held.mtu is not None else []
        lines += [] if held.autostate else ["no autostate"]
        yield from (f"interface {name}", *(f"   {line}" for line in lines))
        yield from (*(f"   {line}" for line in interface_lines(held)), "!")


def global_lines(config: Config) -> Iterator[str]:
    """Forwarding and BGP, at the end of a configuration."""
    routing = config.routing
    if routing.forwarding != "off":
        rest = "" if routing.forwarding == "ipv4" else f" {routing.forwarding}"
        yield from (f"ip routing{rest}", "!")
    if routing.ipv6:
        yield from ("ipv6 unicast-routing", "!")
    if routing.bgp is not None:
        yield f"router bgp {routing.bgp.asn}"
        yield from (f"   {line}" for line in _router_lines(routing.bgp))
        yield "!"


def _router_lines(bgp: Bgp) -> Iterator[str]:
    if bgp.router_id:
        yield f"router-id {bgp.router_id}"
    if bgp.max_paths > 1:
        yield f"maximum-paths {bgp.max_paths}"
    if not bgp.carries:
        yield "no bgp default ipv4-unicast"
    for name, group in sorted(bgp.groups.items()):
        yield f"neighbor {name} peer group"
        yield from [f"neighbor {name} shutdown"] if group.shutdown else []
        yield from [f"neighbor {name} bfd"] if group.bfd else []
    for address, peer in sorted(bgp.addresses.items()):
        yield f"neighbor {address} remote-as {peer.asn}"
        yield from [f"neighbor {address} shutdown"] if peer.shutdown else []
        yield from (
            [f"neighbor {address} description {peer.description}"] if peer.description else []
        )
        yield from [f"neighbor {address} bfd"] if peer.bfd else []
    for port, (group, asn) in sorted(bgp.ports.items(), key=lambda each: port_order(each[0])):
        short = port.replace("Ethernet", "Et")  # as captures show it
        yield f"neighbor interface {short} peer-group {group} remote-as {asn}"
    inner = [
        line
        for name, group in sorted(bgp.groups.items())
        for line, on in (
            (f"neighbor {name} activate", group.active),
            (f"neighbor {name} next-hop address-family ipv6 originate", group.over_ipv6),
        )
        if on
    ]
    named = sorted(bgp.addresses.items())
    inner += [f"neighbor {address} activate" for address, peer in named if peer.active]
    inner += [f"network {network}" for network in bgp.networks]
    if inner:
        yield from ("!", "address-family ipv4", *(f"   {line}" for line in inner))


def router_view(switch: str, config: Config) -> RouterView:
    """What packets go by: nothing is routed unless the configuration says so.

    The interface of a VLAN that is not there stays down; a session needs the link-local address of
    its port, and a group that carries IPv4.
    """
    routing, bgp = config.routing, config.routing.bgp
    found = {
        name.lower().replace("loopback0", "lo"): (held.address,)
        for name, held in routing.interfaces.items()
        if held.address is not None and not held.shutdown and _is_up(config, name)
    }
    found |= {
        name: (port.address,) for name, port in config.ports.items() if port.routed and port.address
    }
    over_ports = bgp is not None and routing.forwarding == "ipv6 interfaces" and routing.ipv6
    if routing.forwarding == "off":
        found = {}
    return RouterView(
        switch=switch,
        addresses=found,
        asn=bgp.asn if bgp is not None and routing.forwarding != "off" else None,
        neighbors={
            **({name: str(number) for name, number in _sessions(config)} if over_ports else {}),
            **_addressed(bgp),
        },
        networks=tuple(bgp.networks) if bgp is not None else (),
        max_paths=bgp.max_paths if bgp is not None else 1,
        drained=config.quiesced,
        bfd=dict.fromkeys(_watched(bgp), BfdView()) if bgp is not None else {},
    )


def _watched(bgp: Bgp) -> Iterator[str]:
    """Neighbours with BFD: by their group, or by a line of their own."""
    yield from (name for name, (group, _) in bgp.ports.items() if bgp.groups[group].bfd)
    yield from (name for name, peer in bgp.addresses.items() if peer.bfd)


def _is_up(config: Config, name: str) -> bool:
    vlan = name.removeprefix("Vlan")
    return not vlan.isdigit() or int(vlan) in config.vlans


def _addressed(bgp: Bgp | None) -> dict[str, str]:
    """Neighbours that are addresses, and carry IPv4."""
    return {
        address: str(peer.asn)
        for address, peer in (bgp.addresses.items() if bgp else ())
        if not peer.shutdown and (bgp is None or bgp.carries or peer.active)
    }


def _sessions(config: Config) -> Iterator[tuple[str, int]]:
    bgp = config.routing.bgp
    for name, (group, number) in bgp.ports.items() if bgp else ():
        held, port = bgp.groups[group] if bgp else Group(), config.ports[name]
        carries = held.active and held.over_ipv6 and not held.shutdown
        if carries and port.routed and port.ipv6:
            yield name, number
