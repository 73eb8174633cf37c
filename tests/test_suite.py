"""The sums of `make test`: no test is left out, and a stage that broke is never counted as good."""

from __future__ import annotations

import shlex
import sys
from itertools import combinations
from pathlib import Path

import pytest

from lab.suite import (
    OWN_NETWORK,
    SLOW_MARKS,
    VM_MARK,
    Outcome,
    Stage,
    count_tests,
    plan_stages,
    plan_vm,
    render_summary,
    run_stage,
    spread,
)

REPORT = (
    '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="1"></testsuite></testsuites>'
)


def stage_of(folder: Path, report: str | None) -> Stage:
    results = folder / "lab.xml"
    if report is not None:
        results.write_text(report)
    return Stage("lab", "emulated devices", ("pytest",), results)


def chosen(expression: str, marks: frozenset[str]) -> bool:
    """Whether pytest's -m expression takes a test with these marks."""
    return all(
        (term.removeprefix("not ") in marks) != term.startswith("not ")
        for term in expression.split(" and ")
    )


def test_each_test_runs_in_exactly_one_stage() -> None:
    expressions = [
        stage.command[stage.command.index("-m") + 1] for stage in plan_stages() if stage.results
    ]
    for size in range(len(SLOW_MARKS) + 1):
        for marks in combinations(SLOW_MARKS, size):
            taken = [text for text in expressions if chosen(text, frozenset(marks))]
            assert len(taken) == 1, marks


def test_the_stage_on_real_kernels_is_no_part_of_another() -> None:
    ran = [stage.command for stage in plan_stages() if stage.results]
    taken = [
        text
        for command in ran
        if chosen(text := command[command.index("-m") + 1], frozenset({VM_MARK}))
    ]
    assert not taken


def test_a_machine_without_qemu_says_so_and_does_not_pass_in_silence() -> None:
    assert plan_vm("", "this machine lacks QEMU") == ((), "this machine lacks QEMU")
    assert plan_vm("0", "")[0] == ()
    (stage,), reason = plan_vm("1", "this machine lacks QEMU")
    assert (stage.name, reason) == (VM_MARK, "")
    lint = Outcome(Stage("lint", "ruff", ("ruff",)), good=True, seconds=1.0)
    assert "NOT RUN vm" in render_summary((lint,), "this machine lacks QEMU")
    assert "NOT RUN" not in render_summary((lint,))


def test_workers_share_neither_network_nor_temporary_files(tmp_path: Path) -> None:
    workers = {stage.name: stage.workers for stage in plan_stages(4)}
    assert (workers["lab"], workers["engine"], workers["cluster"]) == (6, 3, 3)
    assert {workers[name] for name in ("fast", "site", "lint")} == {1}
    for stage in plan_stages(4):
        (folder := tmp_path / stage.name).mkdir()
        specs = [
            dict(part.split("=", 1) for part in word.split("//")[1:])
            for word in spread(stage, folder)
            if word.startswith("--tx=")
        ]
        assert len(specs) == (stage.workers if stage.workers > 1 else 0)
        assert len({each["env:TMPDIR"] for each in specs}) == len(specs)
        assert all(Path(each["env:TMPDIR"]).is_dir() for each in specs)
        assert all(shlex.split(each["python"]) == [*OWN_NETWORK, sys.executable] for each in specs)


def test_where_no_network_can_be_made_no_workers_share_a_lab(tmp_path: Path) -> None:
    assert {stage.workers for stage in plan_stages(0)} == {1}
    assert all(spread(stage, tmp_path) == () for stage in plan_stages(0))


def test_workers_of_a_stage_run_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lab.suite.OWN_NETWORK", ("env",))
    (tmp_path / "test_here.py").write_text(
        "import tempfile, pytest\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_it(number): assert tempfile.gettempdir()[-2:] in ('/0', '/1') and number != 3\n"
    )
    results = tmp_path / "lab.xml"
    command = (sys.executable, "-m", "pytest", "-q", str(tmp_path), f"--junitxml={results}")
    outcome = run_stage(Stage("lab", "devices", command, results, workers=2))
    assert (outcome.passed, outcome.failed, outcome.good) == (7, 1, False)
    assert "=== lab: devices" in capfd.readouterr().out


def test_the_sums_of_a_stage(tmp_path: Path) -> None:
    outcome = count_tests(stage_of(tmp_path, REPORT), 3.0, good=False)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (5, 3, 1)


@pytest.mark.parametrize("report", [None, '<testsuites><testsuite tests="0"/></testsuites>'])
def test_a_stage_that_broke_counts_as_a_failure(tmp_path: Path, report: str | None) -> None:
    assert count_tests(stage_of(tmp_path, report), 3.0, good=False).failed == 1


def test_the_last_line_sums_up(tmp_path: Path) -> None:
    tests = Outcome(stage_of(tmp_path, None), good=True, seconds=1.0, passed=7)
    lint = Outcome(Stage("lint", "ruff", ("ruff",)), good=False, seconds=1.0)
    lines = render_summary((lint, tests)).splitlines()
    assert lines[-1] == "7 passed, 0 failed"
    assert lines[-2] == "failed checks: lint"
