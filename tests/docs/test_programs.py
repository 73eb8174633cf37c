"""The Python programs of the pages run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.graph.harness import Run, record_program

PAGE = ROOT / "docs" / "howto" / "use-a-component.md"
PASSWORD = "not-to-be-seen"  # made up here


def test_component_on_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [text] = [block.text for block in blocks(PAGE) if block.language == "python"]
    program = tmp_path / "program.py"
    program.write_text(text)
    monkeypatch.chdir(ROOT)

    run = Run(config={"switch_password": PASSWORD}, secrets=("switch_password",))
    graph = record_program(run, lambda: _ignore(runpy.run_path(str(program))))

    names = {item.name for item in graph.resources}
    assert names == {"fabric", "fabric-ready", "leaf-01-baseline", "leaf-01-apply"}
    assert graph.named("leaf-01-apply").parent == "fabric"
    assert set(graph.outputs) == {"switches_ready"}


def _ignore(_result: object) -> None:
    """A program is run for what it registers."""
