"""Routing of an Ethernet switch, and the subnet of an InfiniBand one, from the site: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.core.errors import SpecError
from components.core.templates import fault_text
from components.fabric.links import bridging_switches_of_rails, link_addresses, list_links
from components.fabric.parts import ALL_PORTS, IbState, MemberKind, PartitionState, show_pkey
from components.fabric.state import MTU_WORD, BgpState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.ranges import port_key
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.infiniband import IbPartition, Membership, Ufm
from components.model.owners import guids_by_pods
from components.model.places import link_address, link_of, subnets_of, vf_guids

ANY_OTHER: Final = "external"
"""A neighbour with any AS number but the switch's own."""
Addresses = dict[str, tuple[str, ...]]
_AT_INDEX_0: Final[dict[Membership, MemberKind]] = {
    "full": "full, index 0",
    "limited": "limited, index 0",
}


def plan_routing(spec: ClusterSpec, switch: Switch) -> dict[str, object]:
    """The routing of a switch besides its ports, by key of `SwitchState`; empty on others."""
    routing = switch.routing
    if routing is None:
        return {}
    form, holders = system_of(switch.os).routed, bridging_switches_of_rails(spec)
    loopback = f"{routing.router_id}/32"
    # Routed interface, or port to a host, to its address and its network.
    gateways, cards = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
    for rail in (each for each in spec.rails if switch.name in holders[each.name]):
        for part in subnets_of(rail):
            if part.gateway and part.leaf in {"", switch.name}:
                address = f"{part.gateway}/{part.network.prefixlen}"
                gateways[form.vlan.format(rail.vlan)] = address, str(part.network)
    for name, port in _routed_ports(switch):
        host, _, rail_name = port.to.partition("/")
        found = spec.host(host) if port.peer is None else None
        for card in found.nics if found else ():
            if card.rail == rail_name and (theirs := link_address(card)) is not None:
                network, own = link_of(theirs)
                cards[name] = f"{own}/{network.prefixlen}", str(network)
    mtu = (f"{MTU_WORD}{spec.rdma.port_mtu_bytes}",) if form.own_mtu else ()
    addresses: Addresses = {form.loopback: (loopback,)}
    addresses |= {name: (address, *mtu) for name, (address, _) in gateways.items()}
    neighbors = _neighbors(spec, switch)
    return {
        "addresses": addresses | _of_ports(spec, switch, cards),
        "bgp": BgpState(
            asn=routing.asn,
            router_id=str(routing.router_id),
            neighbors=neighbors,
            networks=(loopback, *(net for _, net in (*gateways.values(), *cards.values()))),
            bfd=tuple(neighbors) if routing.bfd else (),
            max_paths=form.max_paths,
            forwards=form.forwards,
        ),
    }


def _of_ports(spec: ClusterSpec, switch: Switch, cards: Mapping[str, tuple[str, str]]) -> Addresses:
    """The settings that let BGP run over each link, and the address of each port to a card."""
    form, numbered = system_of(switch.os).routed, link_addresses(spec)
    found: Addresses = {}
    for name, port in _routed_ports(switch):
        ways = (cards[name][0],) if name in cards else form.link
        if (switch.name, name) in numbered:
            ways = (f"{numbered[switch.name, name][0]}/31",)  # two ends (RFC 3021)
        if port.peer is None and name not in cards:
            continue  # `routed-port` asks for the card's address
        own = (f"{MTU_WORD}{port.mtu_bytes or spec.rdma.port_mtu_bytes}",) if form.own_mtu else ()
        if ways or own:
            found[name] = (*ways, *own)
    return found


def _routed_ports(switch: Switch) -> Iterator[tuple[str, SwitchPort]]:
    for name in sorted(switch.ports, key=port_key):
        if switch.ports[name].mode == "routed":
            yield name, switch.ports[name]


def _neighbors(spec: ClusterSpec, switch: Switch) -> dict[str, str]:
    """Each routed link, by port or far address, to the AS number there, if it must be named."""
    numbered, far = link_addresses(spec), dict[tuple[str, str], str]()
    names = {
        name: str(numbered[switch.name, name][1]) if (switch.name, name) in numbered else name
        for name, port in _routed_ports(switch)
        if port.peer is not None
    }
    if not system_of(switch.os).routed.says_number:
        return dict.fromkeys(names.values(), ANY_OTHER)
    for link in list_links(spec):
        for end, other in ((link.one, link.other), (link.other, link.one)):
            if other.switch.routing is not None:
                far[end.key] = str(other.switch.routing.asn)
    return {shown: far.get((switch.name, name), ANY_OTHER) for name, shown in names.items()}


def plan_subnet(spec: ClusterSpec, switch: Switch) -> SwitchState:
    """Plan the state of one InfiniBand switch; SpecError if a member's ports are not known.

    A switch without `sm_priority` runs no subnet manager: an unplanned second one may become
    master. Every switch that runs one has all partitions, because a standby must keep them when it
    takes over.
    """
    fabric = spec.infiniband
    if fabric is None:
        raise SpecError(f"switch {switch.name}: the site lacks `infiniband`")
    node = spec.renamed.switches.get(switch.name, switch.name)  # as the switch calls itself
    if switch.sm_priority is None:
        return SwitchState(ib=IbState(node=node, sm_enabled=False))
    return SwitchState(
        ib=IbState(
            node=node,
            sm_function=True,
            sm_enabled=True,
            sm_priority=switch.sm_priority,
            routing_engine=fabric.routing_engine,
            partitions={each.name: _partition(spec, each) for each in fabric.partitions},
        )
    )


def plan_ufm(spec: ClusterSpec, ufm: Ufm) -> SwitchState:
    """Plan UFM's partitions, by key, since it has its own names; adaptive routing is checked."""
    fabric = spec.infiniband
    partitions = fabric.partitions if fabric else ()
    return SwitchState(
        ib=IbState(
            node=ufm.name,
            adaptive_routing=True if fabric and fabric.adaptive_routing else None,
            partitions={show_pkey(each.pkey): _partition(spec, each) for each in partitions},
        )
    )


def _partition(spec: ClusterSpec, partition: IbPartition) -> PartitionState:
    same = {key: getattr(partition, key) for key in ("pkey", "ipoib", "mtu_bytes", "rate_gbit_s")}
    if partition.members == "all":
        return PartitionState(**same, members={ALL_PORTS: partition.membership})
    # A subnet manager knows each VF, so the VFs that pods get in this partition are members too.
    fabric, members = spec.infiniband, dict[str, MemberKind]()
    with_vfs = fabric.rails if fabric and not guids_by_pods(spec) else ()
    rails = {rail.name for rail in with_vfs if rail.partition == partition.name}
    for member in partition.members:
        host = spec.host(member.host)
        if host is None or not host.hca_guids:
            words = {"partition": partition, "member": member}
            raise SpecError(fault_text(__file__, "unknown-guids", **words))
        membership = member.membership or partition.membership
        kind = _AT_INDEX_0[membership] if partition.index0 else membership
        ports = (port for port in host.hca_sriov if port.rail in rails)
        vfs = (guid for port in ports for guid in vf_guids(spec.name, host, port))
        members |= dict.fromkeys((*member.ports_of(host.hca_guids), *vfs), kind)
    return PartitionState(**same, members=members)
