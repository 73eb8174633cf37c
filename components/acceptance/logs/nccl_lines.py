"""The tables of nccl-tests, and the lines of NCCL that prove the way of the data.

A table is read by its header, not by position, in any column set: the older `error` and the newer
`#wrong`; `redop` and `root` come and go; `-I` adds per-iteration columns, `-S` a time stamp. A row
is a sequence of cells, wherever it begins in a line and over however many lines of its rank it
goes: nccl-tests prints its start before it measures, and launchers tag each part. Numbers are
computed again, which finds a row into which another rank wrote.

The lines name networks, devices, channels and ranks, in the forms of NCCL 2.4 to 2.30
(sources.md#logs): `Ring` before 2.7, `Channel` since; merged ports and planes in the list of
devices; the network plugins of vendors.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from components.acceptance.logs.lines import has_hint, last_digit, number
from components.acceptance.logs.log_model import Channels, Hca, HostNetwork, Measure, NcclRow

_TYPE_BYTES: Final[Mapping[str, int]] = {
    "int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "half": 2, "bfloat16": 2, "float16": 2, "int32": 4, "uint32": 4, "int": 4, "float": 4,
    "int64": 8, "uint64": 8, "double": 8,
}  # fmt: skip
"""Types of nccl-tests (src/common.cu, `test_typenames`, old and new) and their widths."""
_TYPES = "|".join(sorted(_TYPE_BYTES, key=len, reverse=True))
_HEADER = re.compile(r"#?\s{1,40}size\s{1,40}count\s{1,40}type\b")
_COLUMN = re.compile(r"\s{1,80}(#?[a-z_]\w{0,20}%?)(?=\s|$)")
_ROW_START = re.compile(
    rf"(?<![\d.])(\d{{1,18}})(?:\s|\[\d{{1,6}}\]){{1,40}}(\d{{1,18}})(?:\s|\[\d{{1,6}}\]){{1,40}}"
    rf"({_TYPES})(?=\s|$|\[\d)"
)
_NUMBER = r"-?(?:(?:0|[1-9]\d{0,18})(?:\.\d{0,9})?|\.\d{1,9})(?:[eE][+-]?\d{1,3})?|N/A|-?nan|-?inf"
_CELL = re.compile(
    rf"(?:\s|\[\d{{1,6}}\](?=\s)){{0,80}}(?:({_NUMBER})(?![\d.])|([a-z_]{{1,20}})(?=\s|$))"
)
_NEXT_NUMBER = re.compile(rf"\s{{1,80}}(?:{_NUMBER})(?=\s|$)")
_CONTINUED = re.compile(rf"\s{{0,80}}(?:[\w.-]{{1,253}}:\s{{1,20}})?(?=(?:{_NUMBER})(?![\w:]))")
_LEFT_OUT = re.compile(
    r"\s*(?:\[?(?:\.\s?){3,}\]?|\[?…\]?|\[?<?(?:snip|snipped|truncated)>?\]?)\s*$"
)
_MOST_ROWS: Final = 20_000
"""A table has a row for each size: some forty for each type and operation."""
_MOST_BAD_ROWS: Final = 20
_KEPT: Final = 300
_ROUNDING: Final = ((1e3, 0.0051), (1e4, 0.051), (math.inf, 0.51))
"""Bandwidths below a limit, and half of their last printed digit."""
_RELATIVE_SLACK: Final = 0.002
"""Relative difference besides rounding: recorded logs differ by at most 0.3 %, mostly rounding."""
_TWICE: Final = frozenset({"all_reduce"})
"""Reduced once around the ring and spread once around it."""
_WHOLE: Final = frozenset({"broadcast", "reduce", "sendrecv", "hypercube", "pt2pt"})
"""One rank's data goes as it is (broadcast.cu, reduce.cu, sendrecv.cu), or the rank's own part is
left out of the bandwidth already (hypercube.cu)."""
_PROCESSOR_TIME: Final = "cputime"
"""The column of `-C 1` instead of the time: the processor's, which does not grow with the size."""
_TIMES: Final = frozenset({"time", _PROCESSOR_TIME})
_AT_REDOP: Final = 3
"""Cells before the column `redop`."""
_TYPE_STARTS: Final = (
    "float", "double", "half", "bfloat", "f8e", "fp8_", " int", " uint", " char", "\tint", "]int",
)  # fmt: skip
_PREFIX = re.compile(
    r"([\w.-]{1,253}):\d{1,12}:\d{1,12} \[\d{1,6}\] (?:\S{1,120} (?:\([^)]{0,80}\) )?)?"
    r"NCCL (?:INFO|WARN|ERROR) ?"
)
_HEAD: Final = r"([\w.-]{1,253}):\d{1,12}:\d{1,12} \[\d{1,6}\] NCCL INFO "
_RANK_AT: Final = r"(\d{1,9})(?:\[[0-9a-f]{1,16}\])?"
_CHANNEL = re.compile(
    rf"(?:{_HEAD})?\b(?:Channel|Ring|Tree|Coll)\w{{0,12}} \d{{1,4}}(?:/\d{{1,4}})? : {_RANK_AT}"
    rf"(?: -> {_RANK_AT})?(?: \[(?:send|receive)\])? via (?:"
    r"(P2P|CUMEM|SHM|direct)(?: shared memory|(?:/(?:IPC|CUMEM|MNNVL|CE|read|direct pointer|direct"
    r"|common device|indirect/\d{1,9}\[[0-9a-f]{1,16}\])){0,4})"
    r"|((?:COLL)?NET/[\w .-]{1,60}?)/(\d{1,4})(?:\(\d{1,9}\))?(/GDRDMA(?:\(\w{1,8}\))?)?"
    r"(?:/Shared)?|([^\s/]{1,40}))"
)
"""One message of a channel. Most lines of a long log are just one such message."""
_USING = re.compile(r"NET/([\w .-]{1,60}?)\s{0,4}: Using (.{0,4000})")
_HCA = re.compile(
    r"(?:\[(\d{1,4})\]=?\{?)?\s{0,2}(?:\[\d{1,4}\] )?([\w.-]{1,64}):\d{1,4}"
    r"(?::[\w]{0,8}){0,3}/(\w{1,16})\b"
)
_OOB = re.compile(r";\s{0,4}OOB\b")
_NETWORK = re.compile(r"Using network (\S.{0,60})")
_VERSION = re.compile(r"(?:NCCL version|local:|remote) (\d{1,3}\.\d{1,3}[\w.+-]{0,40})")
_RCCL = re.compile(
    r"\bRCCL version|\b(?:HIP|ROCm) version|\brccl-tests: Version|NCCL version \S{1,40}\+hip"
)
_NRANKS = re.compile(r"\brank (\d{1,9}) n[rR]anks (\d{1,9})\b(?: nNodes (\d{1,9}))?")
_MNNVL = re.compile(r"\bMNNVL 1\b")
_GPU_OF_RANK = re.compile(
    r"\brank (\d{1,9}) n[rR]anks (\d{1,9}) cudaDev \d{1,4}(?: nvmlDev \d{1,4})?"
    r" busId ([0-9a-f]{1,16})(?: commId (\w{1,20}))? - Init"
)
_TOPOLOGY = re.compile(r"NCCL_TOPO_FILE set by environment to (\S{1,400}?)\.?$")
_NO_TOPOLOGY = re.compile(r"Could not open XML topology file (\S{1,400})")
_ALGORITHM = re.compile(
    r"NCCL_ALGO set by environment to \^?([A-Za-z,;:]{1,80})|-> Algo(?:rithm)? ([A-Za-z_]{1,20})\b"
)
_PROVIDER = re.compile(r"[Ss]elected [Pp]rovider is (\w{1,40})")
_GPU_LINK = re.compile(
    r"\bnChannels [1-9].{0,60}\btype (NVL|NVB|PIX|PXB|PXN|PHB|SYS|NODE|C2C|P2C)/"
)
"""A pattern without channels names the best pair of the machine and proves nothing (search.cc)."""
_NAMED: Final = (
    ("versions", "ersion", _VERSION),
    ("topology_files", "set by environment", _TOPOLOGY),
    ("topology_unread", "topology", _NO_TOPOLOGY),
    ("algorithms", "lgo", _ALGORITHM),
    ("algorithms", "ALGO", _ALGORITHM),
    ("providers", "rovider", _PROVIDER),
    ("gpu_links", "type ", _GPU_LINK),
)
"""Where names are kept, a word of their messages, and the pattern of the name."""
_MOST: Final = 4096
"""The most hosts, and ranks at the ends of network channels, to keep."""
_MOST_ENDS: Final = 16 * _MOST
_FEW: Final = 64
_GLUED: Final = 2
_LEAST_OWN: Final = 2
"""Lines that must begin with a name to make it a host's: torn text before a name comes once."""


