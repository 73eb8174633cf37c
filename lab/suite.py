"""`make test`: every check and every test, stage after stage, and one line of sums at the end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from components.core.record import record, replace
from lab.pods.ready import why_not as why_no_pods
from lab.vm.ready import why_not as why_no_vm

PROJECT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent
RESULTS: Final = PROJECT / "build" / "suite"
"""One JUnit file for each stage of tests; not kept in git."""
STAGE_DEADLINE_S: Final = 3000.0
"""Three times what the slowest stage takes on two busy cores; one that hangs must not hang CI."""
OWN_NETWORK: Final = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", "env")
"""Begins a command that shall have a loopback network of its own; only root may make one."""
STATE: Final = (".lab", ".pulumi", ".railyard")
"""What labs and stacks keep in the clone."""
_MOUNT: Final = (
    f"ip link set lo up && for own in {' '.join(STATE)}; do "
    'mkdir -p "$own" "$0/$own" && mount --bind "$0/$own" "$own" || exit; done; "$@"; exit $?'
)
OWN_CLONE: Final = (
    *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", _MOUNT),
)
"""The same, with processes and STATE of its own, for those who play a stack beside another worker;
the folder of STATE and a command follow. `sh` stays, to wait for what loses its parent."""
SLOW_MARKS: Final = ("lab", "engine", "cluster", "site")
"""Each builds on those before it: a test with two marks belongs to the stage of the later one."""
_MARK: Final = re.compile(r"\bmark\.([a-z_]+)\b")
_AFTER: Final = {"cluster": "types", "engine": "cluster"}
"""Stage to the one that ends before it begins. The site follows none: it takes longest."""


@record
class Stage:
    """One part of the suite."""

    name: str
    what: str
    command: tuple[str, ...]
    results: Path | None = None
    """Where its tests are counted; None where it is one check and no tests."""
    workers: int = 1
    """How many processes share its tests, each in a network of its own."""
    plays_stacks: bool = False
    """Its tests play stacks of this clone, and those of one file share what they played."""
    beside: bool = False
    """It runs beside the stage before it: while one waits, the other works."""
    after: str = ""
    """The stage beside it that ends before it begins: memory is for so many clusters at once."""


@record
class Extra:
    """A stage that not every machine can run; the summary says why where it did not."""

    mark: str
    switch: str
    """Environment variable: `1` demands the stage (and gets what it needs), `0` leaves it out."""
    what: str
    why_not: Callable[[], str]
    """Why this machine cannot run it as it is; empty where it can."""
    beside: bool = False
    after: str = ""
    """Both as of a stage."""


EXTRAS: Final = (
    Extra(
        "pods",
        "RAILYARD_PODS",
        "the plan's manifests and jobs on real nodes",
        why_no_pods,
        beside=True,
        after="engine",
    ),
    Extra("vm", "RAILYARD_VM", "the hosts' scripts on two real kernels in QEMU", why_no_vm),
)
"""The last stages, in their order."""
_EXTRA_MARKS: Final = tuple(extra.mark for extra in EXTRAS)


@record
class Outcome:
    """How a stage ended."""

    stage: Stage
    good: bool
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def plan_stages(cores: int = 0) -> tuple[Stage, ...]:
    """All stages, in the order in which they begin.

    Args:
        cores: That workers may share, each in a network of its own: the emulated devices take
            addresses of the loopback network. 0 where no network can be made.
    """
    checks = (
        Stage("format", "ruff format", _tool("ruff", "format", "--check", ".")),
        Stage("lint", "ruff check", _tool("ruff", "check", ".")),
        Stage("contracts", "which room may import which", _tool("lint-imports")),
    )
    quick = " and ".join(f"not {mark}" for mark in (*SLOW_MARKS, "story", *_EXTRA_MARKS))
    fast = _tests(
        "fast",
        "tests that need no device, engine or cluster",
        quick,
        "-n",
        "auto",
        "--maxprocesses=8",
        "--dist=worksteal",  # a file stays with one worker, and with it what its tests share
    )
    fast = replace(fast, beside=cores > 0, after="lab")
    slow = {mark: _slow(number, cores) for number, mark in enumerate(SLOW_MARKS)}
    lab = replace(slow["lab"], beside=False)
    types = Stage("types", "pyright, strict", _tool("pyright"), beside=True)
    # All that waits for something begins at once; the fast tests end last, as they never wait.
    return (*checks, lab, types, slow["site"], slow["cluster"], slow["engine"], fast)


def _count(stage: str, cores: int) -> int:
    """Of workers; the lab waits for half its time, and each of the site plays its own stacks."""
    more = cores + cores // 2
    wanted = {"lab": min(6, more), "engine": min(3, more), "cluster": min(3, cores)}
    return max(1, wanted.get(stage, min(2, cores)))


def spread(stage: Stage, folder: Path) -> tuple[str, ...]:
    """What its command needs more: workers with their own network and temporary files.

    Args:
        stage: One of tests.
        folder: For the temporary files; a short path, since sockets lie below it.
    """
    if stage.workers == 1:
        return ()
    own = [folder / str(number) for number in range(stage.workers)]
    for each in own:
        each.mkdir()
    return (
        "--dist=loadfile" if stage.plays_stacks else "--dist=worksteal",
        *(f"--tx=popen//env:TMPDIR={each}//python={_own_python(stage, each)}" for each in own),
    )


def _own_python(stage: Stage, own: Path) -> str:
    """The command line of a worker; what its stacks kept stays, for a look into a failure."""
    if not stage.plays_stacks:
        return shlex.join((*OWN_NETWORK, sys.executable))
    state = RESULTS / f"{stage.name}-{own.name}"
    return shlex.join((*OWN_CLONE, str(state), "env", sys.executable))


def count_cores() -> int:
    """Of this machine; 0 where it does not let us make a network."""
    trial = subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False)
    return (os.cpu_count() or 1) if trial.returncode == 0 else 0


def _slow(number: int, cores: int) -> Stage:
    what = {
        "lab": "emulated devices over real SSH",
        "engine": "the real Pulumi engine",
        "cluster": "the real Kubernetes control plane",
        "site": "the whole site: make up, drift, repair, kill, destroy",
    }
    mark = SLOW_MARKS[number]
    only = " and ".join([mark, *(f"not {later}" for later in SLOW_MARKS[number + 1 :])])
    return replace(
        _tests(mark, what[mark], only, *files_of(mark)),
        workers=_count(mark, cores),
        plays_stacks=mark == "site",
        beside=cores > 0,
        after=_AFTER.get(mark, ""),
    )


def plan_extra(extra: Extra, wish: str, missing: str) -> tuple[tuple[Stage, ...], str]:
    """A stage that not every machine can run, or why there is none.

    Args:
        extra: Which one.
        wish: Value of its switch.
        missing: Why this machine cannot run it as it is; empty where it can.
    """
    if wish == "0":
        return (), f"{extra.switch}=0"
    if missing and wish != "1":
        return (), missing
    tests = _tests(extra.mark, extra.what, extra.mark, *files_of(extra.mark))
    return (replace(tests, beside=extra.beside, after=extra.after),), ""


def _tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(BIN / name), *arguments)


@cache
def files_of(mark: str) -> tuple[str, ...]:
    """The test files that name a mark: a worker that collects all others too takes 16 s for it."""
    return tuple(file for file, marks in _marks().items() if mark in marks)


@cache
def _marks() -> Mapping[str, frozenset[str]]:
    """The marks that each test file names; the files do not change while the suite runs."""
    files = sorted((PROJECT / "tests").rglob("test_*.py"))
    texts = {str(file.relative_to(PROJECT)): file.read_text() for file in files}
    return {name: frozenset(_MARK.findall(text)) for name, text in texts.items()}


def _tests(name: str, what: str, marks: str, *more: str) -> Stage:
    results = RESULTS / f"{name}.xml"
    command = _tool("pytest", "-q", "-m", marks, f"--junitxml={results}", *more)
    return Stage(name, what, command, results)


def run_stage(stage: Stage) -> Outcome:
    """Run one stage; its output goes to the terminal, at its end where it runs beside another."""
    head = f"\n=== {stage.name}: {stage.what}"
    if not stage.beside:
        print(head, flush=True)
        return _run(stage, None)
    with tempfile.TemporaryFile("w+") as output:
        outcome = _run(stage, output)
        output.seek(0)
        print(f"{head}\n{output.read()}", end="", flush=True)
    return outcome


def run_stages(stages: tuple[Stage, ...]) -> tuple[Outcome, ...]:
    """Run one after another, whatever fails, and beside each what says that it may be."""
    outcomes: list[Outcome] = []
    rest = list(stages)
    while rest:
        lanes = [[rest.pop(0)]]
        while rest and rest[0].beside:
            stage = rest.pop(0)
            before = (lane for lane in lanes if stage.after in {each.name for each in lane})
            lane = next(before, None)
            if lane is None:
                lanes.append([stage])
            else:
                lane.append(stage)
        with ThreadPoolExecutor(len(lanes)) as pool:
            outcomes += chain(*pool.map(_run_lane, lanes))
    return tuple(outcomes)


def _run_lane(lane: Sequence[Stage]) -> list[Outcome]:
    return [run_stage(stage) for stage in lane]


def _run(stage: Stage, output: IO[str] | None) -> Outcome:
    if stage.results is not None:
        stage.results.unlink(missing_ok=True)
    for number in range(stage.workers):
        shutil.rmtree(RESULTS / f"{stage.name}-{number}", ignore_errors=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ry-", ignore_cleanup_errors=True) as folder:
        try:
            code = subprocess.run(
                (*stage.command, *spread(stage, Path(folder))),
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                check=False,
                timeout=STAGE_DEADLINE_S,
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"{stage.name} did not end in {STAGE_DEADLINE_S:.0f} s", flush=True)
            code = 1
    seconds = time.monotonic() - begun
    if stage.results is None:
        return Outcome(stage, code == 0, seconds)
    return count_tests(stage, seconds, good=code == 0)


def count_tests(stage: Stage, seconds: float, *, good: bool) -> Outcome:
    """Read a stage's JUnit file; a stage that left none counts as one failure."""
    if stage.results is None or not stage.results.exists():
        return Outcome(stage, good=False, seconds=seconds, failed=1)
    # Our own pytest wrote the file a moment ago: nothing in it is hostile.
    suites = ET.parse(stage.results).getroot().iter("testsuite")  # noqa: S314 - see above
    sums = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        for name in sums:
            sums[name] += int(suite.get(name, "0"))
    failed = sums["failures"] + sums["errors"]
    passed = max(0, sums["tests"] - failed - sums["skipped"])
    if not good and not failed:
        failed = 1
    return Outcome(stage, good, seconds, passed, failed, sums["skipped"])


