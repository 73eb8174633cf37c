"""`make test`: every check and every test, stage after stage, and one line of sums at the end."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lab.vm.tools import why_not

PROJECT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent
RESULTS: Final = PROJECT / "build" / "suite"
"""One JUnit file for each stage of tests; not kept in git."""
STAGE_DEADLINE_S: Final = 2400.0
"""Twice what the slowest stage takes on two busy cores; one that hangs must not hang CI."""
OWN_NETWORK: Final = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", "env")
"""Begins a command that shall have a loopback network of its own; only root may make one."""
SLOW_MARKS: Final = ("lab", "engine", "cluster", "site")
"""Also the order of their stages: what a later one builds on is tested before it."""

VM_MARK: Final = "vm"
"""The last stage, where this machine has QEMU; else the summary says why it did not run."""
VM_SWITCH: Final = "RAILYARD_VM"
"""`1` demands that stage (and installs QEMU), `0` leaves it out."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the suite."""

    name: str
    what: str
    command: tuple[str, ...]
    results: Path | None = None
    """Where its tests are counted; None where it is one check and no tests."""
    workers: int = 1
    """How many processes share its tests, each in a network of its own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a stage ended."""

    stage: Stage
    good: bool
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def plan_stages(cores: int = 0) -> tuple[Stage, ...]:
    """All stages, the quick ones first.

    Args:
        cores: That workers may share, each in a network of its own: the emulated devices take
            addresses of the loopback network. 0 where no network can be made.
    """
    checks = (
        Stage("format", "ruff format", _tool("ruff", "format", "--check", ".")),
        Stage("lint", "ruff check", _tool("ruff", "check", ".")),
        Stage("types", "pyright, strict", _tool("pyright")),
        Stage("contracts", "which room may import which", _tool("lint-imports")),
    )
    quick = " and ".join(f"not {mark}" for mark in (*SLOW_MARKS, "story", VM_MARK))
    fast = _tests(
        "fast",
        "tests that need no device, engine or cluster",
        quick,
        "-n",
        "auto",
        "--maxprocesses=8",
    )
    slow = (_slow(number) for number in range(len(SLOW_MARKS)))
    return (*checks, fast, *(replace(each, workers=_count(each.name, cores)) for each in slow))


def _count(stage: str, cores: int) -> int:
    """Of workers; the lab waits for half its time, and the site is one for all its tests."""
    wanted = {"lab": min(6, cores + cores // 2), "engine": min(3, cores), "cluster": min(3, cores)}
    return max(1, wanted.get(stage, 1))


def spread(stage: Stage, folder: Path) -> tuple[str, ...]:
    """What its command needs more: workers with their own network and temporary files.

    Args:
        stage: One of tests.
        folder: For the temporary files; a short path, since sockets lie below it.
    """
    if stage.workers == 1:
        return ()
    python = shlex.join((*OWN_NETWORK, sys.executable))
    own = [folder / str(number) for number in range(stage.workers)]
    for each in own:
        each.mkdir()
    return (
        "--dist=worksteal",
        *(f"--tx=popen//env:TMPDIR={each}//python={python}" for each in own),
    )


def count_cores() -> int:
    """Of this machine; 0 where it does not let us make a network."""
    trial = subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False)
    return (os.cpu_count() or 1) if trial.returncode == 0 else 0


def _slow(number: int) -> Stage:
    """A test with two marks belongs to the later of the two stages."""
    what = {
        "lab": "emulated devices over real SSH",
        "engine": "the real Pulumi engine",
        "cluster": "the real Kubernetes control plane",
        "site": "the whole site: make up, drift, repair, kill, destroy",
    }
    mark = SLOW_MARKS[number]
    only = " and ".join([mark, *(f"not {later}" for later in SLOW_MARKS[number + 1 :])])
    return _tests(mark, what[mark], only)


def plan_vm(wish: str, missing: str) -> tuple[tuple[Stage, ...], str]:
    """The stage on real kernels, or why there is none.

    Args:
        wish: Value of `RAILYARD_VM`.
        missing: Why this machine cannot run it as it is; empty where it can.
    """
    if wish == "0":
        return (), f"{VM_SWITCH}=0"
    if missing and wish != "1":
        return (), missing
    return (_tests(VM_MARK, "the hosts' scripts on two real kernels in QEMU", VM_MARK),), ""


def _tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(BIN / name), *arguments)


def _tests(name: str, what: str, marks: str, *more: str) -> Stage:
    results = RESULTS / f"{name}.xml"
    command = _tool("pytest", "-q", "-m", marks, f"--junitxml={results}", *more)
    return Stage(name, what, command, results)


def run_stage(stage: Stage) -> Outcome:
    """Run one stage; its output goes to the terminal."""
    print(f"\n=== {stage.name}: {stage.what}", flush=True)
    if stage.results is not None:
        stage.results.unlink(missing_ok=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ry-", ignore_cleanup_errors=True) as folder:
        try:
            code = subprocess.run(
                (*stage.command, *spread(stage, Path(folder))),
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
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


def render_summary(outcomes: tuple[Outcome, ...], no_vm: str = "") -> str:
    """The table at the end; its last line sums up all tests.

    Args:
        outcomes: Of the stages that ran.
        no_vm: Why the stage on real kernels did not run; empty where it did.
    """
    lines = ["", "=== summary"]
    for outcome in outcomes:
        verdict = "ok" if outcome.good else "FAILED"
        lines.append(
            f"{verdict:<7}{outcome.stage.name:<11}{outcome.seconds:>7.1f} s  {_counts(outcome)}"
        )
    if no_vm:
        lines.append(f"{'NOT RUN':<7} {VM_MARK:<10}{'':>9}  {no_vm}")
    total = sum(outcome.seconds for outcome in outcomes)
    lines.append(f"{'':<7}{'all':<11}{total:>7.1f} s")
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
    RESULTS.mkdir(parents=True, exist_ok=True)
    on_kernels, no_vm = plan_vm(os.environ.get(VM_SWITCH, ""), why_not())
    outcomes = tuple(run_stage(stage) for stage in (*plan_stages(count_cores()), *on_kernels))
    print(render_summary(outcomes, no_vm), flush=True)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
