"""Reads the log of an NCCL program: nccl-tests of any age, or a program of its own over NCCL.

It never raises: what cannot be read is a `ParseProblem`, and what can is not judged here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from components.acceptance.logs.failures import find_nccl_failures
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import (
    Channels,
    Hca,
    HostNetwork,
    Measure,
    NcclLog,
    NcclRow,
    ParseProblem,
    RankLine,
)
from components.acceptance.logs.nccl_json import parse_nccl_json
from components.acceptance.logs.nccl_table import Table

_PREFIX = re.compile(r"(?P<host>[^\s:\[\]]+):\d+:\d+ \[\d+\] .*?NCCL (?:INFO|WARN|ERROR) ")
_CHANNEL = re.compile(
    r"Channel \d+(?:/\d+)? : \d+\[[0-9a-f]+\] -> \d+\[[0-9a-f]+\](?: \[(?:send|receive)\])? via "
    r"(?:NET/(?P<net>[A-Za-z0-9_ .-]+?)/(?P<device>\d{1,4})(?:\(\d+\))?(?P<gdr>/GDRDMA)?"
    r"|(?P<local>P2P|SHM|NVLS|CUMEM))"
)
_USING = re.compile(r"NET/IB\w*\s*: Using (?P<devices>(?:\[\d+\]\S+\s*)+)(?P<relaxed>\[RO\])?")
_TOPOLOGY = re.compile(r"NCCL_TOPO_FILE set by environment to (\S+?)\.?$")
_NO_TOPOLOGY = re.compile(r"Could not open XML topology file (\S+)")
_HCA = re.compile(r"\[(\d{1,4})\]([\w.-]+):\d+(?::\d+)*/(IB|RoCE)\b")
_NETWORK = re.compile(r"Using network (?P<name>\S.*?)\s*$")
_VERSION = re.compile(r"NCCL version (\d+\.\d+[\w.+-]*)")
_RANK = re.compile(r"^#\s+Rank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device")
_PREAMBLE = re.compile(
    r"^#\s*nThread \d+ .*maxBytes (\d{1,18})(?:.*?\biters: \d+ iters: (\d{1,9}))?"
)
_STARTING = re.compile(r"^# Collective test starting: (\S+)")
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d{1,18})\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*([\d.]{1,30}(?:e[+-]?\d{1,3})?)")
_NRANKS = re.compile(r"\bnranks (\d{1,9})\b")
_OWN_ROW = re.compile(
    r"rank\s+\d+(?:\s+bytes\s+(?P<size>\d{1,18}))?\s*:\s*"
    r"algbw\s+(?P<algbw>\d{1,9}\.?\d{0,9})\s*GB/s\s+busbw\s+(?P<busbw>\d{1,9}\.?\d{0,9})\s*GB/s"
)
_LAUNCHER_KINDS = frozenset({"slots", "rank_failed", "launcher"})


@dataclass(slots=True)
class _Reader:
    """What was found so far."""

    table: Table = field(default_factory=Table)
    text: dict[str, str] = field(default_factory=dict[str, str])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    counts: Counter[str] = field(default_factory=Counter[str])
    average: float | None = None
    ranks: list[RankLine] = field(default_factory=list[RankLine])
    networks: Counter[str] = field(default_factory=Counter[str])
    hosts: dict[str, HostNetwork] = field(default_factory=dict[str, HostNetwork])
    topology: dict[str, None] = field(default_factory=dict[str, None])
    topology_unread: dict[str, None] = field(default_factory=dict[str, None])
    nets: Counter[str] = field(default_factory=Counter[str])
    devices: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    own_rows: dict[int | None, NcclRow] = field(default_factory=dict[int | None, NcclRow])

    def feed(self, line: str) -> None:
        """Takes one line."""
        if self.table.feed(line):
            return
        if line.lstrip().startswith("#"):
            self._feed_comment(line.lstrip())
        elif "NCCL" in line or "Channel" in line or "Using network" in line:
            self._feed_nccl(line)
        else:
            self._feed_own_row(line)

    def _feed_comment(self, line: str) -> None:
        if rank := _RANK.match(line):
            self.ranks.append(RankLine(rank=int(rank[1]), host=rank[2]))
        elif preamble := _PREAMBLE.match(line):
            self.numbers["max_bytes"] = int(preamble[1])
            if preamble[2]:
                self.numbers["iterations"] = int(preamble[2])
            self.counts["preamble"] += 1
        elif starting := _STARTING.match(line):
            self.text["collective"] = starting[1]
            self.counts["preamble"] += 1
        elif bounds := _BOUNDS.match(line):
            wrong = int(bounds[1]) or int(bounds[2] == "FAILED")
            self.numbers["out_of_bounds"] = self.numbers.get("out_of_bounds", 0) + wrong
            self.counts["footer"] += 1
        elif average := _AVERAGE.match(line):
            self.average = _float(average[1])

    def _feed_nccl(self, line: str) -> None:
        self.counts["nccl"] += 1
        if version := _VERSION.search(line):
            self.text.setdefault("version", version[1])
        self.counts["init"] += line.count("- Init COMPLETE")
        self.counts["destroy"] += line.count("- Destroy COMPLETE")
        if ranks := _NRANKS.search(line):
            self.numbers["nranks"] = max(int(ranks[1]), self.numbers.get("nranks", 0))
        if network := _NETWORK.search(line):
            self.networks[network["name"]] += 1
        if channel := _CHANNEL.search(line):
            self._feed_channel(_host(line), channel)
        if using := _USING.search(line):
            self._feed_devices(_host(line), using)
        if topology := _TOPOLOGY.search(line):
            self.topology[topology[1]] = None
        if unread := _NO_TOPOLOGY.search(line):
            self.topology_unread[unread[1]] = None

    def _feed_devices(self, host: str, using: re.Match[str]) -> None:
        hcas = tuple(
            Hca(index=int(index), device=device, link_layer=layer)
            for index, device, layer in _HCA.findall(using["devices"])
        )
        self.hosts[host] = HostNetwork(
            host=host, hcas=hcas, relaxed_ordering=using["relaxed"] is not None
        )

    def _feed_channel(self, host: str, channel: re.Match[str]) -> None:
        net = channel["net"]
        if net is None:
            self.counts["shared_memory" if channel["local"] == "SHM" else "peer"] += 1
            return
        self.nets[net] += 1
        self.counts["gdr"] += channel["gdr"] is not None
        self.devices.setdefault(host, set()).add(int(channel["device"]))

    def _feed_own_row(self, line: str) -> None:
        row = _OWN_ROW.search(line)
        if row is None:
            return
        size = int(row["size"]) if row["size"] else None
        half = Measure(algbw_gb_s=float(row["algbw"]), busbw_gb_s=float(row["busbw"]))
        known = self.own_rows.get(size)
        if known is None or half.busbw_gb_s < known.out_of_place.busbw_gb_s:
            self.own_rows[size] = NcclRow(size_bytes=size, out_of_place=half)

    @property
    def is_nccl_tests(self) -> bool:
        """The log has a part that only nccl-tests prints."""
        return bool(self.table.tables or self.counts["preamble"] or self.ranks)


def parse_nccl_log(text: str) -> NcclLog | ParseProblem:
    """Reads a log of nccl-tests (text or JSON) or of another program over NCCL.

    Args:
        text: The whole output, with or without the launcher's tags.
    """
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        return parse_nccl_json(text)
    lines = split_lines(text)
    reader = _Reader()
    for line in lines:
        reader.feed(line)
    reader.table.finish()
    return _conclude(reader, lines)


def _conclude(reader: _Reader, lines: Sequence[str]) -> NcclLog | ParseProblem:
    failures = find_nccl_failures(lines)
    known = reader.is_nccl_tests or reader.counts["nccl"] or reader.own_rows
    if not known and not any(failure.kind in _LAUNCHER_KINDS for failure in failures):
        return ParseProblem(
            kind="unrecognised",
            what="no line of NCCL or nccl-tests is in it; is it the log of another program?",
        )
    return NcclLog(
        program="nccl-tests" if reader.is_nccl_tests else "other",
        collective=reader.text.get("collective", ""),
        nccl_version=reader.text.get("version", ""),
        has_preamble=reader.counts["preamble"] > 0,
        has_footer=reader.counts["footer"] > 0,
        max_bytes=reader.numbers.get("max_bytes"),
        iterations=reader.numbers.get("iterations"),
        tables=reader.table.tables,
        rows=tuple(reader.table.rows) or _sorted_rows(reader.own_rows.values()),
        bad_rows=tuple(reader.table.bad_rows),
        out_of_bounds=reader.numbers.get("out_of_bounds"),
        average_busbw_gb_s=reader.average,
        ranks=tuple(reader.ranks),
        nranks=reader.numbers.get("nranks"),
        init_complete=reader.counts["init"],
        destroy_complete=reader.counts["destroy"],
        networks=dict(reader.networks),
        hosts=tuple(reader.hosts.values()),
        channels=_channels(reader),
        topology_files=tuple(reader.topology),
        topology_unread=tuple(reader.topology_unread),
        failures=failures,
    )


def _channels(reader: _Reader) -> Channels:
    return Channels(
        net=dict(reader.nets),
        gdr=reader.counts["gdr"],
        peer=reader.counts["peer"],
        shared_memory=reader.counts["shared_memory"],
        devices_by_host={host: tuple(sorted(found)) for host, found in reader.devices.items()},
    )


def _sorted_rows(rows: Iterable[NcclRow]) -> tuple[NcclRow, ...]:
    return tuple(sorted(rows, key=lambda row: row.size_bytes or 0))


def _host(line: str) -> str:
    match = _PREFIX.search(line)
    return match["host"] if match else ""


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
