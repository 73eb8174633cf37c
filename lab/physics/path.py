"""What happens to a RoCE packet between two pods, from the state of the devices it passes.

Rules and their sources: lab/sources.md#roce-path (how mismatches break, path MTU)
and sources.md#onyx (VLAN and MTU); the RDMA MTU of an interface is that of the kernel's
`iboe_get_mtu` (the netdev MTU less 96 bytes of headers, rounded down to an RDMA MTU).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from components.core.record import field, record, replace
from lab.physics.fabric import HcaEndpoint
from lab.physics.request import Attachment, ProbePod
from lab.physics.routed import Hop, find_hops, next_hop, vlan_of, vlan_to
from lab.views import HcaView, NicView, PortView, RouterView

RDMA_MTUS_BYTES = (4096, 2048, 1024, 512, 256)
"""The RDMA MTUs of the InfiniBand specification, largest first."""
_ROCE_HEADERS_BYTES = 96
"""What `iboe_get_mtu` of the kernel takes off the netdev MTU."""
PACKET_OVERHEAD_BYTES = 60
"""IPv4 20 + UDP 8 + BTH 12 + RETH 16 + ICRC 4: the first packet of a write must pass whole."""
WIRE_OVERHEAD_BYTES = 82
"""Bytes on the wire beside the payload of a full packet (sources.md#roce-path)."""
_VLAN_TAG_BYTES = 4

Cables = Mapping[tuple[str, str], tuple[str, str]]
"""(Switch, port) to (host, PCI address of the PF); of links, to (switch, port)."""
FaultKind = Literal["no_device", "link_down", "no_connection", "no_memory", "no_node_guid"]


@record
class Between:
    """What is between the switches."""

    links: Cables
    """(Switch, port) to (switch, port) at the other end, from both ends."""
    routers: tuple[RouterView, ...] = ()
    """What the switches route by; those that do not route may be left out."""


@record
class Site:
    """All devices of the lab, as they are now."""

    nics: tuple[NicView, ...]
    ports: Mapping[tuple[str, str], PortView]
    cables: Cables
    hcas: tuple[HcaView, ...] = ()
    links: tuple[Hop, ...] = ()
    """Every link between switches, once in each direction."""
    routers: Mapping[str, RouterView] = field(default_factory=dict[str, RouterView])
    """The switches that route, by name."""

    @classmethod
    def of(
        cls,
        nics: Iterable[NicView],
        ports: Iterable[PortView],
        cables: Cables,
        hcas: Iterable[HcaView] = (),
        between: Between | None = None,
    ) -> Site:
        """Indexes the ports by switch and name."""
        by_name = {(port.switch, port.port): port for port in ports}
        between = between or Between({})
        hops = tuple(
            (by_name[one], by_name[other])
            for one, other in between.links.items()
            if one in by_name and other in by_name
        )
        routing = {router.switch: router for router in between.routers}
        return cls(tuple(nics), by_name, dict(cables), tuple(hcas), hops, routing)

    def ends_of(self, pod: ProbePod) -> tuple[AnyEnd, ...]:
        """What a pod can send through: its attachments, or the node's cards in its network."""
        networks = pod.networks
        if pod.host_network and not networks:
            networks = self._cards_of(pod.node)
        ends = (self._end_of(pod, item) for item in networks)
        return tuple(end for end in ends if end is not None)

    def _cards_of(self, node: str) -> tuple[Attachment, ...]:
        cards = [
            Attachment(nic.netdev, "", nic.pci, rdma=nic.rdma, kind="pf")
            for nic in self.nics
            if nic.host == node
        ]
        cards += [Attachment("", "", hca.name, kind="hca") for hca in self.hcas if hca.host == node]
        return tuple(cards)

    def _end_of(self, pod: ProbePod, item: Attachment) -> AnyEnd | None:
        if item.kind == "hca":
            found = (hca for hca in self.hcas if hca.host == pod.node)
            hca = next((hca for hca in found if item.pf in (hca.name, hca.pci)), None)
            return None if hca is None else HcaEndpoint(pod, item, hca)
        nic = self.find_nic(pod.node, item.pf)
        if nic is None:
            return None
        return Endpoint(pod, item, nic, self.port_of(nic), self.links, self.routers)

    def find_nic(self, host: str, pf: str) -> NicView | None:
        """The PF of a host by netdev, PCI address or RDMA device."""
        for nic in self.nics:
            if nic.host == host and pf in (nic.netdev, nic.pci, nic.rdma):
                return nic
        return None

    def port_of(self, nic: NicView) -> PortView | None:
        """The switch port on the other end of a PF's cable."""
        for port, end in self.cables.items():
            if end == (nic.host, nic.pci):
                return self.ports.get(port)
        return None


@record
class Endpoint:
    """One end of an RDMA connection: the attachment, its PF and the switch port behind it."""

    pod: ProbePod
    attachment: Attachment
    nic: NicView
    port: PortView | None
    links: tuple[Hop, ...] = ()
    """The links between the switches of the site."""
    routers: Mapping[str, RouterView] = field(default_factory=dict[str, RouterView])

    @property
    def host(self) -> str:
        """The machine that holds the card."""
        return self.nic.host

    @property
    def pci(self) -> str:
        """The PF's address on that machine."""
        return self.nic.pci

    @property
    def device(self) -> str:
        """The RDMA device's name as the pod sees it."""
        return self.attachment.rdma or self.nic.rdma

    @property
    def link_layer(self) -> str:
        """As NCCL names it."""
        return "RoCE"

    @property
    def has_device(self) -> bool:
        """A VF must have been made; the PF itself is always there."""
        return self.attachment.kind == "pf" or self.nic.vfs > 0

    @property
    def gdr_possible(self) -> bool:
        """The card can reach GPU memory: peermem is loaded, and a virtual machine allows it."""
        return self.nic.peermem and self.nic.gdr_allowed

    @property
    def link_up(self) -> bool:
        """Both ends of the cable are up."""
        return (
            self.nic.link_up and self.port is not None and self.port.admin_up and self.port.oper_up
        )

    @property
    def usable(self) -> bool:
        """The device exists and its port is active: what verbs lists as an active device."""
        return self.has_device and self.link_up

    @property
    def can_pin(self) -> bool:
        """The pod may pin memory: an unlimited memlock, or CAP_IPC_LOCK."""
        return self.nic.memlock_unlimited or bool(
            {"IPC_LOCK", "CAP_IPC_LOCK", "ALL"} & set(self.pod.capabilities)
        )

    @property
    def rdma_mtu_bytes(self) -> int:
        """The active RDMA MTU of the interface."""
        netdev = min(self.attachment.mtu_bytes or self.nic.mtu_bytes, self.nic.mtu_bytes)
        fitting = (mtu for mtu in RDMA_MTUS_BYTES if mtu + _ROCE_HEADERS_BYTES <= netdev)
        return next(fitting, RDMA_MTUS_BYTES[-1])


AnyEnd = Endpoint | HcaEndpoint


@record
class PathFault:
    """Why two endpoints cannot talk at all."""

    kind: FaultKind
    endpoint: Endpoint
    why: str


@record
class RailPath:
    """A working connection, and what the devices on it do to one direction of it."""

    sender: Endpoint
    receiver: Endpoint
    rdma_mtu_bytes: int
    largest_payload_bytes: int
    """Payload of the largest packet that both switch ports let through; 0 for none."""
    dscp: int
    sender_priority: int
    ingress_priority: int
    egress_tc: int
    receiver_priority: int
    hops: tuple[Hop, ...] = ()
    """The links between switches that the packet passes."""
    hop_classes: tuple[tuple[int, int], ...] = ()
    """Of each link: the traffic class in which the packet leaves the one switch, and the priority
    that the next one gives it."""

    @property
    def line_rate_gbit_s(self) -> int:
        """The slowest link of the path."""
        speeds = [self.sender.nic.speed_gbit_s, self.receiver.nic.speed_gbit_s]
        speeds += [end.port.speed_gbit_s for end in (self.sender, self.receiver) if end.port]
        speeds += [port.speed_gbit_s for hop in self.hops for port in hop]
        return min(speeds)

    @property
    def efficiency(self) -> float:
        """Payload's share of the bytes on the wire (sources.md#roce-path)."""
        overhead = WIRE_OVERHEAD_BYTES
        if self.sender.attachment.vlan:
            overhead += _VLAN_TAG_BYTES
        return self.rdma_mtu_bytes / (self.rdma_mtu_bytes + overhead)

    def carries(self, message_bytes: int) -> bool:
        """True if no packet of a message of this size is dropped for its length."""
        return min(message_bytes, self.rdma_mtu_bytes) <= self.largest_payload_bytes


def find_fault(sender: Endpoint, receiver: Endpoint) -> PathFault | None:
    """The first reason why the two endpoints cannot connect, or None."""
    for end in (sender, receiver):
        if not end.has_device:
            return PathFault("no_device", end, f"{end.nic.netdev} of {end.nic.host} has no VF")
    for end in (sender, receiver):
        where = f"{end.nic.netdev} of {end.nic.host}"
        if not end.link_up:
            return PathFault("link_down", end, f"{where} is down")
        if not end.can_pin:
            return PathFault("no_memory", end, f"memlock of {end.nic.host} is limited")
    for one, other in ((sender, receiver), (receiver, sender)):
        if not _frames_arrive(one, other):
            return PathFault("no_connection", one, f"frames of {one.nic.netdev} are dropped")
    return None


def follow(sender: Endpoint, receiver: Endpoint, tclass: int, pair: int = 0) -> RailPath:
    """Follows one direction of a connection without a fault.

    Args:
        sender: The end that sends the payload.
        receiver: The other end.
        tclass: The IP traffic class byte that the application asked for (DSCP in its upper bits).
        pair: Number of its queue pair, from which the UDP source port comes.
    """
    dscp = tclass >> 2
    mtu = min(sender.rdma_mtu_bytes, receiver.rdma_mtu_bytes)
    ingress = _switch_priority(sender.port, dscp, sender.attachment)
    hops = _route(sender, receiver, pair) or ()
    classes, priority = _along(hops, dscp, sender.attachment, ingress)
    egress = receiver.port.priority_to_tc[priority] if receiver.port else priority
    return RailPath(
        sender=sender,
        receiver=receiver,
        rdma_mtu_bytes=mtu,
        largest_payload_bytes=_largest_payload(sender, receiver),
        dscp=dscp,
        sender_priority=_nic_priority(sender, dscp),
        ingress_priority=ingress,
        egress_tc=egress,
        receiver_priority=_nic_priority(receiver, dscp),
        hops=hops,
        hop_classes=classes,
    )


def _along(
    hops: tuple[Hop, ...], dscp: int, attachment: Attachment, priority: int
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Classes on each link, and the priority at the last switch; a router takes the tag off."""
    classes: list[tuple[int, int]] = []
    for leaves, enters in hops:
        traffic_class = leaves.priority_to_tc[priority]
        tagged = attachment.vlan in enters.allowed_vlans
        carried = attachment if tagged else replace(attachment, vlan=0)
        priority = _switch_priority(enters, dscp, carried)
        classes.append((traffic_class, priority))
    return tuple(classes), priority


def _frames_arrive(sender: Endpoint, receiver: Endpoint) -> bool:
    """True if the sender's frames reach the receiver's VF with the tag that it expects."""
    if sender.port is None or receiver.port is None:
        return False
    vlan = _ingress_vlan(sender.port, sender.attachment.vlan)
    if vlan is None or _route(sender, receiver) is None:
        return False
    if _gateway(sender, receiver):
        vlan = vlan_to(receiver.routers[receiver.port.switch], receiver.attachment.ip) or 0
    return _egress_tag(receiver.port, vlan) == receiver.attachment.vlan


def _gateway(sender: Endpoint, receiver: Endpoint) -> str | None:
    """The router by which the sender's interface sends; empty: none is needed, None: no route."""
    own = sender.attachment
    return next_hop(own.ip, own.prefix, own.routes, receiver.attachment.ip)


def _over_routers(
    sender: Endpoint, receiver: Endpoint, gateway: str, pair: int
) -> tuple[Hop, ...] | None:
    """The links from the sender's leaf, which has the gateway in its VLAN, to the receiver's."""
    if sender.port is None or receiver.port is None:
        return None
    leaf, to = sender.port.switch, receiver.attachment.ip
    vlan = _ingress_vlan(sender.port, sender.attachment.vlan)
    if vlan is None or vlan_of(sender.routers.get(leaf), gateway) != vlan:
        return None
    source = f"{sender.attachment.ip} {pair}" if pair else sender.attachment.ip
    hops = find_hops(leaf, source, to, sender.links, sender.routers)
    last = hops[-1][1].switch if hops else leaf
    return None if last != receiver.port.switch else hops


def _route(sender: Endpoint, receiver: Endpoint, pair: int = 0) -> tuple[Hop, ...] | None:
    """The links that carry the sender's VLAN to the receiver's switch; None: there is no way."""
    gateway = _gateway(sender, receiver)
    if gateway is None or sender.port is None or receiver.port is None:
        return None
    if gateway:
        return _over_routers(sender, receiver, gateway, pair)
    vlan = _ingress_vlan(sender.port, sender.attachment.vlan)
    ways: dict[str, tuple[Hop, ...]] = {sender.port.switch: ()}
    waiting = [sender.port.switch]
    while waiting:
        here = waiting.pop(0)
        for hop in sender.links:
            there = hop[1].switch
            if hop[0].switch == here and there not in ways and _carries(hop, vlan):
                ways[there] = (*ways[here], hop)
                waiting.append(there)
    return ways.get(receiver.port.switch)


def _carries(hop: Hop, vlan: int | None) -> bool:
    return all(port.oper_up and vlan in port.allowed_vlans for port in hop)


def _ingress_vlan(port: PortView, tag: int) -> int | None:
    """The VLAN that a port puts a frame into; None when it drops the frame."""
    if tag == 0:
        return None if port.mode == "trunk" else port.access_vlan
    if port.mode == "access":
        return None
    return tag if tag in port.allowed_vlans else None


def _egress_tag(port: PortView, vlan: int) -> int | None:
    """The tag that a frame of a VLAN leaves with; 0 untagged, None when it does not leave."""
    if port.mode != "trunk" and vlan == port.access_vlan:
        return 0
    if port.mode == "access":
        return None
    return vlan if vlan in port.allowed_vlans else None


def _switch_priority(port: PortView | None, dscp: int, attachment: Attachment) -> int:
    if port is None:
        return 0
    if port.trust in ("L3", "both"):
        return port.dscp_to_priority[dscp]
    if port.trust == "L2" and attachment.vlan:
        return attachment.pcp
    return 0


def _nic_priority(end: Endpoint, dscp: int) -> int:
    if end.nic.trust == "dscp":
        return end.nic.dscp_to_priority[dscp]
    return end.attachment.pcp if end.attachment.vlan else 0


def _largest_payload(sender: Endpoint, receiver: Endpoint) -> int:
    ports = [end.port.mtu_bytes for end in (sender, receiver) if end.port]
    ports += [port.mtu_bytes for hop in _route(sender, receiver) or () for port in hop]
    return max(min(ports, default=0) - PACKET_OVERHEAD_BYTES, 0)
