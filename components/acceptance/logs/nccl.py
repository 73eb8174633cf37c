"""Reads the log of an NCCL program: nccl-tests of any age, or another program that uses NCCL.

It never raises: an unreadable log gives a `ParseProblem`. It does not judge. A log is read line by
line, in time that grows with its size and memory that does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from components.acceptance.logs import lines, log_model
from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, ParseProblem, RankLine
from components.acceptance.logs.nccl_lines import Paths, Table, fits

_NEW_CODES: Final = 10_000
"""From 2.9 on, a code is X*10000 + Y*100 + Z, before X*1000 + Y*100 + Z (nccl.h, NCCL_VERSION)."""
_UNCHECKED: Final = frozenset({"n/a", "na", "null", "none", "unchecked", ""})
_MOST_BAD_ROWS: Final = 20
_RANK = re.compile(
    r"(?:#|\b)\s{0,20}Rank\s{1,20}(\d{1,9})\s{1,20}(?:Group\s{1,20}(\d{1,9})\s{1,20})?"
    r"Pid\s{1,20}\d{1,12}\s{1,20}on\s{1,20}(\S{1,253})\s{1,20}device"
    r"(?:\s{1,20}(\d{1,4}\s{1,4}\[[0-9A-Fa-fx:.]{1,20}\].{0,60}))?"
)
_WHOLE_BUS_ID = re.compile(r"\[[0-9a-f]{1,8}:[0-9a-f:.]{1,12}\]", re.IGNORECASE)
"""Older lists show the bus alone, which GPUs of several PCI domains share."""
_PREAMBLE = re.compile(
    r"(?:#|\b)\s{0,20}nThreads?:? \d{1,9} .{0,80}?minBytes:? (\d{1,18}) maxBytes:? (\d{1,18}) "
    r"step:? ?(\d{1,18})\s?\((factor|bytes)\)(?:.{0,80}?[iI]ters: \d{1,9} iters: (\d{1,9}))?"
)
"""rccl-tests before 2024 put a colon behind each name."""
_REDUCED = re.compile(r"(?:#|\b)\s{0,20}Reducing maxBytes to (\d{1,18})")
_VERSION_LINE = re.compile(
    r"(?:#|\b)\s{0,20}nccl-tests version (?:.{0,80}?nccl-library=(\d{4,6})\b)?"
)
_STARTING = re.compile(r"(?:#|\b)\s{0,20}Collective test starting: (\w{1,80})")
_CONCLUDED = re.compile(r"(?:#|\b)\s{0,20}Collective test concluded")
_BOUNDS = re.compile(
    r"(?:#|\b)\s{0,20}Out of bounds values\s{0,20}:\s{0,20}(\d{1,18})\s{0,20}(OK|FAILED)?"
)
_AVERAGE = re.compile(
    r"(?:#|\b)\s{0,20}Avg bus bandwidth\s{0,20}:\s{0,20}"
    r"(\d{1,18}(?:\.\d{0,18})?(?:e[+-]?\d{1,3})?)(?![\d.])"
)
_OWN_ROW = re.compile(
    r"rank\s{1,20}\d{1,9}(?:\s{1,20}bytes\s{1,20}(?P<size>\d{1,18}))?\s{0,20}:\s{0,20}"
    r"algbw\s{1,20}(?P<algbw>\d{1,9}\.?\d{0,9})\s{0,20}GB/s\s{1,20}"
    r"busbw\s{1,20}(?P<busbw>\d{1,9}\.?\d{0,9})\s{0,20}GB/s"
)
_STARTS: Final = ("#", "nThread", "Rank", "Out of bounds", "Avg bus", "Collective test", "size  ")
"""Documents lose the `#`, because their markup reads it as a heading."""
_MOST_RANKS: Final = 100_000
_MOST_OWN_ROWS: Final = 10_000
_PARTS: Final = ("version", "name", "sizes", "devices", "header", "footer")
_MARKUP = re.compile(r"\s*(?:\d{1,2}\.|[-*+])\s+[A-Z][a-z]+ \w+")
"""A numbered or bulleted sentence: no program prints two such lines."""
_LEAST_MARKUP: Final = 2
_PAGE = re.compile(
    r"\s*(?:#{2,6}\s+[A-Z]|```|~~~|\.\. [a-z-]+::|</?(?:p|pre|code|h[1-6]|li|div|td)\b"
    r"|(?:\d{1,2}\.|[-*+])\s+[A-Z][a-z]+ \w+|.{0,400}\]\(https?://)"
)
"""Markup of Markdown, reStructuredText and HTML."""
_SENTENCE = re.compile(r"\s*[A-Z][a-z']+(?:,? [\w'`()/-]+){6,60}.{0,400}[.:]$")
_BANNER = re.compile(r"[-=*]{20,}$")
"""Lines around sentences of launchers."""
_LEAST_PAGE: Final = 3
"""Sentences of a page; a line with markup counts as two: no run prints so many outside a banner."""
_LAUNCHER_KINDS: Final = frozenset(
    {"slots", "rank_failed", "launcher", "out_of_memory", "scheduler", "no_device", "dns", "mpi"}
    | {"missing_program", "missing_library", "host_key", "ssh_login", "usage"}
)
"""Failures that make even a log without a line of NCCL a run: it ended before NCCL began."""
_MOST_RUNS: Final = 200


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, allow_inf_nan=False)


class _Half(_Part):
    time: float | None = None
    cpu_time: float | None = None
    alg_bw: float = Field(ge=0)
    bus_bw: float = Field(ge=0)
    nwrong: int | float | str | None = None


class _Iterations(_Part):
    max_us: float | None = None
    cv_pct: float | None = None
    skipped_iterations: int = Field(default=0, ge=0)
    per_process_max_times_us: tuple[tuple[float, ...], ...] = ()


class _Result(_Part):
    size: int = Field(ge=0)
    out_of_place: _Half
    out_of_place_per_iter: _Iterations = _Iterations()
    in_place: _Half | None = None
    in_place_per_iter: _Iterations = _Iterations()


class _Device(_Part):
    rank: int
    group: int = 0
    hostname: str = ""


class _Config(_Part):
    ngpus: int = 1
    minimum_bytes: int | None = None
    maximum_bytes: int | None = None
    step_factor: int | None = None
    step_bytes: int | None = None
    iterations: int | None = None
    devices: tuple[_Device, ...] = ()


class _Footer(_Part):
    count: int = 0
    bandwidth: float | None = None
    okay: bool | str = "unchecked"


class _Document(_Part):
    nccl_version: int | str = ""
    args: tuple[str, ...] = ()
    config: _Config = _Config()
    results: tuple[_Result, ...]
    out_of_bounds: _Footer | None = None
    average_bus_bandwidth: _Footer | None = None
    errors: tuple[object, ...] = ()
    end_time: str | float | None = None


def parse_nccl_json(text: str) -> NcclLog | ParseProblem:
    """Reads the JSON of `-J FILE`, one document a run; a cut or foreign one is a problem.

    Truth values are strings, `nwrong` is null when nothing was checked, and `env` holds the whole
    environment of the job: nothing of it is read, which keeps secrets out of evidence.
    """
    logs = lines.read_json(text, "nccl-tests", lambda it: _json_log(_Document.model_validate(it)))
    if isinstance(logs, ParseProblem):
        return logs
    return logs[0].model_copy(update={"other_runs": tuple(logs[1:])})


def _json_log(document: _Document) -> NcclLog:
    name = document.args[0].rpartition("/")[2] if document.args else ""
    config, bounds = document.config, document.out_of_bounds
    share = None if "alltoallv" in name else 1.0
    if "hypercube" in name and config.devices:
        share = (len(config.devices) - 1) / len(config.devices)
    return NcclLog(
        program="nccl-tests",
        collective=name,
        nccl_version=release_of(document.nccl_version),
        has_preamble=True,
        has_footer=bounds is not None and document.end_time is not None,
        iterations=config.iterations,
        tables=1,
        rows=tuple(
            NcclRow(
                size_bytes=each.size,
                out_of_place=_half(each.out_of_place, each.out_of_place_per_iter),
                in_place=_half(each.in_place, each.in_place_per_iter) if each.in_place else None,
            )
            for each in document.results
        ),
        bad_rows=tuple(
            f"{each.size} bytes: {half.alg_bw} GB/s in {half.time or 0.0} us"
            for each in document.results
            for half in (each.out_of_place, each.in_place)
            # The processor's own time does not depend on the size.
            if half is not None and (half.time is not None or half.cpu_time is None)
            if share is not None
            and not fits(each.size * share, (half.time or 0.0, half.time or 0.0), half.alg_bw)
        )[:_MOST_BAD_ROWS],
        out_of_bounds=None if bounds is None else abs(bounds.count) or int(_is_false(bounds.okay)),
        average_busbw_gb_s=(document.average_bus_bandwidth or _Footer()).bandwidth,
        # Of several GPUs in one process, only the first is listed.
        ranks=tuple(
            RankLine(rank=each.rank, host=each.hostname, group=each.group)
            for each in config.devices
            if config.ngpus == 1
        ),
        sizes=log_model.Sizes(
            least_bytes=config.minimum_bytes,
            most_bytes=config.maximum_bytes,
            # Of the two steps, the unused one is 0 or missing.
            factor=config.step_factor if (config.step_factor or 0) > 1 else None,
            step_bytes=config.step_bytes or None,
        )
        if config.minimum_bytes is not None and config.maximum_bytes is not None
        else None,
        failures=tuple(_json_failures(document)),
    )


def release_of(code: int | str) -> str:
    """The release of an NCCL_VERSION_CODE: 2.18.3 of 21803; another text unchanged."""
    text = str(code)
    if not (text.isascii() and text.isdecimal()) or not int(text):
        return "" if text == "0" else text
    major, rest = divmod(int(text), _NEW_CODES if int(text) >= _NEW_CODES else _NEW_CODES // 10)
    return f"{major}.{rest // 100}.{rest % 100}"


def _json_failures(document: _Document) -> Iterator[log_model.LogFailure]:
    # A run without errors has one empty text.
    meaning = "nccl-tests saw an error of NCCL"
    for error in [each for each in document.errors if str(each).strip()][:_MOST_BAD_ROWS]:
        yield log_model.LogFailure(kind="nccl_tests", line=str(error)[:300], meaning=meaning)
    average = document.average_bus_bandwidth
    if average is not None and _is_false(average.okay):
        line = f"average_bus_bandwidth {average.bandwidth} is not okay"
        meaning = "nccl-tests' own bandwidth limit was missed (NCCL_TESTS_MIN_BW)"
        yield log_model.LogFailure(kind="below_limit", line=line, meaning=meaning)


def _is_false(okay: bool | str) -> bool:  # noqa: FBT001 - the document has it as either
    return str(okay).strip().lower() in ("false", "failed", "0", "no")


def _half(half: _Half, each: _Iterations) -> Measure:
    processes = [times[each.skipped_iterations :] for times in each.per_process_max_times_us]
    shown = half.nwrong.strip() if isinstance(half.nwrong, str) else half.nwrong
    wrong = None
    if shown is not None and str(shown).lower() not in _UNCHECKED:
        wrong = None if isinstance(shown, str) and not shown.isdecimal() else float(shown)
        if wrong is None or wrong < 0 or wrong != round(wrong):
            raise ValueError(f"nwrong: {half.nwrong!r:.42} is not a count")
    return Measure(
        time_us=half.time or half.cpu_time or 0.0,
        algbw_gb_s=half.alg_bw,
        busbw_gb_s=half.bus_bw,
        wrong=None if wrong is None else round(wrong),
        slowest_us=each.max_us,
        varies_percent=each.cv_pct,
        process_us=tuple(sum(times) / len(times) for times in processes if times),
    )


@dataclass(slots=True)
class Run:
    """The results of one run so far."""

    table: Table = field(default_factory=Table)
    paths: Paths = field(default_factory=Paths)
    finder: lines.FailureFinder = field(default_factory=lines.nccl_finder)
    collective: str = ""
    library: str = ""
    """The release of NCCL, as nccl-tests asked the library for it."""
    sizes: log_model.Sizes | None = None
    iterations: int | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    out_of_bounds: int | None = None
    average: float | None = None
    ranks: list[RankLine] = field(default_factory=list[RankLine])
    own_rows: dict[int | None, NcclRow] = field(default_factory=dict[int | None, NcclRow])
    overlaps: bool = False
    _part: int = -1

    def __post_init__(self) -> None:
        """Make the search for failures skip names of hosts."""
        self.finder.started, self.finder.names = False, self.paths.odd_names

    def begins_again(self, line: str) -> bool:
        """Whether this comment of nccl-tests belongs to the next run."""
        part = _part_of(line)
        if part is None or part > self._part:
            # One run has one table, whatever its types and operations are.
            return part == _PARTS.index("header") and bool(self.table.rows)
        return part < self._part or _PARTS[part] not in ("devices", "footer") or self._repeats(line)

    def overlaps_with(self, line: str) -> bool:
        """Whether the run of this comment begins before this one has a row."""
        is_open = self._part >= 0 and not self.table.rows and not self.counts["footer"]
        return is_open and (_part_of(line) == self._part or self._repeats(line))

    def _repeats(self, line: str) -> bool:
        """Whether rank 0 comes again, after which the list of this run is complete."""
        rank = _RANK.search(line)
        return bool(rank and int(rank[1]) == 0 and any(each.rank == 0 for each in self.ranks))

    def feed_comment(self, line: str) -> None:
        """Take a line with a `#`."""
        part = _part_of(line)
        if part is not None:
            self._part = max(part, self._part)
            self.counts[_PARTS[part]] += 1
        if rank := _RANK.search(line):
            if len(self.ranks) < _MOST_RANKS:
                number, group, host, gpu = rank.groups(default="")
                own = RankLine(rank=int(number), host=host, group=int(group or 0), gpu=gpu)
                self.ranks.append(own)
                self.paths.take_name(host)
                if gpu:
                    place = whole[0] if (whole := _WHOLE_BUS_ID.search(gpu)) else gpu
                    self.paths.take_gpu("list", f"{host} {place}", f"{group} {number}")
        elif preamble := _PREAMBLE.search(line):
            by = int(preamble[3])
            self.sizes = log_model.Sizes(
                least_bytes=int(preamble[1]),
                most_bytes=int(preamble[2]),
                factor=by if preamble[4] == "factor" else None,
                step_bytes=by if preamble[4] == "bytes" else None,
            )
            self.iterations = int(preamble[5]) if preamble[5] else None
        elif starting := _STARTING.search(line):
            self.collective = starting[1]
        elif (version := _VERSION_LINE.search(line)) and version[1]:
            self.library = release_of(int(version[1]))
        else:
            self._feed_footer(line)

    def _feed_footer(self, line: str) -> None:
        if bounds := _BOUNDS.search(line):
            self.table.finish()
            wrong = int(bounds[1]) or int(bounds[2] == "FAILED")
            self.out_of_bounds = (self.out_of_bounds or 0) + wrong
        elif average := _AVERAGE.search(line):
            self.average = float(average[1])
        elif (reduced := _REDUCED.search(line)) and self.sizes:
            self.sizes = self.sizes.model_copy(update={"most_bytes": int(reduced[1])})

    def feed_own_row(self, line: str) -> None:
        """Takes a line of a program that prints bandwidths in its own way."""
        if (row := _OWN_ROW.search(line)) is None:
            return
        size = int(row["size"]) if row["size"] else None
        half = Measure(algbw_gb_s=float(row["algbw"]), busbw_gb_s=float(row["busbw"]))
        known = self.own_rows.get(size)
        full = known is None and len(self.own_rows) >= _MOST_OWN_ROWS
        if not full and (known is None or half.busbw_gb_s < known.out_of_place.busbw_gb_s):
            self.own_rows[size] = NcclRow(size_bytes=size, out_of_place=half)

    def set_share(self, line: str) -> None:
        """Set which part of a size counts, once collective and ranks are known (hypercube.cu)."""
        if self.collective.startswith("alltoallv_perf"):
            self.table.share = None  # the busiest rank's part (alltoallv.cu, AlltoAllvGetBw)
        if "hypercube_perf" in line and not self.collective:
            self.collective = "hypercube_perf"
        if "hypercube" in self.collective:
            ranks = max(len(self.ranks), self.paths.nranks or 1)
            self.table.share = (ranks - 1) / ranks

    @property
    def is_nccl_tests(self) -> bool:
        """The run has a part that only nccl-tests prints."""
        return self._part >= 0 or bool(self.table.tables)


def is_comment(line: str) -> bool:
    """Whether a line can be one that nccl-tests begins with `#`."""
    return any(start in line for start in _STARTS)


def _is_nccl(line: str) -> bool:
    """Whether NCCL itself printed the line, not a script with NCCL's name in it."""
    return "NCCL INFO" in line or "NCCL WARN" in line or "NCCL version" in line


