"""Reads the text of perftest (`ib_write_bw` and its family), of any age, by its own header.

It reads the layout of the tool, the one-line form of documents, and the JSON of `--out_json`; units
become Gb/s of 10^9 bits. A file may hold several runs: the title, or a table's header after a
result, begins the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from components.acceptance.logs import lines
from components.acceptance.logs.log_model import LatencyRow, ParseProblem, PerftestLog, PerftestRow

_LABELS: Final = {
    "Device": ("device", r"([\w.-]{1,64})"),
    "Mtu": ("mtu_bytes", r"(\d{1,6})\s{0,4}\[B\]"),
    "Link_type": ("link_type", r"(\w{1,40})"),
    "Transport_type": ("transport_type", r"(\w{1,40})"),
    "Connection_type": ("connection_type", r"(\w{1,40})"),
    "GID_index": ("gid_index", r"(\d{1,6})"),
    "rdma_cm_QPs": ("rdma_cm", r"(ON|OFF)"),
}
"""Key of JSON, which is the text's label with `_`, to the field of `PerftestLog` and its text."""
_NUMBERS: Final = ("mtu_bytes", "gid_index")
_CELLS: Final = {
    "MsgSize": "bytes", "n_iterations": "iterations", "BW_peak": "peak", "BW_average": "average",
    "MsgRate": "MsgRate", "CPU_util": "CPU_Util", "t_min": "t_min", "t_max": "t_max",
    "t_typical": "t_typical", "t_avg": "t_avg", "t_stdev": "t_stdev", "percentile_99": "99",
    "percentile_99.9": "99.9", "tps_average": "tps",
}  # fmt: skip
"""Key of JSON to the column of a text."""
_WORD = re.compile(r"[\w.-]{1,80}")
_DIGITS = re.compile(r"\d{1,9}", re.ASCII)
_UNQUOTED = re.compile(
    r"^[ \t]*(\w[\w. ]{0,60}?) ?: ?(?:(\{)|\"?([^\"\n]*?)\"?(,?))$", re.MULTILINE
)
_LAST_COMMA = re.compile(r",(\s*(?:\}|$))")
_COLUMN = re.compile(
    r"#(bytes|sl|iterations)|BW (peak|average|Port[12])\[([^\]\s]{1,20})\]"
    r"|(MsgRate(?: Port[12])?)\[Mpps\]"
    r"|(CPU_Util)\[%\]|(t_min|t_max|t_typical|t_avg|t_stdev)\[usec\]"
    r"|(99(?:\.9{1,4})?)% percentile\[usec\]|(tps) average(?:\[\w{1,10}\])?"
)
_HEADER: Final = "#bytes"
_CPU_NOISE = re.compile(
    r"Conflicting CPU frequency values detected: [\d.]{1,20} != [\d.]{1,20}\."
    r"(?:\s{0,4}CPU Frequency is not max\.)?"
)
_MARKS: Final = {
    "clock_unknown": re.compile(r"Correlation coefficient r\^2: \S{1,20} < 0\.9"),
    "has_no_lid": re.compile(r"\baddress:\s{0,20}LID 0000\b"),
}
"""Lines that set a field of `PerftestLog`. The correlation is that of counter and time over 200
samples; below 0.9 the clock of perftest is 0 MHz (src/get_clock.c)."""
_RULE = re.compile(r"-{40,}")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")
_TITLE = re.compile(
    r"\b((?:(?:RDMA_Write|Send)(?:_imm)?|RDMA_Read|RDMA_Atomic|Atomic)\b.{0,30}? Test)\b"
)
_FIELDS: Final = {
    name: re.compile(rf"\b{' '.join(key.rsplit('_', 1))}\s{{0,20}}:\s{{0,20}}{value}")
    for key, (name, value) in _LABELS.items()
} | {"test": _TITLE, "call": re.compile(r"\b(ib_(?:write|read|send|atomic)_bw\b.{0,200})")}
_BOTH_WAYS = re.compile(r"\s(?:-[a-zA-Z]*b[a-zA-Z]*|--bidirectional)\b")
_OF_BOTH_ENDS: Final = ("link_type", "transport_type", "connection_type", "test")
"""Fields that must be the same at both ends of a run."""
_GID = re.compile(
    r"\b(local|remote) address:|\bGID:\s{0,4}((?:[0-9a-fA-F]{1,3}:){15}[0-9a-fA-F]{1,3})"
)
_GBIT_PER_UNIT: Final = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
"""perftest's MB is 2^20 bytes under both names."""
_JSON_UNITS: Final = ("Gb/sec", "MB/sec")
"""JSON gives no unit: it is the one in which bandwidth is size times rate."""
_PORTS: Final = ("Port1", "Port2")
"""Columns of `--report-per-port`."""
_RATE_SLACK: Final = 0.001
_MOST_ROWS: Final = 1000
_MOST_RUNS: Final = 200
_MOST_GIDS: Final = 64
_ATTEMPT: Final = re.compile(r"^railyard: attempt \d{1,4}(?: ended with status (\d{1,3})(: the)?)?")
"""The lines that a client's script prints around a call; `: the server` precedes another call."""
NOT_READY: Final = frozenset({"no_route", "control_connection", "not_connected", "rejected"})
"""Perftest's errors if the server does not listen yet."""


