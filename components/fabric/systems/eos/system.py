"""The driver of Arista EOS, and EOS as the rest of the house knows it.

Changes come as a configuration session that is committed with a timer: the switch itself takes it
back unless it is confirmed after the second reading (lab/sources.md#eos).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from components.fabric.parts import Sessions, write_list
from components.fabric.ports import marking_of
from components.fabric.state import BgpState, PortState, SwitchState
from components.fabric.systems import base, switch_system
from components.fabric.systems import eos as show
from components.fabric.systems import rows as table
from components.fabric.systems.base import Answer
from components.fabric.systems.eos import routing, rows
from components.fabric.systems.eos.rows import DEFAULT_CLASSES, ROWS
from components.fabric.systems.ranges import holders_of, others_of
from components.model.fabric import Rdma
from components.model.switch_models import LinkSettings

VLANS: Final = "show vlan | json"
STATUS: Final = "show interfaces status | json"
INTERFACES: Final = "show running-config sanitized | section ^interface"
"""`sanitized` keeps the keys of routing protocols out of our error messages."""
MAPS: Final = "show running-config sanitized | include ^qos"
NEIGHBOURS: Final = "show lldp neighbors detail | json"
_REFUSAL = re.compile(r"^\r?((?:%|Error|Cannot|Unable to).*)", re.MULTILINE)
"""EOS prints `% ` before an error; the other words are a precaution."""
_NO_PORT: Final = re.compile(r"(?:Vlan|Loopback|Management|Vxlan)\d+")
"""Interfaces that cannot be ports of a bridge."""


def _read_commands(wanted: SwitchState) -> tuple[str, ...]:
    """VLANs, every interface as configured, and the maps if we manage any QoS."""
    asks_maps = any(port.ecn or port.strict_classes for port in wanted.ports.values())
    asks_maps |= wanted.dscp_classes is not None or wanted.rewrite_dscp is not None
    is_routed = wanted.addresses is not None or wanted.bgp is not None
    routes = (routing.ROUTING, routing.ROUTER) if is_routed else ()
    return (VLANS, INTERFACES, *((MAPS,) if asks_maps else ()), *routes)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> base.Reading:
    parts: dict[str, Any] = {}
    with Answer(INTERFACES, answers[INTERFACES]).reading():
        sections = rows.parse_sections(INTERFACES, answers[INTERFACES])
    if routing.ROUTER in answers:
        plain, router = answers[routing.ROUTING], answers[routing.ROUTER]
        with Answer(routing.ROUTER, router).reading():
            parts |= routing.parse_routing(sections, plain, router)
    if MAPS in answers:
        with Answer(MAPS, answers[MAPS]).reading():
            maps = table.take_lines(rows.MAP_ROWS, map(str.strip, answers[MAPS].splitlines()))
        queues, asked = maps.get("class_queues", {}), wanted.dscp_classes
        classes = rows.DEFAULT_CLASSES | maps.get("dscp_classes", {})
        used = (each for p in wanted.ports.values() for each in (*p.ecn, *(p.strict_classes or ())))
        for tc in (each for each in used if each and queues.get(each, each) != each):
            why = (
                f"traffic class {tc} is mapped to queue {queues[tc]}, but its ECN and schedule "
                f"are set on queue {tc}; remove that line"
            )
            raise base.Unreadable(MAPS, answers[MAPS], why)
        if asked is not None:
            parts["dscp_classes"] = {dscp: classes[dscp] for dscp in asked}
        if wanted.rewrite_dscp is not None:
            parts["rewrite_dscp"] = "rewrite_dscp" in maps
    state = SwitchState(
        vlans=show.parse_vlans(Answer(VLANS, answers[VLANS])),
        **parts,
        ports={
            name: rows.read_port(sections[name], port)
            for name, port in wanted.ports.items()
            if name in sections and not sections[name].values["is_odd"]
        },
    )
    rest = {name: each for name, each in sections.items() if name not in wanted.ports}
    named = {name: section.named_vlans(name) for name, section in rest.items()}
    carrying = {
        name: rows.read_port(each, PortState())
        for name, each in rest.items()
        if not _NO_PORT.match(name)
    }
    return base.Reading(state, holders_of(named), others_of(carrying))


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[base.Change, ...]:
    missing = [name for name in target.ports if name not in actual.ports]
    if missing:
        raise base.Unsettable(
            f"{', '.join(missing)}: not found, or part of a bundle, a tunnel or a tap; read "
            "`show running-config interfaces`"
        )
    return table.write_steps(_STEPS, actual, target)


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """VLAN 1 on access ports, which are up; trust CoS, no ECN, no PFC, every queue strict."""
    port = rows.read_port(rows.Section(), PortState()).model_copy(update={"ecn": {}})
    return SwitchState(
        vlans=(rows.FACTORY_VLAN,),
        dscp_classes=rows.DEFAULT_CLASSES,
        addresses={},
        bgp=BgpState(),
        native={routing.WORDS: write_list((routing.MODEL,))},
        ports=dict.fromkeys(ports, port),
    )


def _sessions(*, bfd: bool) -> base.Question[Sessions]:
    """The summary, the routes, and BFD's peers if any neighbour has it."""
    return base.Question((show.SUMMARY, show.ROUTES, *[show.BFD] * bfd), show.parse_sessions)


