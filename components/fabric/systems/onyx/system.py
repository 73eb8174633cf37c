"""The driver of NVIDIA (Mellanox) Onyx, and Onyx as the rest of the house knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from components.fabric.effects import ByTable
from components.fabric.queues import marking_of
from components.fabric.state import Neighbour, PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import ByHand, LinkForm, PortCounters, Reading, Unreadable
from components.fabric.systems.membership import holders_of, named_vlans, others_of
from components.fabric.systems.onyx import answers as show
from components.fabric.systems.onyx import rows
from components.fabric.systems.onyx.answers import PRIORITIES
from components.fabric.systems.ranges import port_key
from components.fabric.systems.rows import factory_values, fields_of, read_rows
from components.fabric.systems.switch_system import Intent, SwitchSystem
from components.model.fabric import Rdma

VLANS: Final = "show vlan | json-print"
PFC: Final = "show dcb priority-flow-control | json-print"
NEIGHBOURS: Final = "show lldp interfaces ethernet remote"
FACTORY_MTU_BYTES: Final = 1500
"""Below release 3.9.2110 (the ESXi guide, sources.md#onyx)."""
_BUNDLES: Final = ("Po", "Mpo")


class OnyxDriver(ByTable, mellanox_cli.MellanoxDriver):
    """See `components.fabric.systems.base.Driver`."""

    system = "onyx"
    title = "Onyx"
    links = LinkForm(
        rows.STATUS,
        lambda _command, text: {p: bool(row["link"]) for p, row in show.read_status(text).items()},
    )
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
    whole_command = staticmethod(rows.whole_command)
    plan_changes = staticmethod(rows.plan_changes)

    def list_ports_commands(self) -> tuple[str, ...]:
        """The switchport table names every port."""
        return (rows.SWITCHPORTS,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every Ethernet port, by number."""
        members = show.read_members(Answer(rows.SWITCHPORTS, answers[rows.SWITCHPORTS]))
        return tuple(sorted((n for n in members if not n.startswith(_BUNDLES)), key=port_key))

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """Two tables, one look at each port per kind of setting that is ours."""
        beside = (
            () if wanted.roce is None else (rows.RUNNING,)
        )  # rows.LLDP, which the one-shot sets too
        return (*_commands(wanted, None), *beside)

    def rest_commands(self, answers: Mapping[str, str], wanted: SwitchState) -> tuple[str, ...]:
        """The tables and looks that the running configuration does not save."""
        rest = _commands(wanted, rows.whole_of(answers))
        return tuple(command for command in rest if not answers.get(command))

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for, and where it was not asked, the whole."""
        whole, found = rows.whole_of(answers), dict[str, object]()
        members = _members(answers, wanted, whole)
        paused = dict[str, bool]()
        if PFC in answers:
            pfc, paused = show.read_pfc(Answer(PFC, answers[PFC]))
            found |= pfc
        if whole is None or VLANS in answers:
            found["vlans"] = show.read_vlans(Answer(VLANS, answers[VLANS]))
        else:
            found["vlans"] = whole.vlans
        if rows.ROCE in answers:
            found["roce"] = show.read_roce_mode(Answer(rows.ROCE, answers[rows.ROCE]))
        if wanted.roce and whole and whole.lldp:
            found["native"] = {rows.LLDP: "on"}
        found["ports"] = {
            name: members[name].model_copy(
                update=(whole.port(name, port) if whole else {})
                | read_rows(rows.PORT_ROWS, rows.COMMANDS, answers, name, port)
                | {"pfc": paused.get(name)}
            )
            for name, port in wanted.ports.items()
        }
        others = {name: port for name, port in members.items() if name not in wanted.ports}
        return Reading(
            SwitchState().model_copy(update=found),
            holders_of({name: named_vlans(port) for name, port in others.items()}),
            others_of(others),
        )

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """VLAN 1 on access ports, MTU 1500, trust L2, no ECN, no PFC, nothing strict."""
        values = factory_values(rows.PORT_ROWS) | {
            "mtu_bytes": FACTORY_MTU_BYTES,
            "trunk_vlans": (),
        }
        asked = (row for row in rows.PORT_ROWS if row.name not in {"ecn", "dscp_priorities"})
        port = PortState().model_copy(update=fields_of(asked, values, values, PortState()))
        every = dict.fromkeys(ports, port)
        return SwitchState(
            vlans=(1,), pfc_priorities=(), pfc_enabled=False, roce="none", ports=every
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; nothing while `lldp` is off."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return show.read_neighbours(answers[NEIGHBOURS])

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received per priority and sent per class, of all ports at once; marked ones by port."""
        each = (show.CONGESTION, show.ROCE_COUNTERS)
        return (
            show.TOTALS,
            *(line.format(n) for n in PRIORITIES for line in (show.OF_PRIORITY, show.OF_CLASS)),
            *(line.format(port) for port in ports for line in each),
        )

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        return {port: show.CounterReader(answers, port).read() for port in ports}


def _commands(wanted: SwitchState, whole: rows.Whole | None) -> tuple[str, ...]:
    ports = wanted.ports.items()
    pfc = (wanted.pfc_priorities, wanted.pfc_enabled, *(port.pfc for _, port in ports))
    return (
        *((VLANS, rows.SWITCHPORTS) if whole is None or whole.members(wanted) is None else ()),
        *((PFC,) if any(value is not None for value in pfc) else ()),
        *((rows.ROCE,) if wanted.roce is not None else ()),
        *(
            rows.COMMANDS[topic].format(name)
            for name, port in ports
            for topic in (whole.opens(name, port) if whole else rows.asked_topics(port))
        ),
    )


def _members(
    answers: Mapping[str, str], wanted: SwitchState, whole: rows.Whole | None
) -> dict[str, PortState]:
    """Ports and bundles with their VLANs, by the table where it was asked."""
    text = answers.get(rows.SWITCHPORTS)
    if text is None:
        return (whole.members(wanted) if whole else None) or {}
    members = show.read_members(Answer(rows.SWITCHPORTS, text))
    for name in {*wanted.ports} - {*members}:
        why = f"port {name} is no switchport: it is routed (`no switchport`) or not there"
        fix = f"To make it one: interface ethernet {name} switchport force"
        raise Unreadable(rows.SWITCHPORTS, text, f"{why}. {fix}")
    return members


_ONE_SHOT: Final[dict[str, Literal["lossless", "semi-lossless"] | None]] = {
    "lossless": "lossless",
    "semi_lossless": "semi-lossless",
    "lossy_ecn": None,
}


def plan_intent(rdma: Rdma) -> Intent:
    """Every part on its own; lossless modes come with the one-shot, which makes their pool.

    `rdma.dscp` reaches no line: the switch's own map gives DSCP 24 to 31 priority 3.
    """
    lossless = rdma.mode == "lossless"
    return Intent(
        SwitchState(
            pfc_priorities=(rdma.priority,) if lossless else None,
            pfc_enabled=True if lossless else None,
            # A pause needs a buffer pool of its own: the one-shot makes it, and PFC with it. What
            # PFC shows in semi-lossless mode is not public, so nothing is wanted of it there.
            roce=_ONE_SHOT[rdma.mode],
        ),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "onyx")},
            pfc=True if lossless else None,
            # Priority n is in class n (Onyx' default, printed by `show roce` for 3 and 6).
            strict_classes=(rdma.cnp_priority,),
        ),
    )


SYSTEM: Final = SwitchSystem(
    driver=OnyxDriver(),
    intent=plan_intent,
    session=mellanox_cli.SESSION,
    # `speed 100G no-autoneg` on 3.6 and `speed 100G` on 3.9 (sources.md#onyx-unknown).
    links="the words for it are others on 3.6 than on 3.9, and no page was found that says since "
    "when",
    exec_form=mellanox_cli.EXEC,
    identity=mellanox_cli.IDENTITY,
    # `roce` and `show roce` (Onyx user manual 3.8.2000, "RoCE Commands"). Trust, traffic pools and
    # ECN per class came with 3.6.5000 (docs/explanation/sources.md#onyx).
    min_release=(3, 8, 2000),
    older="has no `show roce`, by which its state is read",
    a_release="3.9.2504",
    one_shot_modes=frozenset({"lossless", "semi_lossless"}),
    one_shot_flaps=True,  # manual "RoCE Commands": interfaces may toggle
    semi_lossless=None,
    pfc_watchdog="no published command shows whether its `pfc-wd` is on, so that it could be "
    "set and never read back",
    cable_length="its lossless pool sizes the headroom itself, and no command for the length "
    "of a cable is documented",
    port_ecn=None,
    mark_percent="its line of thresholds has no share of packets, and at the upper one all are "
    "marked",
    class_shares=None,
    repairs=frozenset({"switch.rewrite", "switch.ecn_elsewhere", "switch.pfc_elsewhere"}),
)