def parse_perftest_json(text: str) -> list[_Run] | ParseProblem:
    """The JSON of `--out_json`, one document a run; a cut or foreign one is a problem.

    Up to 23.10 neither keys nor texts had quotes and each part ended with a comma; 24.01 made it
    JSON but for `sl:` of a test with QoS. A document has only one size, because the tool writes the
    whole file again for each size.
    """
    found = lines.read_json(text, "perftest", _document, str)
    if isinstance(found, ParseProblem):
        quoted = _UNQUOTED.sub(
            lambda line: (
                f"{json.dumps(line[1])}: " + ("{" if line[2] else f"{json.dumps(line[3])}{line[4]}")
            ),
            text,
        )
        return lines.read_json(_LAST_COMMA.sub(r"\1", quoted), "perftest", _document, str)
    return found


def _document(value: object) -> _Run:
    """A run as its text would have been read; a row that makes sense in no unit is a bad row."""
    info, results = (_part(value, name) for name in ("test_info", "results"))
    names = {"test": "test"} | {key: name for key, (name, _) in _LABELS.items()}
    fields = {name: info[key] for key, name in names.items() if key in info}
    for name, shown in fields.items():
        if not (_DIGITS if name in _NUMBERS else _WORD).fullmatch(shown):
            raise ValueError(f"{name.partition('_')[0]}: {shown[:40]!r} is not a valid value")
    if "MsgSize" not in results:
        raise ValueError("results: no MsgSize; run without --output")
    fields["test"] = fields.get("test", "").replace("_", " ").replace("RDMA ", "RDMA_")
    cells = {_CELLS[key]: each for key, each in results.items() if key in _CELLS}
    run = _Run(columns=tuple(cells), ended=True, fields=fields)
    if any(_NUMBER.fullmatch(each) is None for each in cells.values()):
        run.add_bad(cells.values())
        return run
    if "average" in cells:
        fitting = [unit for unit in _JSON_UNITS if bandwidth_row(unit, cells) is not None]
        if len(fitting) > 1 and float(cells["average"]):
            run.add_bad(("no unit is shown, and the rate tells none:", *cells.values()))
            return run
        run.unit = fitting[0] if fitting else ""
    run.take_row([*cells.values()])
    return run


def _part(value: object, name: str) -> dict[str, str]:
    part = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    if not isinstance(part, dict):
        raise ValueError(f"no {name}")  # noqa: TRY004 - the fault of a document
    found = cast("dict[str, object]", part)
    return {key: each for key, each in found.items() if isinstance(each, str)}


