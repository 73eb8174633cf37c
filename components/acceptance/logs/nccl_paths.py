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

from components.acceptance.logs.log_model import Channels, Hca, HostNetwork

_PREFIX = re.compile(
    r"([\w.-]{1,253}):\d{1,12}:\d{1,12} \[\d{1,6}\] (?:\S{1,120} (?:\([^)]{0,80}\) )?)?"
    r"NCCL (?:INFO|WARN|ERROR) ?"
)
_CHANNEL = re.compile(
    r"\b(?:Channel|Ring|Tree|CollNet|NVLS)\w{0,12} \d{1,4}(?:/\d{1,4})? : "
    r"(\d{1,9})(?:\[[0-9a-f]{1,16}\])?(?: -> (\d{1,9})(?:\[[0-9a-f]{1,16}\])?)?"
    r"(?: \[(?:send|receive)\])? via (\S.{0,80})"
)
_WHOLE_CHANNEL = re.compile(
    r"([\w.-]{1,253}):\d{1,12}:\d{1,12} \[\d{1,6}\] NCCL INFO Channel \d{1,4}/\d{1,4} : "
    r"(\d{1,9})\[[0-9a-f]{1,16}\] -> (\d{1,9})\[[0-9a-f]{1,16}\](?: \[(?:send|receive)\])? via "
    r"((?:P2P|SHM)(?:/(?:IPC|CUMEM|CE|direct|read)){1,3}"
    r"|NET/(?:IB(?:ext)?(?:_v\d{1,2})?|Socket)/\d{1,4}(?:/GDRDMA)?(?:/Shared)?)"
)
"""A line that is one message of a channel and nothing else: most of a long log."""
_NET = re.compile(r"(?:COLL)?NET/([\w .-]{1,60}?)/(\d{1,4})(?:\(\d{1,9}\))?(/GDRDMA)?")
_COLLNET: Final = "COLLNET/"
_LOCAL = re.compile(r"(P2P|SHM|NVLS|CUMEM|direct)\b")
_USING = re.compile(r"NET/([\w .-]{1,60}?)\s{0,4}: Using (.{0,4000})")
_HCA = re.compile(
    r"(?:\[(\d{1,4})\]=?\{?)?\s{0,2}(?:\[\d{1,4}\] )?([\w.-]{1,64}):\d{1,4}"
    r"(?::[\w]{0,8}){0,3}/(\w{1,16})\b"
)
_OOB = re.compile(r";\s{0,4}OOB\b")
_NETWORK = re.compile(r"Using network (\S.{0,60})")
_VERSION = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}[\w.+-]{0,40})")
_NRANKS = re.compile(r"\brank (\d{1,9}) n[rR]anks (\d{1,9})\b(?: nNodes (\d{1,9}))?")
_MNNVL = re.compile(r"\bMNNVL 1\b")
_TOPOLOGY = re.compile(r"NCCL_TOPO_FILE set by environment to (\S{1,400}?)\.?$")
_NO_TOPOLOGY = re.compile(r"Could not open XML topology file (\S{1,400})")
_ALGORITHM = re.compile(
    r"NCCL_ALGO set by environment to \^?([A-Za-z,;:]{1,80})|-> Algo(?:rithm)? ([A-Za-z_]{1,20})\b"
)
_PROVIDER = re.compile(r"[Ss]elected [Pp]rovider is (\w{1,40})")
_GPU_LINK = re.compile(r"\btype (NVL|PIX|PXB|PXN|PHB|SYS|NODE|C2C|P2C)/")
_MOST: Final = 4096
"""Different hosts, and ranks at the ends of network channels, that are kept."""
_FEW: Final = 64
_GLUED: Final = 2
_LEAST_OWN: Final = 2
"""Lines that begin with a host's name before it is one: torn text before a name comes once."""


