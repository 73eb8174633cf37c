"""CONFIG_DB as data: which rows and fields stand for which setting, and the commands that set them.

A `Cell` is one field of one row, `PORT_QOS_MAP|Ethernet0 pfc_enable`. What a setting of a port
wants is some cells, which may name rows of maps and profiles; those that we need have our name.
Rows go as one JSON document on the standard input of `sonic-cfggen`, which writes it as one
transaction of Redis: all of it or nothing (sources: WHY.md beside this file).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import TypeAdapter

from components.catalogue.switches.switch_model import UNRELEASED
from components.fabric.parts import (
    DEFAULT,
    WHOLE,
    WRITTEN,
    read_fields,
    read_list,
    write_fields,
    write_text,
)
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Script

Cell = tuple[str, str]
"""Row and field."""
Cells = dict[Cell, str]
Fields = dict[str, str]
Rows = dict[str, Fields]
Tables = dict[str, dict[str, Fields]]
_ROWS: Final[TypeAdapter[Rows]] = TypeAdapter(Rows)

MIN_RELEASE: Final = 202205
"""First branch whose buffermgrd makes lossless buffers for the priorities of `pfc_enable`
(sonic-swss, cfgmgr/buffermgr.cpp); in 202106 and 202111 they are always 3 and 4."""
FACTORY_MTU_BYTES: Final = 9100
"""sonic-buildimage, config_samples.py and sonic-port.yang."""
MBIT_PER_GBIT: Final = 1000
"""`speed` of a port is in Mbit/s (sonic-port.yang)."""
BYTES_PER_KIB: Final = 1024
"""WRED thresholds are bytes (sonic-wred-profile.yang: `units bytes`)."""
DSCP_PER_PRIORITY: Final = 8
"""As on NICs and on the other switch systems: DSCP 24 to 31 are priority 3."""
PRIORITIES: Final = range(8)
DSCPS: Final = range(64)
OUR_NAME: Final = "RAILYARD"
"""Name of each row that we add to a table: rows of others, AZURE and the like, stay."""
LOSSLESS_PROFILE: Final = "pg_lossless_"
"""How buffermgrd names the profiles that it makes: `pg_lossless_400000_5m_profile`."""
DYNAMIC_PROFILE: Final = "NULL"
"""The profile of a lossless priority group in the dynamic buffer model (buffers_config.j2)."""
LOSSLESS_POOL: Final = "ingress_lossless_pool"
MARK_PERCENT: Final = "100"
"""Share of packets marked at the upper threshold if a profile does not say it
(sonic-wred-profile.yang)."""

MAP_TABLES: Final[Mapping[str, str]] = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "wred_profile": "WRED_PROFILE",
    "scheduler": "SCHEDULER",
}
"""Field to the table whose row it names (sonic-port-qos-map.yang, sonic-queue.yang)."""
LIST_FIELD: Final = "pfcwd_sw_enable"
"""The priorities that a port's PFC watchdog watches."""
_PATHS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "trust": ("PORT_QOS_MAP|{}", ("dscp_to_tc_map", "dot1p_to_tc_map", "tc_to_queue_map")),
    "pfc": ("PORT_QOS_MAP|{}", ("pfc_enable",)),
    "buffers": ("PORT_QOS_MAP|{}", ("tc_to_pg_map", "pfc_to_queue_map")),
    "ecn": ("QUEUE|{}|{}", ("wred_profile",)),
    "schedule": ("QUEUE|{}|{}", ("scheduler",)),
}
"""Setting to its row, of a port and a class, and to its fields. Buffer groups, cables and watchdogs
come on top: buffers.py."""
_LINE: Final = 400
"""Characters of a typed line: the terminal of the session has 511 columns, and bash begins to
scroll sideways if a line with its prompt is longer."""


def parse_branch(text: str) -> int:
    """Read the branch of a release: `202405`, `202311.1`, `SONiC.202305.3-abc` give its number.

    A release without one, `master.1234`, is taken for newer than all (a guess).
    """
    for part in text.replace("-", ".").replace("_", ".").split("."):
        if len(part) in {6, 8} and part.isdigit() and part.startswith("20"):
            return int(part[:6])
    return NO_BRANCH if text.lower().startswith(("master", "sonic.master")) else 0


NO_BRANCH: Final = UNRELEASED
"""Of a release that is no branch, such as master."""


def document(rows: Mapping[str, Fields]) -> Iterator[str]:
    """The command that merges some rows into CONFIG_DB; none if there are no rows.

    It is one command, typed as several lines, a row on each.
    """
    if not rows:
        return
    tables: Tables = {}
    for row, fields in rows.items():
        table, _, key = row.partition("|")
        tables.setdefault(table, {})[key] = fields
    parts = (f'"{table}":{{\n{_rows_text(held)}\n}}' for table, held in tables.items())
    text = ",\n".join(parts).replace("'", "\\u0027").replace("!", "\\u0021")
    yield Script(f"sudo sonic-cfggen -j /dev/stdin --write-to-db <<<'{{\n{text}\n}}'")