@dataclass(slots=True)
class _Run:
    """One run so far; its `fields` have the names of those of `PerftestLog`."""

    columns: tuple[str, ...] = ()
    unit: str = ""
    inside: bool = False
    ended: bool = False
    fields: dict[str, str] = field(default_factory=dict[str, str])
    contradictions: dict[str, None] = field(default_factory=dict[str, None])
    rows: dict[int, PerftestRow] = field(default_factory=dict[int, PerftestRow])
    latencies: list[LatencyRow] = field(default_factory=list[LatencyRow])
    bad: list[str] = field(default_factory=list[str])
    pending: list[str] = field(default_factory=list[str])
    gids: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """End and GID; the many connections of a test have the same two."""
    end: str = ""
    notes: dict[str, None] = field(default_factory=dict[str, None])
    finder: lines.FailureFinder = field(default_factory=lines.perftest_finder)

    @property
    def has_result(self) -> bool:
        return bool(self.rows or self.latencies or self.bad)

    def feed(self, line: str) -> None:
        self.finder.feed(line)
        self._feed_fields(line)
        if _HEADER in line:
            # A document may have everything in one line: the rest goes on below.
            names, end = list[str](), line.index(_HEADER)
            while column := _COLUMN.match(line, end):
                names.append(next(part for part in column.groups() if part))
                self.unit = column[3] or self.unit
                end = column.end()
                end += len(line[end:]) - len(line[end:].lstrip())
            if len(names) > 1:
                self.columns, self.inside = tuple(names), True
            line = line[end:]
        if not self.columns or not line.strip():
            return
        rule = _RULE.search(line)
        self._feed_words((line[: rule.start()] if rule else line).split())
        if rule and self.inside:
            self.end_row()
            self.inside, self.ended = False, True

    def _feed_fields(self, line: str) -> None:
        if ":" in line or "Test" in line or "_bw" in line:
            for name, pattern in _FIELDS.items():
                if match := pattern.search(line):
                    known = self.fields.setdefault(name, match[1])
                    if known != match[1] and name in _OF_BOTH_ENDS:
                        self.contradictions[f"{known} and {match[1]}"] = None
        for end, gid in _GID.findall(line) if " address:" in line or "GID:" in line else ():
            self.end = end or self.end
            if gid and len(self.gids) < _MOST_GIDS:
                self.gids[self.end or str(len(self.gids)), gid] = None
        if "BW peak won't be measured" in line:
            self.notes["duration mode: no peak is measured"] = None
        self.fields |= {name: "true" for name, mark in _MARKS.items() if mark.search(line)}

    def _feed_words(self, words: Sequence[str]) -> None:
        """Takes the numbers of a line: a row has as many numbers as the header has columns."""
        rows = len(self.rows) + len(self.latencies)
        for word in words:
            # After the rule, the row of the other end may come.
            begins = word.isdecimal() and (self.inside or self.has_result)
            if _NUMBER.fullmatch(word) and (self.pending or begins):
                self.pending.append(word)
                if len(self.pending) == len(self.columns):
                    self.take_row(self.pending)
                    self.pending = []
            elif self.pending:
                self.end_row()
        if self.pending and len(self.rows) + len(self.latencies) > rows:
            # More numbers than the header has columns.
            self.add_bad(words)
            self.pending = []

    def end_row(self) -> None:
        """Ends a row: one without all its numbers is a bad row."""
        if len(self.pending) > 1 and self.inside:
            self.add_bad(self.pending)
        self.pending = []

    def add_bad(self, words: Iterable[str]) -> None:
        if len(self.bad) < _MOST_ROWS:
            self.bad.append(" ".join(words)[:200])

    def take_row(self, words: Sequence[str]) -> None:
        cells = dict(zip(self.columns, words, strict=True))
        if len(self.rows) + len(self.latencies) >= _MOST_ROWS:
            self.add_bad([f"more than {_MOST_ROWS} rows"])
        elif "t_avg" in cells:
            average = float(cells["t_avg"])
            usual = float(cells.get("t_typical", average))
            least, most = (float(cells.get(name, average)) for name in ("t_min", "t_max"))
            tail = float(cells["99.9"]) if "99.9" in cells else None
            if cells["bytes"].isdecimal() and least <= min(average, usual) <= most:
                size = int(cells["bytes"])
                self.latencies.append(
                    LatencyRow(size_bytes=size, typical_us=usual, average_us=average, tail_us=tail)
                )
            else:
                self.add_bad(cells.values())
        elif (row := bandwidth_row(self.unit, cells)) is None:
            self.add_bad(words)
        else:
            known = self.rows.get(row.size_bytes)
            if known is None or row.average_gbit_s < known.average_gbit_s:
                self.rows[row.size_bytes] = row


