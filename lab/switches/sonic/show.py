"""The output of `show …`: the tables of sonic-utilities, and JSON if a driver asks for it.

Layouts: doc/Command-Reference.md and the expected outputs of sonic-utilities' own tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lab.switches.sonic.commands import WRED_SINCE
from lab.switches.sonic.config import Fields, row
from lab.switches.sonic.tools import Commands, dump, no_such_command
from lab.switches.text import ruled

if TYPE_CHECKING:
    from lab.switches.emulators import Daemons
    from lab.switches.sonic.server import SonicSwitch

UNICAST_QUEUES: Final = range(8)
MULTICAST_QUEUES: Final = range(10, 20)
"""The chip's multicast queues, which never carry RoCE."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> str:
    """A table as `tabulate` prints it (its `MIN_PADDING` is 2)."""
    return ruled(header, rows, right, margin=2)


def port_mode(members: dict[str, Fields], port: str) -> str:
    """The column `Vlan` of the status: routed, access or trunk."""
    kinds = [each.get("tagging_mode") for key, each in members.items() if key.endswith(f"|{port}")]
    return "trunk" if "tagged" in kinds else "access" if kinds else "routed"


def _status(switch: SonicSwitch) -> str:
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
            "up" if switch.up(port) else "down",
            fields.get("admin_status", "down"),
            "N/A",
            fields.get("pfc_asym", "N/A"),
        )
        for port, fields in db["PORT"].items()
    ]
    header = ("Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin")
    return table((*header, "Type", "Asym PFC"), rows, right=-1)


def _pfc_counters(switch: SonicSwitch) -> str:
    held = {name: switch.counted(name) for name in switch.database.db["PORT"]}
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


def _pfcwd_stats(switch: SonicSwitch) -> str:
    """Queues that were found stuck; the lab does not count their passed and dropped packets."""
    header = ("QUEUE", "STATUS", "STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP")
    rows = [
        (f"{name}:{queue}", "operational", f"{count}/{count}", *("0/0" for _ in range(4)))
        for name in switch.database.db["PORT"]
        for queue, count in sorted(switch.counted(name).storms.items())
        if count
    ]
    return table((*header, "TX LAST OK/DROP", "RX LAST OK/DROP"), rows, right=-1)


def _queue_json(switch: SonicSwitch, port: str) -> str:
    names = [port] if port else [*switch.database.db["PORT"]]
    found: dict[str, dict[str, dict[str, str] | str]] = {}
    for name in names:
        held = switch.counted(name)
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


def _wred_json(switch: SonicSwitch) -> str:
    """`N/A` until `counterpoll wredqueue enable` (the project's ECN_and_WRED_statistics_HLD.md).

    Keys: sonic-utilities, scripts/wredstat. In a release without this command, click refuses it.
    """
    if switch.branch < WRED_SINCE:
        raise no_such_command("show queue", "wredcounters")
    polled = row(switch.database.db, "FLEX_COUNTER_TABLE", "WRED_ECN_QUEUE")
    is_on = polled.get("FLEX_COUNTER_STATUS") == "enable"
    keys = ("ecnmarkedbytes", "ecnmarkedpacket", "wreddropbytes", "wreddroppacket")
    found: dict[str, dict[str, dict[str, str] | str]] = {}
    for name in switch.database.db["PORT"]:
        marked = switch.counted(name).ecn_marked
        rows: dict[str, dict[str, str] | str] = {
            f"UC{n}": dict.fromkeys(keys, "0") | {"ecnmarkedpacket": str(marked.get(n, 0))}
            if is_on
            else dict.fromkeys(keys, "N/A")
            for n in UNICAST_QUEUES
        }
        found[name] = rows | {"time": "2026-01-01T00:00:00"}
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _drops(switch: SonicSwitch) -> str:
    rows = [
        (name, str(switch.counted(name).rx_discards), *("0" for _ in range(7)))
        for name in switch.database.db["PORT"]
    ]
    header = ("Port", *(f"PG{n}" for n in range(8)))
    return "Ingress PG dropped packets:\n" + table(header, rows, right=-1)


