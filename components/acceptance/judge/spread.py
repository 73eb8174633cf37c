"""Judges whether each link between two leaves carried a share of a test of many connections.

One connection takes one link, and the sum over all links is right whichever took it. Of many, a
link that got none has a hash that does not tell them apart, or a broken path behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from components.acceptance.evidence import Hop, ProbeEvidence
from components.acceptance.flows import is_telling
from components.acceptance.judge.amount import show_size
from components.acceptance.judge.verdict import Finding

_IDLE_SHARE: Final = 0.01
"""Of an even share: less is what else is on a link, such as BGP."""
_STEP: Final = (
    "look at what the switch hashes over (the UDP source port tells RoCE's connections apart), and"
    " at the routes of the switch at the other end"
)


def warn_spread(item: ProbeEvidence) -> list[Finding]:
    """Warnings: the links that carried nothing of a test of many connections."""
    return [] if item.outcome != "completed" else [*_warnings(item)]


def _warnings(item: ProbeEvidence) -> Iterator[Finding]:
    lost = {(seen.device, seen.where) for seen in item.routing if seen.kind == "lost"}
    uplinks = [
        hop
        for hop in item.hops
        if hop.role == "uplink_egress" and (hop.device, f"port {hop.interface}") not in lost
    ]
    for (rail, direction), group in groupby(uplinks, key=lambda hop: (hop.rail, hop.direction)):
        hops = list(group)
        seen = [hop for hop in hops if hop.status == "observed" and hop.total_bytes is not None]
        if len(seen) == len(hops) and is_telling(item.probe.flows, len(hops)):
            yield from _idle(item, f"{rail}, {direction}", hops)


def _idle(item: ProbeEvidence, where: str, hops: list[Hop]) -> Iterator[Finding]:
    total = sum(hop.total_bytes or 0 for hop in hops)
    idle = [hop for hop in hops if (hop.total_bytes or 0) < total / len(hops) * _IDLE_SHARE]
    for hop in idle:
        flows = item.probe.flows
        yield Finding(
            check="spread",
            subject=item.probe.name,
            verdict="failed",
            expected=f"{where}: a share of {flows} connections on each of {len(hops)} links",
            actual=f"{show_size(hop.total_bytes or 0)} of {show_size(total)} at {hop.place}",
            detail=f"{hop.place} carried none of {flows} connections, though its session is up",
            next_step=_STEP,
        )
