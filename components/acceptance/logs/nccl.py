"""Reads the log of an NCCL program: nccl-tests of any age, or a program of its own over NCCL.

It never raises: what cannot be read is a `ParseProblem`, and what can is not judged here. A log is
read line by line, in time that grows with its size and memory that does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from components.acceptance.logs.json_text import first_text, is_json, whole_text
from components.acceptance.logs.lines import read_lines
from components.acceptance.logs.log_model import NcclLog, NcclRow, ParseProblem
from components.acceptance.logs.nccl_json import parse_nccl_json
from components.acceptance.logs.nccl_run import Run, is_comment

_MARKUP = re.compile(r"\s*(?:\d{1,2}\.|[-*+])\s+[A-Z][a-z]+ \w+")
"""A numbered or bulleted sentence: no program prints two of them."""
_LEAST_MARKUP: Final = 2
_LAUNCHER_KINDS: Final = frozenset(
    {"slots", "rank_failed", "launcher", "out_of_memory", "scheduler"}
    | {"no_device", "missing_program", "host_key", "ssh_login", "dns"}
)
"""Failures by which a log without a line of NCCL is still that of a run: it ended before."""
_MOST_RUNS: Final = 200


@dataclass(slots=True)
class _Reader:
    """The runs found so far."""

    runs: list[Run] = field(default_factory=lambda: [Run()])
    markup: int = 0

    def feed(self, stream: str, text: str) -> None:
        """Takes one line of one writer."""
        if self.runs[-1].paths.feed_channel(text):
            return
        if is_comment(text) and self.runs[-1].begins_again(text):
            self._begin(text)
        run = self.runs[-1]
        for part in run.table.feed(stream, text):
            self._feed_part(run, part)

    def _begin(self, text: str) -> None:
        last = self.runs[-1]
        last.table.finish()
        last.overlaps = last.overlaps or last.overlaps_with(text)
        if len(self.runs) < _MOST_RUNS:
            self.runs.append(Run())

    def _feed_part(self, run: Run, part: str) -> None:
        run.finder.feed(part)
        if "NCCL" in part or " via " in part or "Using network" in part:
            run.paths.feed(part)
        if is_comment(part):
            run.feed_comment(part)
        elif "busbw" in part:
            run.feed_own_row(part)
        if self.markup < _LEAST_MARKUP and _MARKUP.match(part):
            self.markup += 1
        if "hypercube" in part or "hypercube" in run.collective:
            run.set_share(part)


def parse_nccl_log(source: str | Iterable[str]) -> NcclLog | ParseProblem:
    """Reads a log of nccl-tests (text or JSON) or of another program over NCCL.

    Args:
        source: The whole output, or its pieces in order, with or without the launcher's tags.
    """
    chunks = iter((source,) if isinstance(source, str) else source)
    head = first_text(chunks)
    if not head:
        return ParseProblem(kind="empty", what="the log is empty")
    if is_json(head):
        text = whole_text(head, chunks)
        return text if isinstance(text, ParseProblem) else parse_nccl_json(text)
    reader = _Reader()
    for stream, text in read_lines(chain((head,), chunks)):
        reader.feed(stream, text)
    return _conclude(reader)


def _conclude(reader: _Reader) -> NcclLog | ParseProblem:
    for run in reader.runs:
        run.table.finish()
    logs = [_log(run, in_document=reader.markup >= _LEAST_MARKUP) for run in reader.runs]
    known = [log for run, log in zip(reader.runs, logs, strict=True) if _is_known(run, log)]
    if not known:
        return ParseProblem(
            kind="unrecognised",
            what="no line of NCCL or nccl-tests is in it; is it the log of another program?",
        )
    return known[0].model_copy(update={"other_runs": tuple(known[1:])})


def _is_known(run: Run, log: NcclLog) -> bool:
    said = any(failure.kind in _LAUNCHER_KINDS for failure in log.failures)
    return run.is_nccl_tests or bool(run.paths.counts["nccl"] or log.rows) or said


def _log(run: Run, *, in_document: bool) -> NcclLog:
    paths = run.paths
    paths.settle({line.host for line in run.ranks})
    return NcclLog(
        program="nccl-tests" if run.is_nccl_tests else "other",
        collective=run.collective,
        nccl_version=paths.version,
        has_preamble=bool(run.counts["sizes"] or run.counts["name"]),
        has_footer=run.out_of_bounds is not None and run.average is not None,
        max_bytes=run.sizes.most_bytes if run.sizes else None,
        iterations=run.iterations,
        tables=run.table.tables,
        rows=tuple(run.table.rows) or _sorted_rows(run.own_rows.values()),
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
        topology_files=tuple(paths.topology),
        topology_unread=tuple(paths.topology_unread),
        failures=tuple(run.finder.failures),
        warnings=tuple(run.finder.warnings),
        sizes=run.sizes,
        nodes=paths.nodes,
        algorithms=tuple(paths.algorithms),
        providers=tuple(paths.providers),
        gpu_links=tuple(paths.gpu_links),
        multi_node_nvlink=paths.counts["mnnvl"] > 0,
        in_document=in_document,
        overlaps=run.overlaps,
    )


def _sorted_rows(rows: Iterable[NcclRow]) -> tuple[NcclRow, ...]:
    return tuple(sorted(rows, key=lambda row: row.size_bytes or 0))
