"""Outputs of a stack and of a `Site` in it, as a later update of the real engine reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.engine.runner import EngineRunner

pytestmark = pytest.mark.engine
ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import pulumi
from stacks.own_state import read_other_state, read_own_state

class Site(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("railyard:index:Site", "train", {{}})
        self.register_outputs({{"piece_digest": "of-the-site"}})

own = read_own_state().outputs
pulumi.log.info(f"own {{sorted(own.items())}}")
pulumi.log.info(f"other {{read_other_state('other')}}")
Site()
pulumi.export("cluster", "rack7")
"""


def test_the_outputs_of_the_stack_and_of_its_site_are_read(engine: EngineRunner) -> None:
    folder = engine.project("own-outputs", PROGRAM)
    first, second = engine.up(folder), engine.up(folder)
    assert (first.rc, second.rc) == (0, 0), first.errors + second.errors
    said = "".join(text for _, text in first.diagnostics)
    assert "own []" in said
    assert "other None" in said
    said = "".join(text for _, text in second.diagnostics)
    assert "own [('cluster', 'rack7'), ('piece_digest', 'of-the-site')]" in said
