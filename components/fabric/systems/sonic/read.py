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

from components.fabric.native import sources
from components.fabric.state import EcnState, PortState
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
    PORT,
    PRIORITIES,
    QOS,
    SPANNING,
    WATCHDOG,
    Cells,
    Fields,
    Rows,
    Tables,
    delete_rows,
    document,
    every_setting,
    is_our_name,
    span_of,
    spread,
    write_settings,
)

_TREE: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])
_PORT: Final = re.compile(r"Ethernet\d+")
_OF_PORTS: Final = ("PORT_QOS_MAP", "QUEUE", "BUFFER_PG")
_NAMED_TABLES: Final = {**MAP_TABLES, "profile": "BUFFER_PROFILE"}
_MARKS: Final = {"ecn_all", "ecn_green", "ecn_green_yellow"}
_HIDDEN: Final = "    (not shown: it may hold secrets)"
Mode = Literal["access", "trunk", "hybrid", "routed"]


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
    if not tree.get("PORT"):
        raise Unreadable(command, _HIDDEN, "there is no port in it")
    return {t: {row: _fields(value) for row, value in rows.items()} for t, rows in tree.items()}


def _fields(value: JsonValue) -> Fields:
    if not isinstance(value, dict):
        return {}
    return dict(
        (f"{key}@", ",".join(map(str, field))) if isinstance(field, list) else (key, str(field))
        for key, field in value.items()
    )


def require_ports(command: str, tables: Tables, wanted: Collection[str]) -> None:
    """Refuse what no line of ours can give, or would tell apart.

    Parts of a port are there only after a breakout, which we do not do: it ends every link. Some
    templates write one row for several ports, and a row of one of them beside it would be undone
    at the next boot: which of the two wins is not said.

    Raises:
        Unreadable: A port is not there, or shares a row with others.
    """
    for name in wanted:
        if name not in tables["PORT"]:
            raise Unreadable(
                command,
                _HIDDEN,
                f"there is no port {name}; if it is a part of another one, that one must be "
                "split first: `sudo config interface breakout`",
            )
    joined: Rows = {}
    split: Rows = {}
    for table in _OF_PORTS:
        for key, fields in tables.get(table, {}).items():
            names, bar, rest = key.partition("|")
            if "," in names and {*wanted} & {*names.split(",")}:
                joined[f"{table}|{key}"] = fields
                split |= {f"{table}|{name}{bar}{rest}": fields for name in names.split(",")}
    if joined:
        lines = "\n    ".join((*delete_rows(joined), *document(split)))
        sku = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get("hwsku", "of this switch")
        raise Unreadable(
            command,
            _HIDDEN,
            f"the template of HwSKU {sku} writes one row for several ports: {next(iter(joined))}. "
            "Which row counts beside one of a single port is not said, so we change none of them: "
            "split them by these lines, which set the QoS of those ports again, and save:\n    "
            f"{lines}",
        )


def port_names(tables: Tables) -> tuple[str, ...]:
    """Every front panel port, by number."""
    return tuple(sorted((name for name in tables["PORT"] if _PORT.fullmatch(name)), key=port_key))


