"""NVUE's answers in the forms that its releases print: forms/README.md has their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from components.fabric.state import EcnState
from components.fabric.systems.cumulus.driver import ROCE
from components.fabric.systems.cumulus.read import parse_profile
from components.fabric.systems.cumulus.tree import Tree
from lab.switches.cumulus.show import show_roce

FORMS: Final = Path(__file__).parent / "forms" / "cumulus"


def test_the_three_columns_of_cumulus_5_1_are_read_by_their_head() -> None:
    profile = parse_profile(ROCE, (FORMS / "nv_show_qos_roce_5.1.txt").read_text())
    ecn = EcnState(min_kib=146, max_kib=1464)
    assert (profile.mode, profile.pfc_priorities) == ("lossless", (3,))
    assert (profile.trust, profile.strict_classes) == ("both", (6,))
    assert profile.ecn == {0: ecn, 3: ecn}


@pytest.mark.parametrize("mode", [None, "lossless", "lossy"])
def test_both_forms_of_the_emulator_are_read_alike(mode: str | None) -> None:
    tree: Tree = {"qos": {"roce": {"enable": "on", "mode": mode}}} if mode else {}
    old, new = (show_roce(tree, release) for release in ("5.3.1", "5.9.2"))
    assert "description" in old
    assert "description" not in new
    assert parse_profile(ROCE, old) == parse_profile(ROCE, new)
    assert parse_profile(ROCE, old).mode == (mode or "none")
