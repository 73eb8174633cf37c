"""`python -m mutants ROOM [--sample N]`: how many changes of a room the tests notice."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from mutants.rooms import ROOMS, Room
from mutants.run import BUDGET_S, SEED, Runner

ROOT: Final = Path(__file__).parents[1]
GOAL: Final = 0.9
"""Share of the changes that tests have to notice."""
QUICK: Final = " and ".join(
    f"not {mark}" for mark in ("lab", "engine", "cluster", "site", "story", "pods", "vm")
)


def main() -> int:
    """Judge one room; 0 where the goal is reached."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--sample", type=int, help="so many changes, chosen by chance")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample; another, others")
    parser.add_argument("--only", help="modules whose path has this part")
    wanted = parser.parse_args()
    return judge(ROOMS[wanted.room], wanted.sample, wanted.only or "", wanted.seed)


def judge(room: Room, sample: int | None, only: str, seed: int = SEED) -> int:
    """Run a room's changes and print the survivors."""
    found = (file for part in room.modules for file in sorted((ROOT / "components").glob(part)))
    files = [file for file in found if only in str(file) and file.name != "__init__.py"]
    for file in files:
        import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    runner = Runner(files, sample, BUDGET_S, seed)
    tests = [str(path) for part in room.tests for path in sorted((ROOT / "tests").glob(part))]
    quiet = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    ended = pytest.main([*quiet, "-m", QUICK, "--tb=no", "-rN", *tests], plugins=[runner])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return 2
    outcome = runner.outcome
    for name in outcome.left_out:
        sys.stdout.write(f"{name}: left out, since it does not pass in a child process\n")
    for file, change in outcome.survivors:
        place = f"{file.relative_to(ROOT)}:{change.line}"
        sys.stdout.write(f"{place}: {change.function}: {change.text}\n")
    sys.stdout.write(
        f"{outcome.noticed} of {outcome.total} changes were noticed ({outcome.rate:.1%}),"
        f" of {outcome.known} that there are;"
        f" {outcome.uncalled} survivors are in functions that no test calls\n"
    )
    return 0 if outcome.rate >= GOAL else 1
