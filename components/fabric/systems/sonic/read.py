"""What SONiC prints, read into plain values; docs/explanation/sources.md#sonic.

The configuration is one JSON object: table to row to fields. It also holds secrets of the switch
(SNMP communities, TACACS keys), so an answer that cannot be read is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.parts import sources
from components.fabric.state import EcnState, OtherPorts, PortState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.membership import holders_of
from components.fabric.systems.ranges import port_key
from components.fabric.systems.sonic.buffers import (
    describe_polling,
    is_watching,
    length_in_force,
    watchdog_ms,
)
from components.fabric.systems.sonic.rows import (
    BYTES_PER_KIB,
    DSCPS,
    DYNAMIC_PROFILE,
    FACTORY_MTU_BYTES,
    LIST_FIELD,
    LOSSLESS_POOL,
    LOSSLESS_PROFILE,
    MAP_TABLES,
    MARK_PERCENT,
    PRIORITIES,
    SPANNING,
    Cells,
    Fields,
    Rows,
    Tables,
    delete_rows,
    document,
    fields_of,
    is_our_name,
    mode_cell,
    qos_row,
    spread,
    watchdog_row,
    write_settings,
)

_TREE: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])
_PORT: Final = re.compile(r"Ethernet\d+")
_NAMED_TABLES: Final = {**MAP_TABLES, "profile": "BUFFER_PROFILE"}
_HIDDEN: Final = "    (not shown: it may hold secrets)"
Mode = Literal["access", "trunk", "hybrid", "routed"]
Trust = Literal["L2", "L3", "both", "port"]


def parse_config(command: str, text: str) -> Tables:
    """`sonic-cfggen -d --print-data`: the whole of CONFIG_DB.

    A list is the field that Redis has of it: `route_map_in@`, joined by commas (swss-common,
    `ConfigDBConnector.typed_to_raw`).
    """
    try:
        tree = _TREE.validate_json(text.strip())
    except ValidationError as error:
        why = f"it is no table of tables: {error.errors()[0]['msg']}"
        raise Unreadable(command, _HIDDEN, why) from error
    tables: Tables = {}
    for table, rows in tree.items():
        tables[table] = {row: _fields(value) for row, value in rows.items()}
    if not tables.get("PORT"):
        raise Unreadable(command, _HIDDEN, "there is no port in it")
    return tables


def require_ports(command: str, tables: Tables, wanted: Collection[str]) -> None:
    """Refuse what no line of ours can give, or would tell apart.

    Parts of a port are there only after a breakout, which we do not do: it ends every link. Some
    templates write one row for several ports, and a row of one of them beside it would be undone
    at the next boot: which of the two wins is not said.

    Raises:
        Unreadable: A port is not there, or shares a row with others.
    """
    lacking = [name for name in wanted if name not in tables["PORT"]]
    if lacking:
        raise Unreadable(
            command,
            _HIDDEN,
            f"there is no port {lacking[0]}; if it is a part of another one, that one must be "
            "split first: `sudo config interface breakout`",
        )
    joined = {
        f"{table}|{key}": fields
        for table in _OF_PORTS
        for key, fields in tables.get(table, {}).items()
        if "," in key and {*wanted} & {*key.partition("|")[0].split(",")}
    }
    if joined:
        first = next(iter(joined))
        lines = "\n    ".join((*delete_rows(joined), *document(_split(joined))))
        sku = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get("hwsku", "of this switch")
        raise Unreadable(
            command,
            _HIDDEN,
            f"the template of HwSKU {sku} writes one row for several ports: {first}. Which "
            "row counts beside one of a single port is not said, so we change none of them: split "
            f"them by these lines, which set the QoS of those ports again, and save:\n    {lines}",
        )


_OF_PORTS: Final = ("PORT_QOS_MAP", "QUEUE", "BUFFER_PG")


def _split(joined: Rows) -> Rows:
    """A row for each port of a joined one."""
    found: Rows = {}
    for row, fields in joined.items():
        table, names, *rest = row.split("|")
        found |= {"|".join((table, name, *rest)): fields for name in names.split(",")}
    return found


def _fields(value: JsonValue) -> Fields:
    if not isinstance(value, dict):
        return {}
    return dict(
        (f"{key}@", ",".join(map(str, field))) if isinstance(field, list) else (key, str(field))
        for key, field in value.items()
    )


def port_names(tables: Tables) -> tuple[str, ...]:
    """Every front panel port, by number."""
    return tuple(sorted((name for name in tables["PORT"] if _PORT.fullmatch(name)), key=port_key))


@dataclass(frozen=True, slots=True)
class ConfigDb:
    """One look at a configuration."""

    tables: Tables
    queues: Tables
    """Port to queue or range of queues to fields: the keys of QUEUE, taken apart."""
    buffer_groups: Tables
    """The same of BUFFER_PG."""
    members: Tables
    """Port to VLAN to fields: the keys of VLAN_MEMBER, taken apart."""

    @classmethod
    def of(cls, tables: Tables) -> ConfigDb:
        """Take the keys apart once: a switch has some thousand rows."""
        return cls(
            tables,
            queues=_by_port(tables.get("QUEUE", {})),
            buffer_groups=_by_port(tables.get("BUFFER_PG", {})),
            members=_by_port(tables.get("VLAN_MEMBER", {}), last=True),
        )

    def row(self, table: str, key: str) -> Fields:
        """The fields of a row; none if it is not there."""
        return self.tables.get(table, {}).get(key, {})

    def port(self, name: str) -> PortState:
        """What the configuration says of one port."""
        row = self.row("PORT", name)
        mode, access, trunk = self._membership(name)
        qos = self.row("PORT_QOS_MAP", name)
        paused = tuple(sorted(map(int, re.findall(r"\d+", qos.get("pfc_enable", "")))))
        buffers = self._lengths(name) | self._groups(name)
        return PortState(
            admin_up=row.get("admin_status", "down") == "up",
            mtu_bytes=int(row.get("mtu", FACTORY_MTU_BYTES)),
            mode=mode,
            access_vlan=access,
            trunk_vlans=trunk,
            trust=self._trust(qos),
            ecn={tc: self._ecn(name, tc) for tc in PRIORITIES},
            strict_classes=tuple(tc for tc in PRIORITIES if self._is_strict(name, tc)),
            dscp_priorities=self._numbers("DSCP_TO_TC_MAP", self._dscp_map(qos), len(DSCPS)),
            priority_classes=self._numbers("TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map", ""), 8),
            pfc_priorities=paused,
            pfc_watchdog=is_watching(self.row("PFC_WD", name), qos, self.implied),
            pfc_watchdog_ms=watchdog_ms(self.row("PFC_WD", name)),
            cable_m=length_in_force(buffers, paused),
            lossless_buffers=tuple(n for n in PRIORITIES if self._is_lossless(name, n, qos)),
            native=sources(admin_up="admin_status" in row, mtu_bytes="mtu" in row)
            | write_settings(dict(self._cells(name))),
        )

    def _membership(self, name: str) -> tuple[Mode, int | None, tuple[int, ...]]:
        untagged, tagged = None, list[int]()
        for vlan, fields in self.members.get(name, {}).items():
            if fields.get("tagging_mode") == "untagged":
                untagged = vlan_number(vlan)
            else:
                tagged.append(vlan_number(vlan))
        if untagged is None:
            return ("trunk" if tagged else "routed"), None, tuple(sorted(tagged))
        return ("hybrid" if tagged else "access"), untagged, tuple(sorted(tagged))

    def _dscp_map(self, qos: Fields) -> str:
        """The port's own map, or else the one of the whole switch."""
        return qos.get("dscp_to_tc_map") or self.row("PORT_QOS_MAP", "global").get(
            "dscp_to_tc_map", ""
        )

    def _trust(self, qos: Fields) -> Trust:
        dscp, dot1p = bool(self._dscp_map(qos)), "dot1p_to_tc_map" in qos
        if dscp:
            return "both" if dot1p else "L3"
        return "L2" if dot1p else "port"

    def _numbers(self, table: str, name: str, count: int) -> dict[int, int]:
        found = self.row(table, name)
        return {n: int(found[str(n)]) for n in range(count) if found.get(str(n), "").isdigit()}

    def queue(self, name: str, queue: int) -> Fields:
        """The fields of a queue, of its own row and of one that covers it with others."""
        found: Fields = {}
        for span, fields in self.queues.get(name, {}).items():
            if queue in spread(span):
                found = {**found, **fields} if span.isdigit() else {**fields, **found}
        return found

    def _ecn(self, name: str, queue: int) -> EcnState | None:
        profile = self.row("WRED_PROFILE", self.queue(name, queue).get("wred_profile", ""))
        low, high = profile.get("green_min_threshold", ""), profile.get("green_max_threshold", "")
        if not (low.isdigit() and high.isdigit()):
            return None
        marks = profile.get("ecn", "ecn_none") in {"ecn_all", "ecn_green", "ecn_green_yellow"}
        return EcnState(
            min_kib=int(low) // BYTES_PER_KIB,
            max_kib=int(high) // BYTES_PER_KIB,
            kind="ecn" if marks else "red",
            percent=int(profile.get("green_drop_probability", MARK_PERCENT)),
        )

    def _is_strict(self, name: str, queue: int) -> bool:
        scheduler = self.queue(name, queue).get("scheduler", "")
        return self.row("SCHEDULER", scheduler).get("type") == "STRICT"

    def _is_lossless(self, name: str, priority: int, qos: Fields) -> bool:
        """The priority goes to a group of its own number, which has a lossless buffer."""
        group = self.row("TC_TO_PRIORITY_GROUP_MAP", qos.get("tc_to_pg_map", ""))
        if group.get(str(priority)) != str(priority):
            return False
        return any(
            self._is_lossless_profile(fields.get("profile", ""))
            for span, fields in self.buffer_groups.get(name, {}).items()
            if priority in spread(span)
        )

    def _is_lossless_profile(self, profile: str) -> bool:
        if profile == DYNAMIC_PROFILE:
            return self.dynamic_buffers
        fields = self.row("BUFFER_PROFILE", profile)
        return fields.get("pool") == LOSSLESS_POOL and "xoff" in fields

    @property
    def dynamic_buffers(self) -> bool:
        """The switch computes buffers itself, and a group asks for one by `NULL`."""
        return self.row("DEVICE_METADATA", "localhost").get("buffer_model") == "dynamic"

    @property
    def implied(self) -> tuple[str, ...]:
        """What holds for all ports: `whole_words` of a state."""
        counters = self.row("FLEX_COUNTER_TABLE", "PFCWD")
        polled = describe_polling(self.row("PFC_WD", "GLOBAL"), counters)
        spans = (SPANNING,) if self.row("STP", "GLOBAL").get("mode") else ()
        return (*(("dynamic",) if self.dynamic_buffers else ()), *polled, *spans)

    def _cells(self, name: str) -> Iterator[tuple[str, Cells]]:
        qos = self.row("PORT_QOS_MAP", name)

        def cells(*fields: str) -> Cells:
            return {(qos_row(name), key): qos[key] for key in fields if key in qos}

        mode = self.row("PORT", name).get("mode")
        yield "mode", {} if mode is None else {mode_cell(name): mode}
        own = {k: cells(*(f for _, f in fields_of(name, k))) for k in ("trust", "pfc", "buffers")}
        yield from (own | {"buffers": own["buffers"] | self._groups(name)}).items()
        yield "cable", self._lengths(name)
        watched = {(watchdog_row(name), k): v for k, v in self.row("PFC_WD", name).items()}
        yield "pfc_watchdog", cells(LIST_FIELD) | watched
        for queue in PRIORITIES:
            for kind, field in (("ecn", "wred_profile"), ("schedule", "scheduler")):
                yield f"{kind}_{queue}", self._queue_cells(name, queue, field)

    def _groups(self, name: str) -> Cells:
        return {
            (f"BUFFER_PG|{name}|{span}", "profile"): fields.get("profile", "")
            for span, fields in self.buffer_groups.get(name, {}).items()
        }

    def _lengths(self, name: str) -> Cells:
        """The row is called AZURE, and may be called otherwise, or be several."""
        return {
            (f"CABLE_LENGTH|{key}", name): fields[name]
            for key, fields in self.tables.get("CABLE_LENGTH", {}).items()
            if name in fields
        }

    def _queue_cells(self, name: str, queue: int, field: str) -> Cells:
        return {
            (f"QUEUE|{name}|{span}", field): fields[field]
            for span, fields in self.queues.get(name, {}).items()
            if queue in spread(span) and field in fields
        }

    def beside(self, name: str) -> dict[str, object]:
        """A rewrite of DSCP, and the weight of each class that is not strict."""
        qos = {**self.row("PORT_QOS_MAP", "global"), **self.row("PORT_QOS_MAP", name)}
        served = {tc: self.queue(name, tc).get("scheduler", "") for tc in PRIORITIES}
        rows = {tc: self.row("SCHEDULER", scheduler) for tc, scheduler in served.items()}
        return {
            # What a port writes into the packets of a class (sonic-port-qos-map.yang).
            "rewrite_dscp": bool(qos.get("tc_to_dscp_map")),
            "class_shares": {
                tc: int(row["weight"])
                for tc, row in rows.items()
                if row.get("type") != "STRICT" and row.get("weight", "").isdigit()
            },
        }

    def rows(self) -> Rows:
        """The rows that bear our name, and the buffer profiles that buffermgrd made.

        Route maps are with the rows of routing, which know who names them.
        """
        return {
            f"{table}|{key}": fields
            for table, rows in self.tables.items()
            if not table.startswith("ROUTE_MAP")
            for key, fields in rows.items()
            if is_our_name(key) or (table == "BUFFER_PROFILE" and key.startswith(LOSSLESS_PROFILE))
        }

    def holders(self, wanted: Mapping[str, object]) -> tuple[str, ...]:
        """The rows of `rows` that a port uses which was not asked for."""
        named = {
            f"{_NAMED_TABLES[field]}|{value}"
            for table in ("PORT_QOS_MAP", "QUEUE", "BUFFER_PG")
            for key, fields in self.tables.get(table, {}).items()
            if key.partition("|")[0] not in wanted
            for field, value in fields.items()
            if field in _NAMED_TABLES
        }
        return tuple(sorted(named & {*self.rows()}))


def _by_port(rows: Mapping[str, Fields], *, last: bool = False) -> Tables:
    """`Ethernet0|3` is queue 3 of Ethernet0; where the port is last, `Vlan111|Ethernet0`."""
    found: Tables = {}
    for key, fields in rows.items():
        first, _, second = key.partition("|")
        port, rest = (second, first) if last else (first, second)
        found.setdefault(port, {})[rest] = fields
    return found


def vlan_number(name: str) -> int:
    """`Vlan111` is 111."""
    return int(name.removeprefix("Vlan"))


def other_ports(tables: Tables, ours: Collection[str]) -> OtherPorts:
    """Who else is a member of a VLAN; SONiC has no member of all."""
    return OtherPorts(by_vlan=vlan_holders(tables, ours, interfaces=False))


def vlan_holders(
    tables: Tables, ours: Collection[str], *, interfaces: bool = True
) -> dict[int, tuple[str, ...]]:
    """Ports outside those that were asked for, and interfaces, that use a VLAN."""
    named: dict[str, set[int]] = {}
    for key in tables.get("VLAN_MEMBER", {}):
        vlan, _, port = key.partition("|")
        if port not in ours:
            named.setdefault(port, set()).add(vlan_number(vlan))
    for key in tables.get("VLAN_INTERFACE", {}) if interfaces else ():
        vlan = key.partition("|")[0]
        named.setdefault(vlan, set()).add(vlan_number(vlan))
    return holders_of(named)