def messages(text: str) -> Iterator[tuple[str, str]]:
    """The messages in a line, each with its host: lines of ranks are glued where one lost its end.

    A message begins at its host's name. Where that is glued to the word before it, the name is
    too long, and the word is read with what is left of it.
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
class Paths:
    """What was found so far of one run."""

    version: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])
    nets: Counter[str] = field(default_factory=Counter[str])
    networks: Counter[str] = field(default_factory=Counter[str])
    other: dict[str, None] = field(default_factory=dict[str, None])
    devices: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    hosts: dict[str, HostNetwork] = field(default_factory=dict[str, HostNetwork])
    topology: dict[str, None] = field(default_factory=dict[str, None])
    topology_unread: dict[str, None] = field(default_factory=dict[str, None])
    algorithms: dict[str, None] = field(default_factory=dict[str, None])
    providers: dict[str, None] = field(default_factory=dict[str, None])
    gpu_links: dict[str, None] = field(default_factory=dict[str, None])
    nranks: int | None = None
    nodes: int | None = None
    host_of: dict[int, str] = field(default_factory=dict[int, str])
    starts: Counter[str] = field(default_factory=Counter[str])
    """Names that lines begin with."""
    net_ranks: set[int] = field(default_factory=set[int])

    def feed(self, text: str) -> None:
        """Takes a line of one or more messages."""
        self.counts["nccl"] += 1
        for number, (host, message) in enumerate(messages(text)):
            if number == 0:
                self._count_start(host)
            if " via " in message:
                self._feed_channels(host, message)
            elif "Using" in message:
                self._feed_network(host, message)
            else:
                self._feed_rest(host, message)

    def feed_channel(self, line: str) -> bool:
        """Takes a line that is one message of a channel; False if it is another."""
        whole = _WHOLE_CHANNEL.fullmatch(line) if " via " in line else None
        if whole is None:
            return False
        self.counts["nccl"] += 1
        self._count_start(whole[1])
        self._take_channel(whole[1], (whole[2], whole[3]), whole[4])
        return True

    def _count_start(self, name: str) -> None:
        if name and (name in self.starts or len(self.starts) < _MOST):
            self.starts[name] += 1

    def settle(self, listed: Iterable[str]) -> None:
        """Gives hosts their own names: a glued one has the end of another message before it.

        Args:
            listed: Hosts of the list of nccl-tests, whose names are certain.
        """
        own = {*listed, *(name for name, count in self.starts.items() if count >= _LEAST_OWN)}
        self.host_of = {rank: _own_name(host, own) for rank, host in self.host_of.items()}
        devices: dict[str, set[int]] = {}
        for host, used in self.devices.items():
            devices.setdefault(_own_name(host, own), set()).update(used)
        self.devices = devices
        networks = [
            each.model_copy(update={"host": _own_name(host, own)})
            for host, each in self.hosts.items()
        ]
        self.hosts = {each.host: each for each in networks}

    def _feed_channels(self, host: str, message: str) -> None:
        for channel in _CHANNEL.finditer(message):
            self._take_channel(host, (channel[1], channel[2] or channel[1]), channel[3])

    def _take_channel(self, host: str, ends: tuple[str, str], way: str) -> None:
        if net := _NET.match(way):
            name = f"{_COLLNET if way.startswith(_COLLNET) else ''}{net[1]}"
            self._take_net(host, name, net)
            if len(self.net_ranks) < _MOST:
                self.net_ranks.update(int(end) for end in ends)
        elif local := _LOCAL.match(way):
            names = {"SHM": "shared_memory", "NVLS": "nvls"}
            self.counts[names.get(local[1], "peer")] += 1
        else:
            _add(self.other, way.partition("/")[0][:40])

    def _take_net(self, host: str, name: str, net: re.Match[str]) -> None:
        if name in self.nets or len(self.nets) < _FEW:
            self.nets[name] += 1
        self.counts["gdr"] += net[3] is not None
        if host in self.devices or len(self.devices) < _MOST:
            self.devices.setdefault(host, set()).add(int(net[2]))

    def _feed_network(self, host: str, message: str) -> None:
        if network := _NETWORK.search(message):
            name = network[1].rstrip()
            if name in self.networks or len(self.networks) < _FEW:
                self.networks[name] += 1
        elif (using := _USING.search(message)) and using[1] != "Socket":
            self._take_devices(host, using[2])
        else:
            self._feed_rest(host, message)

    def _take_devices(self, host: str, text: str) -> None:
        listed = _OOB.split(text, maxsplit=1)[0]
        hcas: list[Hca] = []
        index = 0
        for found in _HCA.finditer(listed):
            index = int(found[1]) if found[1] else index
            hcas.append(Hca(index=index, device=found[2], link_layer=found[3]))
        if hcas and (host in self.hosts or len(self.hosts) < _MOST):
            relaxed = "[RO]" in listed
            self.hosts[host] = HostNetwork(host=host, hcas=tuple(hcas), relaxed_ordering=relaxed)

    def _feed_rest(self, host: str, message: str) -> None:
        if version := _VERSION.search(message):
            self.version = self.version or version[1]
        self.counts["init"] += message.count("- Init COMPLETE")
        self.counts["destroy"] += message.count("- Destroy COMPLETE")
        if ranks := _NRANKS.search(message):
            self._take_rank(host, ranks)
            self.counts["mnnvl"] += _MNNVL.search(message) is not None
        if "set by environment" in message or "topology" in message:
            if topology := _TOPOLOGY.search(message):
                _add(self.topology, topology[1])
            if unread := _NO_TOPOLOGY.search(message):
                _add(self.topology_unread, unread[1])
        self._feed_choices(message)

    def _take_rank(self, host: str, ranks: re.Match[str]) -> None:
        self.nranks = max(int(ranks[2]), self.nranks or 0)
        if ranks[3]:
            self.nodes = max(int(ranks[3]), self.nodes or 0)
        if host and len(self.host_of) < _MOST:
            self.host_of[int(ranks[1])] = host

    def _feed_choices(self, message: str) -> None:
        if "lgo" in message or "ALGO" in message:
            for algorithm in _ALGORITHM.finditer(message):
                _add(self.algorithms, (algorithm[1] or algorithm[2]).upper())
        if "rovider" in message and (provider := _PROVIDER.search(message)):
            _add(self.providers, provider[1])
        if "type " in message and (link := _GPU_LINK.search(message)):
            _add(self.gpu_links, link[1])

    def channels(self, host_of: dict[int, str]) -> Channels:
        """What the channel lines say.

        Args:
            host_of: Rank to host, by the list of nccl-tests; NCCL's own lines fill it up.
        """
        known = self.host_of | host_of
        ends = {known[rank] for rank in self.net_ranks if rank in known}
        return Channels(
            net=dict(self.nets),
            gdr=self.counts["gdr"],
            peer=self.counts["peer"],
            shared_memory=self.counts["shared_memory"],
            nvls=self.counts["nvls"],
            other=tuple(self.other),
            hosts_on_net=tuple(sorted(ends | {each for each in self.devices if each})),
            devices_by_host={host: tuple(sorted(found)) for host, found in self.devices.items()},
        )


def _own_name(name: str, own: set[str]) -> str:
    """The longest certain name that this one ends with; itself where there is none."""
    ends = () if name in own else [known for known in own if name.endswith(known)]
    return max(ends, key=len, default=name)


def _add(found: dict[str, None], name: str) -> None:
    if len(found) < _FEW:
        found[name] = None