def _rows_text(rows: Mapping[str, Fields]) -> str:
    return ",\n".join(f"{json.dumps(key)}:{{{_fields_text(each)}}}" for key, each in rows.items())


def _fields_text(fields: Fields) -> str:
    typed = (_typed(field) for field in fields.items())
    return _wrapped(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in typed)


def _wrapped(parts: Iterable[str], between: str = ",") -> str:
    """Parts joined, with a new line before one that would make a line too long."""
    text, width = "", 0
    for part in parts:
        head, long = (between if text else ""), width + len(part) > _LINE
        text += head + ("\n" if head and long else "") + part
        width = len(text) - text.rfind("\n")
    return text


def _typed(field: tuple[str, str]) -> tuple[str, str | list[str]]:
    """A field as Redis has it, as the JSON of `sonic-cfggen` has it: `route_map_in@` is a list."""
    name, value = field
    return (name[:-1], value.split(",")) if name.endswith("@") else field


def by_row(cells: Iterable[tuple[Cell, str]]) -> Rows:
    """Cells as rows."""
    rows: Rows = {}
    for (row, field), value in cells:
        rows.setdefault(row, {})[field] = value
    return rows


def delete_rows(rows: Iterable[str]) -> Iterator[str]:
    """The command that deletes rows, in their order; none if there are none."""
    names = [f"'{row}'" for row in rows]
    if names:
        text = _wrapped(names, " ").replace("\n", "\\\n")
        yield Script(f"sudo sonic-db-cli CONFIG_DB DEL {text}")


def delete_fields(cells: Iterable[Cell]) -> Iterator[str]:
    """The command that deletes fields, row by row; none if there are none.

    A row whose last field goes is gone as well.
    """
    fields: dict[str, list[str]] = {}
    for row, field in cells:
        fields.setdefault(row, []).append(field)
    lines = (f"sudo sonic-db-cli CONFIG_DB HDEL '{r}' {' '.join(f)}" for r, f in fields.items())
    if fields:
        yield Script(" &&\n".join(lines))


def port_row(port: str) -> str:
    """The row of the port itself."""
    return f"PORT|{port}"


def mode_cell(port: str) -> Cell:
    """What the port may be member of, which releases from 202405 on record."""
    return port_row(port), "mode"


def qos_row(port: str) -> str:
    """The row that binds maps and PFC to a port."""
    return f"PORT_QOS_MAP|{port}"


def watchdog_row(port: str) -> str:
    """The row whose presence starts the PFC watchdog of a port."""
    return f"PFC_WD|{port}"


def group_row(port: str, group: int) -> str:
    """The row of one ingress priority group."""
    return f"BUFFER_PG|{port}|{group}"


def settings_of(port: PortState) -> Iterator[str]:
    """The settings that a wanted port names, as `PortState.native` calls them."""
    if port.trust is not None or port.dscp_priorities or port.priority_classes:
        yield "trust"
    named = {
        "pfc": port.pfc_priorities,
        "buffers": port.lossless_buffers,
        "cable": port.cable_m,
        "pfc_watchdog": port.pfc_watchdog,
    }
    yield from (setting for setting, value in named.items() if value is not None)
    yield from (f"ecn_{tc}" for tc, ecn in port.ecn.items() if ecn is not None)
    yield from (f"schedule_{tc}" for tc in port.strict_classes or ())
    yield from (f"schedule_{tc}" for tc in port.class_shares if tc not in strict_of(port))


def strict_of(port: PortState) -> tuple[int, ...]:
    """The classes that are served strictly."""
    return port.strict_classes or ()


def share_row(share: int) -> str:
    """Name of our scheduler of one weight."""
    return f"{OUR_NAME}_{share}"


def is_our_name(name: str) -> bool:
    """Whether a row has our name."""
    return name == OUR_NAME or name.startswith(f"{OUR_NAME}_")


def fields_of(name: str, setting: str) -> tuple[Cell, ...]:
    """The cells that a setting of a port owns."""
    kind, _, number = setting.partition("_")
    if kind not in _PATHS:
        return ()  # the mode, which only a recorded state names; cables and watchdogs
    row, fields = _PATHS[kind]
    return tuple((row.format(name, number), field) for field in fields)


