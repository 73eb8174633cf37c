"""The driver of community SONiC: which commands, in which order, read how.

Each line acts at once. Everything is read from CONFIG_DB, which is what `config save` writes and
the next boot loads; rows of maps and profiles that we need bear our name, so that ports which are
not in the file keep theirs (docs/explanation/sources.md#sonic).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.parts import WHOLE, write_list, write_text
from components.fabric.state import Neighbour, OtherPorts, PortState, SwitchState
from components.fabric.systems import bash_cli
from components.fabric.systems.base import ByHand, Guard, LinkForm, Reading, Script
from components.fabric.systems.sonic import counters, read, routing, write
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.port import OFFERS

CONFIG: Final = "sudo sonic-cfggen -d --print-data"
VERSION: Final = "cat /etc/sonic/sonic_version.yml"
PORTS: Final = "sonic-db-dump -n STATE_DB -y -k 'PORT_TABLE|*'"
SCRATCH: Final = "/etc/sonic/railyard.json"
"""On the same disk as the saved configuration, for the length of one command."""
RELOAD_LOCK: Final = "/etc/sonic/reload.lock"
"""Held by `config reload` and `config load_minigraph` (sonic-utilities, config/main.py). A lock of
flock(2) needs no right to write, and ends with the shell that holds it, a moment after its
session: so the next one waits for it a little."""
_ECHO: Final = 'echo "[status $?]"'
"""End of what is typed: a command of several lines is echoed line by line before its answer."""

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


def _state_of(config: read.ConfigDb, wanted: SwitchState) -> SwitchState:
    routed = routing.routing_rows(config.tables)
    return SwitchState(
        vlans=tuple(sorted(map(read.vlan_number, config.tables.get("VLAN", {})))),
        roce="lossless" if config.row("BUFFER_POOL", db.LOSSLESS_POOL) else "none",
        addresses=routing.addresses_of(routed),
        bgp=routing.bgp_of(routed),
        native={
            WHOLE: write_list(config.implied),
            "held_rows": write_list(config.holders(wanted.ports)),
            **db.write_rows(config.rows()),
            routing.WORDS: write_text(routed),
        },
        ports={
            name: config.port(name, beside=bool(port.class_shares))
            for name, port in wanted.ports.items()
        },
    )


class SonicDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "sonic"
    title = "SONiC"
    links = LinkForm(counters.STATUS, counters.parse_links)
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
    # A reload of the configuration while we write would take our lines away again.
    configure: Sequence[str] = (
        Script(
            f"sudo touch {RELOAD_LOCK} && exec 9<{RELOAD_LOCK} && {{ flock -w 5 9 ||"
            ' { echo "a config reload or another update is running"; false; }; }'
        ),
    )
    discard: Sequence[str] = ()
    guard: Guard | None = None
    # A full disk cuts the saved configuration short: a copy that fits is proof that there is room.
    save: str = Script(f"sudo config save -y {SCRATCH} && sudo rm {SCRATCH} && sudo config save -y")

    def list_ports_commands(self) -> tuple[str, ...]:
        """The configuration names every port."""
        return (CONFIG,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return read.port_names(read.parse_config(CONFIG, answers[CONFIG]))

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """The whole configuration; the release if BGP is wanted, and what ports can run at."""
        linked = any(port.speed or port.fec for port in wanted.ports.values())
        return (
            CONFIG,
            *((VERSION,) if wanted.bgp is not None else ()),
            *((PORTS,) if linked else ()),
        )

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        tables = read.parse_config(CONFIG, answers[CONFIG])
        read.require_ports(CONFIG, tables, wanted.ports)
        config, native = read.ConfigDb.of(tables), dict[str, str]()
        if VERSION in answers:
            native[routing.RELEASE] = str(counters.parse_release(answers[VERSION]))
        if PORTS in answers:
            native[OFFERS] = write_text(counters.parse_offers(PORTS, answers[PORTS]))
        others = OtherPorts(by_vlan=config.vlan_holders(wanted.ports, interfaces=False))
        state = _state_of(config, wanted)
        state = state.model_copy(update={"native": state.native | native})
        return Reading(state, config.vlan_holders(wanted.ports), others)

    plan_changes = staticmethod(write.plan_changes)

    def find_refusal(self, output: str) -> str | None:
        """Exit status or text: a few commands print an error and exit 0."""
        printed = output.rpartition(_ECHO)[2]
        return bash_cli.find_refusal(
            printed, _ERRORS, lambda text: said[1] if (said := _CLICK.search(text)) else text
        )

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """Open ports in no VLAN with MTU 9100, no QoS of any port, and the platform's buffer pools.

        Those are there after `config qos reload`, which the first boot does not run everywhere. BGP
        is made by frrcfgd, and there is none.
        """
        row = {"admin_status": "up", "mtu": str(db.FACTORY_MTU_BYTES)}
        tables = {
            "PORT": dict.fromkeys(ports, row),
            "BUFFER_POOL": {db.LOSSLESS_POOL: {"type": "ingress"}},
            "FLEX_COUNTER_TABLE": {"PFCWD": {"FLEX_COUNTER_STATUS": "enable"}},
            "DEVICE_METADATA": {"localhost": {routing.MODE: "true"}},
        }
        wanted = SwitchState(ports=dict.fromkeys(ports, PortState()))
        return _state_of(read.ConfigDb.of(tables), wanted)

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; the container lldp runs by default."""
        return (counters.NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return counters.parse_neighbours(counters.NEIGHBOURS, answers[counters.NEIGHBOURS])

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The sessions, with BFD if any neighbour has it, and the next hops."""
        return counters.WITH_BFD if bfd else counters.SUMMARY, counters.NEXT_HOPS

    parse_sessions = staticmethod(counters.parse_sessions)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Sent bytes per queue, discards, pauses, storms, marks; of all ports in an answer each."""
        del ports
        return counters.COMMANDS

    parse_counters = staticmethod(counters.parse_counters)
