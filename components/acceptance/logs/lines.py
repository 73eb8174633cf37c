"""Takes a job's output apart, and finds the failures in it, by the tables of failures.yaml.

Launchers and collectors add prefixes: Open MPI, PRRTE, srun, kubectl, journals, compose files and
container runtimes. A tag may be in the middle of a line, because ranks write into one stream. A log
is read piece by piece, in constant memory.

NCCL: its sources and issue threads (2.4-2.30). perftest: the sources of linux-rdma/perftest at its
tags v4.5-0.2 to 26.04.17 (20 tags): no text disappeared in between. Tests compare both with
nccl_words.tsv and perftest_words.tsv of tests/acceptance/recorded. Launchers: Open MPI 4 and 5
(PRRTE), MPICH's hydra, Slurm's srun and slurmstepd, PBS, LSF, OpenSSH, kubectl, the kubelet and
runc, Docker compose, systemd, torchrun and Linux. All are collected in lab/sources.md#logs.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from math import isfinite
from typing import IO, Final, NamedTuple, TypeVar, cast

from pydantic import ValidationError

from components.acceptance.logs.log_model import LogFailure, ParseProblem
from components.core.limits import Stream
from components.core.record import record
from components.core.templates import read_table

LONGEST_LINE: Final = 8192
"""Characters. Longer lines are cut between words, to bound the time of every pattern."""
_LONGEST_RAW: Final = 1 << 18
"""Characters between two line ends, in which the lines of many ranks may be."""
_TAG = re.compile(
    r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} [\d:]{5,12} \d{4})?"
    r"(\[[^\]\s]{0,80}\d\](?:\[[^\]\s]{1,80}:\d{1,9}\])?<std(?:out|err|diag)>): ?"
)
_PREFIX = re.compile(rf"\s*(?:{'|'.join(read_table(__file__, 'prefixes'))})(?=\s|$) ?")
_MOST_PREFIXES: Final = 4
_SIGNS: Final = frozenset("[0123456789<(>")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
"""Control sequences (ECMA-48) and terminal titles."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe]")
_JSON_LINE: Final = '{"log":"'
"""A line of Docker's json-file driver."""
_MOST_CHARACTERS: Final = 64 << 20
"""A run's JSON has some hundred kilobytes."""
_DOCKER_LINE: Final = '{"log":'
"""The start of a line of Docker's driver, which is text."""
_INVISIBLE: Final = "\ufeff \t\r\n\x00"
_Made = TypeVar("_Made")
_MOST_DOCUMENTS: Final = 200
_TOO_MANY: Final = f"more than {_MOST_DOCUMENTS} JSON documents: judge them one by one"
_CHUNK_BYTES: Final = 1 << 20
_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"
}  # fmt: skip
"""Byte order marks (Unicode, chapter 23.8)."""
_LONGEST_LINE: Final = 300
_MOST_FAILURES: Final = 40
"""One broken link makes every rank complain; the first lines are enough."""
_MOST_WARNINGS: Final = 20
HARMLESS: Final = "harmless"
"""The kind of lines that look like failures but come from good runs."""
_GAVE_UP: Final = frozenset({"nccl_failure", "unhandled", "framework", "aborted", "test_failure"})
"""Kinds of lines that only say that NCCL gave up."""
COMM_ABORT: Final = "comm_abort"
"""PyTorch also ends good runs in this way (recorded, 2.11): it counts only for nccl-tests."""
_ENDED_KINDS: Final = frozenset({COMM_ABORT, "rank_failed", "scheduler"})
_WITHOUT_DIGITS: Final = str.maketrans("", "", "0123456789")


class Line(NamedTuple):
    """One line of one writer."""

    stream: str
    """The launcher's tag; empty without one."""
    text: str


def read_lines(source: str | Iterable[str]) -> Iterator[Line]:
    """The lines of all ranks without prefixes and colours; a tag inside a line ends that line."""
    for raw in _physical((source,) if isinstance(source, str) else source):
        line = _clean(raw)
        if "<std" not in line and len(line) <= LONGEST_LINE:
            if text := _strip_prefixes(line):
                yield Line("", text)
            continue
        parts = _TAG.split(line)
        # The text before the first tag, then a tag and its text in turn.
        for stream, part in zip(["", *parts[1::2]], parts[::2], strict=True):
            for piece in _pieces(part, LONGEST_LINE):
                if text := _strip_prefixes(piece):
                    yield Line(stream, text)


