"""NVIDIA Onyx: its output about ports, read into plain values.

Every form has a public source: `tests/fabric/forms/README.md` names it. Readers raise `Unreadable`
rather than guess. A "capture" is one of lab/sources.md#onyx-captures.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter

from components.fabric.state import EcnState, PortState
from components.fabric.systems.base import Answer
from components.fabric.systems.ranges import parse_vlan_ranges

SWITCHPORTS: Final = "show interfaces switchport | json-print"
INTERFACE: Final = "show interfaces ethernet {}"
QOS: Final = "show qos interface ethernet {} | json-print"
CONGESTION: Final = "show interfaces ethernet {} congestion-control | json-print"
ETS: Final = "show dcb ets interface ethernet {} | json-print"
PRIORITIES: Final = range(8)
"""Switch priorities, and traffic classes: eight of each."""
COUNT: Final = TypeAdapter(int)
CELLS: Final = TypeAdapter(dict[str, dict[str, str]])
LISTS: Final = TypeAdapter(dict[str, list[dict[str, str]]])
TABLES: Final = TypeAdapter(list[dict[str, JsonValue]])
_PORT: Final = TypeAdapter(PortState)
_ECN: Final = TypeAdapter(EcnState)


def read_members(answer: Answer) -> dict[str, PortState]:
    """The table of switchports and bundles."""
    ports: dict[str, PortState] = {}
    for name, row in answer.find(CELLS).items():
        if name.startswith(("Eth", "Po", "Mpo")):
            mode = answer.cell(row, "Mode", "access", "trunk", "hybrid")
            access = answer.cell(row, "Access vlan")
            allowed = answer.cell(row, "Allowed vlans").strip().lower()
            with answer.reading():
                vlans = allowed if allowed == "all" else parse_vlan_ranges(allowed)
            found = {"mode": mode, "access_vlan": int(access) if access.isdigit() else None}
            ports[name.removeprefix("Eth")] = answer.typed(_PORT, {**found, "trunk_vlans": vlans})
    return ports


def read_dscp_map(answer: Answer) -> dict[int, int]:
    """DSCP to priority."""
    name = "PCP(DEI); DSCP to switch-priority mapping"
    tables = answer.find(TABLES, f"Eth{answer.port}", name)
    return {
        int(dscp): int(answer.cell(row, "switch-priority", *map(str, PRIORITIES)))
        for rows in answer.typed(LISTS, tables[0]).values()
        for row in rows
        for dscp in row.get("DSCP", "").split()
        if dscp.isdecimal()
    }


def read_congestion(answer: Answer) -> dict[int, EcnState | None]:
    """Class to its thresholds."""
    found: dict[int, EcnState | None] = {}
    for each in answer.find(TABLES):
        if "header" in each:
            row = answer.typed(CELLS, {"": each})[""]
            kind = answer.cell(row, "Mode", "none", "ECN", "RED", "BOTH").lower()
            number = answer.typed(COUNT, row["header"].removeprefix("TC-"))
            found[number] = None
            if kind == "none":
                continue
            low, high = (answer.cell(row, f"{end} threshold") for end in ("Minimum", "Maximum"))
            ends = {"min_kib": low.rstrip(" KB%"), "max_kib": high.rstrip(" KB%"), "kind": kind}
            relative = row.get("Threshold mode") == "relative"
            found[number] = answer.typed(_ECN, {**ends, "relative": relative})
    if not found:
        raise answer.unreadable("no traffic class in the answer")
    return found


def read_schedule(answer: Answer) -> dict[int, int | None]:
    """Class to its weight; None: it is served strictly."""
    rows = answer.typed(LISTS, answer.find(TABLES, "ETS per TC")[0])
    return {
        int(tc): None
        if answer.cell(row[0], "S.Mode", "WRR", "Strict") == "Strict"
        else answer.typed(COUNT, row[0].get("W"))
        for tc, row in rows.items()
    }


_SHOT: Final = re.compile(
    r"^RoCE mode *: *(?:lossless|semi-lossless|lossy)$.*"
    r"^Port trust mode *: *(?P<trust>L2|L3|both|port)$.*"
    r"^Port congestion-control:\n +Mode *: *ecn, absolute\n +Min \(KB\) *: *(?P<low>\d+)\n"
    r" +Max \(KB\) *: *(?P<high>\d+)$.*"
    r"^Exception list:\s+N/A\s*\Z",
    re.MULTILINE | re.DOTALL,
)
_CLASS: Final = re.compile(r"^ +\d +(\d) +(RoCE|CNP) +(?:WRR (\d+)%|Strict) *$", re.MULTILINE)


def read_one_shot(text: str) -> dict[str, Any] | None:
    """`show roce` (capture C1): values by row name for ports without their own line.

    None: another form, or there is an exception. Only the class of RoCE has its weight, in percent.
    """
    found, rows = _SHOT.search(text), _CLASS.findall(text)
    marked = [int(tc) for tc, use, _ in rows if use == "RoCE"]
    if found is None or len(marked) != 1:
        return None
    ecn = EcnState(min_kib=int(found["low"]), max_kib=int(found["high"]))
    return {
        "trust": found["trust"],
        "ecn": dict.fromkeys(PRIORITIES) | {marked[0]: ecn},
        "schedule": {int(tc): int(percent) if percent else None for tc, _, percent in rows},
    }


_STATUS: Final = re.compile(
    r"^Eth(\S+) {2,}(\S.*?) {2,}(Enabled|Disabled) {2,}\S.*? {2,}(\d+)(?:\s|$)", re.MULTILINE
)
"""Port, operational state, admin state, speed, MTU (capture C7)."""


def read_status(text: str) -> dict[str, dict[str, bool | int]]:
    """`show interfaces ethernet status`: link, admin state and MTU by port."""
    return {
        port: {"admin_up": admin == "Enabled", "mtu_bytes": int(mtu), "link": state == "Up"}
        for port, state, admin, mtu in _STATUS.findall(text)
    }
