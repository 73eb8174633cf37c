"""CONFIG_DB, read into plain values; lab/sources.md#sonic.

The configuration is one JSON object: table to row to fields. It also holds secrets of the switch
(SNMP communities, TACACS keys), so an answer that cannot be read is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.record import record
from components.core.templates import fault_text
from components.fabric.parts import sources
from components.fabric.state import EcnState, PortState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.ranges import holders_of, port_key
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.rows import Cell, Cells, Fields, Rows, Tables

TREE: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])
PORT: Final = re.compile(r"Ethernet\d+")
_OF_PORTS: Final = ("PORT_QOS_MAP", "QUEUE", "BUFFER_PG")
_NAMED_TABLES: Final = {**db.MAP_TABLES, "profile": "BUFFER_PROFILE"}
_MARKS: Final = {"ecn_all", "ecn_green", "ecn_green_yellow"}
HIDDEN: Final = "    (not shown: it may hold secrets)"
Mode = Literal["access", "trunk", "hybrid", "routed"]
_MADE: Final = re.compile(r"pg_lossless_(?P<speed>\d+)_(?P<length>\d+)m_profile")
ACTION: Final = "drop"  # what `pfc_watchdog` promises; also the default of the switch
POLL_MS: Final = 100
"""How often watchdogs look by default (sonic-swss, orchdaemon.cpp: PFC_WD_POLL_MSECS)."""
RANGES_MS: Final = {"detection_time": range(100, 5001), "restoration_time": range(100, 60_001)}
"""sonic-pfcwd.yang. Without the second one a queue is never restored."""
UNPOLLED: Final = "watchdog not polled"
"""A note in `native`: the watchdogs of the switch see nothing."""
_POLLED: Final = re.compile(r"watchdog polled each (\d+) ms")


def parse_config(command: str, text: str) -> Tables:
    """All of CONFIG_DB, as `sonic-cfggen -d --print-data` prints it, with lists as in Redis."""
    try:
        tree = TREE.validate_json(text.strip())
    except ValidationError as error:
        why = f"it is not a table of tables: {error.errors()[0]['msg']}"
        raise Unreadable(command, HIDDEN, why) from error
    if not tree.get("PORT"):
        raise Unreadable(command, HIDDEN, "it lists no port")
    return {t: {row: _fields(value) for row, value in rows.items()} for t, rows in tree.items()}


def _fields(value: JsonValue) -> Fields:
    return dict(
        (f"{key}@", ",".join(map(str, field))) if isinstance(field, list) else (key, str(field))
        for key, field in (value.items() if isinstance(value, dict) else ())
    )


def require_ports(command: str, tables: Tables, wanted: Collection[str]) -> None:
    """Refuse ports that our lines cannot create, or cannot set separately.

    Parts of a port exist only after a breakout, which we do not do: it ends every link. Some
    templates write one row for several ports. A further row for one port might be lost at the next
    boot: it is not documented which row wins.
    """
    for name in wanted:
        if name not in tables["PORT"]:
            raise Unreadable(command, HIDDEN, fault_text(__file__, "missing-port", name=name))
    _require_spans(command, tables, {*wanted})
    joined: Rows = {}
    split: Rows = {}
    for table in _OF_PORTS:
        for key, fields in tables.get(table, {}).items():
            names, bar, rest = key.partition("|")
            if "," in names and {*wanted} & {*names.split(",")}:
                joined[f"{table}|{key}"] = fields
                split |= {f"{table}|{name}{bar}{rest}": fields for name in names.split(",")}
    if joined:
        lines = "\n    ".join((*db.delete_rows(joined), *db.document(split)))
        sku = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get("hwsku", "of this switch")
        words = {"sku": sku, "row": next(iter(joined)), "lines": lines}
        raise Unreadable(command, HIDDEN, fault_text(__file__, "joined-ports", **words))


def _require_spans(command: str, tables: Tables, wanted: set[str]) -> None:
    """Refuse a row for queues or groups of a wanted port without their numbers."""
    for table in ("QUEUE", "BUFFER_PG"):
        for key in tables.get(table, {}):
            names, *between, span = key.split("|")
            if between and wanted & {names, *between}:
                why = "is a virtual output queue of a chassis, and we read queues of ports only"
            elif wanted & {*names.split(",")} and not db.spread(span):
                why = "names neither a queue nor a group, such as 3 or 3-4"
            else:
                continue
            raise Unreadable(command, HIDDEN, f"{table}|{key!r} {why}")


def port_names(tables: Tables) -> tuple[str, ...]:
    """Every front panel port, by number."""
    return tuple(sorted(filter(PORT.fullmatch, tables["PORT"]), key=port_key))


def made_groups(cells: Cells, paused: Iterable[int]) -> Iterator[tuple[Cell, str, int]]:
    """The paused groups whose profile buffermgrd made: cell, speed and length in metres."""
    for cell, value in sorted(cells.items()):
        made = _MADE.fullmatch(value)
        if cell[0].startswith("BUFFER_PG|") and made and {*paused} & {*db.spread(cell[0])}:
            yield cell, made["speed"], int(made["length"])


def _length_in_force(said: Collection[str], groups: Cells, paused: Iterable[int]) -> int:
    """Cable length in metres that the headroom of the paused groups fits; 0: unknown or unclear.

    A group differs from the table if the platform lacks headroom for the length, or if the switch
    has not read the table yet: its next look changes the group.
    """
    found = re.fullmatch(r"(\d+)m", next(iter(said))) if len(said) == 1 else None
    length = int(found[1]) if found else 0  # sonic-cable-length.yang
    return length if {each for _, _, each in made_groups(groups, paused)} <= {length} else 0


def poll_ms(implied: Iterable[str]) -> int:
    """How often the watchdogs look."""
    return next((int(match[1]) for match in map(_POLLED.fullmatch, implied) if match), POLL_MS)


def is_time(text: str, field: str, implied: Iterable[str]) -> bool:
    """In its range, and no shorter than the switch looks (sonic-pfcwd.yang)."""
    return text.isdigit() and int(text) in RANGES_MS[field] and int(text) >= poll_ms(implied)


@record
class ConfigDb:
    """One look at a configuration; keys are taken apart once, since there are thousands."""

    tables: Tables
    parts: Mapping[str, Tables]
    """QUEUE, BUFFER_PG and VLAN_MEMBER: port to the rest of each key (queues, VLAN) to fields."""
    implied: tuple[str, ...]
    """Notes that hold for all ports: those of a state under `WHOLE`."""

    @classmethod
    def of(cls, tables: Tables) -> ConfigDb:
        """Take the keys apart."""
        parts: dict[str, Tables] = {"QUEUE": {}, "BUFFER_PG": {}, "VLAN_MEMBER": {}}
        for table, found in parts.items():
            for key, fields in tables.get(table, {}).items():
                first, _, rest = key.partition("|")
                port, other = (rest, first) if table == "VLAN_MEMBER" else (first, rest)
                found.setdefault(port, {})[other] = fields
        bare = cls(tables, parts, ())
        interval = bare.row("PFC_WD", "GLOBAL").get("POLL_INTERVAL", "")
        polls = bare.row("FLEX_COUNTER_TABLE", "PFCWD").get("FLEX_COUNTER_STATUS")
        words = {
            "dynamic": bare.row("DEVICE_METADATA", "localhost").get("buffer_model") == "dynamic",
            UNPOLLED: polls != "enable",
            f"watchdog polled each {interval} ms": interval.isdigit(),
            db.SPANNING: bool(bare.row("STP", "GLOBAL").get("mode")),
        }
        return cls(tables, parts, tuple(word for word, holds in words.items() if holds))

    def row(self, table: str, key: str) -> Fields:
        """The fields of a row; empty if it is missing."""
        return self.tables.get(table, {}).get(key, {})

    def port(self, name: str, *, beside: bool = False) -> PortState:
        """One port as configured; `beside`: also the foreign settings that guards check."""
        row, qos, watchdog = (self.row(t, name) for t in ("PORT", "PORT_QOS_MAP", "PFC_WD"))
        everywhere, tagged = self.row("PORT_QOS_MAP", "global"), "dot1p_to_tc_map" in qos
        mode, access, trunk = self._membership(name)
        drops, restores = (watchdog.get(time, "") for time in RANGES_MS)
        timed = drops.isdigit() and restores.isdigit()
        paused = tuple(sorted(db.numbers_of(qos.get("pfc_enable", ""))))
        # The port's own map, or else the one of the whole switch.
        dscps = qos.get("dscp_to_tc_map") or everywhere.get("dscp_to_tc_map", "")
        served = {tc: self._named_by(name, tc, "scheduler") for tc in db.PRIORITIES}
        strict = tuple(tc for tc, each in served.items() if each.get("type") == "STRICT")
        shares = {tc: each.get("weight", "") for tc, each in served.items() if tc not in strict}
        cells = dict(self._cells(name))
        found = PortState(
            admin_up=row.get("admin_status", "down") == "up",
            mtu_bytes=int(row.get("mtu", db.FACTORY_MTU_BYTES)),
            mode=mode,
            access_vlan=access,
            trunk_vlans=trunk,
            trust=("both" if tagged else "L3") if dscps else "L2" if tagged else "port",
            ecn={tc: self._ecn(name, tc) for tc in db.PRIORITIES},
            strict_classes=strict,
            dscp_priorities=self._numbers("DSCP_TO_TC_MAP", dscps, len(db.DSCPS)),
            priority_classes=self._numbers("TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map", ""), 8),
            pfc_priorities=paused,
            pfc_watchdog=self._is_watching(watchdog, qos),
            pfc_watchdog_ms=(int(drops), int(restores)) if timed else None,
            cable_m=_length_in_force({*cells["cable"].values()}, self._groups(name), paused),
            lossless_buffers=tuple(n for n in db.PRIORITIES if self._is_lossless(name, n, qos)),
            native=sources(admin_up="admin_status" in row, mtu_bytes="mtu" in row)
            | db.write_settings(cells),
        )
        links = db.link_state(row)
        if beside:
            # The map by which a port rewrites packets of a class (sonic-port-qos-map.yang).
            links["rewrite_dscp"] = bool({**everywhere, **qos}.get("tc_to_dscp_map"))
            links["class_shares"] = {tc: int(n) for tc, n in shares.items() if n.isdigit()}
        return found.model_copy(update=links)

    def _membership(self, name: str) -> tuple[Mode, int | None, tuple[int, ...]]:
        members = self.parts["VLAN_MEMBER"].get(name, {}).items()
        free = [vlan_number(v) for v, each in members if each.get("tagging_mode") == "untagged"]
        tagged = sorted({vlan_number(vlan) for vlan, _ in members} - {*free})
        if not free:
            return ("trunk" if tagged else "routed"), None, tuple(tagged)
        return ("hybrid" if tagged else "access"), free[-1], tuple(tagged)

    def _numbers(self, table: str, name: str, count: int) -> dict[int, int]:
        found = self.row(table, name)
        return {n: int(found[str(n)]) for n in range(count) if found.get(str(n), "").isdigit()}

    def _queue_keys(self, name: str, queue: int) -> list[str]:
        """The rows of a queue: its own, and those that cover it with others."""
        spans = self.parts["QUEUE"].get(name, {})
        return [f"{name}|{span}" for span in spans if queue in db.spread(span)]

    def _named_by(self, name: str, queue: int, field: str) -> Fields:
        """The row that a field of a queue names; its own row counts most."""
        keys = sorted(self._queue_keys(name, queue), key=lambda key: "-" in key)
        rows = (self.row("QUEUE", key) for key in keys)
        named = next((row[field] for row in rows if field in row), "")
        return self.row(db.MAP_TABLES[field], named)

    def _ecn(self, name: str, queue: int) -> EcnState | None:
        profile = self._named_by(name, queue, "wred_profile")
        low, high = profile.get("green_min_threshold", ""), profile.get("green_max_threshold", "")
        if not (low.isdigit() and high.isdigit()):
            return None
        return EcnState(
            min_kib=int(low) // db.BYTES_PER_KIB,
            max_kib=int(high) // db.BYTES_PER_KIB,
            kind="ecn" if profile.get("ecn", "ecn_none") in _MARKS else "red",
            percent=int(profile.get("green_drop_probability", "100")),  # sonic-wred-profile.yang
        )

    def _is_lossless(self, name: str, priority: int, qos: Fields) -> bool:
        """Its own group has a lossless buffer, or, in the dynamic model, asks for one by `NULL`."""
        group = self.row("TC_TO_PRIORITY_GROUP_MAP", qos.get("tc_to_pg_map", ""))
        groups = self._groups(name).items()
        names = {profile for (row, _), profile in groups if priority in db.spread(row)}
        profiles = [self.row("BUFFER_PROFILE", each) for each in names - {db.DYNAMIC_PROFILE}]
        made = any(each.get("pool") == db.LOSSLESS_POOL and "xoff" in each for each in profiles)
        asked = "dynamic" in self.implied and db.DYNAMIC_PROFILE in names
        return group.get(str(priority)) == str(priority) and (made or asked)

    def _is_watching(self, row: Fields, qos: Fields) -> bool:
        """Whether a port drops the packets that a storm holds up, on each paused priority."""
        paused, watched = (db.numbers_of(qos.get(key, "")) for key in ("pfc_enable", db.LIST_FIELD))
        times = (is_time(row.get(field, ""), field, self.implied) for field in RANGES_MS)
        drops = UNPOLLED not in self.implied and row.get("action", ACTION) == ACTION
        return drops and all(times) and paused <= watched

    def _cells(self, name: str) -> Iterator[tuple[str, Cells]]:
        yield "mode", self._held("PORT", [name], ["mode"])
        for setting, (row, tc) in db.SETTINGS.items():
            table = row.key.partition("|")[0]
            keys = self._queue_keys(name, tc) if table == "QUEUE" else [name]
            groups = self._groups(name) if setting == "buffers" else {}
            yield setting, self._held(table, keys, row.fields) | groups
        # The row is called AZURE, and may be called otherwise, or be several.
        yield "cable", self._held("CABLE_LENGTH", self.tables.get("CABLE_LENGTH", {}), [name])
        watched = self._held("PFC_WD", [name], self.row("PFC_WD", name))
        yield "pfc_watchdog", self._held("PORT_QOS_MAP", [name], [db.LIST_FIELD]) | watched

    def _held(self, table: str, keys: Iterable[str], fields: Iterable[str]) -> Cells:
        rows = {key: self.row(table, key) for key in keys}
        return {
            (f"{table}|{key}", field): row[field]
            for key, row in rows.items()
            for field in fields
            if field in row
        }

    def _groups(self, name: str) -> Cells:
        return {
            (f"BUFFER_PG|{name}|{span}", "profile"): fields.get("profile", "")
            for span, fields in self.parts["BUFFER_PG"].get(name, {}).items()
        }

    def rows(self) -> Rows:
        """The rows with our name except route maps, and the buffer profiles of buffermgrd."""
        return {
            f"{table}|{key}": fields
            for table, rows in self.tables.items()
            if not table.startswith("ROUTE_MAP")
            for key, fields in rows.items()
            if db.is_our_name(key)
            or (table == "BUFFER_PROFILE" and key.startswith(db.LOSSLESS_PROFILE))
        }

    def holders(self, wanted: Collection[str]) -> tuple[str, ...]:
        """The rows of `rows` that an unrequested port uses."""
        named = {
            f"{_NAMED_TABLES[field]}|{value}"
            for table in _OF_PORTS
            for key, fields in self.tables.get(table, {}).items()
            if key.partition("|")[0] not in wanted
            for field, value in fields.items()
            if field in _NAMED_TABLES
        }
        return tuple(sorted(named & {*self.rows()}))

    def vlan_holders(
        self, ours: Collection[str], *, interfaces: bool = True
    ) -> dict[int, tuple[str, ...]]:
        """Ports outside those that were asked for, and interfaces, that use a VLAN."""
        named: dict[str, set[int]] = {}
        for port, vlans in self.parts["VLAN_MEMBER"].items():
            if port not in ours:
                named[port] = {*map(vlan_number, vlans)}
        for key in self.tables.get("VLAN_INTERFACE", {}) if interfaces else ():
            vlan = key.partition("|")[0]
            named.setdefault(vlan, set()).add(vlan_number(vlan))
        return holders_of(named)


def vlan_number(name: str) -> int:
    """`Vlan111` is 111."""
    return int(name.removeprefix("Vlan"))
