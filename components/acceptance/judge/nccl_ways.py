"""Which way the data of an NCCL program took, and whether it is the one that was asked for.

Only NCCL's list of devices shows InfiniBand or RoCE, and NVLink differs from PCIe only by lines or
numbers that one of them alone can have. What no line says is not proven: never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from components.acceptance.judge.verdict import Verdict
from components.acceptance.logs.log_model import HostNetwork, NcclLog

Expectation = Literal["ib", "roce", "nvlink", "socket"]
Way = Literal["verbs", "socket", "other", "unknown"]
LAYERS: Final = {"ib": "IB", "roce": "RoCE"}
PCIE_LIMIT_GB_S: Final = 128.0
"""What 16 lanes of PCIe 6.0 carry one way, raw: a bus bandwidth above it went over NVLink."""
_NOT_SOCKETS: Final[frozenset[Way]] = frozenset({"verbs", "other"})
_NOT_VERBS: Final[frozenset[Way]] = frozenset({"socket", "other"})
_NOT_SHOWN: Final = "no transport line; run with NCCL_DEBUG=INFO"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A network of NCCL by its name.

    Attributes:
        name: As channel lines have it.
        way: What it sends over; `verbs` is InfiniBand or RoCE, and the list of devices says which.
        source: Who says so.
    """

    name: re.Pattern[str]
    way: Way
    source: str


def _plugins(*rows: tuple[str, Way, str]) -> tuple[Plugin, ...]:
    return tuple(Plugin(re.compile(name), way, source) for name, way, source in rows)


PLUGINS: Final = _plugins(
    (r"IB(?:ext(?:_v\d+)?)?", "verbs", "NCCL net_ib; nccl-rdma-sharp-plugins"),
    (r"gIB", "verbs", "Google's gIB: NCCL's net_ib with its own tuner"),
    (r"COLLNET/SHARP", "verbs", "nccl-rdma-sharp-plugins: reductions in switches"),
    (r"Socket|FastSocket", "socket", "NCCL net_socket; google/nccl-fastsocket"),
    (r"GPUDirectTCPX\w*|FasTrak\w*", "other", "Google's TCPX and TCPXO"),
    (r"UCX|UCC", "unknown", "nccl-rdma-sharp-plugins: UCX chooses"),
)
_LIBFABRIC = re.compile(r"(?:AWS )?Libfabric|OFI")
_PROVIDERS: Final[dict[str, Way]] = {
    "efa": "other", "cxi": "other", "tcp": "socket", "sockets": "socket", "verbs": "unknown",
}  # fmt: skip
"""Of libfabric, as aws-ofi-nccl prints the one that it selected."""
_NOT_ROCE: Final = (
    (re.compile(r"(?:siw|iw|cxgb\d_|i40iw)\w*"), "iWARP"),
    (re.compile(r"(?:efa_|rdmap)\w*"), "EFA"),
    (re.compile(r"(?:hfi1_|opap|qib)\w*"), "Omni-Path"),
    (re.compile(r"(?:usnic)\w*"), "usNIC"),
)
"""Device names that are neither InfiniBand nor RoCE: rdma-core's kernel-boot/rdma_rename.c and the
kernel's drivers. NCCL prints `/RoCE` for every device whose link is Ethernet."""


def way_of(name: str, providers: Sequence[str]) -> Way:
    """What a network of NCCL sends over."""
    for plugin in PLUGINS:
        if plugin.name.fullmatch(name):
            return plugin.way
    if _LIBFABRIC.fullmatch(name):
        ways: set[Way] = {_PROVIDERS.get(provider, "unknown") for provider in providers}
        ways = ways or {"other"}
        return next(iter(ways)) if len(ways) == 1 else "unknown"
    return "unknown"


def judge_way(log: NcclLog, expect: Expectation) -> tuple[Verdict, str]:
    """Did the data take the expected way? The verdict, and why if it is none that was hoped for."""
    channels = log.channels
    if channels.other:
        return "error", f"channels over {', '.join(channels.other)}, which is not known"
    if not (channels.net_total or channels.peer or channels.shared_memory or channels.nvls):
        return _without_channels(log, expect)
    if expect == "nvlink":
        return _over_nvlink(log)
    return _over_network(log, expect) if channels.net else _inside_hosts(log)


