"""The lines of NCCL that prove the way of the data: networks, devices, channels, ranks.

Forms of NCCL 2.4 to 2.30 (sources.md#logs): `Ring` before 2.7, `Channel` since; merged ports and
planes in the list of devices; the network plugins of vendors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.logs.failures import has_hint
from components.acceptance.logs.log_model import Channels, Hca, HostNetwork

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
"""Lines with the same name at their start that make it a host's name: torn text before a name comes
once."""


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
        for number, (host, message) in enumerate(messages(text)):
            if number == 0:
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
        """Correct the names of hosts: a glued one begins with the end of another message.

        The names of the hosts that nccl-tests listed are certain.
        """
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
