"""Which counters of the path a flow moves.

The NIC counts by the priority it used, the switch by switch priority at ingress and by traffic
class at egress (sources.md#acceptance). Counters always move where the packets really were;
a flow in the wrong class is not slower between two idle nodes
(lab/sources.md#roce-path).
"""

from __future__ import annotations

from collections.abc import Iterable

from components.core.record import record
from lab.physics.fabric import FabricPath
from lab.physics.incast import Sending, congest
from lab.physics.path import RailPath
from lab.physics.request import NicDelta, PortDelta

_RETRIES = 7
"""NCCL_IB_RETRY_CNT and perftest's retry count: how often a lost packet is sent again."""

Deltas = tuple[tuple[NicDelta, ...], tuple[PortDelta, ...]]


@record
class Flow:
    """Payload that went one way over a path."""

    path: RailPath | FabricPath
    payload_bytes: int

    @property
    def wire_bytes(self) -> int:
        """Bytes as the counters see them, headers included."""
        return round(self.payload_bytes / self.path.efficiency)


def deltas_of(flows: Iterable[Flow]) -> Deltas:
    """The counter increments of flows that arrived, all at the same time."""
    nics: list[NicDelta] = []
    ports: list[PortDelta] = []
    sent: list[Sending] = []
    for flow in flows:
        path, size = flow.path, flow.wire_bytes
        if isinstance(path, FabricPath):
            nics.append(NicDelta(path.sender.host, path.sender.pci, tx_bytes={0: size}))
            nics.append(NicDelta(path.receiver.host, path.receiver.pci, rx_bytes={0: size}))
            continue
        sent.append((path, -(-flow.payload_bytes // path.rdma_mtu_bytes)))
        one, other = path.sender, path.receiver
        nics.append(NicDelta(one.nic.host, one.nic.pci, tx_bytes={path.sender_priority: size}))
        nics.append(
            NicDelta(other.nic.host, other.nic.pci, rx_bytes={path.receiver_priority: size})
        )
        if one.port and other.port:
            ports.append(
                PortDelta(one.port.switch, one.port.port, rx_bytes={path.ingress_priority: size})
            )
            ports.append(
                PortDelta(other.port.switch, other.port.port, tx_bytes={path.egress_tc: size})
            )
        for (leaves, enters), (tc, priority) in zip(path.hops, path.hop_classes, strict=True):
            ports.append(PortDelta(leaves.switch, leaves.port, tx_bytes={tc: size}))
            ports.append(PortDelta(enters.switch, enters.port, rx_bytes={priority: size}))
    slowed_nics, slowed_ports = congest(sent)
    return (*nics, *slowed_nics), (*ports, *slowed_ports)


def drops_of(path: RailPath) -> Deltas:
    """The counter increments of one packet that is too long for a switch port."""
    one = path.sender
    size = round(path.rdma_mtu_bytes / path.efficiency) * (_RETRIES + 1)
    nic = NicDelta(
        one.nic.host,
        one.nic.pci,
        tx_bytes={path.sender_priority: size},
        local_ack_timeout_err=_RETRIES + 1,
    )
    narrow = [end.port for end in (one, path.receiver) if end.port]
    narrow += [port for hop in path.hops for port in hop]
    narrow.sort(key=lambda port: port.mtu_bytes)
    ports = [PortDelta(port.switch, port.port, discards=_RETRIES + 1) for port in narrow[:1]]
    return (nic,), tuple(ports)