def _part_of(line: str) -> int | None:
    for part, pattern in enumerate((_VERSION_LINE, _STARTING, _PREAMBLE, _RANK)):
        if pattern.search(line):
            return part
    if "size" in line and "count" in line and "type" in line:
        return _PARTS.index("header")
    ends = _BOUNDS.search(line) or _AVERAGE.search(line) or _CONCLUDED.search(line)
    return _PARTS.index("footer") if ends else None


@dataclass(slots=True)
class _Reader:
    runs: list[Run] = field(default_factory=lambda: [Run()])
    markup: int = 0
    page: int = 0
    in_banner: bool = False

    def feed(self, stream: str, text: str) -> None:
        run = self.runs[-1]
        if " via " in text and run.paths.feed_channels(text):
            run.finder.started = True
            return
        if is_comment(text) and run.begins_again(text):
            run.table.finish()
            run.overlaps = run.overlaps or run.overlaps_with(text)
            if len(self.runs) < _MOST_RUNS:
                self.runs.append(Run())
            run = self.runs[-1]
        for part in run.table.feed(stream, text):
            self._feed_part(run, part)

    def _feed_part(self, run: Run, part: str) -> None:
        if "CCL" in part or " via " in part or "Using network" in part or "rccl-tests" in part:
            run.paths.feed(part)
        if is_comment(part):
            run.feed_comment(part)
        elif "busbw" in part:
            run.feed_own_row(part)
        run.finder.started = run.finder.started or run.is_nccl_tests or _is_nccl(part)
        run.finder.feed(part)
        if "hypercube" in part or run.collective.startswith(("hypercube", "alltoallv")):
            run.set_share(part)
        if _BANNER.match(part):
            self.in_banner = not self.in_banner
        is_known = self.page >= _LEAST_PAGE and self.markup >= _LEAST_MARKUP
        if not self.in_banner and not is_known:
            self.markup += _MARKUP.match(part) is not None
            may_be_sentence = part.endswith((".", ":")) and not _is_nccl(part)
            is_sentence = may_be_sentence and _SENTENCE.match(part) is not None
            self.page += 2 if _PAGE.match(part) else is_sentence


