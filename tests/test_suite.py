"""The sums of `make test`: no test is left out, and a stage that broke is never counted as good."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from lab.suite import (
    OWN_NETWORK,
    PROJECT,
    SLOW_MARKS,
    VM_MARK,
    Outcome,
    Stage,
    count_tests,
    plan_stages,
    plan_vm,
    render_summary,
    run_stage,
    split_stage,
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


def test_parts_of_a_stage_share_nothing(tmp_path: Path) -> None:
    [lab] = [each for each in plan_stages(3) if each.parts > 1]
    parts = split_stage(lab, tmp_path)
    assert len({each.results for each in parts}) == len({each.name for each in parts}) == lab.parts
    assert len({word for each in parts for word in each.command if "TMPDIR" in word}) == lab.parts
    for number, part in enumerate(parts, 1):
        assert part.command[: len(OWN_NETWORK)] == OWN_NETWORK
        assert part.command[-2:] == (f"--junitxml={part.results}", f"--part={number}/3")
        assert sum(word.startswith("--junitxml") for word in part.command) == 1


def test_each_file_is_in_exactly_one_part() -> None:
    def collected(part: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--part={part}"]
        text = subprocess.run(
            [*command, "tests/model", "-p", "no:cacheprovider"],
            cwd=PROJECT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return {line for line in text.splitlines() if "::" in line}

    first, second = collected("1/2"), collected("2/2")
    assert first | second == collected("1/1")
    assert not {each.partition("::")[0] for each in first} & {
        each.partition("::")[0] for each in second
    }
    assert 2 * len(first) > len(second) > len(first) / 2


def test_a_stage_in_parts_is_the_sum_of_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.suite.OWN_NETWORK", ("env",))
    script = 'echo "ran $*"; f=${1#*=}; printf "%s" "$REPORT" >"$f"; [ "$2" != --part=2/2 ]'
    monkeypatch.setenv("REPORT", REPORT)
    lab = Stage("lab", "devices", ("sh", "-c", script, "sh"), tmp_path / "lab.xml", parts=2)
    outcome = run_stage(lab)
    assert (outcome.passed, outcome.failed, outcome.skipped, outcome.good) == (10, 6, 2, False)
    said = capfd.readouterr().out
    assert said.index("=== lab: devices") < said.index("--- lab 1 of 2\nran ")
    assert f"ran --junitxml={tmp_path / 'lab-2.xml'} --part=2/2" in said


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
