"""What `ip` is given for the interfaces of a routed switch: pure lists of lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.core.record import record
from lab.views import PortView

Addresses = Mapping[str, tuple[str, ...]]


@record
class Wire:
    """One port of a switch, as the kernel has it."""

    up: bool
    bridged: bool
    mtu_bytes: int
    link_local: bool = True
    """It may have an IPv6 address of its own."""

    @classmethod
    def of(cls, port: PortView) -> Wire:
        """What an emulated port asks of its end of the cable."""
        bridged = bool(port.allowed_vlans or port.access_vlan)
        return cls(port.oper_up, bridged, port.mtu_bytes, port.link_local)

    @property
    def addressed(self) -> bool:
        """Whether the kernel makes an address for it."""
        return self.link_local and not self.bridged


def port_lines(name: str, held: Wire | None, wanted: Wire) -> Iterator[str]:
    """The lines from one state of a port to another.

    A port of the bridge gets no address of its own, as ifupdown2 switches IPv6 off there; so no
    neighbour is found over it. The kernel makes such an address again only when the port comes up.
    """
    if held == wanted:
        return
    if held is None or (held.up and not wanted.up) or held.addressed != wanted.addressed:
        yield f"link set dev {name} down"
    if held is None or held.mtu_bytes != wanted.mtu_bytes:
        yield f"link set dev {name} mtu {wanted.mtu_bytes}"
    if held is None or held.addressed != wanted.addressed:
        yield f"link set dev {name} addrgenmode {'eui64' if wanted.addressed else 'none'}"
    if wanted.up:
        yield f"link set dev {name} up"


def address_lines(held: Addresses, wanted: Addresses, *, bridge_up: bool) -> Iterator[str]:
    """The lines from one set of addresses to another.

    An interface of a VLAN is one end of a cable that leads nowhere, as this kernel may lack VLANs,
    and packets of hosts do not come here. It is up while the bridge has a port that is up; else it
    is shut and not without a carrier: a kernel keeps the route of an interface that lost its
    carrier, and FRR may go on announcing the network (Cumulus ignores such routes by a sysctl).
    """
    for name in held:
        if name not in wanted and name.startswith("vlan"):
            yield f"link delete dev {name}"
    for name, addresses in wanted.items():
        if name.startswith("vlan") and name not in held:
            yield f"link add name {name} type veth peer name {far_end(name)}"
            yield f"link set dev {far_end(name)} up"
            yield vlan_line(name, bridge_up=bridge_up)
        before = held.get(name, ())
        yield from (f"address add {each} dev {name}" for each in addresses if each not in before)
    for name, addresses in held.items():
        kept = wanted.get(name, ())
        if name in wanted or not name.startswith("vlan"):
            yield from (f"address del {each} dev {name}" for each in addresses if each not in kept)


def far_end(vlan: str) -> str:
    """The end of a VLAN's cable that no address is on."""
    return f"{vlan}-far"


def vlan_line(vlan: str, *, bridge_up: bool) -> str:
    """Switch a VLAN's interface on or off."""
    return f"link set dev {vlan} {'up' if bridge_up else 'down'}"
