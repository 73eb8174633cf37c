"""Reads the output of training benchmarks: tf_cnn_benchmarks, and Horovod's synthetic ones.

With Horovod every rank of tf_cnn_benchmarks prints `total images/sec`, and each is the sum of all
ranks already: they are never added up. Documents number their lines, and the number may touch the
text (`51total images/sec: 8400.46`), so that nothing is looked for at the start of a line.
"""

from __future__ import annotations

import re

from components.acceptance.logs.failures import find_launched_failures
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import ParseProblem, TrainingLog

_TOTAL = re.compile(r"total images/sec:\s*(\d{1,9}(?:\.\d{1,6})?)(?![\d.])")
_STEP = re.compile(r"(?<!total )images/sec:\s*(\d{1,9}(?:\.\d{1,6})?)\s*\+/-")
_HOROVOD = re.compile(r"Total img/sec on (\d{1,6}) (?:GPU|CPU)\(s\):\s*(\d{1,9}(?:\.\d{1,6})?)")
_HOROVOD_STEP = re.compile(r"Iter #\d+:\s*(\d{1,9}(?:\.\d{1,6})?) img/sec per (?:GPU|CPU)")
_STARTED = re.compile(r"Done warm up|Running warmup|Running benchmark")


def parse_training_log(text: str) -> TrainingLog | ParseProblem:
    """Reads a log, with or without the launcher's tags and NCCL's lines.

    Args:
        text: The launcher's whole output.
    """
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    lines = split_lines(text)
    failures = find_launched_failures(lines)
    horovod = [match for line in lines for match in _HOROVOD.finditer(line)]
    totals = _numbers(_TOTAL, lines)
    steps = _numbers(_STEP, lines)
    own_steps = _numbers(_HOROVOD_STEP, lines)
    known = horovod or totals or steps or own_steps or any(map(_STARTED.search, lines))
    if not known and not failures:
        return ParseProblem(
            kind="unrecognised",
            what="no line of a training benchmark is in it; is it the log of another program?",
        )
    if (horovod or own_steps) and not totals:
        return TrainingLog(
            program="horovod",
            totals_images_s=tuple(float(match[2]) for match in horovod),
            steps_images_s=own_steps,
            gpus=int(horovod[-1][1]) if horovod else None,
            failures=failures,
        )
    return TrainingLog(
        program="tf_cnn_benchmarks",
        totals_images_s=totals,
        steps_images_s=steps,
        failures=failures,
    )


def _numbers(pattern: re.Pattern[str], lines: list[str]) -> tuple[float, ...]:
    return tuple(float(match[1]) for line in lines for match in pattern.finditer(line))
