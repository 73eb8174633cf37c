"""What Onyx prints, read into plain values.

Only forms with a public source are read; `tests/fabric/forms/README.md` names the source of each.
Every reader raises `Unreadable` with the raw text rather than guess. "Fixture" means one of the
Ansible collection mellanox.onyx, "capture" one of docs/explanation/sources.md#onyx-captures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue, TypeAdapter

from components.fabric.state import EcnState, Neighbour, PortState
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import PauseCounters, PortCounters, PriorityCounters, SoftReader
from components.fabric.systems.ranges import parse_vlan_ranges
from components.fabric.systems.switch_system import ONE_SHOT_PRIORITY

PRIORITIES: Final = range(8)
"""Switch priorities, and traffic classes: eight of each."""
_COUNT: Final = TypeAdapter(int)
_ROWS: Final = TypeAdapter(dict[str, dict[str, str]])
_LISTS: Final = TypeAdapter(dict[str, list[dict[str, str]]])
_TABLES: Final = TypeAdapter(list[dict[str, JsonValue]])
_PORT: Final = TypeAdapter(PortState)
_ECN: Final = TypeAdapter(EcnState)


def read_vlans(answer: Answer) -> tuple[int, ...]:
    """`show vlan | json-print` (onyx_vlan_show.cfg)."""
    return tuple(sorted(answer.typed(_COUNT, vlan) for vlan in answer.find(_ROWS)))


def read_members(answer: Answer) -> dict[str, PortState]:
    """`show interfaces switchport | json-print` (onyx_l2_interface_show.cfg), with bundles."""
    ports: dict[str, PortState] = {}
    for name, row in answer.find(_ROWS).items():
        if name.startswith(("Eth", "Po", "Mpo")):
            access = answer.cell(row, "Access vlan")
            allowed = answer.cell(row, "Allowed vlans").strip().lower()
            found = {
                "mode": answer.cell(row, "Mode", "access", "trunk", "hybrid"),
                "access_vlan": int(access) if access.isdigit() else None,
                "trunk_vlans": allowed if allowed == "all" else parse_vlan_ranges(allowed),
            }
            ports[name.removeprefix("Eth")] = answer.typed(_PORT, found)
    return ports


def read_dscp_map(answer: Answer) -> dict[int, int]:
    """The map of `show qos interface ethernet 1/1` (show_qos_interface_ethernet.cfg)."""
    name = "PCP(DEI); DSCP to switch-priority mapping"
    tables = answer.find(_TABLES, f"Eth{answer.port}", name)
    rows = [row for each in answer.typed(_LISTS, tables[0]).values() for row in each]
    return {
        int(dscp): int(answer.cell(row, "switch-priority", *map(str, PRIORITIES)))
        for row in rows
        for dscp in row.get("DSCP", "").split()
        if dscp.isdecimal()
    }


def read_congestion(answer: Answer) -> dict[int, EcnState | None]:
    """`show interfaces ethernet 1/1 congestion-control | json-print` (its fixture)."""
    rows = [answer.typed(_ROWS, {"": row})[""] for row in answer.find(_TABLES) if "header" in row]
    if not rows:
        raise answer.unreadable("no traffic class in the answer")
    return {int(row["header"].removeprefix("TC-")): _ecn(row, answer) for row in rows}


def _ecn(row: Mapping[str, str], answer: Answer) -> EcnState | None:
    kind = answer.cell(row, "Mode", "none", "ECN", "RED", "BOTH").lower()
    if kind == "none":
        return None
    low, high = (answer.cell(row, f"{end} threshold") for end in ("Minimum", "Maximum"))
    found = {"min_kib": low.rstrip(" KB%"), "max_kib": high.rstrip(" KB%"), "kind": kind}
    return answer.typed(_ECN, {**found, "relative": row.get("Threshold mode") == "relative"})


def read_schedule(answer: Answer) -> dict[int, int | None]:
    """`show dcb ets interface ethernet 1/1 | json-print`: weights; None: served strictly."""
    rows = answer.typed(_LISTS, answer.find(_TABLES, "ETS per TC")[0])
    return {
        int(tc): None
        if answer.cell(row[0], "S.Mode", "WRR", "Strict") == "Strict"
        else answer.typed(_COUNT, row[0].get("W"))
        for tc, row in rows.items()
    }


def read_pfc(answer: Answer) -> tuple[dict[str, object], dict[str, bool]]:
    """`show dcb priority-flow-control | json-print` (capture C4): of the switch, and by port."""
    head, *_, table = answer.find(_TABLES) or [{}, {}]
    first, ports = answer.typed(_ROWS, {"": head})[""], answer.typed(_LISTS, table)
    is_on = answer.cell(first, "PFC", "enabled", "disabled") == "enabled"
    priorities = answer.cell(first, "Priority Enabled List").split()
    found: dict[str, object] = {"pfc_enabled": is_on, "pfc_priorities": tuple(map(int, priorities))}
    # `Auto` with an active PFC is what the one-shot gives (capture C2): it pauses, so it is on.
    return found, {
        name.removeprefix("Eth"): answer.cell(rows[0], "PFC admin") == "on"
        or answer.cell(rows[0], "PFC oper") == "Enabled"
        for name, rows in ports.items()
    }


def read_roce_mode(answer: Answer) -> str:
    """`show roce`: capture C1; `N/A` while it is off (manual 3.10, "RoCE Commands")."""
    mode = answer.match(r"^RoCE mode\s*:\s*(N/A|lossless|semi-lossless|lossy)\s*$")
    return "none" if mode == "N/A" else mode


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
    """`show roce` (capture C1): values of every port without a line of its own, by name of the row.

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
    """`show interfaces ethernet status`: what the rows of that form say of their port."""
    return {
        port: {"admin_up": admin == "Enabled", "mtu_bytes": int(mtu), "link": state == "Up"}
        for port, state, admin, mtu in _STATUS.findall(text)
    }


