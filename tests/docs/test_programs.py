"""The Python programs of the pages run."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.artefacts.lock import lock_path, write_lock
from components.checks.site import load_checked_site
from components.testing import Run, record_program
from tests.docs.markdown import ROOT, blocks
from tests.graph.locked import lock_of

PAGE = ROOT / "docs" / "howto" / "use-a-component.md"
TESTS = ROOT / "docs" / "howto" / "test-your-stack.md"
PASSWORD = "not-to-be-seen"  # made up here


def program_of(page: Path) -> str:
    """The one program of a page, with the names that the rooms have in a checkout."""
    [text] = [block.text for block in blocks(page) if block.language == "python"]
    return text.replace("from railyard_rdma.", "from components.")


def test_component_on_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(program_of(PAGE))
    site = tmp_path / "examples" / "dgx-roce" / "site.yaml"
    site.parent.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "dgx-roce" / "site.yaml", site)
    write_lock(lock_path(site), lock_of(load_checked_site(site).spec_or_raise()).entries)
    monkeypatch.chdir(tmp_path)

    config = {"switch_password": PASSWORD, "observe": "never"}
    run = Run(config=config, secrets=("switch_password",))
    graph = record_program(run, lambda: _ignore(runpy.run_path(str(program))))

    names = {item.name for item in graph.resources}
    assert names == {"fabric", "fabric-ready", "leaf-01-baseline", "leaf-01-apply"}
    assert graph.named("leaf-01-apply").parent == "fabric"
    assert set(graph.outputs) == {"switches_ready"}


def _ignore(_result: object) -> None:
    """A program is run for what it registers."""


def test_tests_of_a_users_stack_pass(tmp_path: Path) -> None:
    file = tmp_path / "test_stack.py"
    file.write_text(program_of(TESTS))
    # -c: with no settings of ours, as in a folder of the user's
    call = ["-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(
        [sys.executable, *call, "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout
