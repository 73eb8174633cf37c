"""How SONiC is configured: the lines for rows, fields, VLANs and ports.

Rows are merged into CONFIG_DB by `sonic-cfggen`, as `config load` does with a file, and fields are
deleted by `sonic-db-cli`: the generic updater (`config apply-patch`) refuses both for QoS on most
releases (WHY.md beside this file).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.fabric.systems.sonic.rows import Cell, Fields

MAX_FIELDS: Final = 32
"""Of one row in one line; a map of DSCPs has 64."""
MAX_LINE: Final = 450
"""Characters of one line: the terminal of the session has 511 columns, and bash begins to scroll
sideways where the prompt, the line and the question for its status are longer."""

Tables = dict[str, dict[str, Fields]]


def write_rows(rows: Mapping[str, Fields]) -> Iterator[str]:
    """The lines that merge some rows, in their order; large ones come in parts."""
    tables: Tables = {}
    for row, fields in rows.items():
        table, _, key = row.partition("|")
        for part in _parts(fields):
            fuller = _joined(tables, table, key, part)
            if tables and len(_merge(fuller)) > MAX_LINE:
                yield _merge(tables)
                fuller = _joined({}, table, key, part)
            tables = fuller
    if tables:
        yield _merge(tables)


def _parts(fields: Fields) -> Iterator[Fields]:
    items = [*fields.items()]
    for start in range(0, len(items) or 1, MAX_FIELDS):  # a row without fields is one too
        yield dict(items[start : start + MAX_FIELDS])


def _joined(tables: Tables, table: str, key: str, fields: Fields) -> Tables:
    held = tables.get(table, {})
    return {**tables, table: {**held, key: {**held.get(key, {}), **fields}}}


def _merge(tables: Tables) -> str:
    typed = {
        table: {key: dict(map(_typed, fields.items())) for key, fields in rows.items()}
        for table, rows in tables.items()
    }
    text = json.dumps(typed, separators=(",", ":"))
    return f"sudo sonic-cfggen -a '{text}' --write-to-db"


def _typed(field: tuple[str, str]) -> tuple[str, str | list[str]]:
    """A field as Redis has it, as the JSON of `sonic-cfggen` has it: `route_map_in@` is a list."""
    name, value = field
    return (name[:-1], value.split(",")) if name.endswith("@") else field


def write_cells(cells: Iterable[tuple[Cell, str]]) -> Iterator[str]:
    """The lines that set some cells of a port."""
    rows: dict[str, Fields] = {}
    for (row, field), value in cells:
        rows.setdefault(row, {})[field] = value
    yield from write_rows(rows)


def delete_field(row: str, field: str) -> str:
    """A row whose last field goes is gone as well."""
    return f"sudo sonic-db-cli CONFIG_DB HDEL '{row}' {field}"


def delete_row(row: str) -> str:
    """Delete a row with all of its fields."""
    return f"sudo sonic-db-cli CONFIG_DB DEL '{row}'"


def write_member(vlan: int, port: str, *, untagged: bool) -> str:
    """Put a port into a VLAN, without the checks of the command line."""
    fields = {"tagging_mode": "untagged" if untagged else "tagged"}
    return _merge({"VLAN_MEMBER": {f"Vlan{vlan}|{port}": fields}})