def _physical(chunks: Iterable[str]) -> Iterator[str]:
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        *whole, rest = text.split("\n")
        for line in whole:
            yield from _pieces(line, _LONGEST_RAW)
        if len(rest) > _LONGEST_RAW:
            *cut, rest = _pieces(rest, _LONGEST_RAW)
            yield from cut
    yield from _pieces(rest, _LONGEST_RAW)


def _pieces(line: str, longest: int) -> Iterator[str]:
    """A line, or its parts if it is too long, cut after a blank if it has one."""
    start = 0
    while len(line) - start > longest:
        limit = start + longest
        blank = line.rfind(" ", start + longest // 2, limit)
        end = limit if blank < 0 else blank + 1
        yield line[start:end]
        start = end
    yield line[start:]


def _clean(line: str) -> str:
    if not line.isprintable():
        if "\x1b" in line:
            line = _ESCAPE.sub("", line)
        line = _CONTROL.sub("", line)
    if not line.startswith(_JSON_LINE):
        return line.rstrip()
    try:
        text = cast("dict[str, object]", json.loads(line))["log"]
    except (ValueError, RecursionError):
        return _clean(line[len(_JSON_LINE) :])
    return _clean(text.removeprefix(_JSON_LINE)) if isinstance(text, str) else ""


def _strip_prefixes(line: str) -> str:
    for _ in range(_MOST_PREFIXES):
        # A cheap look: most lines of a long log are NCCL's, which begin with a host's name.
        start = line.lstrip()[:1] if line.startswith(" ") else line[:1]
        if not (start in _SIGNS or line[3:4] == " " or " |" in line or "]: " in line):
            break
        if (match := _PREFIX.match(line)) is None:
            break
        line = line[match.end() :]
    return line.rstrip()


def open_log(source: str | Iterable[str]) -> tuple[str | ParseProblem | None, Iterator[Line]]:
    """The JSON text of a log, or its problem; of a plain text, None and its lines."""
    chunks = iter((source,) if isinstance(source, str) else source)
    # The first piece with visible text; a blank before it may be the indent of a row.
    first = next((chunk for chunk in chunks if chunk.strip(_INVISIBLE)), "")
    head = first.lstrip(_INVISIBLE)
    if not head:
        return ParseProblem(kind="empty", what="the log is empty"), iter(())
    if not head.startswith("{") or head.startswith(_DOCKER_LINE):
        blanks = len(first) - len(head)
        return None, read_lines(chain((first[max(blanks - 1, 0) :],), chunks))
    parts, size = [head], len(head)
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > _MOST_CHARACTERS:
            what = "it is a JSON document of over 64 MiB"
            return ParseProblem(kind="unrecognised", what=what), iter(())
    return "".join(parts), iter(())


def read_json(
    text: str, tool: str, make: Callable[[object], _Made], number: type[str] | None = None
) -> list[_Made] | ParseProblem:
    """The documents of a text, one for each run; a cut or foreign one is a problem.

    `make` reads one and raises ValueError on failure; `number=str` keeps numbers as printed.
    """
    reader = json.JSONDecoder(parse_float=number, parse_int=number, parse_constant=_refuse_constant)
    rest, found = text.strip(), list[_Made]()
    try:
        while rest and len(found) < _MOST_DOCUMENTS:
            value, end = reader.raw_decode(rest)
            found.append(make(value))
            rest = rest[end:].lstrip(", \r\n\t")
    except (ValueError, OverflowError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        if isinstance(error, ValidationError):
            fault = error.errors(include_url=False)[0]
            first = f"{'.'.join(map(str, fault['loc'])) or 'the document'}: {fault['msg'].lower()}"
        what = f"it looks like JSON, but not that of {tool}: {first}"
        return ParseProblem(kind="unrecognised", what=what)
    return ParseProblem(kind="unrecognised", what=_TOO_MANY) if rest else found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no measurement")


def number(word: str) -> float | None:
    """A finite number; None for another text."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if isfinite(value) else None


def last_digit(word: str) -> float:
    """The value of a number's last digit, as it is printed; infinite if no float holds it."""
    mantissa, _, exponent = word.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def read_chunks(file: Stream | IO[bytes]) -> Iterator[str]:
    """The text of a file in pieces: UTF-8, or UTF-16 as Windows writes it; odd bytes replaced."""
    first = file.read(_CHUNK_BYTES)
    encoding = next((name for mark, name in _MARKS.items() if first.startswith(mark)), "utf-8")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while first:
        yield decoder.decode(first)
        first = file.read(_CHUNK_BYTES)
    yield decoder.decode(b"", final=True)


@record
class Cause:
    """One row of a table: a class of failure; `late` if it follows from a failure elsewhere."""

    pattern: re.Pattern[str]
    kind: str
    meaning: str
    late: bool


def has_hint(line: str) -> bool:
    """Whether a line may match a table; cached by its text without numbers."""
    return _has_hint(line.translate(_WITHOUT_DIGITS))


@lru_cache(maxsize=4096)
def _has_hint(shape: str) -> bool:
    lowered = shape.lower()
    return any(hint in lowered for hint in read_table(__file__, "failures")["hints"])


@dataclass(slots=True)
class FailureFinder:
    """Searches a log line by line; the first row of its tables that fits a line names it.

    A line with the text `warning` that fits no row is a warning of unknown meaning. Before the run
    has `started`, launchers' messages do not tell how it ends. The search skips names of hosts.
    """

    tables: Sequence[Cause]
    warning: str = ""
    started: bool = True
    names: set[str] = field(default_factory=set[str])
    failures: list[LogFailure] = field(default_factory=list[LogFailure])
    warnings: dict[str, None] = field(default_factory=dict[str, None])

    def feed(self, line: str) -> None:
        """Takes a line."""
        if not has_hint(line):
            return
        shown = line
        for name in self.names:
            shown = shown.replace(name, "-")
        for row in self.tables:
            if row.pattern.search(shown):
                if row.kind != HARMLESS:
                    self.add(row.kind, line, row.meaning, late=row.late)
                return
        if self.warning and self.warning in line and len(self.warnings) < _MOST_WARNINGS:
            self.warnings[line.strip()[:_LONGEST_LINE]] = None

    def explained(self) -> tuple[LogFailure, ...]:
        """The failures; if they only say that NCCL gave up, its unknown warnings come first."""
        kinds = {each.kind for each in self.failures if not each.is_before_run}
        if kinds & _GAVE_UP and kinds <= _GAVE_UP | _ENDED_KINDS:
            told, self.failures = self.failures, []
            for line in self.warnings:
                self.add("nccl_warning", line, "NCCL warned before it gave up")
            self.failures += told
        return tuple(self.failures)

    def add(self, kind: str, line: str, meaning: str, *, late: bool = False) -> None:
        """Takes down a failure."""
        # A waiting loop may fill only its own part of the list, not that of the run.
        part = [each for each in self.failures if each.is_before_run is not self.started]
        if len(part) >= _MOST_FAILURES and (late or not all(each.is_consequence for each in part)):
            return
        tables: Mapping[str, list[str]] = read_table(__file__, "failures")["places"]
        places = {name: re.search("|".join(forms), line) for name, forms in tables.items()}
        self.failures.append(
            LogFailure(
                kind=kind,
                line=line.strip()[:_LONGEST_LINE],
                meaning=meaning,
                is_consequence=late,
                is_before_run=not self.started,
                **{name: found[found.lastindex or 0] for name, found in places.items() if found},
            )
        )


def first_cause(failures: Iterable[LogFailure]) -> LogFailure | None:
    """The first failure that is not just a consequence of another; else the first."""
    every = list(failures)
    causes = [failure for failure in every if not failure.is_consequence]
    return next(iter(causes or every), None)


@cache
def causes_of(table: str) -> tuple[Cause, ...]:
    """The rows of a table: `nccl`, `launchers`, `launched` or `perftest`."""
    return tuple(
        Cause(re.compile("|".join(row["lines"])), row["kind"], row["means"], row.get("late", False))
        for row in read_table(__file__, "failures")[table]
    )


def nccl_finder() -> FailureFinder:
    """Find failures in the messages of NCCL, nccl-tests, their launchers and their hosts."""
    return FailureFinder(causes_of("nccl") + causes_of("launchers"), warning="NCCL WARN")


def launched_finder() -> FailureFinder:
    """Looks for the failures of a program that launchers start on other hosts, and of its NCCL."""
    nccl = tuple(row for row in causes_of("nccl") if row.kind != COMM_ABORT)
    return FailureFinder((*nccl, *causes_of("launched"), *causes_of("launchers")))


def perftest_finder() -> FailureFinder:
    """Find failures in the messages of perftest, its launchers and its hosts."""
    return FailureFinder(causes_of("perftest") + causes_of("launchers"))