@dataclass(slots=True)
class _Pending:
    stream: str
    cells: list[str]
    text: str = ""


@dataclass(slots=True)
class Table:
    """A reader of the tables of one run; feed it line by line."""

    columns: tuple[str, ...] = ()
    share: float | None = 1.0
    """Share of a size that counts for its bandwidth: hypercube_perf leaves out the rank's own part.
    None: unknown."""
    is_open: bool = False
    """Whether rows may come: a header came, and its footer did not come yet."""
    tables: int = 0
    rows: list[NcclRow] = field(default_factory=list[NcclRow])
    bad_rows: list[str] = field(default_factory=list[str])
    _pending: _Pending | None = None
    _prefix: str = ""
    """The text before the header: a collector puts it before each line."""

    def feed(self, stream: str, line: str) -> Iterator[str]:
        """Takes a line; yields its parts outside of a table."""
        text, pending = line, self._pending
        if pending and pending.stream == stream:
            shown = text.removeprefix(self._prefix)
            start = _CONTINUED.match(shown)
            if start and not _ROW_START.match(shown, start.end()):
                text = self._take_cells(pending, shown, start.end())
        if "type" in text and (header := _HEADER.search(text)):
            yield from self._take_header(text, header)
            return
        while start := _ROW_START.search(text) if has_type(text) else None:
            if start.start():
                yield text[: start.start()]
            self._end_row()
            self._pending = _Pending(stream, [*start.groups()])
            text = self._take_cells(self._pending, text[start.start() :], len(start[0]))
        if self.is_open and _LEFT_OUT.match(text):
            self._add_bad(f"rows are left out: {text.strip()}")
        elif text.strip():
            yield text

    def finish(self) -> None:
        """Ends the table."""
        self._end_row()
        self.is_open = False

    def _end_row(self) -> None:
        if self._pending:
            self._add_bad(self._pending.text)
            self._pending = None

    def _take_header(self, text: str, header: re.Match[str]) -> Iterator[str]:
        self._end_row()
        self._prefix = text[: header.start()]
        names = ["size", "count", "type"]
        end = header.end()
        while column := _COLUMN.match(text, end):
            names.append("#wrong" if column[1] == "wrong" else column[1])
            end = column.end()
        self.columns, self.is_open = tuple(names), True
        self.tables += 1
        for part in (text[: header.start()], text[end:]):
            if part.strip():
                yield part

    def _take_cells(self, pending: _Pending, text: str, end: int) -> str:
        names, known = list(self.columns), "".join(pending.cells[_AT_REDOP : _AT_REDOP + 1])
        if "redop" in names and (known == "N/A" or number(known) is not None):
            names.remove("redop")
        while len(pending.cells) < len(names) and (cell := _CELL.match(text, end)):
            if names[len(pending.cells)] == "redop" and cell[1]:
                # Rows of hypercube and of old alltoall lack this column of the header.
                names.remove("redop")
            if (names[len(pending.cells)] == "redop") == (cell[2] is None):
                break
            pending.cells.append(cell[cell.lastindex or 0])
            end = cell.end()
        pending.text = f"{pending.text} {text[:end].strip()}".strip()
        if len(pending.cells) == len(names):
            self._pending = None
            more = _NEXT_NUMBER.match(text, end) and not _ROW_START.match(text[end:].lstrip())
            row = None if more else parse_row(names, pending.cells, self.share)
            if row is not None and len(self.rows) < _MOST_ROWS:
                self.rows.append(row)
            else:
                self._add_bad(f"more than {_MOST_ROWS} rows" if row else pending.text)
        return text[end:]

    def _add_bad(self, text: str) -> None:
        if len(self.bad_rows) < _MOST_BAD_ROWS:
            self.bad_rows.append(" ".join(text.split())[:_KEPT])


