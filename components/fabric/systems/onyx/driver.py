"""The driver of NVIDIA (Mellanox) Onyx: which commands, in which order, read how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.state import Neighbour, PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.base import (
    ByHand,
    LinkForm,
    PauseCounters,
    PortCounters,
    PriorityCounters,
    Reading,
    SoftReader,
    Unreadable,
)
from components.fabric.systems.membership import holders_of, others_of
from components.fabric.systems.onyx import read as onyx_parse
from components.fabric.systems.onyx import write as onyx_actions
from components.fabric.systems.onyx.read import Pfc, Switchport
from components.fabric.systems.onyx.running import (
    FACTORY_ETS_WEIGHT,
    ROCE,
    RUNNING,
    STATUS,
    Whole,
    parse_links,
    topics_of,
    whole_command,
    whole_of,
)
from components.fabric.systems.ranges import port_key

VLANS: Final = "show vlan | json-print"
SWITCHPORTS: Final = "show interfaces switchport | json-print"
PFC: Final = "show dcb priority-flow-control | json-print"
INTERFACE: Final = "show interfaces ethernet {port}"
TRUST: Final = "show qos interface ethernet {port} | json-print"
CONGESTION: Final = "show interfaces ethernet {port} congestion-control | json-print"
ETS: Final = "show dcb ets interface ethernet {port} | json-print"
COUNTERS: Final = "show interfaces ethernet {port} counters"
PRIORITY_COUNTERS: Final = "show interfaces ethernet {port} counters pfc prio {number}"
NEIGHBOURS: Final = "show lldp interfaces ethernet remote"
CLASS_COUNTERS: Final = "show interfaces ethernet {port} counters tc {number}"
ROCE_COUNTERS: Final = "show interfaces ethernet {port} counters roce | json-print"
"""The second way of counting (capture C10): the class of RoCE alone, and all that is not of it."""
ROCE_PRIORITY: Final = 3
"""Of the RoCE profile (capture C1)."""
PRIORITIES: Final = range(8)
FACTORY_MTU_BYTES: Final = 1500
"""Below release 3.9.2110 (the ESXi guide, sources.md#onyx)."""
_OF_TOPIC: Final = {"interface": INTERFACE, "qos": TRUST, "congestion": CONGESTION, "ets": ETS}
"""The command that tells one port's."""


class OnyxDriver(ByTable, mellanox_cli.MellanoxDriver):
    """See `components.fabric.systems.base.Driver`."""

    system = "onyx"
    title = "Onyx"
    links = LinkForm(STATUS, parse_links)
    taken = PortState(
        trust="L2",
        ecn=dict.fromkeys(PRIORITIES),
        strict_classes=(),
        class_shares=dict.fromkeys(PRIORITIES, 0),
    )
    by_hand = ByHand(
        "Onyx drops what the port has",
        (
            "interface ethernet {whole} shutdown",
            "interface ethernet {whole} module-type qsfp-split-{parts} force",
        ),
    )

    def list_ports_commands(self) -> tuple[str, ...]:
        """The switchport table names every port."""
        return (SWITCHPORTS,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every Ethernet port, by number."""
        ports = onyx_parse.parse_switchports(SWITCHPORTS, answers[SWITCHPORTS])
        return tuple(sorted(ports, key=port_key))

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """Two tables, one look at each port per kind of setting that is ours."""
        beside = () if wanted.roce is None else (RUNNING,)  # LLDP, which the one-shot sets too
        return (*self._commands(wanted, None), *beside)

    def whole_command(self, answers: Mapping[str, str], wanted: SwitchState) -> str | None:
        """See `components.fabric.systems.base.WholeReader`."""
        return whole_command(answers, wanted)

    def rest_commands(self, answers: Mapping[str, str], wanted: SwitchState) -> tuple[str, ...]:
        """The tables and looks that the running configuration does not save."""
        rest = self._commands(wanted, whole_of(answers))
        return tuple(command for command in rest if not answers.get(command))

    def _commands(self, wanted: SwitchState, whole: Whole | None) -> tuple[str, ...]:
        commands = [VLANS, SWITCHPORTS] if whole is None or whole.members(wanted) is None else []
        if _wants_pfc(wanted):
            commands.append(PFC)
        if wanted.roce is not None:
            commands.append(ROCE)
        for name, port in wanted.ports.items():
            topics = topics_of(port) if whole is None else whole.opens(name, port)
            commands += [_OF_TOPIC[topic].format(port=name) for topic in topics]
        return tuple(commands)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for, and where it was not asked, the whole."""
        whole = whole_of(answers)
        members = _members(answers, wanted, whole)
        pfc = onyx_parse.parse_pfc(PFC, answers[PFC]) if PFC in answers else None
        state = SwitchState(
            vlans=onyx_parse.parse_vlans(VLANS, answers[VLANS])
            if whole is None or VLANS in answers
            else whole.running.vlans,
            pfc_priorities=pfc.priorities if pfc else None,
            pfc_enabled=pfc.enabled if pfc else None,
            roce=onyx_parse.parse_roce_mode(ROCE, answers[ROCE]) if ROCE in answers else None,
            native={onyx_actions.LLDP: "on"}
            if wanted.roce and whole and whole.running.lldp
            else {},
            ports={
                name: _port(answers, name, port, whole).model_copy(
                    update=_vlans_and_pfc(members[name], pfc, name)
                )
                for name, port in wanted.ports.items()
            },
        )
        others = {name: port for name, port in members.items() if name not in wanted.ports}
        return Reading(
            state,
            holders_of({name: _vlans_of(port) for name, port in others.items()}),
            others_of({name: _member(port) for name, port in others.items()}),
        )

    plan_changes = staticmethod(onyx_actions.plan_changes)

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """VLAN 1 on access ports, MTU 1500, trust L2, no ECN, no PFC, nothing strict."""
        port = PortState(
            admin_up=True,
            mtu_bytes=FACTORY_MTU_BYTES,
            mode="access",
            access_vlan=1,
            trunk_vlans=(),
            trust="L2",
            rewrite_dscp=False,
            pfc=False,
            strict_classes=(),
            wrr_weights=dict.fromkeys(PRIORITIES, FACTORY_ETS_WEIGHT),
        )
        return SwitchState(
            vlans=(1,),
            pfc_priorities=(),
            pfc_enabled=False,
            roce="none",
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; nothing while `lldp` is off."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return onyx_parse.parse_neighbours(answers[NEIGHBOURS])

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received per priority, sent per class, marked and discarded packets."""
        commands: list[str] = []
        for port in ports:
            commands += [each.format(port=port) for each in (COUNTERS, CONGESTION, ROCE_COUNTERS)]
            for number in PRIORITIES:
                commands.append(PRIORITY_COUNTERS.format(port=port, number=number))
                commands.append(CLASS_COUNTERS.format(port=port, number=number))
        return tuple(commands)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        return {port: _counters(answers, port) for port in ports}


def _wants_pfc(wanted: SwitchState) -> bool:
    ports = any(port.pfc is not None for port in wanted.ports.values())
    return ports or wanted.pfc_priorities is not None or wanted.pfc_enabled is not None


def _members(
    answers: Mapping[str, str], wanted: SwitchState, whole: Whole | None
) -> dict[str, Switchport]:
    """Ports and bundles with their VLANs, by the table where it was asked.

    Raises:
        Unreadable: A port that is asked for is not in the table.
    """
    if SWITCHPORTS not in answers:
        return (whole.members(wanted) if whole else None) or {}
    members = onyx_parse.parse_members(SWITCHPORTS, answers[SWITCHPORTS])
    for name in wanted.ports:
        if name not in members:
            why = (
                f"port {name} is no switchport: it is routed (`no switchport`) or not there. "
                f"To make it one: interface ethernet {name} switchport force"
            )
            raise Unreadable(SWITCHPORTS, answers[SWITCHPORTS], why)
    return members


def _vlans_and_pfc(l2: Switchport, pfc: Pfc | None, name: str) -> dict[str, object]:
    return {
        "mode": l2.mode,
        "access_vlan": l2.access_vlan,
        "trunk_vlans": l2.allowed_vlans,
        "pfc": pfc.ports.get(name) if pfc else None,
    }


def _port(
    answers: Mapping[str, str], name: str, wanted: PortState, whole: Whole | None
) -> PortState:
    """Its settings beside VLANs and PFC: by its own answers, or else by the whole."""
    interface, trust, congestion, ets = (
        template.format(port=name) for template in (INTERFACE, TRUST, CONGESTION, ETS)
    )
    found: dict[str, object] = {}
    if interface in answers:
        link = onyx_parse.parse_interface(interface, answers[interface])
        found |= {"admin_up": link.admin_up, "mtu_bytes": link.mtu_bytes}
    if trust in answers:
        found["trust"] = onyx_parse.parse_trust(trust, answers[trust], name)
        found |= _beside(answers[trust], name, wanted)
    if congestion in answers:
        found["ecn"] = onyx_parse.parse_congestion(congestion, answers[congestion])
    if ets in answers:
        strict, weights = onyx_parse.parse_ets(ets, answers[ets])
        found |= {"strict_classes": strict, "wrr_weights": weights}
        found |= {"class_shares": weights} if wanted.class_shares else {}
    base = whole.port(name, wanted) if whole else PortState()
    return base.model_copy(update=found)


def _beside(text: str, name: str, wanted: PortState) -> dict[str, object]:
    """What else the answer about trust says; the weights are in that about classes."""
    command, found = TRUST.format(port=name), dict[str, object]()
    if wanted.rewrite_dscp is not None:
        found["rewrite_dscp"] = onyx_parse.parse_rewrite(command, text, name)
    if wanted.dscp_priorities:
        found["dscp_priorities"] = onyx_parse.parse_dscp_map(command, text, name)
    return found


def _member(port: Switchport) -> PortState:
    vlans = port.allowed_vlans
    return PortState(mode=port.mode, access_vlan=port.access_vlan, trunk_vlans=vlans)


def _vlans_of(port: Switchport) -> set[int]:
    named = () if port.allowed_vlans == "all" else port.allowed_vlans
    return {*named, *((port.access_vlan,) if port.access_vlan else ())}


def _counters(answers: Mapping[str, str], port: str) -> PortCounters:
    """What can be read of a port: by priority and class, or else the class of RoCE alone."""
    soft = SoftReader()
    received = soft.read("rx", lambda: _by_class(answers, port, PRIORITY_COUNTERS, "Rx:"))
    sent = soft.read("tx", lambda: _by_class(answers, port, CLASS_COUNTERS, "TC {number}:"))
    second = SoftReader()
    if received is None:
        received = second.read("rx", lambda: _of_roce(answers, port, "Rx:", "RoCE PG bytes"))
    if sent is None:
        sent = second.read("tx", lambda: _of_roce(answers, port, "Tx:", "RoCE TC bytes"))
    lacking = {each.way for each in second.unread}
    marked, totals = CONGESTION.format(port=port), COUNTERS.format(port=port)
    rest = SoftReader([each for each in soft.unread if each.way in lacking])
    return PortCounters(
        {
            number: PriorityCounters((received or {}).get(number), (sent or {}).get(number))
            for number in PRIORITIES
            if number in {*(received or {}), *(sent or {})}
        },
        rest.read("marked", lambda: onyx_parse.parse_ecn_marked(marked, answers[marked])),
        rest.read("discards", lambda: _total(answers[totals], totals, "Rx:", "discard packets")),
        pauses=rest.read("pauses", lambda: _pauses(answers, port)) or {},
        unread=rest.found,
    )


def _pauses(answers: Mapping[str, str], port: str) -> dict[int, PauseCounters]:
    found: dict[int, PauseCounters] = {}
    for number in PRIORITIES:
        command = PRIORITY_COUNTERS.format(port=port, number=number)
        received, sent = (
            _total(answers[command], command, block, "pause packets") for block in ("Rx:", "Tx:")
        )
        found[number] = PauseCounters(received, sent)
    return found


def _total(text: str, command: str, block: str, name: str) -> int:
    return onyx_parse.parse_counter(command, text, block, name)


def _by_class(answers: Mapping[str, str], port: str, template: str, block: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for number in PRIORITIES:
        command = template.format(port=port, number=number)
        head = block.format(number=number)
        found[number] = onyx_parse.parse_counter(command, answers[command], head, "bytes")
    return found


def _of_roce(answers: Mapping[str, str], port: str, block: str, name: str) -> dict[int, int]:
    """The RoCE class, and under 0 all else that the port counts."""
    command, totals = ROCE_COUNTERS.format(port=port), COUNTERS.format(port=port)
    ours = onyx_parse.parse_roce_bytes(command, answers.get(command, ""), name)
    every = _total(answers[totals], totals, block, "bytes")
    return {ROCE_PRIORITY: ours, 0: max(every - ours, 0)}