def wanted_cells(name: str, port: PortState, setting: str) -> Cells:
    """What the cells of a setting shall hold; one that is not there shall not be."""
    if setting == "pfc":
        # No list, and not an empty one: that is not valid in sonic-port-qos-map.yang.
        listed = ",".join(map(str, port.pfc_priorities or ()))
        return {(qos_row(name), "pfc_enable"): listed} if listed else {}
    kind, _, number = setting.partition("_")
    tc = int(number) if kind == "schedule" else -1
    shared = tc in port.class_shares and tc not in strict_of(port)
    row = share_row(port.class_shares[tc]) if shared else OUR_NAME
    cells = fields_of(name, setting)
    return dict.fromkeys((cell for cell in cells if cell[1] != "dot1p_to_tc_map"), row)


def our_rows(port: PortState) -> Rows:
    """The content of each row that a wanted port may name; only what the port says is there."""
    classes = {str(n): str(port.priority_classes.get(n, n)) for n in PRIORITIES}
    priorities = {
        str(dscp): str(port.dscp_priorities.get(dscp, dscp // DSCP_PER_PRIORITY)) for dscp in DSCPS
    }
    lossless = port.lossless_buffers or ()
    rows = {
        "DSCP_TO_TC_MAP": priorities,
        "TC_TO_QUEUE_MAP": classes,
        # Everything that is not paused shares group 0, as in the platform's own map.
        "TC_TO_PRIORITY_GROUP_MAP": {str(n): str(n if n in lossless else 0) for n in PRIORITIES},
        "MAP_PFC_PRIORITY_TO_QUEUE": classes,
        "SCHEDULER": {"type": "STRICT"},
    }
    for ecn in port.ecn.values():
        if ecn is not None:
            rows["WRED_PROFILE"] = _wred(ecn)
    named = {f"{table}|{OUR_NAME}": fields for table, fields in rows.items()}
    return named | {
        f"SCHEDULER|{share_row(share)}": {"type": "DWRR", "weight": str(share)}
        for share in port.class_shares.values()
    }


def _wred(ecn: EcnState) -> Fields:
    """A profile that marks every colour alike: nothing here depends on RoCE being green."""
    fields = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        fields |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_min_threshold": str(ecn.min_kib * BYTES_PER_KIB),
            f"{colour}_max_threshold": str(ecn.max_kib * BYTES_PER_KIB),
            f"{colour}_drop_probability": str(ecn.percent),
        }
    return fields


def named_rows(cells: Iterable[tuple[Cell, str]]) -> Iterator[str]:
    """The rows of ours that some cells name."""
    for (_, field), value in cells:
        if field in MAP_TABLES and is_our_name(value):
            yield f"{MAP_TABLES[field]}|{value}"


def write_settings(cells: Mapping[str, Cells]) -> dict[str, str]:
    """The cells of each setting, as `PortState.native` holds them."""
    return {
        setting: write_fields({f"{row} {field}": value for (row, field), value in each.items()})
        for setting, each in cells.items()
    }


def read_settings(port: PortState) -> dict[str, Cells]:
    """The other way; a setting without cells was read too, and had none."""
    found: dict[str, Cells] = {}
    for setting, text in port.native.items():
        if text not in {WRITTEN, DEFAULT}:
            split = ((key.rpartition(" "), value) for key, value in read_fields(text).items())
            found[setting] = {(row, field): value for (row, _, field), value in split}
    return found


def write_rows(rows: Rows) -> dict[str, str]:
    """Rows as `SwitchState.native` holds them."""
    return {"rows": write_text(rows)}


def read_rows(switch: SwitchState, words: str = "rows") -> Rows | None:
    """Rows that have our name, or that the switch made of what we set; None: not read."""
    text = switch.native.get(words)
    return None if text is None else _ROWS.validate_json(text)


def read_held(switch: SwitchState) -> tuple[str, ...]:
    """Those of `read_rows` that a port uses which was not asked for."""
    return read_list(switch.native.get("held_rows")) or ()


SPANNING: Final = "spanning tree"
"""Of a switch, in `whole_words`: spanning tree is on for all of it."""


def whole_words(switch: SwitchState) -> tuple[str, ...]:
    """What holds for all ports: `dynamic` buffers, and how often watchdogs look."""
    return read_list(switch.native.get(WHOLE)) or ()


def spread(span: str) -> range:
    """The numbers of `3` or `3-4`."""
    first, _, last = span.partition("-")
    if not first.isdigit():
        return range(0)
    return range(int(first), int(last if last.isdigit() else first) + 1)


def span_of(row: str) -> str:
    """`3-4` of `BUFFER_PG|Ethernet0|3-4`."""
    return row.rpartition("|")[2]


def numbers_of(text: str) -> set[int]:
    """The numbers of `3,4`."""
    return {int(part) for part in text.split(",") if part.isdigit()}
