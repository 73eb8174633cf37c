"""The driver of Arista EOS: which commands, in which order, read how.

Changes come as a configuration session that is committed with a timer: unless it is confirmed after
the second reading, the switch takes it back by itself (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.native import sources, write_fields, write_list
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems.base import (
    Guard,
    LinkForm,
    PortCounters,
    Reading,
    Unreadable,
)
from components.fabric.systems.eos import config as eos_config
from components.fabric.systems.eos import read as eos_parse
from components.fabric.systems.eos import sessions as eos_sessions
from components.fabric.systems.eos import write as eos_actions
from components.fabric.systems.eos.config import Section
from components.fabric.systems.eos.facts import (
    FACTORY_MTU_BYTES,
    FACTORY_VLAN,
    QUEUES,
    ROLLBACK_S,
    WATCHDOG_ACTION,
    default_class,
)
from components.fabric.systems.eos.routing import (
    MODEL,
    ROUTER,
    ROUTING,
    WORDS,
    Routing,
    parse_routing,
)
from components.fabric.systems.membership import holders_of, others_of

VLANS: Final = "show vlan | json"
STATUS: Final = "show interfaces status | json"
INTERFACES: Final = "show running-config sanitized | section ^interface"
"""`sanitized`: no key of a routing protocol may come into an error message of ours."""
MAPS: Final = "show running-config sanitized | include ^qos"
NEIGHBOURS: Final = "show lldp neighbors detail | json"
TOTALS: Final = "show interfaces {port} counters | json"
DISCARDS: Final = "show interfaces {port} counters discards | json"
SENT: Final = "show interfaces {port} counters queue detail | json"
MARKED: Final = "show qos interfaces {port} ecn counters queue | json"
PAUSES: Final = "show priority-flow-control counters detail | json"
STORMS: Final = "show priority-flow-control counters watchdog | json"

_REFUSAL = re.compile(r"^\r?((?:%|Error|Cannot|Unable to).*)", re.MULTILINE)
"""EOS prints `% ` before an error; the other words are a precaution."""
_SVI: Final = re.compile(r"(?:Vlan|Loopback|Management|Vxlan)\d+")
"""Interfaces that are no ports of a bridge."""
_TIMER: Final = f"{ROLLBACK_S // 3600:02}:{ROLLBACK_S // 60 % 60:02}:{ROLLBACK_S % 60:02}"


class EosDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "eos"
    title = "EOS"
    links = LinkForm(STATUS, eos_parse.parse_links)
    enter: Sequence[str] = ("enable",)
    configure: Sequence[str] = ()
    discard: Sequence[str] = ()
    guard: Guard | None = Guard(
        open="configure session {name}",
        # The diff changes nothing: it puts what is about to happen into the session's record.
        force=("show session-config diffs", f"commit timer {_TIMER}"),
        confirm="configure session {name} commit",
        abandon="abort",
        revert="configure session {name} abort",
        rollback_s=ROLLBACK_S,
        list_command=eos_parse.SESSIONS,
        find_stale=eos_parse.find_stale,
    )
    save = "write memory"

    def list_ports_commands(self) -> tuple[str, ...]:
        """The status table names every port that there is, split ones too."""
        return (STATUS,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return eos_parse.parse_port_names(STATUS, answers[STATUS])

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """VLANs, every interface as configured, and the maps if any of QoS is ours."""
        asks_classes = any(port.ecn or port.strict_classes for port in wanted.ports.values())
        asks_maps = wanted.dscp_classes is not None or wanted.rewrite_dscp is not None
        asks_maps = asks_maps or asks_classes
        routes = (ROUTING, ROUTER) if _wants_routing(wanted) else ()
        return (VLANS, INTERFACES, *((MAPS,) if asks_maps else ()), *routes)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        sections = eos_config.parse_sections(INTERFACES, answers[INTERFACES])
        routing = _routing(sections, answers)
        state = SwitchState(
            vlans=eos_parse.parse_vlans(VLANS, answers[VLANS]),
            dscp_classes=_classes(answers, wanted),
            rewrite_dscp=_rewrites(answers) if wanted.rewrite_dscp is not None else None,
            addresses=routing.addresses if routing else None,
            bgp=routing.bgp if routing else None,
            native={WORDS: write_list(routing.words)} if routing else {},
            ports={
                name: _port(sections[name], wanted.ports[name])
                for name in wanted.ports
                if name in sections and _is_settable(sections[name])
            },
        )
        rest = {name: each for name, each in sections.items() if name not in wanted.ports}
        others = {name: _vlans_of(name, section) for name, section in rest.items()}
        carrying = {name: _member(each) for name, each in rest.items() if not _SVI.match(name)}
        return Reading(state, holders_of(others), others_of(carrying))

    plan_changes = staticmethod(eos_actions.plan_changes)

    def find_refusal(self, output: str) -> str | None:
        """EOS reports by lines that start with `%`; a terminal session has no exit status."""
        found = _REFUSAL.search(output)
        return found[1].strip() if found else None

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """VLAN 1 on access ports, which are up; trust CoS, no ECN, no PFC, every queue strict."""
        port = PortState(
            admin_up=True,
            mtu_bytes=FACTORY_MTU_BYTES,
            mode="access",
            access_vlan=FACTORY_VLAN,
            trunk_vlans="all",
            trust="L2",
            pfc=False,
            pfc_priorities=(),
            pfc_watchdog=False,
            strict_classes=tuple(QUEUES),
            speed="",
            fec="",
            native=sources(mtu_bytes=False, trust=False, mode=False),
        )
        return SwitchState(
            vlans=(FACTORY_VLAN,),
            dscp_classes={dscp: default_class(dscp) for dscp in range(64)},
            addresses={},
            bgp=BgpState(),
            native={WORDS: write_list((MODEL,))},
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; LLDP is on by default."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return eos_parse.parse_neighbours(NEIGHBOURS, answers[NEIGHBOURS])

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The summary, the routes, and BFD's peers where any neighbour has it."""
        asked = (eos_sessions.SUMMARY, eos_sessions.ROUTES)
        return (*asked, eos_sessions.BFD) if bfd else asked

    def parse_sessions(self, answers: Mapping[str, str]) -> Sessions:
        """Read what `session_commands` asked for."""
        return eos_sessions.parse_sessions(answers)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received in all, sent per class, marked and discarded packets; pauses of all ports."""
        templates = (TOTALS, DISCARDS, SENT, MARKED)
        each = tuple(template.format(port=port) for port in ports for template in templates)
        return (*each, PAUSES, STORMS)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        found: dict[str, PortCounters] = {}
        for port in ports:
            total, discards, sent, marked = (
                template.format(port=port) for template in (TOTALS, DISCARDS, SENT, MARKED)
            )
            found[port] = eos_parse.port_counters(
                port,
                {
                    "rx": (total, answers[total]),
                    "discards": (discards, answers[discards]),
                    "tx": (sent, answers[sent]),
                    "marked": (marked, answers[marked]),
                    "pauses": (PAUSES, answers[PAUSES]),
                    "storms": (STORMS, answers[STORMS]),
                },
            )
        return found


def _wants_routing(wanted: SwitchState) -> bool:
    return wanted.addresses is not None or wanted.bgp is not None


def _routing(sections: Mapping[str, Section], answers: Mapping[str, str]) -> Routing | None:
    """What was asked for: addresses, BGP, and the lines as they are."""
    if ROUTER not in answers:
        return None
    return parse_routing(sections, answers[ROUTING], answers[ROUTER])


def _is_settable(section: Section) -> bool:
    """A plain port that is in no bundle: a bundle's settings would be in force there."""
    return not section.is_odd and section.bundle is None


