"""CONFIG_DB as data: which rows and fields stand for which setting, and the commands that set them.

A `Cell` is one field of one row, `PORT_QOS_MAP|Ethernet0 pfc_enable`. What a setting of a port
wants is some cells, which may name rows of maps and profiles; those that we need have our name.
Rows go as one JSON document on the standard input of `sonic-cfggen`, which writes it as one
transaction of Redis: all of it or nothing (sources: WHY.md beside this file).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CellRow:
    """One setting of a port, or one for each class, which is some fields of a row."""

    name: str
    """As `PortState.native` calls it, with `_3` behind it if it is for class 3."""
    key: str
    fields: tuple[str, ...]
    asked: Callable[[PortState], Iterable[int]]
    """The classes of which a wanted port names it; 0 for a setting of the whole port."""
    agrees: Callable[[PortState, PortState, int], bool]
    """Whether a port has it already, by whichever names."""
    value: Callable[[PortState, int], str] = lambda _port, _tc: OUR_NAME
    """What its fields hold, or blank if they shall not be there."""
    gone: str = ""
    """One of the fields that is never there."""

    @property
    def by_class(self) -> bool:
        """Whether each class has one."""
        return self.key.count("{}") > 1


def _if(asked: object) -> tuple[int, ...]:
    return (0,) if asked else ()


ROWS: Final = (
    CellRow(
        "trust",
        "PORT_QOS_MAP|{}",
        ("dscp_to_tc_map", "dot1p_to_tc_map", "tc_to_queue_map"),
        lambda p: _if(p.trust is not None or p.dscp_priorities or p.priority_classes),
        lambda was, p, _: (
            was.trust == p.trust
            and p.dscp_priorities.items() <= was.dscp_priorities.items()
            and p.priority_classes.items() <= was.priority_classes.items()
        ),
        gone="dot1p_to_tc_map",
    ),
    CellRow(
        "pfc",
        "PORT_QOS_MAP|{}",
        ("pfc_enable",),
        lambda p: _if(p.pfc_priorities is not None),
        lambda was, p, _: was.pfc_priorities == p.pfc_priorities,
        # No list, and not an empty one: that is not valid in sonic-port-qos-map.yang.
        lambda p, _: ",".join(map(str, p.pfc_priorities or ())),
    ),
    CellRow(
        "buffers",
        "PORT_QOS_MAP|{}",
        ("tc_to_pg_map", "pfc_to_queue_map"),
        lambda p: _if(p.lossless_buffers is not None),
        lambda was, p, _: {*(p.lossless_buffers or ())} <= {*(was.lossless_buffers or ())},
    ),
    CellRow(
        "ecn",
        "QUEUE|{}|{}",
        ("wred_profile",),
        lambda p: (tc for tc, ecn in p.ecn.items() if ecn is not None),
        lambda was, p, tc: was.ecn.get(tc) == p.ecn[tc],
    ),
    CellRow(
        "schedule",
        "QUEUE|{}|{}",
        ("scheduler",),
        lambda p: dict.fromkeys((*(p.strict_classes or ()), *p.class_shares)),
        lambda was, p, tc: _service(was, tc) == _service(p, tc),
        lambda p, tc: OUR_NAME if _service(p, tc) is None else share_row(p.class_shares[tc]),
    ),
)
"""In the order of writing. Buffer groups, cables and watchdogs come on top: port.py."""


def _service(port: PortState, tc: int) -> int | None:
    """The share of a class; None: it is strict."""
    return None if tc in (port.strict_classes or ()) else port.class_shares.get(tc, 0)


APART: Final = ("mode", "cable", "pfc_watchdog")
"""Settings whose cells depend on what is there; those of `ROWS` have theirs by their names."""
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
    parts = list[str]()
    for table, held in tables.items():
        lines = ",\n".join(f"{json.dumps(k)}:{{{_fields_text(v)}}}" for k, v in held.items())
        parts.append(f'"{table}":{{\n{lines}\n}}')
    text = ",\n".join(parts).replace("'", "\\u0027").replace("!", "\\u0021")
    yield Script(f"sudo sonic-cfggen -j /dev/stdin --write-to-db <<<'{{\n{text}\n}}'")


def _fields_text(fields: Fields) -> str:
    """A field as the JSON of `sonic-cfggen` has it: in Redis `route_map_in@` is a list."""
    typed = (
        (name[:-1], value.split(",")) if name.endswith("@") else (name, value)
        for name, value in fields.items()
    )
    return _wrapped(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in typed)


def _wrapped(parts: Iterable[str], between: str = ",") -> str:
    """Parts joined, with a new line before one that would make a line too long."""
    text, width = "", 0
    for part in parts:
        head, long = (between if text else ""), width + len(part) > _LINE
        text += head + ("\n" if head and long else "") + part
        width = len(text) - text.rfind("\n")
    return text


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


PORT: Final = "PORT|{}"
QOS: Final = "PORT_QOS_MAP|{}"
"""The row that binds maps and PFC to a port."""
WATCHDOG: Final = "PFC_WD|{}"
"""The row whose presence starts the PFC watchdog of a port."""
GROUP: Final = "BUFFER_PG|{}|{}"
"""The row of one ingress priority group, or of neighbours."""


Setting = tuple[str, CellRow, int]
"""As `PortState.native` calls it, its row and its class."""


def every_setting() -> Iterator[Setting]:
    """All settings of a port, then of each class."""
    yield from ((row.name, row, 0) for row in ROWS if not row.by_class)
    for tc in PRIORITIES:
        yield from ((f"{row.name}_{tc}", row, tc) for row in ROWS if row.by_class)


def settings_of(port: PortState) -> Iterator[Setting]:
    """The settings that a wanted port names."""
    for row in ROWS:
        for tc in row.asked(port):
            yield f"{row.name}_{tc}" if row.by_class else row.name, row, tc


def cells_of(name: str, row: CellRow, tc: int) -> tuple[Cell, ...]:
    """The cells that a setting of a port owns."""
    return tuple((row.key.format(name, tc), field) for field in row.fields)


def wanted_cells(name: str, port: PortState, row: CellRow, tc: int) -> Cells:
    """What the cells of a setting must hold; any other cell of it must go."""
    value = row.value(port, tc)
    cells = cells_of(name, row, tc) if value else ()
    return {cell: value for cell in cells if cell[1] != row.gone}


def share_row(share: int) -> str:
    """Name of our scheduler of one weight."""
    return f"{OUR_NAME}_{share}"


def is_our_name(name: str) -> bool:
    """Whether a row has our name."""
    return name == OUR_NAME or name.startswith(f"{OUR_NAME}_")


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
    """Our rows that these cells name."""
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
    """Rows with our name, and profiles that the switch made for our settings; None: not read."""
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