_HEARD: Final = re.compile(
    r"^\s*(?:Eth(?P<port>[^ :]+)(?: \(.*\))?:?"
    r"|Remote (?P<key>system name|port-id|port description) *: *(?P<value>.*?) *(?:;.*)?)$",
    re.MULTILINE,
)
"""`Eth1/1`, or `Eth1/1 (Po100)` for a port of a bundle; `Remote port-id : Eth1/31 ; subtype …`."""
_HEARD_KEYS: Final = {"system name": "system", "port-id": "port", "port description": "description"}


def read_neighbours(text: str) -> dict[str, Neighbour]:
    """`show lldp interfaces ethernet remote`: the lines that five public clients look for."""
    found: dict[str, Neighbour] = {}
    port = ""
    for row in _HEARD.finditer(text.replace("\r", "")):
        port, key = row["port"] or port, row["key"]
        if port and key:
            is_known = row["value"] not in {"Not Advertised", "N\\A", ""}
            known = {_HEARD_KEYS[key]: row["value"]} if is_known else {}
            found[port] = found.get(port, Neighbour(system="")).model_copy(update=known)
    return found


TOTALS: Final = "show interfaces ethernet counters"
OF_PRIORITY: Final = "show interfaces ethernet counters pfc prio {}"
OF_CLASS: Final = "show interfaces ethernet counters tc {}"
"""Each of the three is about every port: a public client asks so (sources.md#onyx-counters)."""
CONGESTION: Final = "show interfaces ethernet {} congestion-control | json-print"
ROCE_COUNTERS: Final = "show interfaces ethernet {} counters roce | json-print"
"""The second way of counting (capture C10): the class of RoCE alone, and all that is not of it."""
_WAYS: Final = {
    "rx": (OF_PRIORITY, "Rx", "RoCE PG bytes"),
    "tx": (OF_CLASS, "TC {}", "RoCE TC bytes"),
}
_ENTRY: Final = re.compile(r"^\s*(\d+)\s+(\S.*?)\s*$")


def read_counter(answer: Answer, head: str, name: str) -> int:
    """One `<number> <name>` line under a head such as `Rx` in the block of the port."""
    blocks = re.split(r"^Eth(\S+?):?\s*$", answer.text, flags=re.MULTILINE)
    block = dict(zip(blocks[1::2], blocks[2::2], strict=True)).get(answer.port, "")
    under = ""
    for line in filter(str.strip, block.splitlines()):
        entry = _ENTRY.match(line)
        if entry is None:
            under = line.strip().rstrip(":")
        elif under == head and entry[2] == name:
            return int(entry[1])
    raise answer.unreadable(f"no counter `{name}` under `{head}` of port {answer.port}")


@dataclass(frozen=True, slots=True)
class CounterReader:
    """Reads the counters of one port, each by itself: an unknown form spoils no other one."""

    answers: Mapping[str, str]
    port: str

    def _ask(self, command: str) -> Answer:
        return Answer(command, self.answers.get(command, ""), self.port)

    def _by_number(self, command: str, head: str, name: str = "bytes") -> dict[int, int]:
        return {
            number: read_counter(self._ask(command.format(number)), head.format(number), name)
            for number in PRIORITIES
        }

    def _bytes(self, soft: SoftReader, way: Literal["rx", "tx"]) -> dict[int, int]:
        """By priority or class; or else the class of RoCE, and under 0 all that is not of it."""
        command, head, roce = _WAYS[way]

        def of_roce() -> dict[int, int]:
            ours = self._ask(ROCE_COUNTERS.format(self.port)).find(_COUNT, roce)
            every = read_counter(self._ask(TOTALS), way.capitalize(), "bytes")
            return {ONE_SHOT_PRIORITY: ours, 0: max(every - ours, 0)}

        first = SoftReader()
        found = first.read(way, lambda: self._by_number(command, head))
        found = SoftReader().read(way, of_roce) if found is None else found
        soft.unread += first.unread if found is None else []
        return found or {}

    def _pauses(self) -> dict[int, PauseCounters]:
        received, sent = (
            self._by_number(OF_PRIORITY, head, "pause packets") for head in ("Rx", "Tx")
        )
        return {number: PauseCounters(received[number], sent[number]) for number in PRIORITIES}

    def read(self) -> PortCounters:
        """Everything that can be read."""
        soft, totals = SoftReader(), self._ask(TOTALS)
        received, sent = self._bytes(soft, "rx"), self._bytes(soft, "tx")
        congestion = self._ask(CONGESTION.format(self.port))
        return PortCounters(
            {
                number: PriorityCounters(received.get(number), sent.get(number))
                for number in sorted({*received, *sent})
            },
            soft.read("marked", lambda: congestion.find(_COUNT, "ECN marked packets")),
            soft.read("discards", lambda: read_counter(totals, "Rx", "discard packets")),
            pauses=soft.read("pauses", self._pauses) or {},
            unread=soft.found,
        )
