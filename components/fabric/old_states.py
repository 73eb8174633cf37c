"""States that were recorded before `native`: baselines, and the inputs and evidence of steps.

They have what drivers keep in keys of their own. They are read for ever: a baseline is taken once,
before the first apply, and undo leads to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from pydantic import TypeAdapter

from components.fabric.native import DEFAULT, WHOLE, WRITTEN, write_fields, write_list, write_text

_SOURCES: Final = ("admin_up", "mtu_bytes", "mode", "trust", "pfc_watchdog", "rest")
"""What a port's `implied` could name; what it did not name was written."""
_LIST: Final = TypeAdapter(tuple[str, ...] | None)
_BINDINGS: Final = TypeAdapter(dict[str, dict[str, str]])
_ROWS: Final = TypeAdapter(dict[str, dict[str, str]] | None)


def read_port(value: object) -> object:
    """The input of a `PortState`, with `implied` and `bindings` as `native`.

    Raises:
        ValidationError: One of them has another form.
    """
    if not isinstance(value, dict):
        return value
    old = cast("Mapping[str, object]", value)
    if old.get("mode") == "hybrid" and old.get("access_vlan") is None:
        old = {**old, "access_vlan": 0}  # it was not told from a VLAN that is not ours
    if not {"implied", "bindings"} & {*old}:
        return old
    implied = _LIST.validate_python(old.get("implied"))
    native: dict[str, str] = {}
    if implied is not None:
        native = {key: DEFAULT if key in implied else WRITTEN for key in _SOURCES}
    bindings = _BINDINGS.validate_python(old.get("bindings", {}))
    native |= {setting: write_fields(words) for setting, words in bindings.items()}
    return {key: old[key] for key in old if key not in {"implied", "bindings"}} | {"native": native}


def read_switch(value: object) -> object:
    """The input of a `SwitchState`, with `implied`, `rows` and `held_rows` as `native`.

    Raises:
        ValidationError: One of them has another form.
    """
    if not isinstance(value, dict):
        return value
    old = cast("Mapping[str, object]", value)
    if not {"implied", "rows", "held_rows"} & {*old}:
        return old
    implied = _LIST.validate_python(old.get("implied"))
    rows = _ROWS.validate_python(old.get("rows"))
    held = _LIST.validate_python(old.get("held_rows"))
    native: dict[str, str] = {}
    if implied is not None:
        native[WHOLE] = write_list(implied)
    if rows is not None:
        native["rows"] = write_text(rows)
    if held is not None:
        native["held_rows"] = write_list(held)
    gone = {"implied", "rows", "held_rows"}
    return {key: old[key] for key in old if key not in gone} | {"native": native}
