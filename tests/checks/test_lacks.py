"""The table of what switches lack names reasons of the file, and features of systems, alone."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import yaml

from components.checks import lacks
from components.fabric.state import PortState
from components.fabric.systems.switch_system import SwitchSystem

ROWS = [
    row
    for topic in yaml.safe_load(Path(lacks.__file__).with_suffix(".yaml").read_text()).values()
    for row in topic["rows"]
]
FEATURES = {
    each.name for each in fields(SwitchSystem) if each.type in {"Release | str", "str | None"}
}
"""First release with it, or why it is missing: no title, command or other text of a system."""
SETTINGS = {*PortState.model_fields}


def test_each_row_names_a_reason_or_a_feature_or_a_setting_of_ports() -> None:
    assert {"routing", "class_shares"} <= FEATURES
    assert not FEATURES & {"name", "title", "save", "older", "a_release"}
    named = {row["since"] for row in ROWS}
    assert named <= {*lacks.REASONS} | FEATURES | SETTINGS
    assert lacks.REASONS.keys() <= named, "a reason that no row names is left over"
    assert not lacks.REASONS.keys() & (FEATURES | SETTINGS), "a name means one thing"
