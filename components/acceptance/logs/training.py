"""Reads the output of training benchmarks: tf_cnn_benchmarks, and Horovod's synthetic ones.

With Horovod every rank of tf_cnn_benchmarks prints `total images/sec`, and each is the sum of all
ranks already: they are never added up. Documents number their lines, and the number may touch the
text (`51total images/sec: 8400.46`), so that nothing is looked for at the start of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.logs.causes import FailureFinder
from components.acceptance.logs.failures import launched_finder
from components.acceptance.logs.launchers import feed_all
from components.acceptance.logs.log_model import ParseProblem, TrainingLog

_TOTAL = re.compile(r"total images/sec:\s*(?P<rate>\d{1,9}(?:\.\d{1,6})?)(?![\d.,])")
_STEP = re.compile(r"(?<!total )images/sec:\s*(?P<rate>\d{1,9}(?:\.\d{1,6})?)\s*\+/-")
_HOROVOD = re.compile(
    r"Total img/sec on (?P<gpus>\d{1,6}) (?:GPU|CPU)\(s\):\s*"
    r"(?P<rate>\d{1,9}(?:\.\d{1,6})?)(?![\d.,])"
)
_HOROVOD_STEP = re.compile(r"Iter #\d+:\s*(?P<rate>\d{1,9}(?:\.\d{1,6})?) img/sec per (?:GPU|CPU)")
_STARTED = re.compile(r"Done warm up|Running warmup|Running benchmark")


_MOST_NUMBERS: Final = 100_000
"""Of one kind that are kept: ranks, and lines of single ones."""


@dataclass(slots=True)
class _Reader:
    """What was found so far."""

    totals: list[float] = field(default_factory=list[float])
    steps: list[float] = field(default_factory=list[float])
    horovod_totals: list[float] = field(default_factory=list[float])
    horovod_steps: list[float] = field(default_factory=list[float])
    gpus: int | None = None
    started: bool = False
    finder: FailureFinder = field(default_factory=launched_finder)

    def feed(self, line: str) -> None:
        self.finder.feed(line)
        self.started = self.started or _STARTED.search(line) is not None
        if "images/sec" in line:
            _take(self.totals, _TOTAL, line)
            _take(self.steps, _STEP, line)
        if "img/sec" in line:
            _take(self.horovod_steps, _HOROVOD_STEP, line)
            _take(self.horovod_totals, _HOROVOD, line)
            if total := _HOROVOD.search(line):
                self.gpus = int(total["gpus"])

    @property
    def is_known(self) -> bool:
        """A line of a benchmark's start or result was read."""
        numbers = self.totals, self.steps, self.horovod_totals, self.horovod_steps
        return self.started or any(numbers)


def parse_training_log(source: str | Iterable[str]) -> TrainingLog | ParseProblem:
    """Reads a log, with or without the launcher's tags and NCCL's lines."""
    reader = _Reader()
    failures = feed_all(reader, source, "no line of a training benchmark")
    if isinstance(failures, ParseProblem):
        return failures
    if (reader.horovod_totals or reader.horovod_steps) and not reader.totals:
        return TrainingLog(
            program="horovod",
            totals_images_s=tuple(reader.horovod_totals),
            steps_images_s=tuple(reader.horovod_steps),
            gpus=reader.gpus,
            failures=failures,
        )
    return TrainingLog(
        program="tf_cnn_benchmarks",
        totals_images_s=tuple(reader.totals),
        steps_images_s=tuple(reader.steps),
        failures=failures,
    )


def _take(found: list[float], pattern: re.Pattern[str], line: str) -> None:
    for match in pattern.finditer(line):
        if len(found) < _MOST_NUMBERS:
            found.append(float(match["rate"]))
