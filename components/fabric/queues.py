"""The queues of the ports of one switch, from the site's one intent: marking, shares, spreading."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from components.catalogue.switches.marking import recommended
from components.fabric.splits import part_speeds
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.ranges import port_key
from components.fabric.systems.switch_system import RoceProfile, SwitchSystem
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma, Switch, SwitchPort
from components.model.guards import Guards
from components.model.once import once

BYTES_PER_KIB = 1024


def plan_queues(spec: ClusterSpec, switch: Switch, intent: PortState) -> dict[str, PortState]:
    """Each port, by number, with the intent of all ports and the queues that are its own.

    Whether the system can do it is for the rules to say.
    """
    rdma, system, speeds = spec.rdma, system_of(switch.os), port_speeds(spec, switch)
    fastest = max(speeds.values(), default=0)
    planned: dict[str, PortState] = {}
    for name in sorted(switch.ports, key=port_key):
        port = switch.ports[name]
        # One marking for the switch: that of its fastest port, which fills a queue first.
        speed = speeds[name] if system.port_ecn is None else fastest
        marking = as_profile(port_marking(rdma, switch.os, port, speed), system.profile)
        own: dict[str, object] = {"ecn": dict.fromkeys(intent.ecn, marking)}
        if rdma.schedule is not None:
            strict = {*(intent.strict_classes or ()), *rdma.schedule.strict}
            own["strict_classes"] = tuple(sorted(strict))
            own["class_shares"] = dict(sorted(rdma.schedule.shares.items()))
        if rdma.adaptive_routing and port.mode == "routed":
            own["adaptive_routing"] = True
        planned[name] = intent.model_copy(update=own)
    return planned


def as_profile(marking: EcnState, profile: RoceProfile | None) -> EcnState:
    """The marking as a RoCE profile prints it, where the file means the same; else as it is."""
    if profile is None or marking.percent != profile.mark_percent:
        return marking
    given = profile.ecn_min_bytes, profile.ecn_max_bytes
    pairs = zip((marking.min_kib, marking.max_kib), given, strict=True)
    if any(abs(kib * BYTES_PER_KIB - own) > profile.ecn_tolerance * own for kib, own in pairs):
        return marking
    low, high = (own // BYTES_PER_KIB for own in given)
    return EcnState(min_kib=low, max_kib=high)


def marking_of(rdma: Rdma, os: str, speed_gbit_s: int = 0) -> EcnState:
    """The marking of a port that has none of its own; a speed of 0 is not known."""
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


CLASSES: Final = range(8)


def with_repairs(
    state: SwitchState, system: SwitchSystem, guards: Guards, rdma: Rdma
) -> SwitchState:
    """The desired state with what the file wants repaired; the same one where that is nothing.

    A kind that the system cannot repair is for the rules to refuse.
    """
    kinds = [kind for kind in sorted(system.repairs) if guards.way(kind) == "repair"]
    if not kinds:
        return state
    first = system.driver.factory_state(tuple(state.ports)).ports
    ports: dict[str, PortState] = {}
    for name, port in state.ports.items():
        wanted = (_repair(kind, port, first[name], rdma).items() for kind in kinds)
        ports[name] = port.model_copy(update=dict(chain(*wanted)))
    return state.model_copy(update={"ports": ports})


def _repair(kind: str, port: PortState, first: PortState, rdma: Rdma) -> Mapping[str, object]:
    """What else is wanted of a port, by what the factory has."""
    if kind == "switch.rewrite":
        return {"rewrite_dscp": first.rewrite_dscp}
    if kind == "switch.ecn_elsewhere":
        return {"ecn": dict.fromkeys(CLASSES) | port.ecn}
    # Where the file plans PFC, its priorities are ours already.
    pfc = {"switch.pfc_elsewhere": ("pfc", "pfc_priorities")}[kind]
    keys = pfc if rdma.mode == "lossy_ecn" else ()
    return {key: getattr(first, key) for key in keys}