def parse_perftest_log(source: str | Iterable[str]) -> PerftestLog | ParseProblem:
    """Reads the output of one end of a perftest, or of both: of each row the slower one."""
    document, rest = lines.open_log(source)
    if document is not None:
        found = parse_perftest_json(document) if isinstance(document, str) else document
        return found if isinstance(found, ParseProblem) else _logs(found)
    runs = [_Run()]
    for _, text in rest:
        if attempt := _ATTEMPT.match(text):
            _take_attempt(runs, begins=attempt[1] is None, waits=attempt[2] is not None)
            continue
        parts = [text]
        if "Conflicting CPU" in text:  # these words on the processor's clock may precede a row
            note = "the CPU frequency is not fixed: latency is unreliable, bandwidth is not"
            runs[-1].notes[note] = None
            parts = [part for part in _CPU_NOISE.split(text) if part.strip()]
        for line in parts:
            # Both ends of one run show their titles before a result.
            begins = _HEADER in line or ("Test" in line and _TITLE.search(line))
            if begins and runs[-1].ended and len(runs) < _MOST_RUNS:
                runs.append(_Run())
            runs[-1].feed(line)
    known = [*filter(_is_known, runs)]
    # The log of a server has a header and a rule, but cannot have a row.
    measured = [run for run in known if run.has_result or not run.ended or not run.columns] or known
    if not measured:
        what = "no line of perftest is in it; is it the log of another tool?"
        return ParseProblem(kind="unrecognised", what=what)
    return _logs(measured)


def _is_known(run: _Run) -> bool:
    return bool(run.columns or run.finder.failures or "test" in run.fields)


def _take_attempt(runs: list[_Run], *, begins: bool, waits: bool) -> None:
    """Forget an attempt that found no server yet. One that failed in another way still counts.

    Its messages do not belong to the test before: a client that waits prints no title.
    """
    if begins and _is_known(runs[-1]) and len(runs) < _MOST_RUNS:
        runs.append(_Run())
    said = {failure.kind for failure in runs[-1].finder.failures}
    if waits and said <= NOT_READY and not runs[-1].has_result:
        runs[-1] = _Run(notes={"the client waited for its server": None})


def _logs(runs: Iterable[_Run]) -> PerftestLog:
    logs: list[PerftestLog] = []
    for run in runs:
        run.end_row()
        both_ways = _BOTH_WAYS.search(run.fields.get("call", "")) is not None
        numbers = {name: int(run.fields[name]) for name in _NUMBERS if name in run.fields}
        other = numbers | {
            "rdma_cm": run.fields["rdma_cm"] == "ON" if "rdma_cm" in run.fields else None,
            "contradictions": tuple(run.contradictions),
            "unit": run.unit,
            "bidirectional": "Bidirectional" in run.fields.get("test", "") or both_ways,
            "gids": tuple(gid for _, gid in run.gids),
            "rows": tuple(run.rows.values()),
            "latency": tuple(run.latencies),
            "bad_rows": tuple(run.bad),
            "notes": tuple(run.notes),
            "has_table": bool(run.columns),
            "ended": run.ended,
            "failures": tuple(run.finder.failures),
        }
        logs.append(PerftestLog.model_validate({**run.fields, **other}))
    return logs[0].model_copy(update={"other_runs": tuple(logs[1:])})


def bandwidth_row(unit: str, cells: dict[str, str]) -> PerftestRow | None:
    """One row; None if bandwidth is not size times rate, as far as the digits of both go."""
    scale = _GBIT_PER_UNIT.get(unit)
    whole = all(cells.get(name, "").isdecimal() for name in ("bytes", "iterations"))
    if scale is None or not whole or not {"peak", "average"} <= set(cells):
        return None
    rate = float(cells["MsgRate"]) if "MsgRate" in cells else None
    row = PerftestRow(
        size_bytes=int(cells["bytes"]),
        iterations=int(cells["iterations"]),
        peak_gbit_s=float(cells["peak"]) * scale,
        average_gbit_s=float(cells["average"]) * scale,
        rate_mpps=rate,
        cpu_percent=float(cells["CPU_Util"]) if "CPU_Util" in cells else None,
        ports_gbit_s=tuple(float(cells[name]) * scale for name in _PORTS if name in cells),
    )
    if rate is None:
        return row
    gbit_per_mpps = row.size_bytes * 8 / 1e3
    expected = gbit_per_mpps * rate
    of_rate, of_average = (lines.last_digit(cells[each]) for each in ("MsgRate", "average"))
    unsure = gbit_per_mpps * of_rate + of_average * scale
    slack = unsure / 2 + _RATE_SLACK * expected
    return row if abs(row.average_gbit_s - expected) <= slack else None
