from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.runner import EngineRunner

pytestmark = pytest.mark.engine


def test_a_program_gets_config_secrets_and_its_own_folder(engine: EngineRunner) -> None:
    folder = engine.project(
        "config-and-folder",
        "import os, pulumi\n"
        "from beside import NAME\n"
        "config = pulumi.Config()\n"
        "pulumi.export('plain', config.require('plain'))\n"
        "pulumi.export('hidden', config.require_secret('hidden'))\n"
        "pulumi.export('folder', os.getcwd())\n"
        "pulumi.export('name', NAME)\n",
    )
    (folder / "beside.py").write_text("NAME = 'beside'\n")
    engine.configure(folder, "dev", {"plain": "rail-0"})
    engine.call(folder, "config", "set", "--secret", "hidden", "s3cret", "--stack", "dev")
    done = engine.up(folder)
    assert done.rc == 0, done.stderr + done.errors
    assert done.diagnostics == ()
    assert engine.outputs(folder) == {
        "plain": "rail-0",
        "hidden": "s3cret",
        "folder": str(folder.resolve()),
        "name": "beside",
    }
    assert "s3cret" not in json.dumps(engine.export(folder))


def test_a_run_error_is_one_report_without_a_traceback(engine: EngineRunner) -> None:
    folder = engine.project(
        "run-error", "import pulumi\nraise pulumi.RunError('vlan 5000 in site.yaml:12')\n"
    )
    done = engine.call(folder, "preview", "--stack", "dev")
    assert done.returncode != 0
    both = done.stdout + done.stderr
    assert _diagnostics(done.stdout).count("vlan 5000 in site.yaml:12") == 1
    assert "Traceback" not in both


@pytest.mark.parametrize(
    ("ending", "code_is_zero"), [("sys.exit()", True), ("sys.exit('no host key')", False)]
)
def test_sys_exit_is_an_ending_and_no_traceback(
    engine: EngineRunner, ending: str, *, code_is_zero: bool
) -> None:
    name = "exit-good" if code_is_zero else "exit-bad"
    folder = engine.project(name, f"import sys\n{ending}\n")
    done = engine.call(folder, "preview", "--stack", "dev")
    assert (done.returncode == 0) is code_is_zero
    both = done.stdout + done.stderr
    assert "Traceback" not in both
    assert _diagnostics(done.stdout).count("no host key") == (0 if code_is_zero else 1)


def test_an_exception_shows_the_programs_own_frames(engine: EngineRunner) -> None:
    folder = engine.project("crash", "def plan():\n    return {}['leaf-01']\nplan()\n")
    done = engine.call(folder, "preview", "--stack", "dev")
    both = done.stdout + done.stderr
    assert done.returncode != 0
    assert "KeyError: 'leaf-01'" in both
    assert "in plan" in both
    assert "runpy" not in both
    assert "run_in_stack" not in both


def test_an_exception_inside_an_apply_fails_the_run(engine: EngineRunner) -> None:
    folder = engine.project(
        "apply-crash",
        "import pulumi\n"
        "def broken(value):\n"
        "    raise ValueError('in apply')\n"
        "pulumi.export('x', pulumi.Output.from_input(1).apply(broken))\n",
    )
    done = engine.up(folder)
    assert done.rc != 0
    assert "in apply" in done.errors


def test_what_a_program_prints_is_shown(engine: EngineRunner) -> None:
    folder = engine.project("prints", "print('observed 4 devices')\n")
    done = engine.call(folder, "preview", "--stack", "dev")
    assert "observed 4 devices" in done.stdout


def test_each_run_has_a_process_of_its_own(engine: EngineRunner, tmp_path: Path) -> None:
    """`pulumi up` runs the program twice: module state of the preview must not live on."""
    pids = tmp_path / "pids"
    folder = engine.project(
        "fresh",
        "import os, sys\n"
        "sys.modules.setdefault('leftover', sys)\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} {{os.getppid()}}\\n')\n",
    )
    done = engine.call(folder, "up", "--yes", "--stack", "dev")
    assert done.returncode == 0, done.stderr
    runs = [line.split() for line in pids.read_text().splitlines()]
    assert len({pid for pid, _host in runs}) == 2


def _diagnostics(stdout: str) -> str:
    """Return the part of the display after the progress lines, which repeat the last message."""
    return stdout.partition("Diagnostics:")[2]