@dataclass(frozen=True, slots=True)
class ConfigDb:
    """One look at a configuration; keys are taken apart once, since there are thousands."""

    tables: Tables
    queues: Tables
    """Port to queue or range of queues to fields: the keys of QUEUE."""
    buffer_groups: Tables
    """The same of BUFFER_PG."""
    members: Tables
    """Port to VLAN to fields: the keys of VLAN_MEMBER."""

    @classmethod
    def of(cls, tables: Tables) -> ConfigDb:
        """Take the keys apart."""
        parts: list[Tables] = [{}, {}, {}]
        for found, table in zip(parts, ("QUEUE", "BUFFER_PG", "VLAN_MEMBER"), strict=True):
            for key, fields in tables.get(table, {}).items():
                first, _, rest = key.partition("|")
                port, other = (rest, first) if table == "VLAN_MEMBER" else (first, rest)
                found.setdefault(port, {})[other] = fields
        return cls(tables, *parts)

    def row(self, table: str, key: str) -> Fields:
        """The fields of a row; none if it is not there."""
        return self.tables.get(table, {}).get(key, {})

    def port(self, name: str) -> PortState:
        """What the configuration says of one port."""
        row, qos, watchdog = (self.row(t, name) for t in ("PORT", "PORT_QOS_MAP", "PFC_WD"))
        mode, access, trunk = self._membership(name)
        paused = tuple(sorted(map(int, re.findall(r"\d+", qos.get("pfc_enable", "")))))
        # The port's own map, or else the one of the whole switch.
        everywhere = self.row("PORT_QOS_MAP", "global").get("dscp_to_tc_map", "")
        dscps = qos.get("dscp_to_tc_map") or everywhere
        tagged = "dot1p_to_tc_map" in qos
        return PortState(
            admin_up=row.get("admin_status", "down") == "up",
            mtu_bytes=int(row.get("mtu", FACTORY_MTU_BYTES)),
            mode=mode,
            access_vlan=access,
            trunk_vlans=trunk,
            trust=("both" if tagged else "L3") if dscps else "L2" if tagged else "port",
            ecn={tc: self._ecn(name, tc) for tc in PRIORITIES},
            strict_classes=tuple(
                tc for tc in PRIORITIES if self._served(name, tc).get("type") == "STRICT"
            ),
            dscp_priorities=self._numbers("DSCP_TO_TC_MAP", dscps, len(DSCPS)),
            priority_classes=self._numbers("TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map", ""), 8),
            pfc_priorities=paused,
            pfc_watchdog=is_watching(watchdog, qos, self.implied),
            pfc_watchdog_ms=watchdog_ms(watchdog),
            cable_m=length_in_force(self._lengths(name) | self._groups(name), paused),
            lossless_buffers=tuple(n for n in PRIORITIES if self._is_lossless(name, n, qos)),
            native=sources(admin_up="admin_status" in row, mtu_bytes="mtu" in row)
            | write_settings(dict(self._cells(name))),
        )

    def _membership(self, name: str) -> tuple[Mode, int | None, tuple[int, ...]]:
        members = self.members.get(name, {}).items()
        free = [vlan_number(v) for v, each in members if each.get("tagging_mode") == "untagged"]
        tagged = sorted({vlan_number(vlan) for vlan, _ in members} - {*free})
        if not free:
            return ("trunk" if tagged else "routed"), None, tuple(tagged)
        return ("hybrid" if tagged else "access"), free[-1], tuple(tagged)

    def _numbers(self, table: str, name: str, count: int) -> dict[int, int]:
        found = self.row(table, name)
        return {n: int(found[str(n)]) for n in range(count) if found.get(str(n), "").isdigit()}

    def queue_keys(self, name: str, queue: int) -> list[str]:
        """The rows of a queue: its own, and those that cover it with others."""
        return [f"{name}|{span}" for span in self.queues.get(name, {}) if queue in spread(span)]

    def _named_by(self, name: str, queue: int, field: str, table: str) -> Fields:
        """The row that a field of a queue names; its own row counts most."""
        keys = sorted(self.queue_keys(name, queue), key=lambda key: "-" in span_of(key))
        rows = (self.row("QUEUE", key) for key in keys)
        named = [row[field] for row in rows if field in row]
        return self.row(table, named[0]) if named else {}

    def _served(self, name: str, queue: int) -> Fields:
        return self._named_by(name, queue, "scheduler", "SCHEDULER")

    def _ecn(self, name: str, queue: int) -> EcnState | None:
        profile = self._named_by(name, queue, "wred_profile", "WRED_PROFILE")
        low, high = profile.get("green_min_threshold", ""), profile.get("green_max_threshold", "")
        if not (low.isdigit() and high.isdigit()):
            return None
        return EcnState(
            min_kib=int(low) // BYTES_PER_KIB,
            max_kib=int(high) // BYTES_PER_KIB,
            kind="ecn" if profile.get("ecn", "ecn_none") in _MARKS else "red",
            percent=int(profile.get("green_drop_probability", MARK_PERCENT)),
        )

    def _is_lossless(self, name: str, priority: int, qos: Fields) -> bool:
        """The priority goes to a group of its own number, which has a lossless buffer.

        If the switch computes buffers itself, a group asks for one by `NULL`.
        """
        group = self.row("TC_TO_PRIORITY_GROUP_MAP", qos.get("tc_to_pg_map", ""))
        names = {
            fields.get("profile", "")
            for span, fields in self.buffer_groups.get(name, {}).items()
            if priority in spread(span)
        }
        profiles = [self.row("BUFFER_PROFILE", each) for each in names - {DYNAMIC_PROFILE}]
        made = any(each.get("pool") == LOSSLESS_POOL and "xoff" in each for each in profiles)
        asked = self.dynamic_buffers and DYNAMIC_PROFILE in names
        return group.get(str(priority)) == str(priority) and (made or asked)

    @property
    def dynamic_buffers(self) -> bool:
        """The switch computes buffers itself."""
        return self.row("DEVICE_METADATA", "localhost").get("buffer_model") == "dynamic"

    @property
    def implied(self) -> tuple[str, ...]:
        """What holds for all ports: `whole_words` of a state."""
        counters = self.row("FLEX_COUNTER_TABLE", "PFCWD")
        polled = describe_polling(self.row("PFC_WD", "GLOBAL"), counters)
        spans = (SPANNING,) if self.row("STP", "GLOBAL").get("mode") else ()
        return (*(("dynamic",) if self.dynamic_buffers else ()), *polled, *spans)

    def _cells(self, name: str) -> Iterator[tuple[str, Cells]]:
        mode = self.row("PORT", name).get("mode")
        yield "mode", {} if mode is None else {(PORT.format(name), "mode"): mode}
        for setting, row, tc in every_setting():
            table = row.key.partition("|")[0]
            keys = self.queue_keys(name, tc) if table == "QUEUE" else [name]
            cells = {
                (f"{table}|{key}", field): self.tables[table][key][field]
                for key in keys
                for field in row.fields
                if field in self.row(table, key)
            }
            yield setting, cells | (self._groups(name) if setting == "buffers" else {})
        yield "cable", self._lengths(name)
        listed = self.row("PORT_QOS_MAP", name).get(LIST_FIELD)
        watched = {(WATCHDOG.format(name), k): v for k, v in self.row("PFC_WD", name).items()}
        ours = {} if listed is None else {(QOS.format(name), LIST_FIELD): listed}
        yield "pfc_watchdog", ours | watched

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

    def beside(self, name: str) -> dict[str, object]:
        """A rewrite of DSCP, and the weight of each class that is not strict."""
        qos = {**self.row("PORT_QOS_MAP", "global"), **self.row("PORT_QOS_MAP", name)}
        rows = {tc: self._served(name, tc) for tc in PRIORITIES}
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
            for table in _OF_PORTS
            for key, fields in self.tables.get(table, {}).items()
            if key.partition("|")[0] not in wanted
            for field, value in fields.items()
            if field in _NAMED_TABLES
        }
        return tuple(sorted(named & {*self.rows()}))


def vlan_number(name: str) -> int:
    """`Vlan111` is 111."""
    return int(name.removeprefix("Vlan"))


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
