"""What a probe moves on one port of an emulated switch."""

from __future__ import annotations

from components.core.errors import UsageError
from lab.physics.request import PortDelta
from lab.switches.emulators import EthernetSwitch


def count_port(switch: object, delta: PortDelta) -> None:
    """Move the counters of a port.

    Raises:
        UsageError: It is no switch that counts by class.
    """
    if not isinstance(switch, EthernetSwitch):
        raise UsageError(f"{delta.switch} counts nothing by class")
    for tc in sorted({*delta.rx_bytes, *delta.tx_bytes, *delta.ecn_marked}):
        switch.add_counters(
            delta.port,
            tc,
            delta.rx_bytes.get(tc, 0),
            delta.tx_bytes.get(tc, 0),
            delta.ecn_marked.get(tc, 0),
        )
    for priority in sorted({*delta.rx_pauses, *delta.tx_pauses}):
        received, sent = delta.rx_pauses.get(priority, 0), delta.tx_pauses.get(priority, 0)
        switch.add_pauses(delta.port, priority, received, sent)
    for tc, packets in delta.tx_drops.items():
        switch.add_drops(delta.port, tc, packets)
    if delta.discards:
        switch.add_discards(delta.port, delta.discards)
