"""Play many seeds in forked workers: bounded in time and memory, and each seed by itself."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from types import FrameType
from typing import Final, cast
from unittest.mock import patch

from campaign.guards import without
from campaign.history import CRASH, History
from campaign.intent.quick import remembering

TIERS: Final = {
    1: "campaign.intent.play",
    2: "campaign.device.play",
    3: "campaign.whole.play",
    4: "campaign.host.play",
}
WHOLE: Final = 3
CHUNK: Final = 25
"""Seeds that one worker plays before it reports."""
LIMIT_S: Final = {1: 60, 2: 300, 3: 900, 4: 300}
"""Seconds of one history, after which it is a finding: the machine may be busy."""
LIMIT_MB: Final = 500
"""What one history may add to the memory of its worker."""
_NUMBERS: Final = re.compile(r"\b\S*\d\S*")
_KINDS: Final = 12


class TooLong(BaseException):
    """A history did not end."""


@dataclass(slots=True)
class Outcome:
    """What came of many seeds."""

    played: int = 0
    failed_seeds: int = 0
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    failures: dict[int, list[tuple[int, str]]] = field(
        default_factory=dict[int, list[tuple[int, str]]]
    )
    """Invariant to (seed, words)."""

    def add(self, history: History, cpu_s: float) -> None:
        """Count one history."""
        self.played += 1
        self.cpu_s += cpu_s
        self.failed_seeds += bool(history.findings)
        self.counts.update(history.counts)
        for each in history.findings:
            self.failures.setdefault(each.invariant, []).append((history.seed, each.text))

    def kinds(self, invariant: int) -> dict[str, tuple[int, int]]:
        """The findings of one invariant that differ by more than names and numbers."""
        found = defaultdict[str, list[tuple[int, str]]](list)
        for seed, words in self.failures.get(invariant, []):
            found[_NUMBERS.sub("#", words)[:80]].append((seed, words))
        most = sorted(found.values(), key=len, reverse=True)[:_KINDS]
        return {min(each)[1]: (min(each)[0], len(each)) for each in most}


def play_one(tier: int, seed: int) -> History:
    """Play one seed here; whatever it raises is a finding."""
    history = History(tier, seed)
    play = cast("Callable[[History], None]", import_module(TIERS[tier]).play)
    before = signal.signal(signal.SIGALRM, _too_long)
    held_mb = _peak_mb()
    signal.alarm(LIMIT_S[tier])
    try:
        play(history)
    except TooLong:
        history.fail(5, f"the history does not end within {LIMIT_S[tier]} s")
    except Exception as error:  # noqa: BLE001 - a campaign goes on with the next seed
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119 - a text
        history.fail(CRASH, f"{type(error).__name__} at {where}: {str(error)[:200]}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if _peak_mb() - held_mb > LIMIT_MB:
        history.fail(5, f"the history takes more than {LIMIT_MB} MB")
    return history


def _too_long(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TooLong


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def play_seeds(
    tier: int, first: int, last: int, jobs: int, guards_off: tuple[str, ...] = ()
) -> Outcome:
    """Play seeds from `first` to `last` in `jobs` workers."""
    import_module(TIERS[tier])  # once, before the workers are forked
    gc.freeze()
    outcome = Outcome()
    size = CHUNK if tier != WHOLE else last - first + 1  # one lab stands for all
    chunks = [range(start, min(start + size, last + 1)) for start in range(first, last + 1, size)]
    works = [(tier, chunk, guards_off) for chunk in chunks]
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        for played in pool.map(_play_chunk, works):
            for history, cpu_s in played:
                outcome.add(history, cpu_s)
    return outcome


def _play_chunk(work: tuple[int, range, tuple[str, ...]]) -> list[tuple[History, float]]:
    tier, seeds, guards_off = work
    lab = import_module("campaign.whole.lab").opened() if tier == WHOLE else nullcontext()
    with private_folder(), remembering(), without(*guards_off), lab:
        return [*_played(tier, seeds)]


def _played(tier: int, seeds: range) -> Iterator[tuple[History, float]]:
    for seed in seeds:
        began = time.process_time()
        history = play_one(tier, seed)
        if not history.findings:
            history.lines.clear()
        yield history, time.process_time() - began


@contextmanager
def private_folder() -> Generator[None]:
    """Temporary files of a worker are in a folder of its own, which is gone afterwards."""
    before = tempfile.tempdir
    with (
        tempfile.TemporaryDirectory(prefix="campaign-") as folder,
        patch.dict(os.environ, {"TMPDIR": folder}),
    ):
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before
