"""What `show …` prints: the tables of sonic-utilities, and their JSON where a driver asks for it.

Layouts: doc/Command-Reference.md and the expected outputs of sonic-utilities' own tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lab.switches.sonic.config import Fields, Stored, row
from lab.switches.sonic.counterpoll import WRED_SINCE
from lab.switches.sonic.tools import CommandError, dump
from lab.switches.stored import PortCounters

if TYPE_CHECKING:
    from lab.switches.sonic.cli import Session, Switch

_HEAD_MARGIN: Final = 2
"""How much wider than its head a column is at least (tabulate: `MIN_PADDING`)."""
UNICAST_QUEUES: Final = range(8)
MULTICAST_QUEUES: Final = range(10, 20)
"""Queues of the chip beside the unicast ones; nothing of RoCE is in them."""


def run_show(session: Session, words: list[str]) -> str:
    """Run one `show` command.

    Raises:
        CommandError: It is unknown.
    """
    text = " ".join(words)
    for pattern, handler in _COMMANDS:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return handler(session.switch, found[1] or "" if found.re.groups else "")
    session.note(text)
    usage = 'Usage: show [OPTIONS] COMMAND [ARGS]...\nTry "show -h" for help.'
    raise CommandError(f'{usage}\n\nError: No such command "{" ".join(words[1:])}".', 2)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> str:
    """A table as `tabulate` prints it; the first `right` columns, or all if negative, are right."""
    lines = [header, *rows]
    widths = [
        max(len(head) + _HEAD_MARGIN, *(len(line[n]) for line in lines))
        for n, head in enumerate(header)
    ]
    count = len(header) if right < 0 else right

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if n < count else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *(line(cells) for cells in rows)]) + "\n"


def oper_up(switch: Switch, port: str) -> bool:
    """Whether a port is open, cabled, and its cable is plugged."""
    fields = row(switch.database.db, "PORT", port)
    plugged = port in switch.cabled and port not in switch.stored.link_down
    return fields.get("admin_status", "down") == "up" and plugged


def port_mode(db_rows: dict[str, Fields], port: str) -> str:
    """The column `Vlan` of the status: routed, access or trunk."""
    kinds = [
        fields.get("tagging_mode") for key, fields in db_rows.items() if key.endswith(f"|{port}")
    ]
    if not kinds:
        return "routed"
    return "trunk" if "tagged" in kinds else "access"


def _status(switch: Switch, _: str) -> str:
    db = switch.database.db
    rows = [
        (
            port,
            fields.get("lanes", "N/A"),
            f"{int(fields.get('speed', '0')) // 1000}G",
            fields.get("mtu", "N/A"),
            fields.get("fec", "N/A"),
            fields.get("alias", "N/A"),
            port_mode(db.get("VLAN_MEMBER", {}), port),
            "up" if oper_up(switch, port) else "down",
            fields.get("admin_status", "down"),
            "N/A",
            fields.get("pfc_asym", "N/A"),
        )
        for port, fields in db["PORT"].items()
    ]
    header = ("Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin")
    return table((*header, "Type", "Asym PFC"), rows, right=-1)


def _pfc_counters(switch: Switch, _: str) -> str:
    held = {name: _counters(switch.stored, name) for name in switch.database.db["PORT"]}
    received = {name: each.rx_pauses for name, each in held.items()}
    sent = {name: each.tx_pauses for name, each in held.items()}
    tables: list[str] = []
    for direction, counted in (("Rx", received), ("Tx", sent)):
        header = (f"Port {direction}", *(f"PFC{n}" for n in range(8)))
        rows = [
            (name, *(f"{each.get(n, 0):,}" for n in range(8))) for name, each in counted.items()
        ]
        tables.append(table(header, rows, right=-1))
    return "\n".join(tables)


def _pfcwd_stats(switch: Switch, _: str) -> str:
    """Queues that were found stuck; what they passed and dropped is not played."""
    header = ("QUEUE", "STATUS", "STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP")
    rows = [
        (f"{name}:{queue}", "operational", f"{count}/{count}", *("0/0" for _ in range(4)))
        for name in switch.database.db["PORT"]
        for queue, count in sorted(_counters(switch.stored, name).storms.items())
        if count
    ]
    return table((*header, "TX LAST OK/DROP", "RX LAST OK/DROP"), rows, right=-1)


def _counters(stored: Stored, port: str) -> PortCounters:
    return stored.counters.get(port, PortCounters())


def _queue_json(switch: Switch, port: str) -> str:
    names = [port] if port else [*switch.database.db["PORT"]]
    found: dict[str, dict[str, dict[str, str] | str]] = {}
    for name in names:
        held = _counters(switch.stored, name)
        sent, lost = held.tx_bytes, held.tx_drops
        rows: dict[str, dict[str, str] | str] = {
            f"UC{n}": _queue_row(str(sent.get(n, 0)), str(lost.get(n, 0))) for n in UNICAST_QUEUES
        }
        rows |= {f"MC{n}": _queue_row("0") for n in MULTICAST_QUEUES}
        rows |= {"ALL20": dict.fromkeys(_queue_row(""), "N/A"), "time": "2026-01-01T00:00:00"}
        found[name] = rows
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _queue_row(sent: str, lost: str = "0") -> dict[str, str]:
    return {"dropbytes": "0", "droppacket": lost, "totalbytes": sent, "totalpacket": "0"}


def _wred_json(switch: Switch, _: str) -> str:
    """`N/A` until `counterpoll wredqueue enable` (the project's ECN_and_WRED_statistics_HLD.md).

    Keys: sonic-utilities, scripts/wredstat. click refuses it where the release has no such command.
    """
    if switch.branch < WRED_SINCE:
        usage = 'Usage: show queue [OPTIONS] COMMAND [ARGS]...\nTry "show queue -h" for help.'
        raise CommandError(f'{usage}\n\nError: No such command "wredcounters".', 2)
    polled = row(switch.database.db, "FLEX_COUNTER_TABLE", "WRED_ECN_QUEUE")
    is_on = polled.get("FLEX_COUNTER_STATUS") == "enable"
    keys = ("ecnmarkedbytes", "ecnmarkedpacket", "wreddropbytes", "wreddroppacket")
    found: dict[str, dict[str, dict[str, str] | str]] = {}
    for name in switch.database.db["PORT"]:
        marked = _counters(switch.stored, name).ecn_marked
        rows: dict[str, dict[str, str] | str] = {
            f"UC{n}": dict.fromkeys(keys, "0") | {"ecnmarkedpacket": str(marked.get(n, 0))}
            if is_on
            else dict.fromkeys(keys, "N/A")
            for n in UNICAST_QUEUES
        }
        found[name] = rows | {"time": "2026-01-01T00:00:00"}
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _drops(switch: Switch, _: str) -> str:
    rows = [
        (name, str(_counters(switch.stored, name).rx_discards), *("0" for _ in range(7)))
        for name in switch.database.db["PORT"]
    ]
    header = ("Port", *(f"PG{n}" for n in range(8)))
    return "Ingress PG dropped packets:\n" + table(header, rows, right=-1)


HOST_MAC: Final = "24:8a:07:00:00:01"


def _lldp(switch: Switch, _: str) -> str:
    rows = [
        (port, system, told.port, "BR" if told.is_switch else "O", told.description)
        for port, (system, told) in switch.heard().items()
    ]
    header = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    body = table(header, rows)
    return (
        "Capability codes: (R) Router, (B) Bridge, (O) Other\n"
        f"{body}{'-' * 50}\nTotal entries displayed:  {len(rows)}\n"
    )


def _version(switch: Switch, _: str) -> str:
    return f"""
SONiC Software Version: {switch.release}
SONiC OS Version: 12
Distribution: Debian 12.6
Kernel: 6.1.0-11-2-amd64
Build commit: 3f2b7c1e0
Build date: Mon Jul  1 00:00:00 UTC 2024
Built by: lab

Platform: {switch.platform.platform}
HwSKU: {switch.platform.hwsku}
ASIC: broadcom
ASIC Count: 1
Serial Number: {switch.chassis.serial}
"""


Handler = Callable[["Switch", str], str]
_COMMANDS: Final[tuple[tuple[str, Handler], ...]] = (
    (r"show version", _version),
    (r"show interfaces status", _status),
    (r"show pfc counters", _pfc_counters),
    (r"show pfcwd stats", _pfcwd_stats),
    (r"show queue counters(?: (Ethernet\d+))? (?:--json|-j)", _queue_json),
    (r"show queue wredcounters --json", _wred_json),
    (r"show priority-group drop counters", _drops),
    (r"show lldp table", _lldp),
    (r"show runningconfiguration all", lambda switch, _: dump(switch.database.db)),
)
