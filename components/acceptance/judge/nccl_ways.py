"""Judges whether the data of an NCCL program took the expected way.

Only NCCL's list of devices shows InfiniBand or RoCE. Only some lines or numbers tell NVLink from
PCIe. A way that no line shows is not proven: never a pass. Only the tables here decide, by the
names of networks and devices, which of them are RDMA.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from components.acceptance.judge.verdict import Verdict
from components.acceptance.logs.log_model import Hca, HostNetwork, NcclLog
from components.core.templates import read_table

Expectation = Literal["ib", "roce", "nvlink", "socket"]
Way = Literal["verbs", "socket", "other", "unknown"]
LAYERS: Final = {"ib": "IB", "roce": "RoCE"}
PCIE_LIMIT_GB_S: Final = 128.0
"""The raw rate of 16 lanes of PCIe 6.0 one way: a higher bus bandwidth proves NVLink."""
_WANTED: Final[dict[str, Way]] = {"ib": "verbs", "roce": "verbs", "socket": "socket"}


_TABLES: Final[Mapping[str, Mapping[str, str]]] = read_table(__file__, "ways")
_NETWORKS: Final = {way: re.compile(text) for way, text in _TABLES["networks"].items()}
_SPEAKS: Final = {what: re.compile(text) for what, text in _TABLES["speaks"].items()}
_LIBFABRIC = re.compile(r"(?:AWS )?Libfabric|OFI")


def speaks(device: str) -> str:
    """Read the kind of a device from its name: `RoCE` for an Ethernet link, or empty if unknown.

    NCCL may have merged several: `mlx5_0+mlx5_1`.
    """
    found = {
        next((what for what, name in _SPEAKS.items() if name.fullmatch(part)), "")
        for part in device.split("+")
    }
    return found.pop() if len(found) == 1 else ""


def way_of(name: str, providers: Sequence[str]) -> Way:
    """The way over which a network of NCCL sends."""
    ways = {way for way, pattern in _NETWORKS.items() if pattern.fullmatch(name)}
    if _LIBFABRIC.fullmatch(name):
        ways = {_TABLES["providers"].get(provider, "unknown") for provider in providers}
    return cast("Way", ways.pop()) if len(ways) == 1 else "unknown"


def judge_way(log: NcclLog, expect: Expectation) -> tuple[Verdict, str]:
    """Judge whether the data took the expected way; give a reason if the verdict needs one."""
    channels = log.channels
    own = channels.net_total or channels.peer or channels.shared_memory
    ranks = [stranger for stranger in channels.strangers if stranger.startswith("rank ")]
    strangers = ranks or (() if own else channels.strangers)
    # Without channel lines by `Using network`: the network for use between hosts, not the one used.
    ways = {way_of(name, log.providers) for name in (channels.net if own else log.networks)}
    known = {_WANTED.get(expect), "unknown"}
    verdict, why = "error", ""
    if channels.other:
        why = f"channels over {', '.join(channels.other)}, which is not known"
    elif strangers:
        why = f"channel lines of {strangers[0]}, which the list of ranks does not have"
    elif own and expect == "nvlink":
        verdict, why = _over_nvlink(log)
    elif own and not channels.net:
        is_one = max(len({line.host for line in log.ranks}), log.nodes or 0) <= 1
        verdict = "failed" if is_one else "error"
        why = "" if is_one else "no line shows a channel between hosts"
    elif not own and (expect == "nvlink" or not ways or ways & known):
        lack = "channel line proves it" if ways else "transport line"
        why = f"no {lack}; run with NCCL_DEBUG=INFO"
    elif ways - known:
        verdict = "failed"
    elif "unknown" in ways:
        why = "no line says what this network sends over"
    else:
        verdict, why = ("passed", "") if expect == "socket" else _link_layer(log, LAYERS[expect])
    return verdict, why


def _over_nvlink(log: NcclLog) -> tuple[Verdict, str]:
    channels, links = log.channels, set(log.gpu_links)
    names = [name for line in log.ranks if (name := line.gpu.partition("] ")[2])]
    best = max((row.worst_busbw_gb_s for row in log.rows), default=0.0)
    proofs = (
        (channels.mnnvl > 0 or log.multi_node_nvlink, "MNNVL between hosts"),
        (links == {"NVL"}, "NCCL's search found NVL from GPU to GPU"),
        (best > PCIE_LIMIT_GB_S, f"{best:g} GB/s is more than PCIe can carry"),
    )
    verdict, why = "error", "P2P goes over PCIe too: no line and no number proves NVLink"
    if channels.net_total or channels.shared_memory:
        verdict, why = "failed", ""
    elif links and "NVL" not in links:
        verdict, why = "failed", f"GPUs reach each other over PCIe: {', '.join(sorted(links))}"
    elif log.is_rccl or any(_AMD.search(name) for name in names):
        verdict, why = "failed", "the GPUs are not NVIDIA's: AMD's xGMI is not NVLink"
    elif log.shared_gpus:
        why = f"two ranks use one GPU ({log.shared_gpus[0]}): its own memory, no link"
    elif not channels.mnnvl and log.gpus_known < 2:  # noqa: PLR2004 - the two ends of a link
        why = "no line shows that the ranks are on different GPUs"
    elif not all(_NVIDIA.search(name) for name in names) or not (names or log.nccl_version):
        why = f"no line says that {names[0] if names else 'a GPU'} is NVIDIA's"
    elif proof := next((text for holds, text in proofs if holds), ""):
        verdict, why = "passed", proof
    return verdict, why


_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bMI\d{2,3}|gfx\d")
_NVIDIA = re.compile(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|Graphics Device|\b(?:GB|GH|[ABHLPTV])\d{2,3}\b"
)


def used_devices(log: NcclLog) -> dict[str, set[str]]:
    """Link layer to its devices, among those that the channels use."""
    found: dict[str, set[str]] = {}
    for host in log.hosts:
        for hca in in_use(log, host) or host.hcas:
            found.setdefault(hca.link_layer, set()).add(hca.device)
    return found


def in_use(log: NcclLog, host: HostNetwork) -> tuple[Hca, ...]:
    """The devices of a host that its channels use; empty if the channels do not show them."""
    used = log.channels.devices_by_host.get(host.host, ())
    if not {hca.index for hca in host.hcas}.issuperset(used):
        return ()
    return tuple(hca for hca in host.hcas if hca.index in used)


def _link_layer(log: NcclLog, wanted: str) -> tuple[Verdict, str]:
    devices = used_devices(log)
    known = {name: speaks(name) for names in devices.values() for name in sorted(names)}
    alien = next((name for name, what in known.items() if what not in ("RoCE", "")), "")
    unknown = next((name for name, what in known.items() if not what), "")
    hosts = {line.host for line in log.ranks}
    unseen = sorted(hosts - set(log.channels.hosts_on_net))
    verdict, why = "error", ""
    if alien:
        verdict, why = "failed", f"{alien} is {known[alien]}"
    elif not devices:
        why = "no line 'NET/IB : Using' says whether it is InfiniBand or RoCE"
    elif wanted not in devices:
        verdict = "failed"
    elif len(devices) > 1:
        why = "devices of both link layers are in use"
    elif wanted == LAYERS["roce"] and unknown:
        why = f"{unknown} may speak iWARP, which NCCL shows as RoCE: ibv_devinfo tells"
    elif len(hosts) > 1 and unseen:
        why = f"no line shows a network channel of {unseen[0]}"
    else:
        verdict = "passed"
    return verdict, why
