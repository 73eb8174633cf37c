"""What a switch shall have after an apply, an edit and an undo: the cases of targets.yaml.

They are written by hand, and say what each key of a target is where ours, others' and the recorded
values differ. The laws over histories of changes are in the tests of each system's exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from components.fabric.state import SwitchState
from components.fabric.targets import (
    dropped,
    overlay,
    target_of_apply,
    target_of_restore,
    target_of_update,
)
from tests.fabric.in_process import load_table

Row = list[Any]
CASES: Final[dict[str, list[Row]]] = load_table("targets.yaml")
RUN: Final[dict[str, Callable[..., SwitchState]]] = {
    "apply": target_of_apply,
    "apply to a port": target_of_apply,
    "undo": partial(target_of_restore, vlan_holders={}),
    "undo of a port": partial(target_of_restore, vlan_holders={}),
    "undo beside 1/9": partial(target_of_restore, vlan_holders={111: ["1/9"]}),
    "undo beside vlan111": partial(target_of_restore, vlan_holders={111: ["vlan111"]}),
    "drop": dropped,
    "drop of a port": dropped,
    "overlay": overlay,
    "update": target_of_update,
}


def test_every_case_is_run() -> None:
    assert {*CASES} == {"states", *RUN}


@pytest.mark.parametrize(
    ("run", "row"),
    [pytest.param(run, row, id=f"{run}: {row[0]}") for run in RUN for row in CASES[run]],
)
def test_a_target(run: str, row: Row) -> None:
    raw = [{"ports": {"1/1": each}} if run.endswith("a port") else each for each in row[1:]]
    *given, wanted = map(SwitchState.model_validate, raw)
    found = RUN[run](*given)
    assert (found, found.dscp_classes) == (wanted, wanted.dscp_classes)
