"""What the SONiC driver reads: rows as sonic-buildimage and sonic-utilities have them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from components.catalogue.switches.switch_model import UNRELEASED
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic.read import ConfigDb, parse_config, port_names
from components.fabric.systems.sonic.rows import read_rows, read_settings
from components.fabric.systems.sonic.system import CONFIG, parse_branch

CASES: Final[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("sonic_rows.yaml").read_text(), Loader=yaml.CSafeLoader
)
TABLES: Final[dict[str, dict[str, Any]]] = CASES["tables"]
TEXT: Final = json.dumps(TABLES, indent=4)


def changed(change: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any]]:
    """The tables with other rows or fields; null takes a table or a row away."""
    tables = copy.deepcopy(TABLES)
    for table, rows in change.items():
        held = tables.pop(table, {})
        for key, fields in (rows or {}).items():
            is_more = isinstance(fields, dict) and key in held
            held[key] = held[key] | fields if is_more else fields
        if rows is not None:
            tables[table] = {key: fields for key, fields in held.items() if fields is not None}
    return tables


@pytest.mark.parametrize(("name", "change", "found"), CASES["ports"], ids=str)
def test_a_port_is_read(
    name: str, change: dict[str, dict[str, Any] | None], found: dict[str, Any]
) -> None:
    """Each key of a case is a field of the state; of a map, those entries that are something."""
    config = ConfigDb.of(parse_config(CONFIG, json.dumps(changed(change))))
    port = config.port(name)
    wanted = PortState.model_validate(found)
    for key in found:
        held, want = getattr(port, key), getattr(wanted, key)
        if key == "native":
            held = {setting: held.get(setting) for setting in want}
        elif isinstance(held, dict):
            entries = cast("dict[int, object]", held)
            held = {entry: value for entry, value in entries.items() if value is not None}
        assert held == want, key


@pytest.mark.parametrize(("setting", "cells"), CASES["cells"].items())
def test_the_cells_of_a_setting_are_recorded(setting: str, cells: dict[str, str]) -> None:
    port = ConfigDb.of(parse_config(CONFIG, TEXT)).port("Ethernet0")
    assert read_settings(port)[setting] == {tuple(k.split()): v for k, v in cells.items()}


def test_the_switch_and_who_else_uses_it() -> None:
    wanted = SwitchState(ports={"Ethernet0": PortState()})
    tables = copy.deepcopy(TABLES)
    tables["DSCP_TO_TC_MAP"]["RAILYARD"] = {"26": "3"}
    tables["TC_TO_QUEUE_MAP"]["RAILYARD"] = {"3": "3"}
    tables["PORT_QOS_MAP"]["Ethernet8"]["dscp_to_tc_map"] = "RAILYARD"
    reading = system_of("sonic").parse({CONFIG: json.dumps(tables)}, wanted)
    state = reading.state
    assert (state.vlans, state.roce, state.noted()) == (
        (10, 111),
        "lossless",
        ("watchdog polled each 400 ms",),
    )
    assert state.noted("held_rows") == ("DSCP_TO_TC_MAP|RAILYARD",)
    assert {*(read_rows(state) or {})} == {
        "BUFFER_PROFILE|pg_lossless_400000_300m_profile",
        "DSCP_TO_TC_MAP|RAILYARD",
        "TC_TO_QUEUE_MAP|RAILYARD",
    }
    assert reading.vlan_holders == {111: ("Ethernet8",), 10: ("Vlan10",)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Traceback (most recent call last):", "not a table of tables"),
        ('["PORT"]', "not a table of tables"),
        ('{"VLAN": {}}', "lists no port"),
    ],
)
def test_another_form_is_named_and_hidden(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        parse_config(CONFIG, text)
    assert "secrets" in caught.value.text
    assert "Traceback" not in caught.value.text


def test_a_part_of_a_port_that_was_not_split() -> None:
    wanted = SwitchState(ports={"Ethernet2": PortState()})
    with pytest.raises(Unreadable, match="config interface breakout"):
        system_of("sonic").parse({CONFIG: TEXT}, wanted)


def test_ports_are_in_the_order_of_the_panel() -> None:
    tables = parse_config(CONFIG, json.dumps({"PORT": {"Ethernet16": {}, "Ethernet8": {}}}))
    assert port_names(tables) == ("Ethernet8", "Ethernet16")
    rest = parse_config(CONFIG, json.dumps({"PORT": {"Ethernet-Rec0": {}, "Ethernet0": {}}}))
    assert port_names(rest) == ("Ethernet0",)


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        ("202405", 202405),
        ("202311.1", 202311),
        ("SONiC.202205.3-0f1e2d3c4", 202205),
        ("20230531.12", 202305),
        ("master.1234-abcdef", UNRELEASED),
        ("4.1.1-Enterprise_Base", 0),
        ("3.9.2504", 0),
        ("", 0),
    ],
)
def test_releases(text: str, branch: int) -> None:
    assert parse_branch(text) == branch