def parse_nccl_log(source: str | Iterable[str]) -> NcclLog | ParseProblem:
    """Reads a log of nccl-tests (text or JSON) or of another program over NCCL, or its pieces."""
    document, rest = lines.open_log(source)
    if document is not None:
        return parse_nccl_json(document) if isinstance(document, str) else document
    reader = _Reader()
    for stream, text in rest:
        reader.feed(stream, text)
    for run in reader.runs:
        run.table.finish()
    in_document, is_page = reader.markup >= _LEAST_MARKUP, reader.page >= _LEAST_PAGE
    marks = {"in_document": in_document, "is_page": in_document or is_page}
    logs = [_log(run).model_copy(update=marks) for run in reader.runs]
    known = [
        log
        for run, log in zip(reader.runs, logs, strict=True)
        if run.is_nccl_tests
        or run.paths.counts["nccl"]
        or log.rows
        or any(failure.kind in _LAUNCHER_KINDS for failure in log.failures)
    ]
    if not known:
        what = "no line of NCCL or nccl-tests is in it; is it the log of another program?"
        return ParseProblem(kind="unrecognised", what=what)
    return known[0].model_copy(update={"other_runs": tuple(known[1:])})


def _log(run: Run) -> NcclLog:
    paths = run.paths
    paths.settle({line.host for line in run.ranks})
    fails = run.is_nccl_tests or paths.counts["destroy"]  # a good PyTorch run may end in some
    own_rows = sorted(run.own_rows.values(), key=lambda row: row.size_bytes or 0)
    names = {name: tuple(found) for name, found in paths.names.items() if name != "other"}
    versions = names.pop("versions", ())
    log = NcclLog(
        program="nccl-tests" if run.is_nccl_tests else "other",
        collective=run.collective,
        nccl_version=next(iter(versions), run.library),
        other_versions=versions[1:],
        is_rccl=paths.is_rccl,
        gpus_known=len(paths.gpus),
        has_preamble=bool(run.counts["sizes"] or run.counts["name"]),
        has_footer=run.out_of_bounds is not None and run.average is not None,
        iterations=run.iterations,
        tables=run.table.tables,
        rows=tuple(run.table.rows or own_rows),
        bad_rows=tuple(run.table.bad_rows),
        out_of_bounds=run.out_of_bounds,
        average_busbw_gb_s=run.average,
        ranks=tuple(run.ranks),
        nranks=paths.nranks,
        init_complete=paths.counts["init"],
        destroy_complete=paths.counts["destroy"],
        networks=dict(paths.networks),
        hosts=tuple(paths.hosts.values()),
        channels=paths.channels({line.rank: line.host for line in run.ranks}),
        failures=tuple(it for it in run.finder.explained() if fails or it.kind != lines.COMM_ABORT),
        warnings=tuple(run.finder.warnings),
        sizes=run.sizes,
        nodes=paths.nodes,
        multi_node_nvlink=paths.counts["mnnvl"] > 0,
        overlaps=run.overlaps,
    )
    return log.model_copy(update=names)