def _over_network(log: NcclLog, expect: Literal["ib", "roce", "socket"]) -> tuple[Verdict, str]:
    ways: set[Way] = {way_of(name, log.providers) for name in log.channels.net}
    if expect == "socket":
        return ("passed", "") if ways == {"socket"} else _other_way(ways, _NOT_SOCKETS)
    if ways != {"verbs"}:
        return _other_way(ways, _NOT_VERBS)
    return _link_layer(log, LAYERS[expect])


def _other_way(ways: set[Way], wrong: frozenset[Way]) -> tuple[Verdict, str]:
    return (
        ("failed", "") if ways & wrong else ("error", "no line says what this network sends over")
    )


def _without_channels(log: NcclLog, expect: Expectation) -> tuple[Verdict, str]:
    """`Using network` says what would be used between hosts, not what was."""
    ways = {way_of(name, log.providers) for name in log.networks}
    fits: dict[str, Way] = {"ib": "verbs", "roce": "verbs", "socket": "socket"}
    if not ways:
        return "error", _NOT_SHOWN
    if expect in fits and ways.isdisjoint({fits[expect], "unknown"}):
        return "failed", ""
    return "error", "no channel line proves it; run with NCCL_DEBUG=INFO"


def _inside_hosts(log: NcclLog) -> tuple[Verdict, str]:
    hosts = len({line.host for line in log.ranks})
    if max(hosts, log.nodes or 0) > 1:
        return "error", "no line shows a channel between hosts"
    return "failed", ""


def _over_nvlink(log: NcclLog) -> tuple[Verdict, str]:
    channels = log.channels
    if channels.net_total or channels.shared_memory:
        return "failed", ""
    links = set(log.gpu_links)
    best = max((row.worst_busbw_gb_s for row in log.rows), default=0.0)
    proofs = (
        (channels.nvls > 0, "channels over NVSwitch's multicast"),
        (log.multi_node_nvlink, "MNNVL between hosts"),
        (links == {"NVL"}, "NCCL's search found NVL from GPU to GPU"),
        (best > PCIE_LIMIT_GB_S, f"{best:g} GB/s is more than PCIe can carry"),
    )
    proof = next((text for holds, text in proofs if holds), "")
    if links and "NVL" not in links:
        return "failed", f"GPUs reach each other over PCIe: {', '.join(sorted(links))}"
    if proof:
        return "passed", proof
    return "error", "P2P goes over PCIe too: no line and no number proves NVLink"


def used_devices(log: NcclLog) -> dict[str, set[str]]:
    """Link layer to the devices that carry it, of those that the channels use."""
    found: dict[str, set[str]] = {}
    for host in log.hosts:
        used = log.channels.devices_by_host.get(host.host, ())
        for hca in _used(host, used):
            found.setdefault(hca[1], set()).add(hca[0])
    return found


def _used(host: HostNetwork, used: Sequence[int]) -> list[tuple[str, str]]:
    every = [(hca.device, hca.link_layer) for hca in host.hcas]
    indexes = {hca.index for hca in host.hcas}
    if not used or not indexes.issuperset(used):
        return every
    return [(hca.device, hca.link_layer) for hca in host.hcas if hca.index in used]


def _link_layer(log: NcclLog, wanted: str) -> tuple[Verdict, str]:
    devices = used_devices(log)
    for names in devices.values():
        for pattern, what in _NOT_ROCE:
            if alien := sorted(name for name in names if pattern.fullmatch(name)):
                return "failed", f"{alien[0]} is {what}"
    if not devices:
        return "error", "no line 'NET/IB : Using' says whether it is InfiniBand or RoCE"
    if wanted not in devices:
        return "failed", ""
    if len(devices) > 1:
        return "error", "devices of both link layers are in use"
    return _everywhere(log)


def _everywhere(log: NcclLog) -> tuple[Verdict, str]:
    """Each host of the list must be at one end of a channel that is shown."""
    hosts = {line.host for line in log.ranks}
    unseen = sorted(hosts - set(log.channels.hosts_on_net))
    if len(hosts) > 1 and unseen:
        return "error", f"no line shows a network channel of {unseen[0]}"
    return "passed", ""
