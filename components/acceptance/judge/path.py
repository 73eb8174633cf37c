"""Judges the way of a probe's bytes: the class at every hop of the path, and the losses.

A probe between two idle nodes runs at full speed in the wrong class too; only the counters show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil, inf
from typing import Final, get_args

from components.acceptance.evidence import Hop, HopRole, Limits, ProbeEvidence, sends_back
from components.acceptance.judge.amount import judge_amount, sent_bytes, show_size
from components.acceptance.judge.pauses import other_pauses
from components.acceptance.judge.verdict import Finding, row
from components.core.plain_text import counted
from components.model.jobs import LossLimits

_READ = ("observed", "uncounted")
DARK: Final = "not proven: no login"
"""The state of hops whose device has no login; the other hops are still judged."""
_ROLES: Final = get_args(HopRole)
_ALWAYS: Final = ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic")
"""The hops of every way; ways over routed links between leaves have more."""
_LOSSES: Final = (
    ("discards", "packet discarded", "discards_per_tb"),
    ("out_of_sequence", "packet out of sequence", "out_of_sequence_per_tb"),
    ("retransmissions", "packet sent again", "retransmissions_per_tb"),
    ("pause_frames", "pause frame", "pauses_per_tb"),
    ("ecn_marked", "packet marked", "marks_per_tb"),
)
"""Field of `Hop`, its words, and its limit."""
_CLASS: Final = "traffic class"
_LOSS_STEP: Final = "look for congestion, a wrong class, or a bad cable at that port"
_ERROR_STEP: Final = (
    "clean or replace the cable and its transceivers, then the NIC or switch port; the limit is "
    "acceptance.limits.errors_per_port"
)


def judge_path(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per rail and direction; the first wrong hop names the fault."""
    if limits.priority is None:
        return []
    if not item.hops:
        return [_unproven(item, "all rails", "no counter was read")]
    hops = sorted(item.hops, key=lambda hop: (hop.rail, hop.direction))
    findings: list[Finding] = []
    for (rail, direction), group in groupby(hops, key=lambda hop: (hop.rail, hop.direction)):
        findings.append(_judge_direction(item, f"{rail}, {direction}", list(group), limits))
    seen = {hop.rail for hop in hops}
    findings += [
        _unproven(item, rail, "no counter was read")
        for rail in item.probe.rails
        if rail not in seen
    ]
    return findings


def judge_losses(
    item: ProbeEvidence, priority: int | None = None, losses: LossLimits | None = None
) -> list[Finding]:
    """Warnings: losses, repeats, pauses and marks within the limits, or without counters.

    `warn_pauses` reports pauses of priorities other than RoCE's.
    """
    unknown = {
        hop.place: hop.detail
        for hop in item.hops
        if hop.status in _READ and hop.role.endswith("_nic") and hop.detail
    }
    found = [each for each, fails in _lost(item, priority, losses or LossLimits()) if not fails]
    for place, why in unknown.items():
        unread = {"check": "losses", "actual": why}
        found.append(_unproven(item, place, why).model_copy(update=unread))
    return found


