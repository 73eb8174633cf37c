"""What a switch carries, from its planned or recorded state: judged without the product's tables.

A port carries less if it goes down, loses a VLAN, takes smaller frames, loses an address or a
neighbour of BGP, or if frames that are under way are put into another class. Sources are IEEE
802.1Q (VLANs, priorities) and RFC 2474 (DSCP); how a system spells it is not our matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.core.record import field, record
from components.fabric.state import PortState, SwitchState

ALL_VLANS: Final = frozenset(range(1, 4095))


@record
class Port:
    """What one port carries. None: nothing is known of it."""

    up: bool = True
    vlans: frozenset[int] = frozenset()
    mtu_bytes: int | None = None
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    """DSCP, priority or setting of the class to its value."""
    link: Mapping[str, str] = field(default_factory=dict[str, str])
    """What takes the link down when it changes: speed, error correction, lanes."""


@record
class Loss:
    """Something that is carried no more."""

    kind: str
    """`up`, `vlan`, `mtu`, `route`, `link` or `class`."""
    where: str
    text: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.where}: {self.kind}: {self.text}"


def port_of(state: SwitchState, name: str) -> Port:
    """What a port of a state carries."""
    port = state.ports.get(name, PortState())
    links = {key: getattr(port, key) for key in ("speed", "fec", "autoneg")}
    return Port(
        up=port.admin_up is not False,
        vlans=frozenset(_vlans(port)),
        mtu_bytes=port.mtu_bytes,
        classes=dict(_classes(state, port)),
        link={key: str(value) for key, value in links.items() if value is not None},
    )


def _vlans(port: PortState) -> Iterator[int]:
    if port.mode == "routed":
        return
    if port.trunk_vlans == "all":
        yield from ALL_VLANS
    elif port.mode != "access":
        yield from port.trunk_vlans or ()
    if port.mode in {"access", "hybrid"} and port.access_vlan:
        yield port.access_vlan
    if port.native_vlan:
        yield port.native_vlan


def _classes(state: SwitchState, port: PortState) -> Iterator[tuple[str, str]]:
    for dscp, priority in port.dscp_priorities.items():
        yield f"DSCP {dscp}", f"priority {priority}"
    for priority, tc in port.priority_classes.items():
        yield f"priority {priority}", f"class {tc}"
    for dscp, tc in (state.dscp_classes or {}).items():
        yield f"DSCP {dscp} of the switch", f"class {tc}"
    if port.trust is not None:
        yield "trust", port.trust
    lossless = (port.pfc, port.pfc_priorities, state.pfc_enabled, state.pfc_priorities, state.roce)
    for word, value in zip(
        ("PFC", "PFC priorities", "PFC of the switch", "its priorities", "RoCE"),
        lossless,
        strict=True,
    ):
        if value is not None:
            yield word, str(value)


def losses(before: SwitchState, after: SwitchState) -> tuple[Loss, ...]:
    """What a switch carried before and does not carry after."""
    found = [loss for name in before.ports for loss in _port_losses(before, after, name)]
    return (*found, *_routes_lost(before, after))


def _port_losses(before: SwitchState, after: SwitchState, name: str) -> Iterator[Loss]:
    was, now = port_of(before, name), port_of(after, name)
    return _lost(was, now, f"port {name}") if was.up else iter(())


def _lost(was: Port, now: Port, where: str) -> Iterator[Loss]:
    if not now.up:
        yield Loss("up", where, "goes down")
    if gone := sorted(was.vlans - now.vlans):
        yield Loss("vlan", where, f"VLAN {', '.join(map(str, gone[:6]))}")
    if was.mtu_bytes and now.mtu_bytes and now.mtu_bytes < was.mtu_bytes:
        yield Loss("mtu", where, f"{was.mtu_bytes} to {now.mtu_bytes} bytes")
    for key in sorted(was.link.keys() & now.link.keys()):
        if was.link[key] != now.link[key]:
            yield Loss("link", where, f"{key} {was.link[key]} to {now.link[key]}")
    for key, old in was.classes.items():
        if now.classes.get(key) != old:
            yield Loss("class", where, f"{key} {old} to {now.classes.get(key, 'unset')}")


def _routes_lost(before: SwitchState, after: SwitchState) -> Iterator[Loss]:
    for name, held in (before.addresses or {}).items():
        kept = (after.addresses or {}).get(name, ())
        for gone in (each for each in held if each not in kept):
            yield Loss("route", name, f"address {gone}")
    if before.bgp is None:
        return
    now = after.bgp
    for name, asn in before.bgp.neighbors.items():
        if now is None or now.neighbors.get(name) != asn or now.asn != before.bgp.asn:
            yield Loss("route", name, "its BGP neighbour")
    for net in before.bgp.networks:
        if now is None or net not in now.networks:
            yield Loss("route", "bgp", f"network {net} is announced no more")
