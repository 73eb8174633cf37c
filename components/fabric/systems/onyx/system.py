"""The driver of NVIDIA (Mellanox) Onyx, and Onyx as the rest of the house knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from components.core.templates import fault_text
from components.fabric.ports import marking_of
from components.fabric.state import Neighbour, PortState, SwitchState
from components.fabric.systems import base, mellanox_cli, switch_system
from components.fabric.systems.base import Answer
from components.fabric.systems.onyx import rows
from components.fabric.systems.onyx.rows import CELLS, COUNT, LISTS, PRIORITIES, TABLES
from components.fabric.systems.ranges import holders_of, named_vlans, others_of, port_key
from components.fabric.systems.rows import factory_values, read_answers, write_steps
from components.model.fabric import Rdma

VLANS: Final = "show vlan | json-print"
PFC: Final = "show dcb priority-flow-control | json-print"
NEIGHBOURS: Final = "show lldp interfaces ethernet remote"
TOTALS: Final = "show interfaces ethernet counters"
OF_PRIORITY: Final = "show interfaces ethernet counters pfc prio {}"
OF_CLASS: Final = "show interfaces ethernet counters tc {}"
"""Each of the three covers every port: a public client asks so (sources.md#onyx-counters)."""
ROCE_COUNTERS: Final = "show interfaces ethernet {} counters roce | json-print"
"""The fallback (capture C10): it counts the RoCE class, and the remainder is everything else."""
FACTORY_MTU_BYTES: Final = 1500
"""Below release 3.9.2110 (the ESXi guide, sources.md#onyx)."""
_HEARD: Final = re.compile(
    r"^\s*(?:Eth(?P<port>[^ :]+)(?: \(.*\))?:?"
    r"|Remote (?P<key>system name|port-id|port description) *: *(?P<value>.*?) *(?:;.*)?)$",
    re.MULTILINE,
)
"""`Eth1/1`, or `Eth1/1 (Po100)` for a port of a bundle; `Remote port-id : Eth1/31 ; subtype …`.
Five public clients look for these lines."""
_HEARD_KEYS: Final = {"system name": "system", "port-id": "port", "port description": "description"}
_ONE_SHOT: Final[dict[str, Literal["lossless", "semi-lossless"]]] = {
    "lossless": "lossless",
    "semi_lossless": "semi-lossless",
}


def read_vlans(answer: Answer) -> tuple[int, ...]:
    """The VLANs of the switch (fixture onyx_vlan_rows.cfg)."""
    return tuple(sorted(answer.typed(COUNT, vlan) for vlan in answer.find(CELLS)))


def read_pfc(answer: Answer) -> tuple[dict[str, object], dict[str, bool]]:
    """PFC of the switch, and by port (capture C4); `Auto` with an active PFC is on (C2)."""
    tables = answer.find(TABLES) or [{}]
    first, ports = answer.typed(CELLS, {"": tables[0]})[""], answer.typed(LISTS, tables[-1])
    is_on = answer.cell(first, "PFC", "enabled", "disabled") == "enabled"
    priorities = answer.cell(first, "Priority Enabled List").split()
    found: dict[str, object] = {"pfc_enabled": is_on, "pfc_priorities": tuple(map(int, priorities))}
    return found, {
        name.removeprefix("Eth"): answer.cell(each[0], "PFC admin") == "on"
        or answer.cell(each[0], "PFC oper") == "Enabled"
        for name, each in ports.items()
    }


def read_roce_mode(answer: Answer) -> str:
    """`show roce`: capture C1; `N/A` while it is off (manual 3.10, "RoCE Commands")."""
    mode = answer.match(r"^RoCE mode\s*:\s*(N/A|lossless|semi-lossless|lossy)\s*$")
    return "none" if mode == "N/A" else mode


def read_neighbours(text: str) -> dict[str, Neighbour]:
    """What LLDP heard, by port."""
    found: dict[str, Neighbour] = {}
    port = ""
    for row in _HEARD.finditer(text.replace("\r", "")):
        port, key = row["port"] or port, row["key"]
        if port and key:
            is_told = row["value"] not in {"Not Advertised", "N\\A", ""}
            told = {_HEARD_KEYS[key]: row["value"]} if is_told else {}
            found[port] = found.get(port, Neighbour(system="")).model_copy(update=told)
    return found


def read_counter(answer: Answer, head: str, name: str) -> int:
    """One `<number> <name>` line under a head such as `Rx` in the block of the port."""
    block = rf"^Eth{answer.port}:?\s*$(?:\n(?!Eth).*)*?\n\s*{head}:?\s*$(?:\n\s*\d+\s.*)*?"
    found = re.search(rf"{block}\n\s*(\d+)\s+{name}\s*$", answer.text, re.MULTILINE)
    if found is None:
        raise answer.unreadable(f"no counter `{name}` under `{head}` of port {answer.port}")
    return int(found[1])


def read_counters(answers: Mapping[str, str], port: str) -> base.PortCounters:
    """The counters of one port, read one by one: an unknown form does not spoil the others."""
    soft = base.SoftReader()

    def ask(command: str) -> Answer:
        return Answer(command, answers.get(command, ""), port)

    def by_number(command: str, head: str, name: str) -> dict[int, int]:
        found = ((n, ask(command.format(n)), head.format(n)) for n in PRIORITIES)
        return {n: read_counter(answer, under, name) for n, answer, under in found}

    def bytes_of(way: Literal["rx", "tx"], kind: str, command: str, head: str) -> dict[int, int]:
        """Bytes by priority or class; as a fallback the RoCE class, with the remainder under 0."""

        def of_roce() -> dict[int, int]:
            ours = ask(ROCE_COUNTERS.format(port)).find(COUNT, f"RoCE {kind} bytes")
            every = read_counter(ask(TOTALS), way.capitalize(), "bytes")
            return {switch_system.ONE_SHOT_PRIORITY: ours, 0: max(every - ours, 0)}

        first = base.SoftReader()
        found = first.read(way, lambda: by_number(command, head, "bytes"))
        found = base.SoftReader().read(way, of_roce) if found is None else found
        soft.unread += first.unread if found is None else []
        return found or {}

    def pauses() -> dict[int, base.PauseCounters]:
        rx, tx = (by_number(OF_PRIORITY, head, "pause packets") for head in ("Rx", "Tx"))
        return {number: base.PauseCounters(rx[number], tx[number]) for number in PRIORITIES}

    received = bytes_of("rx", "PG", OF_PRIORITY, "Rx")
    sent = bytes_of("tx", "TC", OF_CLASS, "TC {}")
    marked = ask(rows.CONGESTION.format(port))
    return base.PortCounters(
        {n: base.PriorityCounters(received.get(n), sent.get(n)) for n in sorted(received | sent)},
        soft.read("marked", lambda: marked.find(COUNT, "ECN marked packets")),
        soft.read("discards", lambda: read_counter(ask(TOTALS), "Rx", "discard packets")),
        pauses=soft.read("pauses", pauses) or {},
        unread=soft.found,
    )


def _whole_command(answers: Mapping[str, str], wanted: SwitchState) -> str | None:
    whole = rows.whole_of(answers)
    if whole is None:
        return None if rows.RUNNING in answers else rows.RUNNING
    if rows.ROCE not in answers and (whole.one_shot or wanted.roce is not None):
        return rows.ROCE
    lacking = (
        rows.INTERFACE in whole.opens(name, port) or name not in whole.ports
        for name, port in wanted.ports.items()
    )
    return rows.STATUS if rows.STATUS not in answers and any(lacking) else None


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[base.Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    The one-shot `roce` moves many settings at once, so it comes alone: the rest is planned
    after the next reading. While it is lossless, no line takes PFC off a port.
    """
    if target.roce not in {None, actual.roce}:
        line = "no roce" if target.roce == "none" else f"roce {target.roce}"
        return (base.Change((line,), settles=True),)
    if (target.roce or actual.roce) == "lossless":
        ports = target.ports.items()
        kept = {name: port.model_copy(update={"pfc": port.pfc or None}) for name, port in ports}
        target = target.model_copy(update={"ports": kept})
    return write_steps(rows.STEPS, actual, target)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> base.Reading:
    whole, members = rows.whole_of(answers), dict[str, PortState]()
    if (text := answers.get(rows.SWITCHPORTS)) is not None:
        members = rows.read_members(Answer(rows.SWITCHPORTS, text))
        for name in {*wanted.ports} - {*members}:
            why = fault_text(__file__, "no-switchport", name=name)
            raise base.Unreadable(rows.SWITCHPORTS, text, why)
    elif whole is not None:
        members = whole.members(wanted) or {}
    found, paused = read_pfc(Answer(PFC, answers[PFC])) if PFC in answers else ({}, {})
    if whole is None or VLANS in answers:
        found["vlans"] = read_vlans(Answer(VLANS, answers[VLANS]))
    else:
        found["vlans"] = whole.vlans
    if rows.ROCE in answers:
        found["roce"] = read_roce_mode(Answer(rows.ROCE, answers[rows.ROCE]))
    if wanted.roce and whole and re.search(r"(?m)^\s*lldp\s*$", answers[rows.RUNNING]):
        found["native"] = {rows.LLDP: "on"}
    found["ports"] = {
        name: members[name].model_copy(
            update=(whole.port(name, port) if whole else {})
            | rows.fields_of(read_answers(rows.asked_rows(port), answers, name), port)
            | {"pfc": paused.get(name)}
        )
        for name, port in wanted.ports.items()
    }
    others = {name: port for name, port in members.items() if name not in wanted.ports}
    return base.Reading(
        SwitchState().model_copy(update=found),
        holders_of({name: named_vlans(port) for name, port in others.items()}),
        others_of(others),
    )


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """VLAN 1 on access ports, MTU 1500, trust L2, no ECN, no PFC, nothing strict."""
    asked = (row for row in rows.PORT_ROWS if row.name not in {"ecn", "dscp_priorities"})
    values = factory_values(asked) | {"mtu_bytes": FACTORY_MTU_BYTES, "trunk_vlans": ()}
    port = PortState().model_copy(update=rows.fields_of(values, PortState()))
    off = SwitchState(vlans=(1,), pfc_priorities=(), pfc_enabled=False, roce="none")
    return off.model_copy(update={"ports": dict.fromkeys(ports, port)})


def _counters(ports: Sequence[str]) -> base.Question[dict[str, base.PortCounters]]:
    commands = (
        TOTALS,
        *(line.format(n) for n in PRIORITIES for line in (OF_PRIORITY, OF_CLASS)),
        *(line.format(port) for port in ports for line in (rows.CONGESTION, ROCE_COUNTERS)),
    )
    return base.Question(commands, lambda got: {port: read_counters(got, port) for port in ports})


def _commands(wanted: SwitchState, whole: rows.Whole | None) -> tuple[str, ...]:
    ports = wanted.ports.items()
    pfc = (wanted.pfc_priorities, wanted.pfc_enabled, *(port.pfc for _, port in ports))
    return (
        *((VLANS, rows.SWITCHPORTS) if whole is None or whole.members(wanted) is None else ()),
        *((PFC,) if any(value is not None for value in pfc) else ()),
        *((rows.ROCE,) if wanted.roce is not None else ()),
        *(
            command.format(name)
            for name, port in ports
            for command in (whole.opens(name, port) if whole else rows.asked_commands(port))
        ),
    )


def plan_intent(rdma: Rdma) -> tuple[SwitchState, PortState]:
    """Every setting separately; lossless modes come with the one-shot, which makes their pool."""
    pauses = True if rdma.mode == "lossless" else None
    return (
        SwitchState(
            pfc_priorities=(rdma.priority,) if pauses else None,
            pfc_enabled=pauses,
            # A pause needs its own buffer pool, which the one-shot makes, and PFC with it. The
            # output of PFC in semi-lossless mode is not public, so we want no setting of PFC there.
            roce=_ONE_SHOT.get(rdma.mode),
        ),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "onyx")},
            pfc=pauses,
            # Priority n is in class n (Onyx' default, printed by `show roce` for 3 and 6).
            strict_classes=(rdma.cnp_priority,),
        ),
    )


SYSTEM: Final = switch_system.SwitchSystem(
    **switch_system.load_facts("onyx"),
    **mellanox_cli.COMMON,
    # An accepted configuration line prints nothing.
    exec_form=switch_system.ExecForm(expects=r"\s*", cli=True),
    # Two tables, some commands per port, and where LLDP is read, which the one-shot sets.
    read_commands=lambda wanted: (
        *_commands(wanted, None),
        *(() if wanted.roce is None else (rows.RUNNING,)),
    ),
    parse=_parse,
    plan_changes=_plan_changes,
    factory_state=_factory_state,
    whole_command=_whole_command,
    rest_commands=lambda answers, wanted: tuple(
        each for each in _commands(wanted, rows.whole_of(answers)) if not answers.get(each)
    ),
    intent=plan_intent,
    # The switchport table names every Ethernet port.
    ports=base.ask_once(
        rows.SWITCHPORTS,
        lambda a: tuple(sorted((n for n in rows.read_members(a) if n[0].isdigit()), key=port_key)),
    ),
    neighbours=base.ask_once(NEIGHBOURS, lambda answer: read_neighbours(answer.text)),
    link_states=base.ask_once(
        rows.STATUS,
        lambda answer: {p: bool(r["link"]) for p, r in rows.read_status(answer.text).items()},
    ),
    counters=_counters,
    taken=PortState(
        trust="L2",
        ecn=dict.fromkeys(PRIORITIES),
        strict_classes=(),
        class_shares=dict.fromkeys(PRIORITIES, 0),
    ),
)