def _lldp(switch: SonicSwitch) -> str:
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


def _version(switch: SonicSwitch) -> str:
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


def _everything(switch: SonicSwitch) -> str:
    return dump(switch.database.db)


_COMMANDS: Final = Commands(
    "show",
    (
        (r"show version", _version, ""),
        (r"show interfaces status", _status, ""),
        (r"show pfc counters", _pfc_counters, ""),
        (r"show pfcwd stats", _pfcwd_stats, ""),
        (r"show queue counters(?: (Ethernet\d+))? (?:--json|-j)", _queue_json, ""),
        (r"show queue wredcounters --json", _wred_json, ""),
        (r"show priority-group drop counters", _drops, ""),
        (r"show lldp table", _lldp, ""),
        (r"show runningconfiguration all", _everything, ""),
    ),
)


def run_show(switch: SonicSwitch, words: list[str]) -> str:
    """Run one `show` command; the real FRR, if the lab runs it, answers about BGP and routes.

    Raises:
        CommandError: It is unknown.
    """
    told = None if switch.frr is None else _ask_frr(switch.frr, words[1:])
    return _COMMANDS.run(switch, words) if told is None else told


_HEADER: Final = (
    *("Neighbhor", "V", "AS", "MsgRcvd", "MsgSent", "TblVer", "InQ", "OutQ", "Up/Down"),
    *("State/PfxRcd", "NeighborName"),
)
"""Spelled as in the source."""
_PASSED_ON: Final = {
    ("ip", "route"): "show ip route",
    ("ip", "bgp", "neighbors"): "show ip bgp neighbors",
    ("runningconfiguration", "bgp"): "show running-config bgpd",
}
_SUMMARY: Final = ("ip", "bgp", "summary")


_COLUMNS: Final = {
    "version": 4,
    "remoteAs": "",
    "msgRcvd": "",
    "msgSent": "",
    "tableVersion": 0,
    "inq": 0,
    "outq": 0,
    "peerUptime": "",
}
"""Keys of FRR's JSON of a neighbour, and the text for a missing one."""


def _ask_frr(frr: Daemons, words: list[str]) -> str | None:
    """FRR's answer to `show` with these words; None if FRR cannot answer it.

    sonic-utilities ask vtysh. Most commands print its answer, but `show ip bgp summary` makes a
    table from its JSON (show/bgp_frr_v4.py, utilities_common/bgp_util.py and
    tests/bgp_commands_test.py).
    """
    if tuple(words) == _SUMMARY:
        _, text = frr.vtysh("-c", "show ip bgp summary json")
        found = json.loads(text).get("ipv4Unicast")
        return _summary(found) if found else "IPv4 Unicast Summary:\nNo BGP neighbors found\n"
    for head, question in _PASSED_ON.items():
        if tuple(words[: len(head)]) == head:
            return frr.vtysh("-c", " ".join((question, *words[len(head) :])))[1]
    return None


def _summary(found: dict[str, Any]) -> str:
    peers: dict[str, dict[str, Any]] = found.get("peers", {})
    rows: list[tuple[str, ...]] = []
    for name, peer in sorted(peers.items()):
        heard = peer.get("pfxRcd", 0) if peer["state"] == "Established" else peer["state"]
        cells = (*(peer.get(key, default) for key, default in _COLUMNS.items()), heard)
        rows.append((name, *map(str, cells), peer.get("desc", "NotAvailable")))
    return (
        "\nIPv4 Unicast Summary:\n"
        f"BGP router identifier {found['routerId']}, local AS number {found['as']} "
        f"vrf-id {found.get('vrfId', 0)}\n"
        f"BGP table version {found['tableVersion']}\n"
        f"RIB entries {found['ribCount']}, using {found['ribMemory']} bytes of memory\n"
        f"Peers {found['peerCount']}, using {found['peerMemory']} KiB of memory\n\n\n"
        f"{table(_HEADER, rows)}\nTotal number of neighbors {len(rows)}\n"
    )
