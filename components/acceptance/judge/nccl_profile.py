"""Findings about what NCCL says it uses: its release, its network, topology file and adapters.

They are the points that Crusoe's article names for a log of a good run
(docs/explanation/crusoe.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from components.acceptance.judge.nccl_findings import judged_rows, show_bytes
from components.acceptance.judge.nccl_ways import in_use, way_of
from components.acceptance.judge.verdict import Finding, Verdict, row, verdict_for
from components.acceptance.logs.log_model import HostNetwork, NcclLog

_RELEASE = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Adapters:
    """The InfiniBand adapters that every host must use."""

    count: int
    names: tuple[str, ...] = ()
    """Names that must be among them; empty for any."""


def judge_version(log: NcclLog, subject: str, least: str) -> Finding:
    """Is NCCL new enough, and of one release on every host?"""
    shown = sorted(
        {each.partition("+")[0] for each in (log.nccl_version, *log.other_versions)} - {""}
    )
    verdict: Verdict = "error"
    if shown and not log.is_rccl:
        new = all(_release(each) >= _release(least) for each in shown)
        verdict = verdict_for(new and len(shown) == 1)
    actual = " and ".join(shown) if len(shown) > 1 else log.nccl_version or "not shown"
    look = (
        "compare the images of the hosts" if len(shown) > 1 else "take an image with a newer NCCL"
    )
    return row("nccl version", subject, verdict, f"NCCL {least} or newer", actual, look)


def judge_network(log: NcclLog, subject: str) -> Finding:
    """Does every rank use NCCL's own InfiniBand transport or the plugin of HPC-X, all the same?"""
    names = sorted(log.networks)
    verdict: Verdict = "error"
    if names:
        verdict = verdict_for(len(names) == 1 and way_of(names[0], log.providers) == "verbs")
    actual = ", ".join(f"{name} ({log.networks[name]})" for name in names) or "not shown"
    look = "compare the plugins of the hosts (NCCL_NET, NCCL_NET_PLUGIN), and look at the HCAs"
    return row("network", subject, verdict, "network IB or IBext on every rank", actual, look)


def judge_topology(log: NcclLog, subject: str, path: str) -> Finding:
    """Did NCCL get the topology file, and could it read it?"""
    seen = ", ".join(log.topology_files) or "not shown"
    right = log.topology_files == (path,)
    if log.topology_unread:
        seen, right = f"{log.topology_unread[0]} could not be opened", False
    look = "the file is not on the node, not mounted, or the variable does not reach all ranks"
    wanted = f"NCCL_TOPO_FILE {path}"
    return row("topology file", subject, verdict_for(right), wanted, seen, look)


def judge_hcas(log: NcclLog, subject: str, wanted: Adapters) -> Finding:
    """Do the channels of every host use the planned adapters, with relaxed ordering?"""
    problems, unseen = list[str](), list[str]()
    for host in log.hosts:
        used = in_use(log, host)
        seen = host.model_copy(update={"hcas": used}) if used else host
        problems += [text] if (text := _adapter_problem(seen, wanted)) else []
        unseen += [host.host or "a host"] if not used and not log.in_document else []
    verdict: Verdict = verdict_for(not problems) if log.hosts else "error"
    if unseen and verdict == "passed":
        verdict, problems = "error", [f"no channel line shows the adapters of {unseen[0]}"]
    names = f" with {', '.join(wanted.names)}" if wanted.names else ""
    good = f"{wanted.count} on each of {len(log.hosts)} hosts: " + _names(log.hosts)
    expected = f"{wanted.count} InfiniBand adapters{names} and [RO] on every host"
    actual = "; ".join(problems) or (good if log.hosts else "not shown")
    look = "look at ibstat on that host: an adapter is missing, down, or of a lower rate"
    return row("hcas", subject, verdict, expected, actual, look)


def judge_pace(log: NcclLog, subject: str, warn_gb_s: float) -> Finding | None:
    """A warning when a large row is above the floor and below what healthy systems reach."""
    rows, basis = judged_rows(log)
    slow = [each for each in rows if each.worst_busbw_gb_s < warn_gb_s]
    if not slow:
        return None
    worst = min(slow, key=lambda each: each.worst_busbw_gb_s)
    expected = f"busbw >= {warn_gb_s:g} GB/s, as healthy systems reach"
    actual = f"{worst.worst_busbw_gb_s:.2f} GB/s at {show_bytes(worst.size_bytes)}"
    look = "compare the adapters' rates, and run again when the fabric is idle"
    return row("pace", subject, "failed", expected, actual, look).because(basis)


def _adapter_problem(host: HostNetwork, wanted: Adapters) -> str:
    where = host.host or "a host"
    layers = {hca.link_layer for hca in host.hcas}
    names = {hca.device for hca in host.hcas}
    missing = [name for name in wanted.names if name not in names]
    if len(host.hcas) != wanted.count:
        return f"{len(host.hcas)} on {where} ({', '.join(sorted(names))})"
    if missing:
        return f"{', '.join(missing)} is not used on {where}"
    if layers != {"IB"}:
        return f"{' and '.join(sorted(layers))} on {where}"
    return "" if host.relaxed_ordering else f"no relaxed ordering on {where}"


def _names(hosts: Iterable[HostNetwork]) -> str:
    lists = {", ".join(hca.device for hca in host.hcas) for host in hosts}
    return " | ".join(sorted(lists))


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _RELEASE.findall(text.partition("+")[0]))