def has_type(text: str) -> bool:
    """Check cheaply whether a line may contain a row."""
    return any(start in text for start in _TYPE_STARTS)


def parse_row(
    names: Sequence[str], words: Sequence[str], share: float | None = 1.0
) -> NcclRow | None:
    """One row by its column names; None when it does not fit them or contradicts itself."""
    size, part = int(words[0]), int(words[1]) * _TYPE_BYTES[words[2]]
    # The size is that of one rank, or of all ranks together if a collective gathers.
    counts = size == 0 if part == 0 else size % part == 0 and size > 0
    starts = [index for index, name in enumerate(names) if name in _TIMES]
    halves: list[Measure] = []
    for start, end in pairwise((*starts, len(names))):
        cells = dict(zip(names[start:end], words[start:end], strict=True))
        shown = names[start]
        time, algbw, busbw = (number(cells.get(each, "")) for each in (shown, "algbw", "busbw"))
        if time is None or algbw is None or busbw is None or min(time, algbw, busbw) < 0:
            return None
        # A count; large ones are printed with an exponent (`%g`).
        wrong = number(cells.get("#wrong", "N/A"))
        if cells.get("#wrong", "N/A") != "N/A" and (wrong is None or wrong < 0):
            return None
        unsure, digits = last_digit(words[start]) / 2, last_digit(cells["algbw"]) / 2
        between, is_judged = (time - unsure, time + unsure), shown != _PROCESSOR_TIME
        if share is not None and is_judged and not fits(size * share, between, algbw, digits):
            return None
        halves.append(
            Measure(
                time_us=time,
                algbw_gb_s=algbw,
                busbw_gb_s=busbw,
                wrong=None if wrong is None else math.ceil(wrong),
                error=number(cells.get("error", "")),
                slowest_us=number(cells.get("i_max", "")),
                varies_percent=number(cells.get("i_cv%", "")),
            )
        )
    if not halves or not counts:
        return None
    return NcclRow(
        size_bytes=size,
        parts=max(size // max(part, 1), 1),
        out_of_place=halves[0],
        in_place=halves[1] if len(halves) > 1 else None,
    )


def fits(
    size: float, time_us: tuple[float, float], algbw_gb_s: float, unsure_gb_s: float = 0.0
) -> bool:
    """Whether bandwidth is size over time: otherwise the row was cut, mixed or edited.

    The printed time may mean any time between the two of `time_us`. `unsure_gb_s` is half of the
    last printed digit of the bandwidth, if larger than usual.
    """
    shortest, longest = time_us
    if longest <= 0:
        return size == 0
    least, most = size / longest / 1e3, size / max(shortest, 1e-9) / 1e3
    slack = max(rounding(algbw_gb_s), unsure_gb_s) + _RELATIVE_SLACK * least
    return least - slack <= algbw_gb_s <= most + slack


def rounding(bandwidth: float) -> float:
    """Half of the last digit that nccl-tests prints of a bandwidth (`getFloatStr`, width 6)."""
    return next(half for limit, half in _ROUNDING if bandwidth < limit)


def bus_factor(collective: str, ranks: int) -> float:
    """The factor of `all_reduce` (or of its program, `all_reduce_perf`) over 1 and more ranks."""
    name = collective.partition("_perf")[0]
    if name in _WHOLE:
        return 1.0
    once = (ranks - 1) / ranks
    return 2 * once if name in _TWICE else once


def families(collective: str) -> tuple[str, ...]:
    """The collectives whose factor a table may have: one of each factor if it shows no name."""
    return (collective,) if collective else ("all_reduce", "all_gather", "broadcast")


def messages(text: str) -> Iterator[tuple[str, str]]:
    """The messages in a line, each with its host: lines of ranks run together if one lost its end.

    A message begins at its host's name. If a word before is glued to it, the name is too long;
    the message before keeps that word too.
    """
    if text.count("NCCL ") < _GLUED and (only := _PREFIX.match(text)):
        yield only[1], text[only.end() :]
        return
    starts = list(_PREFIX.finditer(text))
    if not starts:
        yield "", text
        return
    if starts[0].start() > 0:
        yield "", text[: starts[0].end(1)]
    for start, end in zip(starts, [*(each.end(1) for each in starts[1:]), len(text)], strict=True):
        yield start[1], text[start.end() : end]


@dataclass(slots=True)
class Way:
    """The channel lines of one host: devices of its networks, and ranks at both ends of them.

    Lines count by `P2P`, `SHM` or the name of a network; `GDR` and `MNNVL` count some again.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    devices: set[int] = field(default_factory=set[int])
    ranks: set[str] = field(default_factory=set[str])

    def add(self, other: Way) -> None:
        """Add the lines under another form of the host's name."""
        self.counts += other.counts
        self.devices |= other.devices
        self.ranks |= other.ranks


@dataclass(slots=True)
class Paths:
    """The results of one run so far."""

    counts: Counter[str] = field(default_factory=Counter[str])
    ways: dict[str, Way] = field(default_factory=dict[str, Way])
    """Host to its channel lines."""
    nets: set[str] = field(default_factory=set[str])
    networks: Counter[str] = field(default_factory=Counter[str])
    hosts: dict[str, HostNetwork] = field(default_factory=dict[str, HostNetwork])
    names: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """By the field of `NcclLog`, and `versions` and `other`: each name once, up to 64."""
    nranks: int | None = None
    nodes: int | None = None
    host_of: dict[int, str] = field(default_factory=dict[int, str])
    starts: Counter[str] = field(default_factory=Counter[str])
    """How often lines begin with each name."""
    odd_names: set[str] = field(default_factory=set[str])
    """Names of hosts that look like a word of failure."""
    gpus: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Communicator, and host with bus id, to the rank."""
    is_rccl: bool = False

    def feed(self, text: str) -> None:
        """Take a line of one or more messages, except those of channels."""
        self.counts["nccl"] += 1
        for place, (host, message) in enumerate(messages(text)):
            if place == 0:
                self.take_name(host)
            if "Using" in message:
                self._feed_network(host, message)
            else:
                self._feed_rest(host, message)

    def feed_channels(self, line: str) -> bool:
        """Take the channels of a line; return whether the line is just one message of a channel."""
        if (whole := _CHANNEL.match(line)) and whole[1] and whole.end() == len(line):
            self.counts["nccl"] += 1
            self._take_channel(whole)
            return True
        for found in _CHANNEL.finditer(line):
            self._take_channel(found)
        return False

    def take_name(self, name: str) -> None:
        """Takes the name of a host, with which a line begins."""
        if name in self.starts:
            self.starts[name] += 1
        elif name and len(self.starts) < _MOST:
            self.starts[name] = 1
            if has_hint(name):
                self.odd_names.add(name)

    def settle(self, listed: Iterable[str]) -> None:
        """Correct glued names of hosts; those that nccl-tests listed are certain."""
        own = {*listed, *(name for name, count in self.starts.items() if count >= _LEAST_OWN)}
        self.host_of = {rank: _own_name(host, own) for rank, host in self.host_of.items()}
        ways: dict[str, Way] = {}
        for host, way in self.ways.items():
            ways.setdefault(_own_name(host, own), Way()).add(way)
        self.ways = ways
        names = {host: _own_name(host, own) for host in self.hosts}
        self.hosts = {
            names[host]: each.model_copy(update={"host": names[host]})
            for host, each in self.hosts.items()
        }

    def _take_channel(self, found: re.Match[str]) -> None:
        host, rank, other_rank, local, net, device, gdr, other = found.groups(default="")
        self.take_name(host)
        way = self.ways.get(host) or Way()
        if len(self.ways) < _MOST:
            self.ways[host] = way
        if local:
            shared = local == "SHM" or found[0].endswith("shared memory")
            way.counts["SHM" if shared else "P2P"] += 1
            if "/MNNVL" in found[0]:
                way.counts["MNNVL"] += 1
        elif net:
            way.counts["GDR"] += bool(gdr)
            if net in self.nets or len(self.nets) < _FEW:
                self.nets.add(net)
                way.counts[net] += 1
            way.devices.add(int(device))
            for end in (rank, other_rank):
                if end and end not in way.ranks and self.counts["ends"] < _MOST_ENDS:
                    self.counts["ends"] += 1
                    way.ranks.add(end)
        else:
            self._add("other", other)

    def _feed_network(self, host: str, message: str) -> None:
        if network := _NETWORK.search(message):
            name = network[1].rstrip()
            if name in self.networks or len(self.networks) < _FEW:
                self.networks[name] += 1
        elif (using := _USING.search(message)) and using[1] != "Socket":
            listed, hcas, index = _OOB.split(using[2], maxsplit=1)[0], list[Hca](), 0
            for found in _HCA.finditer(listed):
                index = int(found[1]) if found[1] else index
                hcas.append(Hca(index=index, device=found[2], link_layer=found[3]))
            if hcas and (host in self.hosts or len(self.hosts) < _MOST):
                self.hosts[host] = HostNetwork(
                    host=host, hcas=tuple(hcas), relaxed_ordering="[RO]" in listed
                )
        else:
            self._feed_rest(host, message)

    def _feed_rest(self, host: str, message: str) -> None:
        if "ersion" in message and not self.is_rccl:
            self.is_rccl = _RCCL.search(message) is not None
        self.counts["init"] += message.count("- Init COMPLETE")
        self.counts["destroy"] += message.count("- Destroy COMPLETE")
        if ranks := _NRANKS.search(message):
            self.nranks = max(int(ranks[2]), self.nranks or 0)
            if ranks[3]:
                self.nodes = max(int(ranks[3]), self.nodes or 0)
            if host and len(self.host_of) < _MOST:
                self.host_of[int(ranks[1])] = host
            if gpu := _GPU_OF_RANK.search(message):
                self.take_gpu(gpu[4] or gpu[2], f"{host} {gpu[3]}", gpu[1])
            self.counts["mnnvl"] += _MNNVL.search(message) is not None
        for kind, word, pattern in _NAMED:
            for found in pattern.finditer(message) if word in message else ():
                name = found[found.lastindex or 0]
                self._add(kind, name.upper() if kind == "algorithms" else name)

    def take_gpu(self, comm: str, gpu: str, rank: str) -> None:
        """Takes the GPU of a rank; two ranks on one GPU exchange their data inside its memory."""
        if (comm, gpu) not in self.gpus and len(self.gpus) < _MOST:
            self.gpus[comm, gpu] = rank
        elif self.gpus.get((comm, gpu), rank) != rank:
            self._add("shared_gpus", gpu)

    def _add(self, kind: str, name: str) -> None:
        found = self.names.setdefault(kind, {})
        if len(found) < _FEW:
            found[name] = None

    def channels(self, listed: dict[int, str]) -> Channels:
        """Give the channels of this run, without those of another job in the same file.

        `listed` is rank to host, by the list of nccl-tests; NCCL's own lines fill it up.
        """
        hosts = {*listed.values(), ""}
        own = {host: way for host, way in self.ways.items() if not listed or host in hosts}
        total = Way()
        for way in own.values():
            total.add(way)
        known = self.host_of | listed
        ranks = {int(rank) for rank in total.ranks}
        alien = sorted(rank for rank in ranks if listed and rank > max(listed))
        devices = {host: tuple(sorted(way.devices)) for host, way in own.items() if way.devices}
        ends = {known[rank] for rank in ranks if rank in known} | {*devices} - {""}
        apart = ("P2P", "SHM", "GDR", "MNNVL")
        return Channels(
            net={
                name.removeprefix("NET/"): count
                for name, count in total.counts.items()
                if name not in apart
            },
            gdr=total.counts["GDR"],
            peer=total.counts["P2P"],
            mnnvl=total.counts["MNNVL"],
            shared_memory=total.counts["SHM"],
            other=tuple(self.names.get("other", ())),
            hosts_on_net=tuple(sorted(ends)),
            devices_by_host=devices,
            strangers=(*sorted({*self.ways} - {*own}), *(f"rank {rank}" for rank in alien[:1])),
        )


def _own_name(name: str, own: set[str]) -> str:
    """The longest certain name at the end of this one, or this name."""
    ends = () if name in own else [known for known in own if name.endswith(known)]
    return max(ends, key=len, default=name)
