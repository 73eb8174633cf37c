"""The sums of `make test`: no test is left out, and a stage that broke is never counted as good."""

from __future__ import annotations

import shlex
import shutil
import sys
from itertools import combinations
from pathlib import Path

import pytest

from lab.suite import (
    EXTRAS,
    OWN_CLONE,
    OWN_NETWORK,
    PROJECT,
    RESULTS,
    SLOW_MARKS,
    Extra,
    Outcome,
    Stage,
    count_tests,
    plan_extra,
    plan_stages,
    render_summary,
    run_stage,
    run_stages,
    spread,
)
from tests.site.conftest import UNDONE

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


@pytest.mark.parametrize("mark", [extra.mark for extra in EXTRAS])
def test_a_stage_that_not_every_machine_runs_is_no_part_of_another(mark: str) -> None:
    ran = [stage.command for stage in plan_stages() if stage.results]
    taken = [
        text
        for command in ran
        if chosen(text := command[command.index("-m") + 1], frozenset({mark}))
    ]
    assert not taken


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra.mark)
def test_a_machine_that_lacks_something_says_so_and_does_not_pass_in_silence(extra: Extra) -> None:
    why = "this machine lacks QEMU"
    assert plan_extra(extra, "", why) == ((), why)
    assert plan_extra(extra, "0", "") == ((), f"{extra.switch}=0")
    (stage,), reason = plan_extra(extra, "1", why)
    assert (stage.name, reason) == (extra.mark, "")
    lint = Outcome(Stage("lint", "ruff", ("ruff",)), good=True, seconds=1.0)
    assert f"NOT RUN {extra.mark}" in render_summary((lint,), {extra.mark: why})
    assert "NOT RUN" not in render_summary((lint,))


def test_workers_share_neither_network_nor_temporary_files(tmp_path: Path) -> None:
    workers = {stage.name: stage.workers for stage in plan_stages(4)}
    assert (workers["lab"], workers["engine"], workers["cluster"]) == (6, 3, 3)
    assert (workers["site"], workers["fast"], workers["lint"]) == (2, 1, 1)
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
        heads = [shlex.split(each["python"]) for each in specs]
        if stage.plays_stacks:
            assert len({head.pop(len(OWN_CLONE)) for head in heads}) == len(heads)
        begin = [*OWN_CLONE, "env"] if stage.plays_stacks else [*OWN_NETWORK]
        assert all(head == [*begin, sys.executable] for head in heads)


def test_the_lane_of_the_site_that_destroys_names_tests_that_are_there() -> None:
    files = (PROJECT / "tests/site").glob("test_*.py")
    text = "".join(file.read_text() for file in files)
    assert [name for name in UNDONE if f"def {name}(" not in text] == []


def test_where_no_network_can_be_made_no_workers_share_a_lab(tmp_path: Path) -> None:
    assert {stage.workers for stage in plan_stages(0)} == {1}
    beside = {stage.name for stage in plan_stages(2) if stage.beside}
    assert beside == {"types", "cluster", "engine", "site", "fast"}
    assert {stage.name for stage in plan_stages(0) if stage.beside} == {"types"}
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


IN_OWN_CLONE = """
import os, pathlib, psutil
from tests.site.leftovers import mount_points
def test_it():
    mine = pathlib.Path.cwd() / ".lab/mine"
    assert str(mine.parent) in mount_points() and not mine.exists()
    mine.touch()
    assert {each.pid for each in psutil.process_iter()} <= {1, os.getpid()}
"""


@pytest.mark.lab
def test_workers_that_play_stacks_share_neither_state_nor_processes(tmp_path: Path) -> None:
    results = tmp_path / "trial.xml"
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(IN_OWN_CLONE)
    command = (sys.executable, "-m", "pytest", "-q", str(tmp_path), f"--junitxml={results}")
    stage = Stage("trial", "stacks", command, results, workers=2, plays_stacks=True)
    outcome = run_stage(stage)
    assert (outcome.passed, outcome.failed) == (2, 0)
    assert not (PROJECT / ".lab/mine").exists()
    kept = [RESULTS / f"trial-{number}" for number in range(2)]
    assert all((each / ".lab/mine").exists() for each in kept)
    for each in kept:
        shutil.rmtree(each)


def test_a_stage_beside_another_is_printed_whole_at_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first waits for what the second leaves, and fails: both end, in their order."""
    (met := tmp_path / "met").mkdir()
    first = f"until [ -e {met}/it ]; do :; done; echo first; exit 1"
    second = f"touch {met}/it; echo second; echo third >&2"
    ran = run_stages(
        (
            Stage("one", "waits", ("timeout", "60", "sh", "-c", first)),
            Stage("other", "goes", ("sh", "-c", second), beside=True),
            Stage("last", "ends", ("echo", "fourth")),
        )
    )
    assert [(each.stage.name, each.good) for each in ran] == [
        ("one", False),
        ("other", True),
        ("last", True),
    ]
    said = capfd.readouterr().out
    assert "=== other: goes\nsecond\nthird\n" in said
    assert said.index("fourth") > max(said.index("first"), said.index("third"))


def test_a_stage_after_another_begins_when_that_ends_and_not_when_all_do(tmp_path: Path) -> None:
    """The first lasts until the third has ended, which wants what the second leaves at its end."""
    (met := tmp_path / "met").mkdir()
    wait = f"until [ -e {met}/third ]; do :; done"
    ran = run_stages(
        (
            Stage("first", "lasts", ("timeout", "60", "sh", "-c", wait)),
            Stage("second", "leaves", ("touch", f"{met}/second"), beside=True),
            Stage(
                *("third", "wants", ("sh", "-c", f"cd {met} && mv second third")),
                beside=True,
                after="second",
            ),
        )
    )
    assert [(each.stage.name, each.good) for each in ran] == [
        ("first", True),
        ("second", True),
        ("third", True),
    ]


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