def _counters(ports: Sequence[str]) -> base.Question[dict[str, base.PortCounters]]:
    """Received in all, sent per class, marked and discarded packets; pauses of all ports."""
    of_port = [each for each in show.COUNTERS.values() if "{port}" in each]
    of_all = [each for each in show.COUNTERS.values() if each not in of_port]
    return base.Question(
        (*(each.format(port=port) for port in ports for each in of_port), *of_all),
        lambda answers: {port: show.port_counters(port, answers) for port in ports},
    )


_STEPS: Final[tuple[table.Step, ...]] = (
    table.add_vlans,
    lambda was, now: ((line,) for line in table.write_rows(rows.MAP_ROWS, was, now)),
    routing.leaving_lines,
    # A block for each port: how a range of split ports is written differs between platforms.
    lambda was, now: (
        (f"interface {name}", *lines, "exit")
        for name, port in now.ports.items()
        if (lines := [*rows.port_lines(was.ports[name], port)])
    ),
    routing.coming_lines,
    routing.forwarding_lines,
    routing.router_lines,
    table.remove_vlans,
)


def plan_intent(rdma: Rdma) -> switch_system.Intent:
    """Every setting is set separately, PFC by port."""
    lossless = rdma.mode == "lossless"
    return switch_system.Intent(
        # Anybody can change the map from DSCP to class, so we watch our DSCPs.
        SwitchState(dscp_classes={rdma.dscp: rdma.traffic_class, rdma.cnp_dscp: rdma.cnp_priority}),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "eos")},
            pfc=True if lossless else None,
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _link_words(wish: LinkSettings, lanes: int | None) -> dict[str, str]:
    """`400g-4`, or `auto 400g-4`; that one lane of 25 Gbit/s is just `25g` is a guess."""
    words = {"fec": str(wish.fec)} if wish.fec else {}
    speed = wish.speed_gbit_s
    if speed is None or lanes is None:
        return words
    said = f"{speed}g-{lanes}" if lanes > 1 or speed > _OLD_LANE else f"{speed}g"
    return {**words, "speed": f"auto {said}" if wish.autoneg else said}


_OLD_LANE: Final = 25
"""The fastest lane speed that can be written without a number of lanes."""
SYSTEM: Final = switch_system.SwitchSystem(
    **switch_system.load_facts(
        "eos", guard={"list_command": show.SESSIONS, "find_stale": show.find_stale}
    ),
    read_commands=_read_commands,
    parse=_parse,
    plan_changes=_plan_changes,
    find_refusal=base.refusals(_REFUSAL),
    factory_state=_factory_state,
    ports=base.ask_once(STATUS, lambda answer: tuple(show.parse_ports(answer))),
    neighbours=base.ask_once(NEIGHBOURS, show.parse_neighbours),
    link_states=base.ask_once(
        STATUS,
        lambda answer: {
            name: word == "connected"
            for name, word in show.parse_ports(answer).items()
            if word is not None
        },
    ),
    sessions=_sessions,
    counters=_counters,
    intent=plan_intent,
    rows=dict.fromkeys((row.name for row in ROWS), (4, 28, 0)),
    links=switch_system.LinkForm(_link_words, by_lanes=True),
    class_of_dscp=DEFAULT_CLASSES.__getitem__,
)
