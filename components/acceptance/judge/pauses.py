"""Judges PFC on the way of a probe: who was paused, in which class, and whether a queue was stuck.

A lossless class pauses under congestion: pauses in the class of RoCE explain a slow probe, but do
not fail a fast one. If the watchdog finds a queue stuck, it drops the packets in it, unless it only
reports: then the class loses packets. Pauses in another class hold up all traffic of the port.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from components.acceptance.evidence import Hop, Limits, ProbeEvidence
from components.acceptance.judge.verdict import MEASURES, Finding, row

_STUCK_STEP: Final = (
    "find who pauses that port without end, on the device behind it: "
    "show priority-flow-control counters watchdog (EOS), show pfcwd stats (SONiC), "
    "nv show interface PORT qos pfc-watchdog (Cumulus)"
)
_OTHER_STEP: Final = (
    "find the other lossless priority and turn it off: mlnx_qos on the host, "
    "show priority-flow-control (EOS), show pfc priority (SONiC), nv show interface PORT counters "
    "qos pfc-stats (Cumulus)"
)


def judge_storms(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding for each port whose watchdog fired in the class of RoCE during the probe."""
    wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
    if wanted is None:
        return []
    found: list[Finding] = []
    for place, count in _places(item, lambda hop: hop.storms.get(wanted, 0)).items():
        expected = f"traffic class {wanted} never stuck at {place}"
        actual = f"the watchdog fired {_times(count)}"
        stuck = row("pfc watchdog", item.probe.name, "failed", expected, actual, _STUCK_STEP)
        why = f"{place} was paused without end in traffic class {wanted}"
        found.append(stuck.because(f"{why}; with the action drop, what waits there is lost"))
    return found


def warn_pauses(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Warnings: pauses in other priorities than that of RoCE."""
    if limits.priority is None:
        return []
    name, expected = "pauses of another class", f"pauses in priority {limits.priority} alone"
    found: list[Finding] = []
    for number in (each for each in range(8) if each != limits.priority):
        for place, count in _places(item, partial(_paused, number)).items():
            actual = f"{count} in priority {number} at {place}"
            other = row(name, item.probe.name, "failed", expected, actual, _OTHER_STEP)
            why = f"another class pauses at {place}, and holds up what shares the port"
            found.append(other.because(why))
    return found


def name_paused(found: Finding, item: ProbeEvidence, limits: Limits) -> Finding:
    """Names the ports that were paused in the class of RoCE while a probe failed or was slow."""
    slow = found.check == "run" or found.check in MEASURES
    wanted = limits.priority
    if found.verdict != "failed" or not slow or wanted is None:
        return found
    held = _places(item, lambda hop: hop.pauses_received.get(wanted, 0))
    held_back = _places(item, lambda hop: hop.pauses_sent.get(wanted, 0))
    said = [
        *(f"{place} was paused {_times(count)}" for place, count in held.items()),
        *(f"{place} paused its neighbour {_times(count)}" for place, count in held_back.items()),
    ]
    noted = {(hop.place, name): n for hop in item.hops for name, n in hop.noted.items()}
    beside = [f"{place} counted {n} {name}" for (place, name), n in noted.items()]
    if not said and not beside:
        return found
    why = "; ".join([f"in priority {wanted} {', '.join(said)}"] * bool(said) + beside)
    return found.model_copy(update={"detail": f"{why}; {found.detail}" if found.detail else why})


def other_pauses(hop: Hop, priority: int | None) -> int:
    """PFC frames of a hop in other priorities than that of RoCE; 0 if RoCE has no priority."""
    if priority is None:
        return 0
    return sum(_paused(number, hop) for number in range(8) if number != priority)


def _places(item: ProbeEvidence, count: Callable[[Hop], int]) -> dict[str, int]:
    """The places on a probe's way that counted pauses, each once."""
    found: dict[str, int] = {}
    for hop in item.hops:
        if counted := count(hop):
            found[hop.place] = max(counted, found.get(hop.place, 0))
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _paused(number: int, hop: Hop) -> int:
    return hop.pauses_received.get(number, 0) + hop.pauses_sent.get(number, 0)
