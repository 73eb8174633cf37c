"""The rows and fields of CONFIG_DB that stand for one setting: pure.

A `Cell` is one field of one row, `PORT_QOS_MAP|Ethernet0 pfc_enable`. What a setting of a port
wants is some cells, which name rows of maps and profiles; those that we need bear our name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import TypeAdapter

from components.fabric.native import (
    DEFAULT,
    WHOLE,
    WRITTEN,
    read_fields,
    read_list,
    write_fields,
    write_text,
)
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.sonic.facts import (
    BYTES_PER_KIB,
    DSCP_PER_PRIORITY,
    DSCPS,
    OUR_NAME,
    PRIORITIES,
)

Cell = tuple[str, str]
"""Row and field."""
Cells = dict[Cell, str]
Fields = dict[str, str]
Rows = dict[str, Fields]
_ROWS: Final[TypeAdapter[Rows]] = TypeAdapter(Rows)

TRUST_FIELDS: Final = ("dscp_to_tc_map", "dot1p_to_tc_map", "tc_to_queue_map")
BUFFER_FIELDS: Final = ("tc_to_pg_map", "pfc_to_queue_map")
MAP_TABLES: Final[Mapping[str, str]] = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "wred_profile": "WRED_PROFILE",
    "scheduler": "SCHEDULER",
}
"""Field to the table whose row it names (sonic-port-qos-map.yang, sonic-queue.yang)."""


def port_row(port: str) -> str:
    """The row of the port itself."""
    return f"PORT|{port}"


def mode_cell(port: str) -> Cell:
    """What the port may be member of, which releases from 202405 on record."""
    return port_row(port), "mode"


def qos_row(port: str) -> str:
    """The row that binds maps and PFC to a port."""
    return f"PORT_QOS_MAP|{port}"


def queue_row(port: str, queue: int) -> str:
    """The row of one egress queue; traffic class n is queue n here."""
    return f"QUEUE|{port}|{queue}"


def group_row(port: str, group: int) -> str:
    """The row of one ingress priority group."""
    return f"BUFFER_PG|{port}|{group}"


def settings_of(port: PortState) -> Iterator[str]:
    """The settings that a wanted port names, as `PortState.native` calls them."""
    if port.trust is not None or port.dscp_priorities or port.priority_classes:
        yield "trust"
    if port.pfc_priorities is not None:
        yield "pfc"
    if port.lossless_buffers is not None:
        yield "buffers"
    if port.cable_m is not None:
        yield "cable"
    if port.pfc_watchdog is not None:
        yield "pfc_watchdog"
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
    """Whether a row bears our name."""
    return name == OUR_NAME or name.startswith(f"{OUR_NAME}_")


def fields_of(name: str, setting: str) -> tuple[Cell, ...]:
    """The cells that a setting of a port owns.

    Buffer groups come on top, and so do cables and watchdogs, which have modules of their own.
    """
    kind, _, number = setting.partition("_")
    if kind == "trust":
        return tuple((qos_row(name), field) for field in TRUST_FIELDS)
    if kind == "pfc":
        return ((qos_row(name), "pfc_enable"),)
    if kind == "buffers":
        return tuple((qos_row(name), field) for field in BUFFER_FIELDS)
    field = "wred_profile" if kind == "ecn" else "scheduler"
    return ((queue_row(name, int(number)), field),)


def wanted_cells(name: str, port: PortState, setting: str) -> Cells:
    """What the cells of a setting shall hold; one that is not there shall not be."""
    if setting == "trust":
        fields = ("dscp_to_tc_map", "tc_to_queue_map")
        return {(qos_row(name), field): OUR_NAME for field in fields}
    if setting == "pfc":
        return {(qos_row(name), "pfc_enable"): ",".join(map(str, port.pfc_priorities or ()))}
    kind, _, number = setting.partition("_")
    tc = int(number) if kind == "schedule" else -1
    shared = tc in port.class_shares and tc not in strict_of(port)
    row = share_row(port.class_shares[tc]) if shared else OUR_NAME
    return dict.fromkeys(fields_of(name, setting), row)


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


def read_rows(switch: SwitchState) -> Rows | None:
    """Rows that bear our name, or that the switch made of what we set; None: no matter."""
    text = switch.native.get("rows")
    return None if text is None else _ROWS.validate_json(text)


def read_held(switch: SwitchState) -> tuple[str, ...]:
    """Those of `read_rows` that a port uses which was not asked for."""
    return read_list(switch.native.get("held_rows")) or ()


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