def render_summary(
    outcomes: tuple[Outcome, ...],
    not_run: Mapping[str, str] = MappingProxyType({}),
    seconds: float = 0.0,
) -> str:
    """The table at the end; its last line sums up all tests.

    Args:
        outcomes: Of the stages that ran.
        not_run: Stages that did not, and why.
        seconds: From begin to end: less than the sum where stages ran beside each other.
    """
    lines = ["", "=== summary"]
    for outcome in outcomes:
        verdict = "ok" if outcome.good else "FAILED"
        lines.append(
            f"{verdict:<7}{outcome.stage.name:<11}{outcome.seconds:>7.1f} s  {_counts(outcome)}"
        )
    for name, why in not_run.items():
        lines.append(f"{'NOT RUN':<7} {name:<10}{'':>9}  {why}")
    lines.append(f"{'':<7}{'all':<11}{seconds:>7.1f} s")
    failed = sum(outcome.failed for outcome in outcomes)
    checks = [item.stage.name for item in outcomes if not item.good and not item.stage.results]
    if checks:
        lines.append(f"failed checks: {', '.join(checks)}")
    lines.append(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed")
    return "\n".join(lines)


def _counts(outcome: Outcome) -> str:
    if outcome.stage.results is None:
        return outcome.stage.what
    skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
    return f"{outcome.passed} passed, {outcome.failed} failed{skipped}"


def main() -> int:
    """Run all stages, whatever fails, and sum up."""
    # Images for CI often say this: each of thousands of processes would compile what it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    RESULTS.mkdir(parents=True, exist_ok=True)
    planned = {
        extra.mark: plan_extra(extra, os.environ.get(extra.switch, ""), extra.why_not())
        for extra in EXTRAS
    }
    extra_stages = (stage for stages, _ in planned.values() for stage in stages)
    begun = time.monotonic()
    outcomes = run_stages((*plan_stages(count_cores()), *extra_stages))
    not_run = {name: why for name, (_, why) in planned.items() if why}
    print(render_summary(outcomes, not_run, time.monotonic() - begun), flush=True)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
