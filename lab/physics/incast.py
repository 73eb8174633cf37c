"""What a port does into which several senders send more than it can send on.

Its queue grows past the threshold of ECN, and what is marked slows the senders down, if they and
the receiver take part (DCQCN) and the switch marks the class. If one of the three does not, the
buffer fills: where the class is lossless the switch pauses those that send into it, elsewhere it
throws away (sources.md#roce-path). How many packets are marked, paused for or lost of how many
depends on buffers and on the cards' firmware: the numbers here are choices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from lab.physics.path import RailPath
from lab.physics.request import NicDelta, PortDelta

_MARKED = 0.01
"""Of the packets, where ECN slows the senders down."""
_PAUSED = 0.001
"""PFC frames for each packet, where it does not."""
_LOST = 0.001
"""Of the packets, where there is no PFC either."""
Sending = tuple[RailPath, int]
"""A path, and how many packets went over it."""
Deltas = tuple[tuple[NicDelta, ...], tuple[PortDelta, ...]]


def congest(sent: Iterable[Sending]) -> Deltas:
    """The counters that several senders into one port move beside bytes."""
    nics: list[NicDelta] = []
    ports: list[PortDelta] = []
    for group in _incasts(sent):
        if all(_is_marked(path) for path, _ in group):
            ports += _marks(group)
            continue
        for path, packets in group:
            more_nics, more_ports = _held_back(path, packets)
            nics += more_nics
            ports += more_ports
    return tuple(nics), tuple(ports)


def _incasts(sent: Iterable[Sending]) -> Iterator[list[Sending]]:
    """What is sent into one class of one port by cards that are faster together than its link."""
    into: dict[tuple[str, str, int], list[Sending]] = defaultdict(list)
    for path, packets in sent:
        port = path.receiver.port
        if port is not None and path.sender.port is not None:
            into[port.switch, port.port, path.egress_tc].append((path, packets))
    for group in into.values():
        end = group[0][0].receiver
        cards = {(p.sender.host, p.sender.pci): p.sender.nic.speed_gbit_s for p, _ in group}
        least = min(end.nic.speed_gbit_s, end.port.speed_gbit_s if end.port else 0)
        if len(cards) > 1 and sum(cards.values()) > least:
            yield group


def _is_marked(path: RailPath) -> bool:
    """The switch marks the class, and both cards take part.

    One that does not sends packets that may not be marked (RFC 3168), or answers no mark.
    """
    port = path.receiver.port
    return (
        port is not None
        and path.egress_tc in port.ecn_kib
        and path.sender_priority in path.sender.nic.ecn_priorities
        and path.receiver_priority in path.receiver.nic.ecn_priorities
    )


def _marks(group: Sequence[Sending]) -> Iterator[PortDelta]:
    path = group[0][0]
    packets = sum(count for _, count in group)
    if path.receiver.port is not None:
        port = path.receiver.port
        yield PortDelta(
            port.switch, port.port, ecn_marked={path.egress_tc: _part(packets, _MARKED)}
        )


def _held_back(path: RailPath, packets: int) -> Deltas:
    """One sender: paused by the switch where its packets come in, or some of them are lost.

    Pauses go one link back. Those that a spine would send on, once its own buffer fills, are not
    played.
    """
    one, other = path.sender, path.receiver
    if one.port is None or other.port is None:
        return (), ()
    near, enters = path.hops[-1] if path.hops else (None, one.port)
    priority = path.hop_classes[-1][1] if path.hops else path.ingress_priority
    obeys = near.pfc_priorities if near is not None else one.nic.pfc_priorities
    if priority not in enters.pfc_priorities or priority not in obeys:
        lost = _part(packets, _LOST)
        port = PortDelta(other.port.switch, other.port.port, tx_drops={path.egress_tc: lost})
        return (NicDelta(other.host, other.pci, out_of_sequence=lost),), (port,)
    frames = {priority: _part(packets, _PAUSED)}
    paused = [PortDelta(enters.switch, enters.port, tx_pauses=frames)]
    if near is not None:
        return (), (*paused, PortDelta(near.switch, near.port, rx_pauses=frames))
    return (NicDelta(one.host, one.pci, rx_pauses=frames),), tuple(paused)


def _part(packets: int, share: float) -> int:
    return max(round(packets * share), 1)
