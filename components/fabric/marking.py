"""When the queue of a port begins to mark: what the file says, else what its vendor recommends."""

from __future__ import annotations

from collections.abc import Mapping

from components.catalogue.switches.marking import recommended
from components.fabric.splits import part_speeds
from components.fabric.state import EcnState
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma, Switch, SwitchPort
from components.model.once import once


def marking_of(rdma: Rdma, os: str, speed_gbit_s: int = 0) -> EcnState:
    """The marking of a port that has none of its own.

    Args:
        rdma: What the file says.
        os: The switch system, whose vendor recommends something.
        speed_gbit_s: Of the port; 0: not known.
    """
    said = rdma.ecn_by_speed.get(speed_gbit_s)
    if said is not None:
        return EcnState(min_kib=said.min_kib, max_kib=said.max_kib, percent=said.mark_percent)
    advice = recommended(os, speed_gbit_s)
    own = rdma.ecn_min_kib is not None or rdma.ecn_max_kib is not None
    return EcnState(
        min_kib=rdma.ecn_min_kib or advice.min_kib,
        max_kib=rdma.ecn_max_kib or advice.max_kib,
        percent=rdma.ecn_mark_percent or (100 if own else advice.mark_percent),
    )


def port_marking(rdma: Rdma, os: str, port: SwitchPort, speed_gbit_s: int) -> EcnState:
    """The marking of one port, with its exceptions."""
    common = marking_of(rdma, os, speed_gbit_s)
    if not (port.ecn_min_kib or port.ecn_max_kib):
        return common
    return EcnState(
        min_kib=port.ecn_min_kib or common.min_kib,
        max_kib=port.ecn_max_kib or common.max_kib,
        percent=rdma.ecn_mark_percent or 100,
    )


def port_speeds(spec: ClusterSpec, switch: Switch) -> Mapping[str, int]:
    """Port to its speed in Gbit/s: that of the card, and on a link the model's; 0: not known."""
    cards = _card_speeds(spec)
    return {
        name: cards.get(port.to) or link_speed(switch, name) for name, port in switch.ports.items()
    }


@once
def _card_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """`HOST/RAIL` to the speed of its card in Gbit/s."""
    return {f"{host.name}/{nic.rail}": nic.speed_gbit_s for host in spec.hosts for nic in host.nics}


def link_speed(switch: Switch, name: str) -> int:
    """What the file sets, else the fastest speed of a port, or of a part of one; 0: not known.

    A speed that the port has not counts as none: `link-setting` names it.
    """
    model, said = switch.hardware, switch.link_of(name).speed_gbit_s
    if model is None:
        return 0
    whole = model.speed_of(switch.os, name, 1) if name in model.ports.get(switch.os, ()) else 0
    fastest = part_speeds(switch).get(name, whole)
    able = said is not None and said in model.port_speeds_gbit_s and said <= fastest
    return said if said is not None and able else fastest
