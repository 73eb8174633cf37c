"""CONFIG_DB as data: the rows and fields of each setting, and the commands that set them.

A `Cell` is one field of one row, `PORT_QOS_MAP|Ethernet0 pfc_enable`. A wanted setting of a port is
some cells, which may name rows of maps and profiles; the rows that we add have our name. Rows go as
one JSON document on the standard input of `sonic-cfggen`, which writes it as one transaction of
Redis: all or nothing (sources: WHY.md in this folder).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic import TypeAdapter

from components.core.record import record
from components.core.settings import table
from components.fabric import parts
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Script

Cell = tuple[str, str]
"""Row and field."""
Cells = dict[Cell, str]
Fields = dict[str, str]
Rows = dict[str, Fields]
Tables = dict[str, dict[str, Fields]]
_ROWS: Final[TypeAdapter[Rows]] = TypeAdapter(Rows)
FACTORY_MTU_BYTES: Final = 9100  # sonic-buildimage, config_samples.py and sonic-port.yang
MBIT_PER_GBIT: Final = 1000  # `speed` of a port is in Mbit/s (sonic-port.yang)
BYTES_PER_KIB: Final = 1024  # WRED thresholds are bytes (sonic-wred-profile.yang: `units bytes`)
_DSCP_PER_PRIORITY: Final = 8
"""As on NICs and on the other switch systems: DSCP 24 to 31 are priority 3."""
PRIORITIES: Final = range(8)
DSCPS: Final = range(64)
OUR_NAME: Final = "RAILYARD"
"""Name of each row that we add to a table: foreign rows, AZURE and the like, stay."""
LOSSLESS_PROFILE: Final = "pg_lossless_"
"""How buffermgrd names the profiles that it makes: `pg_lossless_400000_5m_profile`."""
DYNAMIC_PROFILE: Final = "NULL"
"""The profile of a lossless priority group in the dynamic buffer model (buffers_config.j2)."""
LOSSLESS_POOL: Final = "ingress_lossless_pool"
SPANNING: Final = "spanning tree"  # a note in `native`: the whole switch has spanning tree on
MAP_TABLES: Final[Mapping[str, str]] = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "wred_profile": "WRED_PROFILE",
    "scheduler": "SCHEDULER",
}
"""Field to the table whose row it names (sonic-port-qos-map.yang, sonic-queue.yang)."""
LIST_FIELD: Final = "pfcwd_sw_enable"  # the priorities that a port's PFC watchdog watches
PORT: Final = "PORT|{}"
QOS: Final = "PORT_QOS_MAP|{}"  # the row that binds maps and PFC to a port
WATCHDOG: Final = "PFC_WD|{}"  # the row whose presence starts the PFC watchdog of a port
GROUP: Final = "BUFFER_PG|{}|{}"  # the row of one ingress priority group, or of neighbours
_NOTHING: Final = "-"
_OFFERS: Final = {"adv_speeds": "", "adv_speeds@": "@"}
"""Field of the offered speeds to its mark: the command line writes a text, a loaded file a list."""
_SPAN: Final = re.compile(r"(?:^|\|)(\d{1,2})(?:-(\d{1,2}))?\Z")
"""Queues and groups have one digit in SONiC's YANG; multicast queues go on above 9 elsewhere."""
Values = dict[tuple[str, object], object]
"""Field of a `PortState` and key of an entry to value."""
_LINE: Final = 400
"""Characters of a typed line: the terminal of the session has 511 columns, and bash begins to
scroll sideways if a line with its prompt is longer."""


@record
class CellRow:
    """One setting of a port, or one for each class, which is some fields of a row."""

    name: str
    """Its name in `PortState.native`, with `{}` for the class."""
    key: str
    fields: Mapping[str, str | Callable[[PortState, int], str]]
    """Its fields for a wanted port and class; blank: the row must not have the field."""


ROWS: Final = (
    CellRow("trust", QOS,
        {"dscp_to_tc_map": OUR_NAME, "dot1p_to_tc_map": "", "tc_to_queue_map": OUR_NAME}),
    # No list, and not an empty one: that is not valid in sonic-port-qos-map.yang.
    CellRow("pfc", QOS, {"pfc_enable": lambda p, _: ",".join(map(str, p.pfc_priorities or ()))}),
    CellRow("buffers", QOS, {"tc_to_pg_map": OUR_NAME, "pfc_to_queue_map": OUR_NAME}),
    CellRow("ecn_{}", "QUEUE|{}|{}", {"wred_profile": OUR_NAME}),
    CellRow(
        "schedule_{}",
        "QUEUE|{}|{}",
        {
            "scheduler": lambda p, tc: (
                OUR_NAME if tc in (p.strict_classes or ()) else f"{OUR_NAME}_{p.class_shares[tc]}"
            )
        },
    ),
)  # fmt: skip
"""In the order of writing. Buffer groups, cables and watchdogs come on top: port.py."""
SETTINGS: Final[Mapping[str, tuple[CellRow, int]]] = {
    row.name.format(tc): (row, tc)
    for tc in (-1, *PRIORITIES)
    for row in ROWS
    if ("{}" in row.name) == (tc in PRIORITIES)
}
"""All settings of a port, as `PortState.native` calls them, to row and class."""