def _classes(answers: Mapping[str, str], wanted: SwitchState) -> dict[int, int] | None:
    if MAPS not in answers:
        return None
    maps = eos_config.parse_maps(answers[MAPS])
    ours = {
        tc for port in wanted.ports.values() for tc in (*port.ecn, *(port.strict_classes or ()))
    }
    for tc in sorted(ours & {*maps.queues} - {0}):
        why = (
            f"traffic class {tc} is mapped to queue {maps.queues[tc]}, but its ECN and schedule "
            f"are set on queue {tc}; remove that line"
        )
        raise Unreadable(MAPS, answers[MAPS], why)
    if wanted.dscp_classes is None:
        return None
    return {dscp: maps.dscp_classes[dscp] for dscp in wanted.dscp_classes}


def _rewrites(answers: Mapping[str, str]) -> bool:
    """`qos rewrite dscp` is one line for the whole switch (AVD's template of `qos`)."""
    return re.search(r"^qos rewrite dscp\b", answers.get(MAPS, ""), re.MULTILINE) is not None


def _member(section: Section) -> PortState:
    access, trunk = section.access_vlan, section.trunk_vlans
    return PortState(mode=section.mode, access_vlan=access, trunk_vlans=trunk)


def _port(section: Section, wanted: PortState) -> PortState:
    trust, mtu_bytes, mode = section.trust, section.mtu_bytes, section.mode
    watchdog = section.watchdog
    return PortState(
        admin_up=section.admin_up,
        mtu_bytes=FACTORY_MTU_BYTES if mtu_bytes is None else mtu_bytes,
        speed=section.speed,
        fec=section.fec,
        mode=mode,
        access_vlan=section.access_vlan,
        trunk_vlans=section.trunk_vlans,
        native_vlan=None if wanted.native_vlan is None else section.native_vlan,
        # Arista's manual: a switch port trusts CoS by default, a routed one DSCP.
        trust=trust or ("L3" if mode == "routed" else "L2"),
        ecn=section.ecn,
        pfc=section.pfc,
        pfc_priorities=section.no_drop,
        strict_classes=section.strict_classes,
        class_shares=dict.fromkeys(wanted.class_shares, 0) | section.shares,
        # All three lines: without one of them a default of the whole switch would decide.
        pfc_watchdog={"enable", "timer"} <= {*watchdog}
        and watchdog.get("action") == WATCHDOG_ACTION,
        pfc_watchdog_ms=section.watchdog_ms if wanted.pfc_watchdog_ms else None,
        native=sources(
            mtu_bytes=mtu_bytes is not None, trust=trust is not None, mode=section.has_mode
        )
        | ({"pfc_watchdog": write_fields(watchdog)} if watchdog else {}),
    )


def _vlans_of(name: str, section: Section) -> set[int]:
    """The VLANs that a port, a bundle or the routed interface of a VLAN names."""
    routed = name.removeprefix("Vlan")
    return {int(routed)} if routed.isdigit() else {*section.named_vlans()}
