"""The driver of community SONiC: which commands, in which order, read how.

Each line acts at once. Everything is read from CONFIG_DB, which is what `config save` writes and
the next boot loads; rows of maps and profiles that we need bear our name, so that ports which are
not in the file keep theirs (docs/explanation/sources.md#sonic).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.effects import ByTable
from components.fabric.native import WHOLE, write_list
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, Neighbour, OtherPorts, PortState, SwitchState
from components.fabric.systems import bash_cli
from components.fabric.systems.base import (
    ByHand,
    Guard,
    LinkForm,
    PortCounters,
    Reading,
    SoftReader,
    Unreadable,
)
from components.fabric.systems.membership import holders_of
from components.fabric.systems.sonic import read as sonic_parse
from components.fabric.systems.sonic import sessions as sonic_sessions
from components.fabric.systems.sonic import write as sonic_actions
from components.fabric.systems.sonic.cable import link_state, parse_links
from components.fabric.systems.sonic.facts import FACTORY_MTU_BYTES, LOSSLESS_POOL, PRIORITIES
from components.fabric.systems.sonic.read import ConfigDb, Tables, vlan_number
from components.fabric.systems.sonic.routing import (
    addresses_of,
    bgp_of,
    factory_words,
    routing_words,
)
from components.fabric.systems.sonic.rows import write_rows
from components.fabric.systems.sonic.watchdog import PAUSES, STORMS, with_pauses

MARKS: Final = "show queue wredcounters --json"
"""From 202505 on (sonic-utilities 2807)."""
_UNKNOWN: Final = 'No such command "wredcounters"'
"""How an older release refuses it (click)."""
_QUEUES: Final = tuple(f"UC{number}" for number in range(8))
_TABLE: Final[TypeAdapter[dict[str, dict[str, JsonValue]]]] = TypeAdapter(
    dict[str, dict[str, JsonValue]]
)


def with_marks(port: str, counted: PortCounters, text: str) -> PortCounters:
    """The counters of a port with the answer to `MARKS`, as far as it can be read."""
    soft = SoftReader([*counted.unread])
    marked = soft.read("marked", lambda: parse_marks(text, port))
    return replace(counted, ecn_marked=marked, unread=soft.found)


def parse_marks(text: str, port: str) -> int | None:
    """Packets marked in all unicast queues of a port; None: nothing counts them.

    A queue has `N/A` where its chip counts none, or while polling is off, as it is at first.

    Raises:
        Unreadable: It is no such table, or the port is not in it.
    """
    if _UNKNOWN in text:
        return None
    try:
        table = _TABLE.validate_json(text[text.find("{") :].strip())
    except ValidationError as error:
        raise Unreadable(MARKS, text, "it is no table of queues") from error
    queues = [table.get(port, {}).get(name) for name in _QUEUES]
    cells = [each.get("ecnmarkedpacket") for each in queues if isinstance(each, dict)]
    texts = [str(cell).replace(",", "") for cell in cells]
    if not texts or not all(each.isdigit() or each == "N/A" for each in texts):
        raise Unreadable(MARKS, text, f"there is no unicast queue of {port} in it")
    counts = [int(each) for each in texts if each.isdigit()]
    return sum(counts) if counts else None


REMARK: Final = "tc_to_dscp_map"
"""What a port writes into the packets of a class (sonic-port-qos-map.yang)."""


def beside_of(config: ConfigDb, name: str) -> dict[str, object]:
    """A rewrite of DSCP, and the weight of each class that is not strict."""
    qos = {**config.row("PORT_QOS_MAP", "global"), **config.row("PORT_QOS_MAP", name)}
    rows = {tc: config.row("SCHEDULER", _scheduler(config, name, tc)) for tc in PRIORITIES}
    return {
        "rewrite_dscp": bool(qos.get(REMARK)),
        "class_shares": {
            tc: int(row["weight"])
            for tc, row in rows.items()
            if row.get("type") != "STRICT" and row.get("weight", "").isdigit()
        },
    }


def _scheduler(config: ConfigDb, name: str, queue: int) -> str:
    return config.queue(name, queue).get("scheduler", "")


def other_ports(tables: Tables, ours: Collection[str]) -> OtherPorts:
    """Who else is a member of a VLAN; SONiC has no member of all."""
    named: dict[str, set[int]] = {}
    for key in tables.get("VLAN_MEMBER", {}):
        vlan, _, port = key.partition("|")
        if port not in ours:
            named.setdefault(port, set()).add(vlan_number(vlan))
    return OtherPorts(by_vlan=holders_of(named))


CONFIG: Final = "sudo sonic-cfggen -d --print-data"
POLL: Final = "sleep 11"
"""Queues and groups are polled every 10 s (sonic-utilities, counterpoll/main.py): until then a
reading does not hold what a probe has just sent."""
QUEUES: Final = "show queue counters --json"
DROPS: Final = "show priority-group drop counters"
NEIGHBOURS: Final = "show lldp table"
STATUS: Final = "show interfaces status"
SCRATCH: Final = "/etc/sonic/railyard.json"
"""On the same disk as the saved configuration, for the length of one command."""
RELOAD_LOCK: Final = "/etc/sonic/reload.lock"
"""Held by `config reload` and `config load_minigraph` (sonic-utilities, config/main.py)."""

_ERRORS: Final = (
    "Cannot find interface",
    "doesn't exist",
    "Failed to acquire lock",
    "(error)",
    "command not found",
)
"""Texts of failures that exit with status 0: `pfc config` and `config load` of sonic-utilities,
and Redis' own."""
_CLICK: Final = re.compile(r"^Error: (.*)", re.MULTILINE | re.DOTALL)
"""The last part of a refusal of click, after two lines of usage."""


class SonicDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "sonic"
    title = "SONiC"
    links = LinkForm(STATUS, parse_links)
    by_hand = ByHand(
        "SONiC deletes what the port has, and where the platform has no platform.json it takes its "
        "ports from port_config.ini at the next boot",
        (
            "show interfaces breakout",
            "sudo config interface breakout {whole} '<a mode of {parts}>' -y -f",
        ),
    )
    enter: Sequence[str] = ("sudo -n true",)
    """Members of group sudo need no password on SONiC; if that was changed, say so."""
    # A reload of the configuration right now would take our lines away again.
    configure: Sequence[str] = (
        f'sudo flock -n {RELOAD_LOCK} true || {{ echo "a config reload is running"; false; }}',
    )
    discard: Sequence[str] = ()
    guard: Guard | None = None
    # A full disk cuts the saved configuration short: a copy that fits is proof that there is room.
    save = f"sudo config save -y {SCRATCH} && sudo rm {SCRATCH} && sudo config save -y"

    def list_ports_commands(self) -> tuple[str, ...]:
        """The configuration names every port."""
        return (CONFIG,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return sonic_parse.port_names(sonic_parse.parse_config(CONFIG, answers[CONFIG]))

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """The whole configuration, whatever is wanted."""
        del wanted
        return (CONFIG,)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        tables = sonic_parse.parse_config(CONFIG, answers[CONFIG])
        sonic_parse.require_ports(CONFIG, tables, wanted.ports)
        config = ConfigDb.of(tables)
        state = SwitchState(
            vlans=tuple(sorted(vlan_number(name) for name in tables.get("VLAN", {}))),
            roce="lossless" if config.row("BUFFER_POOL", LOSSLESS_POOL) else "none",
            addresses=addresses_of(tables),
            bgp=bgp_of(tables),
            native={
                WHOLE: write_list(config.implied),
                "held_rows": write_list(config.holders(wanted.ports)),
                **write_rows(config.rows()),
                **routing_words(tables),
            },
            ports={
                name: config.port(name).model_copy(
                    update=link_state(config.row("PORT", name))
                    | (beside_of(config, name) if port.class_shares else {})
                )
                for name, port in wanted.ports.items()
            },
        )
        ours = {*wanted.ports}
        return Reading(state, _vlan_holders(tables, ours), other_ports(tables, ours))

    plan_changes = staticmethod(sonic_actions.plan_changes)

    def find_refusal(self, output: str) -> str | None:
        """Exit status or text: a few commands print an error and exit 0."""
        return bash_cli.find_refusal(output, _ERRORS, _reason_of)

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """Open ports in no VLAN with MTU 9100, no QoS of any port, and the platform's buffer pools.

        Those are there after `config qos reload`, which the first boot does not run everywhere.
        """
        port = PortState(
            admin_up=True,
            mtu_bytes=FACTORY_MTU_BYTES,
            fec="",
            autoneg="",
            mode="routed",
            trunk_vlans=(),
            trust="port",
            strict_classes=(),
            pfc_priorities=(),
            lossless_buffers=(),
            pfc_watchdog=False,
            cable_m=0,
        )
        return SwitchState(
            roce="lossless",
            addresses={},
            bgp=BgpState(),
            native=write_rows({}) | factory_words(),
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; the container lldp runs by default."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return sonic_parse.parse_neighbours(NEIGHBOURS, answers[NEIGHBOURS])

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The sessions, with BFD where any neighbour has it, and the next hops."""
        asked = sonic_sessions.WITH_BFD if bfd else sonic_sessions.SUMMARY
        return asked, sonic_sessions.NEXT_HOPS

    def parse_sessions(self, answers: Mapping[str, str]) -> Sessions:
        """Read what `session_commands` asked for."""
        return sonic_sessions.parse_sessions(answers)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Sent bytes per queue, discards, pauses, storms, marks; of all ports in an answer each."""
        del ports
        return (POLL, QUEUES, DROPS, PAUSES, STORMS, MARKS)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        queues, drops = (QUEUES, answers[QUEUES]), (DROPS, answers[DROPS])
        return {
            port: with_marks(
                port, with_pauses(port, counted, answers[PAUSES], answers[STORMS]), answers[MARKS]
            )
            for port, counted in sonic_parse.parse_counters(queues, drops, ports).items()
        }


def _reason_of(text: str) -> str:
    said = _CLICK.search(text)
    return said[1] if said else text


def _vlan_holders(tables: Tables, ours: Collection[str]) -> dict[int, tuple[str, ...]]:
    """Ports outside those that were asked for, and interfaces, that use a VLAN."""
    named: dict[str, set[int]] = {}
    for key in tables.get("VLAN_MEMBER", {}):
        vlan, _, port = key.partition("|")
        if port not in ours:
            named.setdefault(port, set()).add(vlan_number(vlan))
    for key in tables.get("VLAN_INTERFACE", {}):
        vlan = key.partition("|")[0]
        named.setdefault(vlan, set()).add(vlan_number(vlan))
    return holders_of(named)
