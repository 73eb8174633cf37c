"""Reads the text of perftest (`ib_write_bw` and its family).

Text, not JSON: the JSON of 23.10 and older is invalid. Both the layout of the tool and the form in
which documents flatten it to one line are read; units are made Gb/s of 10^9 bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from components.acceptance.logs.failures import find_perftest_failures
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import LatencyRow, ParseProblem, PerftestLog, PerftestRow

_HEADER = re.compile(
    r"#bytes\s+#iterations\s+BW peak\[(?P<unit>[^\]\s]{1,20})\]\s+BW average\[[^\]\s]{1,20}\]"
    r"\s+MsgRate\[Mpps\](?P<cpu>\s+CPU_Util\[%\])?"
)
_LATENCY_HEADER = re.compile(
    r"#bytes\s+#iterations\s+t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\]"
)
_CPU_NOISE = re.compile(
    r"Conflicting CPU frequency values detected: [\d.]+ != [\d.]+\."
    r"(?:\s*CPU Frequency is not max\.)?"
)
_NO_CLOCK = re.compile(r"Correlation coefficient r\^2: \S+ < 0\.9")
"""Of counter and time, over 200 samples; then its clock is 0 MHz (perftest, src/get_clock.c)."""
_RULE = re.compile(r"-{40,}")
_NUMBER = re.compile(r"^\d{1,15}(?:\.\d{1,15})?$")
_FIELDS = {
    "device": re.compile(r"\bDevice\s*:\s*([\w.-]+)"),
    "mtu": re.compile(r"\bMtu\s*:\s*(\d{1,6})\s*\[B\]"),
    "link": re.compile(r"\bLink type\s*:\s*(\w+)"),
    "gid": re.compile(r"\bGID index\s*:\s*(\d{1,6})"),
    "cm": re.compile(r"\brdma_cm QPs\s*:\s*(ON|OFF)"),
    "test": re.compile(r"\b((?:RDMA_Write|RDMA_Read|Send|RDMA_Atomic)\b.{0,20}? Test)\b"),
}
_GID = re.compile(r"\bGID:\s*((?:[0-9a-fA-F]{1,3}:){15}[0-9a-fA-F]{1,3})")
_GBIT_PER_UNIT = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
"""perftest's MB is 2^20 bytes under both names."""
_COLUMNS = 5
_LATENCY_COLUMNS = 6
_RATE_SLACK = 0.02
_SMALLEST_RATE_MPPS = 0.001
"""Below it, six decimals leave too few digits to check a bandwidth with."""


@dataclass(slots=True)
class _Rows:
    """The rows found, and how far the reader is."""

    unit: str = ""
    columns: int = _COLUMNS
    latency: bool = False
    inside: bool = False
    ended: bool = False
    found: dict[int, PerftestRow] = field(default_factory=dict[int, PerftestRow])
    latencies: list[LatencyRow] = field(default_factory=list[LatencyRow])
    bad: list[str] = field(default_factory=list[str])


def parse_perftest_log(text: str) -> PerftestLog | ParseProblem:
    """Reads the output of one end of a perftest.

    A log that holds both ends has each row twice: the slower one is kept.
    """
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    lines = split_lines(_CPU_NOISE.sub("\n", text))
    rows = _Rows()
    for line in lines:
        _feed(rows, line)
    fields = {name: _first(pattern, lines) for name, pattern in _FIELDS.items()}
    failures = find_perftest_failures(lines)
    if not (rows.unit or rows.latency or failures or fields["test"]):
        return ParseProblem(
            kind="unrecognised", what="no line of perftest is in it; is it the log of another tool?"
        )
    return PerftestLog(
        test=fields["test"],
        device=fields["device"],
        mtu_bytes=int(fields["mtu"]) if fields["mtu"] else None,
        link_type=fields["link"],
        gid_index=int(fields["gid"]) if fields["gid"] else None,
        rdma_cm=fields["cm"] == "ON" if fields["cm"] else None,
        unit=rows.unit,
        bidirectional="Bidirectional" in fields["test"],
        gids=tuple(gid for line in lines for gid in _GID.findall(line)),
        rows=tuple(rows.found.values()),
        latency=tuple(rows.latencies),
        bad_rows=tuple(rows.bad),
        notes=_notes(text),
        has_table=bool(rows.unit or rows.latency),
        ended=rows.ended,
        clock_unknown=_NO_CLOCK.search(text) is not None,
        failures=failures,
    )


def _feed(rows: _Rows, line: str) -> None:
    header = _HEADER.search(line)
    if header:
        rows.unit, rows.inside = header["unit"], True
        rows.columns = _COLUMNS + (header["cpu"] is not None)
        # A document may have flattened the whole output: then the rows follow on the same line.
        line = line[header.end() :]
    elif latency := _LATENCY_HEADER.search(line):
        rows.latency = rows.inside = True
        line = line[latency.end() :]
        if "[" in line:
            return
    if not rows.inside or not line.strip():
        return
    if rule := _RULE.search(line):
        _feed_row(rows, line[: rule.start()].split())
        rows.inside, rows.ended = False, bool(rows.found or rows.latencies)
        return
    _feed_row(rows, line.split())


def _feed_row(rows: _Rows, words: list[str]) -> None:
    width = _LATENCY_COLUMNS if rows.latency else rows.columns
    numbers = [word for word in words if _NUMBER.match(word)]
    starts_as_row = words[:1] == numbers[:1] and bool(numbers) and words[0].isdecimal()
    if not starts_as_row:
        return
    if len(numbers) < width or len(numbers) != len(words) or not words[1].isdecimal():
        rows.bad.append(" ".join(words)[:200])
        return
    if rows.latency:
        rows.latencies.append(
            LatencyRow(
                size_bytes=int(words[0]), typical_us=float(words[4]), average_us=float(words[5])
            )
        )
        return
    for start in range(0, len(words) - width + 1, width):
        row = _bandwidth_row(rows.unit, words[start : start + width])
        if row is None:
            rows.bad.append(" ".join(words[start : start + width]))
            continue
        known = rows.found.get(row.size_bytes)
        if known is None or row.average_gbit_s < known.average_gbit_s:
            rows.found[row.size_bytes] = row


def _bandwidth_row(unit: str, words: list[str]) -> PerftestRow | None:
    scale = _GBIT_PER_UNIT.get(unit)
    if scale is None or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    row = PerftestRow(
        size_bytes=int(words[0]),
        iterations=int(words[1]),
        peak_gbit_s=float(words[2]) * scale,
        average_gbit_s=float(words[3]) * scale,
        rate_mpps=float(words[4]),
        cpu_percent=float(words[5]) if len(words) > _COLUMNS else None,
    )
    expected = row.size_bytes * 8 * row.rate_mpps / 1e3
    slack = max(_RATE_SLACK * expected, 0.01)
    checkable = row.rate_mpps >= _SMALLEST_RATE_MPPS
    return None if checkable and abs(row.average_gbit_s - expected) > slack else row


def _first(pattern: re.Pattern[str], lines: list[str]) -> str:
    for line in lines:
        if match := pattern.search(line):
            return match[1]
    return ""


def _notes(text: str) -> tuple[str, ...]:
    notes: list[str] = []
    if "Conflicting CPU frequency" in text:
        notes.append("the CPU frequency is not fixed: latency is unreliable, bandwidth is not")
    if "BW peak won't be measured" in text:
        notes.append("duration mode: no peak is measured")
    return tuple(notes)
