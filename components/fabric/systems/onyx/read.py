"""What Onyx prints, read into plain values: only forms with a public capture.

Fixtures named here are those of the Ansible collection mellanox.onyx; each parser raises
`Unreadable` with the raw text rather than guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from components.fabric.state import EcnState, Neighbour
from components.fabric.systems.base import Unreadable
from components.fabric.systems.ranges import parse_vlan_ranges

PortMode = Literal["access", "trunk", "hybrid"]
Trust = Literal["L2", "L3", "both", "port"]
RoceMode = Literal["none", "lossless", "semi-lossless", "lossy"]
ValueT = TypeVar("ValueT")

_MTU = re.compile(r"^\s*MTU\s*:\s*(\d+) bytes", re.MULTILINE)
_ADMIN = re.compile(r"^\s*Admin state\s*:\s*(Enabled|Disabled)", re.MULTILINE)
_ROCE_MODE = re.compile(r"^RoCE mode\s*:\s*(\S+)", re.MULTILINE)
_COUNTER = re.compile(r"^\s*(\d+)\s+(\S.*?)\s*$", re.MULTILINE)


_LLDP_PORT = re.compile(r"^Eth([^ :]+)(?: \(.*\))?:?$")
"""`Eth1/1`, or `Eth1/1 (Po100)` where the port is in a bundle."""
_LLDP_ROW = re.compile(r"^(Remote (?:system name|port-id|port description)) *: *(.*)$")
_LLDP_FIELDS = {
    "Remote system name": "system",
    "Remote port-id": "port",
    "Remote port description": "description",
}
_BUNDLES = ("Po", "Mpo")
_NOT_TOLD = {"Not Advertised", "N\\A", ""}


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, defer_build=True)


class _Switchport(_Shape):
    access_vlan: str = Field(alias="Access vlan")
    allowed_vlans: str = Field(alias="Allowed vlans")
    mode: PortMode = Field(alias="Mode")


class _Class(_Shape):
    header: str
    mode: str = Field(alias="Mode")
    threshold_mode: str = Field(default="", alias="Threshold mode")
    minimum: str = Field(default="", alias="Minimum threshold")
    maximum: str = Field(default="", alias="Maximum threshold")


class _Ets(_Shape):
    mode: Literal["WRR", "Strict"] = Field(alias="S.Mode")
    weight: int = Field(alias="W")


class _PfcHead(_Shape):
    state: Literal["enabled", "disabled"] = Field(alias="PFC")
    priorities: str = Field(alias="Priority Enabled List")


class _PfcPort(_Shape):
    admin: str = Field(alias="PFC admin")
    oper: str = Field(alias="PFC oper")


class _MapRow(_Shape):
    priority: int = Field(alias="switch-priority")
    dscps: str = Field(default="", alias="DSCP")


_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_MAP_ROWS = TypeAdapter(list[dict[str, list[_MapRow]]])
_DSCP_MAP = "PCP(DEI); DSCP to switch-priority mapping"
_SWITCHPORTS = TypeAdapter(dict[str, _Switchport])
_VLANS = TypeAdapter(dict[int, dict[str, str]])
_CLASSES = TypeAdapter(list[_Class])
_ETS = TypeAdapter(list[dict[int, list[_Ets]]])
_TRUST: TypeAdapter[Trust] = TypeAdapter(Trust)
_PFC_HEAD = TypeAdapter(_PfcHead)
_PFC_PORTS = TypeAdapter(dict[str, list[_PfcPort]])


@dataclass(frozen=True, slots=True)
class Interface:
    """What `show interfaces ethernet X` says that we need."""

    admin_up: bool
    mtu_bytes: int


@dataclass(frozen=True, slots=True)
class Switchport:
    """The VLANs of one port."""

    mode: PortMode
    access_vlan: int | None
    allowed_vlans: Literal["all"] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pfc:
    """Priority flow control, globally and per port."""

    enabled: bool
    priorities: tuple[int, ...]
    ports: Mapping[str, bool]


def _json(command: str, text: str) -> JsonValue:
    """Find the JSON in an answer; noise before its first line is allowed (Ansible does too)."""
    start = re.search(r"^[\[{]", text, re.MULTILINE)
    if start is None:
        raise Unreadable(command, text, "there is no JSON in the answer")
    try:
        return _JSON.validate_json(text[start.start() :])
    except ValidationError as error:
        raise Unreadable(
            command, text, f"the JSON is broken: {error.errors()[0]['msg']}"
        ) from error


def _typed(adapter: TypeAdapter[ValueT], value: JsonValue, command: str, text: str) -> ValueT:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Unreadable(command, text, f"{where}: {first['msg']}") from error


def parse_vlans(command: str, text: str) -> tuple[int, ...]:
    """`show vlan | json-print` (onyx_vlan_show.cfg)."""
    return tuple(sorted(_typed(_VLANS, _json(command, text), command, text)))


def parse_switchports(command: str, text: str) -> dict[str, Switchport]:
    """`show interfaces switchport | json-print` (onyx_l2_interface_show.cfg); Ethernet only."""
    table = parse_members(command, text)
    return {name: port for name, port in table.items() if not name.startswith(_BUNDLES)}


def parse_members(command: str, text: str) -> dict[str, Switchport]:
    """The same with the bundles, `Po1` and `Mpo1`."""
    table = _typed(_SWITCHPORTS, _json(command, text), command, text)
    ports: dict[str, Switchport] = {}
    for name, row in table.items():
        if not name.startswith(("Eth", *_BUNDLES)):
            continue
        access = int(row.access_vlan) if row.access_vlan.isdigit() else None
        allowed = row.allowed_vlans.strip().lower()
        vlans = "all" if allowed == "all" else parse_vlan_ranges(allowed)
        ports[name.removeprefix("Eth")] = Switchport(row.mode, access, vlans)
    return ports


def parse_interface(command: str, text: str) -> Interface:
    """`show interfaces ethernet X`, any of its three widths (captures C5, C6, C7)."""
    mtu, admin = _MTU.search(text), _ADMIN.search(text)
    if mtu is None or admin is None:
        raise Unreadable(command, text, "no MTU or no admin state in the answer")
    return Interface(admin.group(1) == "Enabled", int(mtu.group(1)))


def parse_trust(command: str, text: str, port: str) -> Trust:
    """`show qos interface ethernet X | json-print` (show_qos_interface_ethernet.cfg)."""
    mode = _find(_find(_json(command, text), f"Eth{port}"), "Trust mode")
    if mode is None:
        raise Unreadable(command, text, "no trust mode in the answer")
    return _typed(_TRUST, mode, command, text)


def parse_rewrite(command: str, text: str, port: str) -> bool:
    """`DSCP rewrite` of the same answer: whether the port changes what it sends."""
    said = _find(_find(_json(command, text), f"Eth{port}"), "DSCP rewrite")
    if said not in {"enabled", "disabled"}:
        raise Unreadable(command, text, "no DSCP rewrite in the answer")
    return said == "enabled"


def parse_dscp_map(command: str, text: str, port: str) -> dict[int, int]:
    """`PCP(DEI); DSCP to switch-priority mapping` of the same answer: DSCP to priority."""
    table = _find(_find(_json(command, text), f"Eth{port}"), _DSCP_MAP)
    rows = _typed(_MAP_ROWS, table, command, text) if table is not None else []
    found = {
        int(dscp): row.priority
        for group in rows
        for entries in group.values()
        for row in entries
        for dscp in row.dscps.split()
        if dscp.isdecimal()
    }
    if not found:
        raise Unreadable(command, text, "no map of DSCPs in the answer")
    return found


def parse_congestion(command: str, text: str) -> dict[int, EcnState | None]:
    """`show interfaces ethernet X congestion-control | json-print` (its fixture)."""
    data = _json(command, text)
    rows = (
        [row for row in data if isinstance(row, dict) and "header" in row]
        if isinstance(data, list)
        else []
    )
    classes = _typed(_CLASSES, cast("JsonValue", rows), command, text)
    if not classes:
        raise Unreadable(command, text, "no traffic class in the answer")
    return {int(row.header.removeprefix("TC-")): _ecn(row, command, text) for row in classes}


def _ecn(row: _Class, command: str, text: str) -> EcnState | None:
    kind = row.mode.lower()
    if kind == "none":
        return None
    low, high = (re.match(r"(\d+)", value) for value in (row.minimum, row.maximum))
    if kind not in {"ecn", "red", "both"} or low is None or high is None:
        raise Unreadable(command, text, f"{row.header} has an unknown congestion control")
    return EcnState(
        min_kib=int(low.group(1)),
        max_kib=int(high.group(1)),
        kind=cast("Literal['ecn', 'red', 'both']", kind),
        relative=row.threshold_mode == "relative",
    )


def parse_ets(command: str, text: str) -> tuple[tuple[int, ...], dict[int, int]]:
    """`show dcb ets interface ethernet X | json-print`, nested as onyx_traffic_class.py reads it.

    Returns:
        The strict classes, and the weights of the others.
    """
    found = _find(_json(command, text), "ETS per TC")
    if found is None:
        raise Unreadable(command, text, "no `ETS per TC` in the answer")
    classes = _typed(_ETS, found, command, text)[0]
    rows = {tc: entries[0] for tc, entries in classes.items()}
    strict = tuple(sorted(tc for tc, row in rows.items() if row.mode == "Strict"))
    return strict, {tc: row.weight for tc, row in rows.items() if row.mode == "WRR"}


def parse_pfc(command: str, text: str) -> Pfc:
    """`show dcb priority-flow-control | json-print` (capture C4)."""
    data = _json(command, text)
    if not isinstance(data, list) or not data:
        raise Unreadable(command, text, "the answer is no list of two tables")
    head = _typed(_PFC_HEAD, data[0], command, text)
    table = _typed(_PFC_PORTS, data[-1], command, text)
    # `Auto` with an active PFC is what the one-shot gives (capture C2): it pauses, so it is on.
    ports = {
        name.removeprefix("Eth"): rows[0].admin == "on" or rows[0].oper == "Enabled"
        for name, rows in table.items()
        if name.startswith("Eth") and rows
    }
    priorities = tuple(int(number) for number in head.priorities.split())
    return Pfc(head.state == "enabled", priorities, ports)


def parse_roce_mode(command: str, text: str) -> RoceMode:
    """`show roce` (capture C1); the manual calls the mode `N/A` when the one-shot is off."""
    found = _ROCE_MODE.search(text)
    mode = found.group(1).lower() if found else ""
    if mode == "n/a":
        return "none"
    if mode not in {"lossless", "semi-lossless", "lossy"}:
        raise Unreadable(command, text, "no RoCE mode in the answer")
    return cast("RoceMode", mode)


def parse_neighbours(text: str) -> dict[str, Neighbour]:
    """`show lldp interfaces ethernet remote`: the lines that five public clients look for.

    The port's identifier is followed by its kind: `Eth1/31 ; port id subtype: …`.
    """
    found: dict[str, Neighbour] = {}
    port = ""
    for line in text.splitlines():
        head = _LLDP_PORT.match(line.strip())
        row = _LLDP_ROW.match(line.strip())
        if head is not None:
            port = head.group(1)
        elif row is not None and port:
            field = _LLDP_FIELDS[row.group(1)]
            value = row.group(2).partition(";")[0].strip()
            known = {} if value in _NOT_TOLD else {field: value}
            found[port] = found.get(port, Neighbour(system="")).model_copy(update=known)
    return found


def parse_ecn_marked(command: str, text: str) -> int:
    """`ECN marked packets` of the congestion-control answer (its fixture)."""
    found = _find(_json(command, text), "ECN marked packets")
    if not isinstance(found, str) or not found.isdigit():
        raise Unreadable(command, text, "no count of ECN marked packets in the answer")
    return int(found)


def parse_counter(command: str, text: str, block: str, name: str) -> int:
    """One `<number> <name>` line under a block's head such as `Rx:` (capture C8)."""
    _, head, rest = text.partition(f"{block}\n")
    for number, label in _COUNTER.findall(rest):
        if head and label == name:
            return int(number)
    raise Unreadable(command, text, f"no counter `{name}` under `{block}` in the answer")


def parse_roce_bytes(command: str, text: str, name: str) -> int:
    """`RoCE PG bytes` or `RoCE TC bytes` of `… counters roce`, JSON (capture C10)."""
    try:
        value = _find(cast("JsonValue", json.loads(text)), name)
    except (ValueError, RecursionError) as error:
        raise Unreadable(command, text, "the answer is no JSON") from error
    if not (str(value).isascii() and str(value).isdecimal()):
        raise Unreadable(command, text, f"no `{name}` in the answer")
    return int(str(value))


def _find(value: JsonValue, key: str) -> JsonValue:
    """The first value of that key at any depth, or None."""
    parts: list[JsonValue] = []
    if isinstance(value, dict):
        if key in value:
            return value[key]
        parts = list(value.values())
    elif isinstance(value, list):
        parts = value
    found = (_find(part, key) for part in parts)
    return next((item for item in found if item is not None), None)