def fail_losses(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Fail losses, repeats, pauses and marks beyond the limits, once for each port."""
    found = [each for each, fails in _lost(item, limits.priority, limits.losses) if fails]
    at = {(each.check, each.actual.partition(" ")[2].partition(" (")[0]): each for each in found}
    return list(at.values())


def _lost(
    item: ProbeEvidence, priority: int | None, losses: LossLimits
) -> Iterator[tuple[Finding, bool]]:
    """Each loss as a finding, and whether it fails the probe."""
    least = sent_bytes(item).least
    for hop in item.hops:
        moved = max(hop.total_bytes or 0, least)
        where = f"{hop.place} ({hop.rail}, {hop.direction})"
        for name, what, limit in _LOSSES:
            count: int = getattr(hop, name) or 0
            count -= other_pauses(hop, priority) if name == "pause_frames" else 0
            per_tb: float | None = getattr(losses, limit)
            allowed = inf if per_tb is None else max(losses.per_port, per_tb * moved / 1e12)
            fails, quiet = count > allowed, 0.0
            if name == "ecn_marked":  # many to one is marked: that is how ECN works
                is_pair = item.probe.kind == "perftest"
                fails, quiet = fails and is_pair, losses.per_port if is_pair else allowed
            if count > quiet:
                most = f"{what}: at most {allowed:.0f} in {show_size(moved)}"
                expected, seen = most if fails else f"no {what}", f"{count} at {where}"
                yield row(name, item.probe.name, "failed", expected, seen, _LOSS_STEP), fails
        for name, count in hop.errors.items():
            fails = losses.errors_per_port is not None and count > losses.errors_per_port
            seen = f"{count} at {where}"
            yield row(name, item.probe.name, "failed", f"no {name}", seen, _ERROR_STEP), fails


def _judge_direction(item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits) -> Finding:
    hops.sort(key=lambda hop: _ROLES.index(hop.role))
    missing = [role for role in _ALWAYS if role not in {hop.role for hop in hops}]
    dark = [hop for hop in hops if hop.status == "no_login"]
    if len(dark) == len(hops):
        # This is unproven, and a login would not help.
        places = " -> ".join(hop.place for hop in dark)
        return row(_CLASS, item.probe.name, "skipped", _counters(where), DARK).because(places)
    hops = [hop for hop in hops if hop.status != "no_login"]
    hops = [_together(list(group)) for _, group in groupby(hops, key=lambda hop: hop.role)]
    blind = [hop for hop in hops if hop.status not in _READ]
    odd = [
        wrong
        for hop in hops
        if hop.status in _READ
        and (wrong := _wrong_class(item, where, hop, limits) or _amount(item, where, hop, limits))
    ]
    if odd:
        return next((each for each in odd if each.verdict == "failed"), odd[0])
    if blind:
        hop = blind[0]
        what = hop.status.replace("_", " ")
        return _unproven(item, where, f"{hop.place} {what}: {hop.detail}".rstrip(": "))
    if missing:
        return _unproven(item, where, f"no counter of {missing[0].replace('_', ' ')}")
    # If a system cannot count arriving bytes, the class in which they leave is the proof.
    proven = [hop for hop in hops if hop.status == "observed"]
    if not proven:
        return _unproven(item, where, f"no hop counts by class: {hops[0].place}: {hops[0].detail}")
    least = min(_share(hop, limits) for hop in proven)
    unseen = f"; {' and '.join(hop.place for hop in dark)} {DARK}" if dark else ""
    classes = f"priority {limits.priority}"
    if limits.traffic_class not in (None, limits.priority):
        classes += f", traffic class {limits.traffic_class}"
    expected = f"{where}: {classes} at {counted(len(proven), 'hop')}"
    actual = f"at least {least * 100:.0f} % of {show_size(proven[0].total_bytes or 0)}{unseen}"
    places = " -> ".join(hop.place for hop in hops)
    return row(_CLASS, item.probe.name, "passed", expected, actual).because(places)


def _together(hops: list[Hop]) -> Hop:
    """Join ports that share the traffic of one place into one hop; one unread port spoils it."""
    if len(hops) == 1:
        return hops[0]
    blind = next((hop for hop in hops if hop.status not in _READ), None)
    if blind is not None:
        return blind
    counted = [hop.total_bytes for hop in hops if hop.total_bytes is not None]
    classes: Counter[int] = Counter()
    for hop in hops:
        classes.update(hop.bytes_by_class)
    ports: dict[str, list[str]] = {}
    for hop in hops:
        ports.setdefault(hop.device, []).append(hop.interface)
    places = [f"{device} {', '.join(names)}" for device, names in ports.items()]
    device, _, rest = " and ".join(places).partition(" ")
    return hops[0].model_copy(
        update={
            "device": device,
            "interface": rest,
            "total_bytes": sum(counted) if counted else None,
            "bytes_by_class": dict(classes),
        }
    )


def _wrong_class(item: ProbeEvidence, where: str, hop: Hop, limits: Limits) -> Finding | None:
    if not hop.total_bytes or hop.status == "uncounted":
        return None
    if _share(hop, limits) >= limits.class_fraction:
        return None
    name, wanted = _class_of(hop, limits)
    others = {key: size for key, size in hop.bytes_by_class.items() if key != wanted}
    if others and max(others.values()) > 0:
        top = max(others, key=lambda key: others[key])
        found, size = f"in {name} {top}", others[top]
    else:
        size = hop.total_bytes - hop.bytes_by_class.get(wanted, 0)
        found = f"not in {name} {wanted}"
    share = size / hop.total_bytes * 100
    expected = f"{name} {wanted}"
    actual = f"{share:.0f} % of {show_size(hop.total_bytes)} {found}"
    detail = f"wrong traffic class at {hop.place}: expected {expected}, {actual}"
    wanted_there = f"{where}: {expected} at {hop.place}"
    found = row(_CLASS, item.probe.name, "failed", wanted_there, actual, _class_step(hop))
    return found.because(detail)


def _amount(item: ProbeEvidence, where: str, hop: Hop, limits: Limits) -> Finding | None:
    """Judge whether the bytes that passed fit the bytes that the probe may have sent."""
    if hop.total_bytes is None:
        return None
    sent = sent_bytes(item, back=sends_back(item.probe, hop.direction))
    mtus = [rail.rdma_mtu_bytes for rail in limits.rails if rail.name == hop.rail]
    seen = [item.perftest.mtu_bytes] if item.perftest and item.perftest.mtu_bytes else []
    # Ports between two leaves also carry the probe's other directions.
    ways = {(each.rail, each.direction) for each in item.hops if each.role == hop.role}
    most = sent.most * (1 if hop.role in _ALWAYS else len(ways))
    mtu_bytes = min((limits.rdma_mtu_bytes, *mtus, *seen))
    verdict = judge_amount(replace(sent, most=most), hop.total_bytes, mtu_bytes)
    if verdict == "passed":
        return None
    less = hop.total_bytes < max(sent.least, 1)
    why = "nothing is proven there" if less else "this cannot be judged because of other traffic"
    detail = f"{'less' if less else 'more'} than the probe can have sent: {why}"
    if verdict == "failed":
        detail = f"the probe's bytes did not pass {hop.place}"
    step = "run acceptance again while nothing else uses the rail"
    if less:
        step = "the cable plan is wrong, or the probe used another interface"
    expected = f"{where}: {sent.text} through {hop.place}"
    actual = f"{show_size(hop.total_bytes)} seen there"
    return row(_CLASS, item.probe.name, verdict, expected, actual, step).because(detail)


def _unproven(item: ProbeEvidence, where: str, why: str) -> Finding:
    step = "make every device of the path reachable and run acceptance again"
    found = row(_CLASS, item.probe.name, "error", _counters(where), "not observed", step)
    return found.because(why)


def _counters(where: str) -> str:
    return f"{where}: counters of every hop"


def _class_of(hop: Hop, limits: Limits) -> tuple[str, int]:
    if hop.role.endswith("_egress"):
        wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
        return "traffic class", wanted or 0
    return "priority", limits.priority or 0


def _share(hop: Hop, limits: Limits) -> float:
    _, wanted = _class_of(hop, limits)
    return hop.bytes_by_class.get(wanted, 0) / hop.total_bytes if hop.total_bytes else 0.0


def _class_step(hop: Hop) -> str:
    if hop.role.endswith("_egress"):
        return f"the priority to traffic class map of {hop.device} differs"
    if hop.role.endswith("_ingress"):
        why = f"the trust of {hop.place} is not L3, or its DSCP map differs"
        return f"{why}: run pulumi up to repair it"
    if hop.role == "receiver_nic":
        return "the receiving NIC does not trust DSCP: mlnx_qos --trust dscp"
    why = "the application's traffic class (NCCL_IB_TC, perftest's -T) or the NIC's trust is wrong"
    return f"{why}: compare with the plan, then mlnx_qos"


def split_shared(probes: Sequence[ProbeEvidence], limits: Limits) -> Iterator[ProbeEvidence]:
    """Split the bytes of shared ports among the probes of a round.

    A port between two leaves counts the bytes of all probes. Each probe gets the same share of them
    as of the bytes at all probes' own ports. Bytes in another class at a probe's own ports stay
    with that probe; the shared port changed the class of the rest.
    """
    sums: dict[tuple[int, str, str, str], Counter[str]] = {}
    for item in probes:
        for hop in item.hops:
            if hop.shared:
                key = (item.round, hop.device, hop.interface, hop.role)
                sums.setdefault(key, Counter()).update(_own(item, hop.direction, limits))
    for item in probes:
        hops = tuple(
            _part(hop, _own(item, hop.direction, limits), sums[key], limits)
            if (key := (item.round, hop.device, hop.interface, hop.role)) in sums and hop.shared
            else hop
            for hop in item.hops
        )
        yield item.model_copy(update={"hops": hops}) if any(h.shared for h in hops) else item


def _own(item: ProbeEvidence, direction: str, limits: Limits) -> dict[str, int]:
    """The bytes that a probe counted at a port which it used alone, and those in another class."""
    alone = [hop for hop in item.hops if hop.direction == direction and not hop.shared]
    own = next((hop for hop in alone if hop.status == "observed"), None)
    total = (own.total_bytes if own else 0) or sent_bytes(item).most
    return {"bytes": total, "stray": round(total * (1 - _share(own, limits))) if own else 0}


def _part(hop: Hop, own: Mapping[str, int], together: Mapping[str, int], limits: Limits) -> Hop:
    """The part of one probe in a hop that several crossed."""
    share = own["bytes"] / (together["bytes"] or 1)
    _, wanted = _class_of(hop, limits)
    others = {key: size for key, size in hop.bytes_by_class.items() if key != wanted}
    known = together["stray"] / (together["bytes"] or 1)
    stray = max(1 - _share(hop, limits) - known, 0.0) + own["stray"] / (own["bytes"] or 1)
    total = round((hop.total_bytes or 0) * share)
    wrong = min(round(total * stray), total) if others and total else 0
    counted = {
        name: ceil(value * share)
        for name, *_ in _LOSSES
        if (value := getattr(hop, name)) is not None
    }
    largest = max(others, key=lambda key: others[key], default=wanted)
    classes = {wanted: total - wrong, largest: wrong} if largest != wanted else {wanted: total}
    part = f"{hop.interface} (its part among {hop.shared} probes)"
    update = {
        "interface": hop.interface if limits.priority is None else part,
        "total_bytes": None if hop.total_bytes is None else total,
        "bytes_by_class": classes if hop.bytes_by_class else {},
    }
    return hop.model_copy(update=counted | update)
