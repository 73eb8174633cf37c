"""A probe's log as evidence: parsed, with its fingerprint and its end; and parsers for workloads.

The parsers are here and not with the evidence types, because most readers of evidence read no log.
Frameworks are DeepSpeed's communication benchmarks and training benchmarks.

DeepSpeed's throughput counts the data twice for an all-reduce; only its bus bandwidth is comparable
with that of nccl-tests, in bits. Sizes are taken from the description (elements by bytes), because
the size column rounds.

With Horovod every rank of tf_cnn_benchmarks prints `total images/sec`, and each is the sum of all
ranks already: they are never added up. Documents number their lines, and the number may touch the
text (`51total images/sec: 8400.46`); therefore no pattern is bound to the start of a line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.evidence import Outcome, Probe, ProbeEvidence, ProbeKind
from components.acceptance.logs.lines import launched_finder, number, read_lines
from components.acceptance.logs.log_model import (
    DeepSpeedLog,
    DeepSpeedRow,
    ImageLog,
    LogFailure,
    MpiLog,
    NcclLog,
    ParseProblem,
    PerftestLog,
    TrainingLog,
)
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.nccl_lines import bus_factor
from components.acceptance.logs.node import NodeLog, parse_node_log
from components.acceptance.logs.perftest import parse_perftest_log

_TAIL_LINES = 25
_TAIL_COLUMNS = 300
"""Characters of each of a log's last lines: enough to read a report without the file."""
ParsedLog = NcclLog | PerftestLog | DeepSpeedLog | TrainingLog | MpiLog | ImageLog | NodeLog
_HOST = re.compile(r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")
_TABLE_GPU = re.compile(r"^\|\s*\d+\s+\S.*\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d ")
_LISTED_GPU = re.compile(r"^GPU \d+: ")
_MARK: Final = "railyard-image: "
_HEAD = re.compile(r"-{4}\s*Performance of\s+(\w+)\s+on\s+(\d{1,7})\s+devices")
_COLUMNS = re.compile(r"Size \(Bytes\)\s+Description\s+Duration.*Throughput.*BusBW \((\w+)\)")
_ROW = re.compile(
    r"(?:[\d.]{1,20} ?[KMGT]?B|\d{1,18})\s+(?P<count>\d{1,18})x(?P<bytes>\d{1,3})\s+"
    r"(?P<duration>[\d.]{1,20})(?: (?P<unit>us|ms))?\s+[\d.]{1,20}\s+(?P<busbw>[\d.]{1,20})\s*$"
)
_ROW_START = re.compile(r"(?:[\d.]{1,20} ?[KMGT]?B|\d{1,18})\s+\d{1,18}x\d{1,3}\b")
_COUNT = re.compile(r"\dx\d")
"""Elements by bytes: a cheap look before the patterns of a row."""
_RESOLVED = re.compile(r"railyard: (\S+) resolves to \S+")
_BITS = 8
_RELATIVE_SLACK = 0.02
_ABSOLUTE_SLACK_GBIT_S = 0.02
"""Durations and bandwidths are printed with three decimals."""
_MOST_ROWS: Final = 20_000
_MOST_BAD_ROWS: Final = 20
_MOST_NUMBERS: Final = 100_000
"""The most names, totals of ranks and lines of single ranks to keep, of each."""
_RATE: Final = r"\s*(?P<rate>\d{1,9}(?:\.\d{1,6})?)"
_TOTAL = re.compile(rf"total images/sec:{_RATE}(?![\d.,])")
_STEP = re.compile(rf"(?<!total )images/sec:{_RATE}\s*\+/-")
_HOROVOD = re.compile(rf"Total img/sec on (?P<gpus>\d{{1,6}}) (?:GPU|CPU)\(s\):{_RATE}(?![\d.,])")
_HOROVOD_STEP = re.compile(rf"Iter #\d+:{_RATE} img/sec per (?:GPU|CPU)")
_RATES: Final = {
    _TOTAL: "images/sec", _STEP: "images/sec", _HOROVOD: "img/sec", _HOROVOD_STEP: "img/sec"
}  # fmt: skip
"""Pattern of a rate to the words that its lines have."""
_STARTED = re.compile(r"Done warm up|Running warmup|Running benchmark")


def digest_log(probe: Probe, log: str, *, outcome: Outcome, log_file: str = "") -> ProbeEvidence:
    """The evidence of a probe's log: parsed, with its fingerprint and its end."""
    data = log.encode("utf-8", "replace")
    base = ProbeEvidence(
        probe=probe,
        outcome=outcome,
        log_file=log_file,
        log_sha256=hashlib.sha256(data).hexdigest(),
        log_bytes=len(data),
        log_tail=tuple(line[:_TAIL_COLUMNS] for line in log.splitlines()[-_TAIL_LINES:]),
    )
    name, parse = _PARSERS[probe.kind]
    parsed = parse(log)
    if isinstance(parsed, ParseProblem):
        return base.model_copy(update={"problem": parsed})
    found: dict[str, ParsedLog] = {name: parsed}
    if isinstance(parsed, DeepSpeedLog | TrainingLog | NodeLog):
        said = parse_nccl_log(log)
        found |= {} if isinstance(said, ParseProblem) else {"nccl": said}
    return base.model_copy(update=found)


def parse_mpi_log(text: str) -> MpiLog | ParseProblem:
    """Reads the output of a command that mpirun started once on every host."""
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    lines = [line.text for line in read_lines(text)]
    finder = launched_finder()
    for line in lines:
        finder.feed(line)
    return MpiLog(
        hosts=tuple(line.strip() for line in lines if _HOST.match(line.strip())),
        gpus=sum(bool(_TABLE_GPU.match(line) or _LISTED_GPU.match(line)) for line in lines),
        failures=tuple(finder.failures),
    )


def parse_image_log(text: str) -> ImageLog | ParseProblem:
    """The facts of one image."""
    lines = (line.removeprefix(_MARK) for line in text.splitlines() if line.startswith(_MARK))
    facts = [(key, text) for key, mark, text in (each.partition("=") for each in lines) if mark]
    if not facts:
        said = (text.strip().splitlines() or ["nothing"])[-1]
        kind = "unrecognised" if text.strip() else "empty"
        return ParseProblem(kind=kind, what=f"the pod said nothing of its image, but: {said}")
    single = dict(facts)
    parts = [(*key.split(" ", 1), text) for key, text in facts if " " in key]
    return ImageLog(
        programs={name: path for kind, name, path in parts if kind == "program"},
        mpi={name: word for kind, name, word in parts if kind == "mpi"},
        nccl={name: word for kind, name, word in parts if kind == "nccl"},
        missing=tuple(f"{name} {what}" for kind, name, what in parts if kind == "library"),
        mpirun_version=single.get("mpirun version", ""),
        daemon=single.get("daemon", ""),
        uid=single.get("uid", ""),
        home=single.get("home", ""),
        path=single.get("path", ""),
        login=single.get("login", ""),
        said=tuple(text for key, text in facts if key == "said"),
        complete="end" in single,
    )


def _read(
    source: str | Iterable[str], lacks: str, take: Callable[[str], bool]
) -> tuple[LogFailure, ...] | ParseProblem:
    """Give each line to `take`, which knows the program's own; return failures, or the problem."""
    finder, is_known, line = launched_finder(), False, None
    for _, line in read_lines(source):
        finder.feed(line)
        is_known = take(line) or is_known
    if line is None:
        return ParseProblem(kind="empty", what="the log is empty")
    if is_known or finder.failures:
        return tuple(finder.failures)
    what = f"{lacks} is in it; is it the log of another program?"
    return ParseProblem(kind="unrecognised", what=what)


@dataclass(slots=True)
class _DeepSpeed:
    collective: str = ""
    devices: int = 0
    scale: float = 1.0
    rows: list[DeepSpeedRow] = field(default_factory=list[DeepSpeedRow])
    bad: list[str] = field(default_factory=list[str])
    resolved: list[str] = field(default_factory=list[str])
    out_of_memory: bool = False
    _rows_before: int = 0
    """Rows, readable or not, before the current table."""

    def feed(self, line: str) -> bool:
        if "Performance of" in line and (head := _HEAD.search(line)):
            self.end_table()
            self.collective, self.devices = head[1], int(head[2])
            return self.devices > 0
        if "resolves to" in line and (name := _RESOLVED.search(line)):
            self.resolved += [name[1]] if len(self.resolved) < _MOST_NUMBERS else []
            return True
        if "BusBW" in line and (columns := _COLUMNS.search(line)):
            self.scale = _BITS if columns[1] == "GBps" else 1.0
        elif "Ran out of GPU memory" in line:
            self.out_of_memory = True
        elif self.devices and _COUNT.search(line):
            self._feed_row(line)
        return False

    def end_table(self) -> None:
        """A table without a row was cut, though another one may have some."""
        count = len(self.rows) + len(self.bad)
        if self.devices and self.rows and count == self._rows_before:
            self._add_bad(f"the table of {self.collective} lacks rows")
            count += 1
        self._rows_before = count

    def _feed_row(self, line: str) -> None:
        """Take a row, unless its numbers contradict each other."""
        row = None
        if (match := _ROW.search(line)) and (duration := number(match["duration"])):
            size = int(match["count"]) * int(match["bytes"])
            duration_us = duration * (1e3 if match["unit"] == "ms" else 1.0)
            busbw = (number(match["busbw"]) or 0.0) * self.scale
            expected = size * _BITS / duration_us / 1e3 * bus_factor(self.collective, self.devices)
            if abs(busbw - expected) <= max(_RELATIVE_SLACK * expected, _ABSOLUTE_SLACK_GBIT_S):
                row = DeepSpeedRow(size_bytes=size, duration_us=duration_us, busbw_gbit_s=busbw)
        if row is not None and len(self.rows) < _MOST_ROWS:
            self.rows.append(row)
        elif row is not None or _ROW_START.search(line):
            self._add_bad(f"more than {_MOST_ROWS} rows" if row else line.strip())

    def _add_bad(self, text: str) -> None:
        if len(self.bad) < _MOST_BAD_ROWS:
            self.bad.append(text[:200])


def parse_deepspeed_log(source: str | Iterable[str]) -> DeepSpeedLog | ParseProblem:
    """Reads a log; a row whose numbers contradict each other is a bad row."""
    reader = _DeepSpeed()
    failures = _read(source, "no table of DeepSpeed's benchmarks", reader.feed)
    if isinstance(failures, ParseProblem):
        return failures
    reader.end_table()
    return DeepSpeedLog(
        collective=reader.collective,
        devices=reader.devices,
        rows=tuple(reader.rows),
        bad_rows=tuple(reader.bad),
        out_of_memory=reader.out_of_memory,
        resolved=tuple(reader.resolved),
        failures=failures,
    )


def parse_training_log(source: str | Iterable[str]) -> TrainingLog | ParseProblem:
    """Reads a log, with or without the launcher's tags and NCCL's lines."""
    found: dict[re.Pattern[str], list[float]] = {each: [] for each in _RATES}
    gpus: list[int] = []

    def take(line: str) -> bool:
        is_known = _STARTED.search(line) is not None
        for pattern, word in _RATES.items():
            for match in pattern.finditer(line) if word in line else ():
                is_known = True
                gpus[:] = [int(match["gpus"])] if pattern is _HOROVOD else gpus
                if len(found[pattern]) < _MOST_NUMBERS:
                    found[pattern].append(float(match["rate"]))
        return is_known

    failures = _read(source, "no line of a training benchmark", take)
    if isinstance(failures, ParseProblem):
        return failures
    is_horovod = bool(found[_HOROVOD] or found[_HOROVOD_STEP]) and not found[_TOTAL]
    return TrainingLog(
        program="horovod" if is_horovod else "tf_cnn_benchmarks",
        totals_images_s=tuple(found[_HOROVOD if is_horovod else _TOTAL]),
        steps_images_s=tuple(found[_HOROVOD_STEP if is_horovod else _STEP]),
        gpus=next(iter(gpus), None) if is_horovod else None,
        failures=failures,
    )


_PARSERS: Final[Mapping[ProbeKind, tuple[str, Callable[[str], ParsedLog | ParseProblem]]]] = {
    "image": ("image", parse_image_log),
    "node": ("node", parse_node_log),
    "nccl": ("nccl", parse_nccl_log),
    "perftest": ("perftest", parse_perftest_log),
    "deepspeed_scan": ("deepspeed", parse_deepspeed_log),
    "resnet50": ("training", parse_training_log),
    "mpi_hosts": ("mpi", parse_mpi_log),
    "mpi_gpus": ("mpi", parse_mpi_log),
}
"""The field of the evidence, and the parser for it."""