def values_of(port: PortState) -> dict[str, Values]:
    """The values of a port, by their names in `PortState.native`."""
    found: dict[str, Values] = {}
    for name, setting in table(PortState):
        value: Any = getattr(port, name)
        if value is None or not setting.native:
            continue
        entries: Mapping[object, object] = {"": value}
        if "{}" in (setting.text or ""):
            is_map = isinstance(value, Mapping)
            entries = cast("Mapping[object, object]", value) if is_map else {n: n for n in value}
        for key, entry in entries.items():
            if entry != setting.blank:
                found.setdefault(setting.native.format(key), {})[name, key] = entry
    return found


def settings_of(port: PortState) -> list[tuple[str, CellRow, int]]:
    """The settings that a wanted port names, in the order of writing."""
    named = [(name, *SETTINGS[name]) for name in values_of(port) if name in SETTINGS]
    return sorted(named, key=lambda each: ROWS.index(each[1]))


def cells_of(name: str, row: CellRow, tc: int) -> tuple[Cell, ...]:
    """The cells that a setting of a port owns."""
    return tuple((row.key.format(name, tc), field) for field in row.fields)


def link_state(row: Fields) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`; blank without a field."""
    offered = [f"{mark}{row[name]}" for name, mark in _OFFERS.items() if name in row]
    mode = row.get("autoneg", _NOTHING if offered else "")
    negotiated = " ".join([mode, *offered]).strip()
    return {"speed": row.get("speed", ""), "fec": row.get("fec", ""), "autoneg": negotiated}


def texts_of(port: PortState) -> dict[str, str | None]:
    """The text of each of `PORT_FIELDS`, blank if the row lacks it; None: not in the state."""
    mode, *offers = (port.autoneg or _NOTHING).split()
    said = {"autoneg": mode.removeprefix(_NOTHING), **dict.fromkeys(_OFFERS, "")}
    said |= {f"adv_speeds{'@' * each.startswith('@')}": each.removeprefix("@") for each in offers}
    return {
        "speed": port.speed or None,
        "fec": port.fec,
        **(said if port.autoneg is not None else dict.fromkeys(said)),
        "mtu": str(port.mtu_bytes) if port.mtu_bytes else None,
        "admin_status": None if port.admin_up is None else "up" if port.admin_up else "down",
    }


@record
class PortField:
    """A field of a port's own row."""

    leaves: int
    """Its place in the order of deletion."""
    default: str = ""
    """Sent before it is deleted: a field that vanishes changes nothing until the next boot."""
    native: str = ""
    """Where `PortState.native` says that its text is only the default. It is sent last."""

    def is_absent(self, port: PortState, text: str | None) -> bool:
        """Whether the row of a port does not have it."""
        return parts.is_default(port.native, self.native) if self.native else not text


PORT_FIELDS: Final = {
    "speed": PortField(0),
    "fec": PortField(1),  # nothing is the default: the chip keeps the last one
    "autoneg": PortField(4, "off"),
    "adv_speeds": PortField(2, "all"),
    "adv_speeds@": PortField(3),
    "mtu": PortField(5, native="mtu_bytes"),
    "admin_status": PortField(6, native="admin_up"),
}
"""In the order of writing."""


def document(rows: Mapping[str, Fields]) -> Iterator[str]:
    """The command that merges rows into CONFIG_DB, typed as one line a row; none without rows."""
    tables: dict[str, list[str]] = {}
    for row, fields in rows.items():
        table, _, key = row.partition("|")
        # In Redis `route_map_in@` is a list, which `sonic-cfggen` has as such.
        typed = ((n[:-1], v.split(",")) if n.endswith("@") else (n, v) for n, v in fields.items())
        said = (f"{json.dumps(n)}:{json.dumps(v, separators=(',', ':'))}" for n, v in typed)
        tables.setdefault(table, []).append(f"{json.dumps(key)}:{{{_wrapped(said)}}}")
    parts = ('"{}":{{\n{}\n}}'.format(t, ",\n".join(lines)) for t, lines in tables.items())
    text = ",\n".join(parts).replace("'", "\\u0027").replace("!", "\\u0021")
    if rows:
        yield Script(f"sudo sonic-cfggen -j /dev/stdin --write-to-db <<<'{{\n{text}\n}}'")


def _wrapped(parts: Iterable[str], between: str = ",") -> str:
    """Parts joined, with a new line before one that would make a line too long."""
    text, width = "", 0
    for part in parts:
        head, long = (between if text else ""), width + len(part) > _LINE
        text += head + ("\n" if head and long else "") + part
        width = len(text) - text.rfind("\n")
    return text


def by_row(parts: Iterable[Cells]) -> Rows:
    """Cells as rows."""
    rows: Rows = {}
    for (row, field), value in (each for cells in parts for each in cells.items()):
        rows.setdefault(row, {})[field] = value
    return rows


def delete_rows(rows: Iterable[str]) -> Iterator[str]:
    """The command that deletes rows, in their order; none without rows."""
    text = _wrapped(map(shlex.quote, rows), " ").replace("\n", "\\\n")
    if text:
        yield Script(f"sudo sonic-db-cli CONFIG_DB DEL {text}")


def delete_fields(cells: Iterable[Cell]) -> Iterator[str]:
    """The command that deletes fields, and rows with no other field; none without fields."""
    fields: dict[str, list[str]] = {}
    for row, field in cells:
        fields.setdefault(row, []).append(field)
    lines = (f"sudo sonic-db-cli CONFIG_DB HDEL {shlex.join((r, *f))}" for r, f in fields.items())
    if fields:
        yield Script(" &&\n".join(lines))


def is_our_name(name: str) -> bool:
    """Whether a row has our name."""
    return name.partition("_")[0] == OUR_NAME


def our_rows(port: PortState) -> Rows:
    """The content of each row that a wanted port may name; with only the port's own settings."""
    classes = {str(n): str(port.priority_classes.get(n, n)) for n in PRIORITIES}
    lossless = port.lossless_buffers or ()
    rows = {
        "DSCP_TO_TC_MAP": {
            str(n): str(port.dscp_priorities.get(n, n // _DSCP_PER_PRIORITY)) for n in DSCPS
        },
        "TC_TO_QUEUE_MAP": classes,
        # All unpaused priorities share group 0, as in the platform's own map.
        "TC_TO_PRIORITY_GROUP_MAP": {str(n): str(n if n in lossless else 0) for n in PRIORITIES},
        "MAP_PFC_PRIORITY_TO_QUEUE": classes,
        "SCHEDULER": {"type": "STRICT"},
    }
    for ecn in filter(None, port.ecn.values()):
        # It marks every colour alike: nothing here depends on RoCE being green.
        rows["WRED_PROFILE"] = {"ecn": "ecn_all"}
        for colour in ("green", "yellow", "red"):
            rows["WRED_PROFILE"] |= {
                f"wred_{colour}_enable": "true",
                f"{colour}_min_threshold": str(ecn.min_kib * BYTES_PER_KIB),
                f"{colour}_max_threshold": str(ecn.max_kib * BYTES_PER_KIB),
                f"{colour}_drop_probability": str(ecn.percent),
            }
    named = {f"{table}|{OUR_NAME}": fields for table, fields in rows.items()}
    return named | {
        f"SCHEDULER|{OUR_NAME}_{share}": {"type": "DWRR", "weight": str(share)}
        for share in port.class_shares.values()
    }


def named_rows(cells: Cells) -> set[str]:
    """Our rows that these cells name."""
    named = ((MAP_TABLES.get(field), value) for (_, field), value in cells.items())
    return {f"{table}|{value}" for table, value in named if table and is_our_name(value)}


def write_settings(cells: Mapping[str, Cells]) -> dict[str, str]:
    """The cells of each setting, as `PortState.native` holds them."""
    return {
        setting: parts.write_text({f"{row} {field}": value for (row, field), value in each.items()})
        for setting, each in cells.items()
    }


def read_settings(port: PortState) -> dict[str, Cells]:
    """Read the cells back; a setting with an empty entry was read, but had no cells."""
    found: dict[str, Cells] = {}
    for setting, text in port.native.items():
        if text not in {parts.WRITTEN, parts.DEFAULT}:
            split = ((key.rpartition(" "), value) for key, value in parts.read_fields(text).items())
            found[setting] = {(row, field): value for (row, _, field), value in split}
    return found


def read_rows(switch: SwitchState, key: str = "rows") -> Rows | None:
    """Rows of `SwitchState.native`; None: they were not read."""
    text = switch.native.get(key)
    return None if text is None else _ROWS.validate_json(text)


def spread(row: str) -> range:
    """The numbers at the end of a row: of `3`, `3-4` or `BUFFER_PG|Ethernet0|3-4`; else none."""
    found = _SPAN.search(row)
    return range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)


def numbers_of(text: str) -> set[int]:
    """The numbers of `3,4`."""
    if text and not re.fullmatch(r"\d(,\d)*", text):
        raise ValueError(f"{text!r} is not a list of priorities")
    return {int(part) for part in text.split(",") if part}
