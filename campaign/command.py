"""`python -m campaign --tier T --seeds A..B`: play seeds, and print what fell.

A failing seed replays exactly: `--seed N --verbose` prints its history.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from campaign import page
from campaign.guards import GUARDS, without
from campaign.history import CRASH, INVARIANTS
from campaign.intent.quick import remembering
from campaign.run import Outcome, play_one, play_seeds, private_folder

_FIRST: Final = 5
"""So many failing seeds of each invariant are named."""


def main() -> int:
    """Play what the arguments say; 0 if every invariant held."""
    wanted = _arguments().parse_args()
    names = tuple(wanted.without or ())
    if wanted.seed is not None:
        with without(*names):
            return _replay(wanted.tier, wanted.seed, verbose=wanted.verbose)
    first, last = _range(wanted.seeds)
    began = time.monotonic()
    outcome = play_seeds(wanted.tier, first, last, wanted.jobs, names)
    took_s = time.monotonic() - began
    sys.stdout.write(_report(wanted.tier, first, last, outcome, took_s))
    if wanted.write:
        page.write_row(wanted.tier, first, last, outcome, took_s)
    return 1 if outcome.failures else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--tier", type=int, choices=(1, 2, 3, 4), required=True)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seeds", help="FIRST..LAST, or how many from 1 on")
    chosen.add_argument("--seed", type=int, help="one seed again")
    parser.add_argument("--verbose", action="store_true", help="print the history of the seed")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes; default: 2")
    parser.add_argument("--without", action="append", choices=sorted(GUARDS), help="a guard is off")
    text = "add the run to campaign/README.md"
    parser.add_argument("--write", action="store_true", help=text)
    return parser


def _range(text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    return (int(first), int(last)) if dots else (1, int(first))


def _replay(tier: int, seed: int, *, verbose: bool) -> int:
    with private_folder(), remembering():
        history = play_one(tier, seed)
    if verbose:
        sys.stdout.write("\n".join((*history.lines, history.last_words, "")))
    for finding in history.findings:
        sys.stdout.write(f"seed {seed}: {finding.invariant}: {finding.text}\n")
    return 1 if history.findings else 0


def _report(tier: int, first: int, last: int, outcome: Outcome, took_s: float) -> str:
    head = (
        f"tier {tier}, seeds {first} to {last}: {outcome.played} played, {outcome.failed_seeds}"
        f" failed, {took_s:.0f} s, {outcome.cpu_s / max(outcome.played, 1) * 1000:.0f} ms of"
        " processor time a seed"
    )
    rows = [
        head,
        "  " + ", ".join(f"{name}: {count}" for name, count in sorted(outcome.counts.items())),
    ]
    for number, found in sorted(outcome.failures.items()):
        name = INVARIANTS.get(number, "an error that is no refusal" if number == CRASH else "")
        seeds = ", ".join(str(each) for each in sorted({seed for seed, _ in found})[:_FIRST])
        rows.append(f"  invariant {number} ({name}): {len(found)} failures; seeds {seeds}")
        for words, (seed, count) in outcome.kinds(number).items():
            rows.append(f"    {count} times, first in seed {seed}: {words}")
    return "\n".join(rows) + "\n"


def fixed(tier: int, seeds: range) -> list[str]:
    """What falls in some seeds, for the tests of the suite."""
    with private_folder(), remembering():
        return [
            f"seed {seed}: {each.invariant}: {each.text}"
            for seed in seeds
            for each in play_one(tier, seed).findings
        ]
