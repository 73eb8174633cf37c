"""The generic config updater: `config apply-patch` and `config rollback`.

Modelled: the operations of RFC 6902 that a patch of CONFIG_DB has, the tables that releases from
202305 to 202505 let nobody change on a chip that they do not list
(gcu_field_operation_validators.conf.json), empty tables, and of YANG the references between QoS and
VLAN rows. Not modelled: the sorting of moves. The words of libyang are a guess.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from lab.switches.sonic.config import Db, copy_of, row
from lab.switches.sonic.database import Database

GUARDED: Final = ("PFC_WD", "BUFFER_POOL", "BUFFER_PROFILE", "WRED_PROFILE")
"""Each change to these goes through `rdma_config_update_validator`, which refuses any on a chip
that is not in its list; of Tomahawk 3 it has one vendor's boxes."""
KNOWN_HWSKUS: Final = ("Nokia-IXR7220-H3", "ACS-MSN4700", "ACS-SN5600")
_VALIDATOR: Final = "generic_config_updater.field_operation_validators.rdma_config_update_validator"
_REFERENCES: Final = {
    ("PORT_QOS_MAP", "dscp_to_tc_map"): "DSCP_TO_TC_MAP",
    ("PORT_QOS_MAP", "tc_to_queue_map"): "TC_TO_QUEUE_MAP",
    ("PORT_QOS_MAP", "tc_to_pg_map"): "TC_TO_PRIORITY_GROUP_MAP",
    ("PORT_QOS_MAP", "pfc_to_queue_map"): "MAP_PFC_PRIORITY_TO_QUEUE",
    ("QUEUE", "wred_profile"): "WRED_PROFILE",
    ("QUEUE", "scheduler"): "SCHEDULER",
}


class GcuError(Exception):
    """A patch that is refused, in the updater's words."""


class _Operation(BaseModel):
    op: str
    path: str
    value: JsonValue = None


_PATCH: Final[TypeAdapter[list[_Operation]]] = TypeAdapter(list[_Operation])


def apply_patch(database: Database, hwsku: str, text: str) -> None:
    """Do all of a patch, or nothing of it.

    Raises:
        GcuError: It is no patch, or forbidden, or leads to an invalid configuration.
    """
    try:
        operations = _PATCH.validate_json(text)
    except ValidationError as error:
        raise GcuError(f"Invalid patch: {error.errors()[0]['msg']}") from error
    wanted = copy_of(database.db)
    for operation in operations:
        _apply(wanted, operation)
    _check_guarded(database.db, wanted, hwsku)
    empty = [table for table, rows in wanted.items() if not rows]
    if empty:
        raise _scoped(
            "given patch is not valid because it will result in empty tables which is not allowed "
            f"in ConfigDb. Table: {', '.join(empty)}"
        )
    wrong = find_invalid(wanted)
    if wrong is not None:
        raise _scoped(f"Given patch will produce invalid config. Error: {wrong}")
    _write(database, wanted)


def _scoped(message: str) -> GcuError:
    return GcuError(f"Failed to apply patch on the following scopes:\n- localhost: {message}")


def _apply(db: Db, operation: _Operation) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]]
    here: dict[str, JsonValue] = db  # pyright: ignore[reportAssignmentType] - tables are JSON too
    for part in parts[:-1]:
        below = here.get(part)
        if not isinstance(below, dict):
            raise GcuError(f"member '{part}' not found in {sorted(here)[:3]}")
        here = below
    last = parts[-1]
    if operation.op in {"remove", "replace"} and last not in here:
        verb = f"can't {operation.op} a non-existent object"
        raise GcuError(f"{verb} '{last}'")
    if operation.op == "remove":
        del here[last]
    elif operation.op in {"add", "replace"}:
        here[last] = operation.value
    else:
        raise GcuError(f"Unknown operation {operation.op!r}")


def _check_guarded(old: Db, new: Db, hwsku: str) -> None:
    for table in GUARDED:
        if old.get(table, {}) != new.get(table, {}) and hwsku not in KNOWN_HWSKUS:
            what = f"Modification of {table} table is illegal"
            raise _scoped(f"{what}- validating function {_VALIDATOR} returned False")


def find_invalid(db: Db) -> str | None:
    """The first reference that leads nowhere, in libyang's words; None: all lead somewhere."""
    for (table, field), target in _REFERENCES.items():
        for fields in db.get(table, {}).values():
            value = fields.get(field)
            if value is not None and not row(db, target, value):
                return f'Leafref "{target}" of value "{value}" points to a non-existing leaf.'
    for key in db.get("VLAN_MEMBER", {}):
        vlan, _, port = key.partition("|")
        if vlan not in db.get("VLAN", {}) or port not in db["PORT"]:
            return f'Leafref "VLAN" of value "{vlan}" points to a non-existing leaf.'
    return None


def _write(database: Database, wanted: Db) -> None:
    for table, rows in copy_of(database.db).items():
        for key in rows:
            if key not in wanted.get(table, {}):
                database.delete(table, key)
    for table, rows in wanted.items():
        for key, fields in rows.items():
            if row(database.db, table, key) != fields:
                database.put(table, key, fields)


def patch_between(old: Db, new: Db) -> list[dict[str, JsonValue]]:
    """The patch by which the updater rolls back, row by row."""
    patch: list[dict[str, JsonValue]] = []
    for table in sorted({*old, *new}):
        before, after = old.get(table), new.get(table)
        if before == after:
            continue
        if after is None:
            patch.append({"op": "remove", "path": f"/{table}"})
        elif before is None:
            patch.append({"op": "add", "path": f"/{table}", "value": _json(after)})
        else:
            patch.append({"op": "replace", "path": f"/{table}", "value": _json(after)})
    return patch


def _json(rows: dict[str, dict[str, str]]) -> JsonValue:
    return {key: dict(fields) for key, fields in rows.items()}
