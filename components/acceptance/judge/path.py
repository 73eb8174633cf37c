"""Judges where a probe's bytes went: the class at every hop of the path, and what was lost.

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
from components.acceptance.judge.verdict import Finding, Verdict
from components.core.plain_text import counted
from components.model.jobs import LossLimits

_READ = ("observed", "uncounted")
DARK: Final = "not proven: no login"
"""Of hops whose device nothing logs in to; beside them the others are judged."""
_ROLES: Final = get_args(HopRole)
_ALWAYS: Final = ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic")
"""What every way has; the others are there where two leaves are joined by routed links."""
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
    """Warnings: what was lost, sent again, paused or marked within the limits, or not counted.

    Pauses of other priorities than that of RoCE are `warn_pauses`'.
    """
    unknown = {
        hop.place: hop.detail
        for hop in item.hops
        if hop.status in _READ and hop.role.endswith("_nic") and hop.detail
    }
    found = [each for each, fails in _lost(item, priority, losses or LossLimits()) if not fails]
    unread = (_unproven(item, place, why) for place, why in unknown.items())
    return [
        *found,
        *(each.model_copy(update={"check": "losses", "actual": each.detail}) for each in unread),
    ]


def fail_losses(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """What was lost, sent again, paused or marked beyond the limits, once for each port."""
    found = [each for each, fails in _lost(item, limits.priority, limits.losses) if fails]
    at = {(each.check, each.actual.partition(" ")[2].partition(" (")[0]): each for each in found}
    return list(at.values())


def _lost(
    item: ProbeEvidence, priority: int | None, losses: LossLimits
) -> Iterator[tuple[Finding, bool]]:
    """Each loss as a finding, and whether it fails the probe."""
    least = sent_bytes(item).least
    for hop in item.hops:
        moved, where = (
            max(hop.total_bytes or 0, least),
            f"{hop.place} ({hop.rail}, {hop.direction})",
        )
        for name, what, limit in _LOSSES:
            count = _count(hop, name, priority)
            per_tb: float | None = getattr(losses, limit)
            allowed = inf if per_tb is None else max(losses.per_port, per_tb * moved / 1e12)
            fails, quiet = count > allowed, 0.0
            if name == "ecn_marked":  # many to one is marked: that is how ECN works
                is_pair = item.probe.kind == "perftest"
                fails, quiet = fails and is_pair, losses.per_port if is_pair else allowed
            if count > quiet:
                most = f"{what}: at most {allowed:.0f} in {show_size(moved)}"
                expected, seen = most if fails else f"no {what}", f"{count} at {where}"
                yield _row(item, name, "failed", expected, seen, "", _LOSS_STEP), fails
        for name, count in hop.errors.items():
            fails = losses.errors_per_port is not None and count > losses.errors_per_port
            texts = (f"no {name}", f"{count} at {where}", "", _ERROR_STEP)
            yield _row(item, name, "failed", *texts), fails


def _row(item: ProbeEvidence, check: str, verdict: Verdict, *texts: str) -> Finding:
    """A finding about a probe; `texts` are expected, actual, detail and next step."""
    expected, actual, detail, step = (*texts, "", "")[:4]
    return Finding(
        check=check, subject=item.probe.name, verdict=verdict, expected=expected, actual=actual,
        detail=detail, next_step=step,
    )  # fmt: skip


def _judge_direction(item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits) -> Finding:
    hops.sort(key=lambda hop: _ROLES.index(hop.role))
    missing = [role for role in _ALWAYS if role not in {hop.role for hop in hops}]
    dark = [hop for hop in hops if hop.status == "no_login"]
    if len(dark) == len(hops):
        return _all_dark(item, where, dark)
    hops = [hop for hop in hops if hop.status != "no_login"]
    hops = [_together(list(group)) for _, group in groupby(hops, key=lambda hop: hop.role)]
    blind = [hop for hop in hops if hop.status not in _READ]
    odd: list[Finding] = []
    for hop in hops:
        if hop.status in _READ:
            wrong = _wrong_class(item, where, hop, limits) or _amount(item, where, hop, limits)
            odd += [wrong] if wrong else []
    if odd:
        return next((each for each in odd if each.verdict == "failed"), odd[0])
    if blind:
        hop = blind[0]
        what = hop.status.replace("_", " ")
        return _unproven(item, where, f"{hop.place} {what}: {hop.detail}".rstrip(": "))
    if missing:
        return _unproven(item, where, f"no counter of {missing[0].replace('_', ' ')}")
    # What a system cannot count proves nothing; the class that the bytes leave it in does.
    proven = [hop for hop in hops if hop.status == "observed"]
    if not proven:
        return _unproven(item, where, f"no hop counts by class: {hops[0].place}: {hops[0].detail}")
    least = min(_share(hop, limits) for hop in proven)
    unseen = f"; {' and '.join(hop.place for hop in dark)} {DARK}" if dark else ""
    expected = f"{where}: {_classes(limits)} at {counted(len(proven), 'hop')}"
    actual = f"at least {least * 100:.0f} % of {show_size(proven[0].total_bytes or 0)}{unseen}"
    places = " -> ".join(hop.place for hop in hops)
    return _row(item, _CLASS, "passed", expected, actual, places)


def _all_dark(item: ProbeEvidence, where: str, dark: list[Hop]) -> Finding:
    """No hop of the way can be read: that is no proof, and nothing that a login would mend."""
    places = " -> ".join(hop.place for hop in dark)
    dark_is = {"verdict": "skipped", "actual": DARK, "next_step": ""}
    return _unproven(item, where, places).model_copy(update=dark_is)


def _together(hops: list[Hop]) -> Hop:
    """Ports that share what passes one place of the way, as one hop; a blind one makes it blind."""
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
        found = f"in {name} {top}"
        size = others[top]
    else:
        size = hop.total_bytes - hop.bytes_by_class.get(wanted, 0)
        found = f"not in {name} {wanted}"
    share = size / hop.total_bytes * 100
    expected, actual = f"{name} {wanted}", f"{share:.0f} % of {show_size(hop.total_bytes)} {found}"
    detail = f"wrong traffic class at {hop.place}: expected {expected}, {actual}"
    wanted_there = f"{where}: {expected} at {hop.place}"
    return _row(item, _CLASS, "failed", wanted_there, actual, detail, _class_step(hop))


def _amount(item: ProbeEvidence, where: str, hop: Hop, limits: Limits) -> Finding | None:
    """Did as much pass as the probe may have sent?"""
    if hop.total_bytes is None:
        return None
    sent = sent_bytes(item, back=sends_back(item.probe, hop.direction))
    mtus = [rail.rdma_mtu_bytes for rail in limits.rails if rail.name == hop.rail]
    seen = [item.perftest.mtu_bytes] if item.perftest and item.perftest.mtu_bytes else []
    # Ports between two leaves carry the other ways of the probe too.
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
    return _row(item, _CLASS, verdict, expected, actual, detail, step)


def _unproven(item: ProbeEvidence, where: str, why: str) -> Finding:
    step = "make every device of the path reachable and run acceptance again"
    return _row(item, _CLASS, "error", f"{where}: counters of every hop", "not observed", why, step)


def _class_of(hop: Hop, limits: Limits) -> tuple[str, int]:
    if hop.role.endswith("_egress"):
        wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
        return "traffic class", wanted or 0
    return "priority", limits.priority or 0


def _share(hop: Hop, limits: Limits) -> float:
    _, wanted = _class_of(hop, limits)
    return hop.bytes_by_class.get(wanted, 0) / hop.total_bytes if hop.total_bytes else 0.0


def _classes(limits: Limits) -> str:
    if limits.traffic_class in (None, limits.priority):
        return f"priority {limits.priority}"
    return f"priority {limits.priority}, traffic class {limits.traffic_class}"


def _class_step(hop: Hop) -> str:
    if hop.role.endswith("_egress"):
        return f"the priority to traffic class map of {hop.device} differs"
    if hop.role.endswith("_ingress"):
        return (
            f"the trust of {hop.place} is not L3, or its DSCP map differs: run pulumi up to "
            "repair it"
        )
    return {
        "sender_nic": "the application's traffic class (NCCL_IB_TC, perftest's -T) or the NIC's "
        "trust is wrong: compare with the plan, then mlnx_qos",
        "receiver_nic": "the receiving NIC does not trust DSCP: mlnx_qos --trust dscp",
    }[hop.role]


def _count(hop: Hop, name: str, priority: int | None) -> int:
    values = {
        "discards": hop.discards,
        "out_of_sequence": hop.out_of_sequence,
        "retransmissions": hop.retransmissions,
        "pause_frames": (hop.pause_frames or 0) - other_pauses(hop, priority),
        "ecn_marked": hop.ecn_marked,
    }
    return values[name] or 0


def split_shared(probes: Sequence[ProbeEvidence], limits: Limits) -> Iterator[ProbeEvidence]:
    """Give each probe of a round its own part of what the probes counted together.

    A port between two leaves counted the bytes of all. Their sum is held against what all of them
    counted at their own ports, and each gets the same share of that sum as of those. Bytes in
    another class that a probe shows at its own ports are its own; the rest was lost by the place.
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
    """What a probe counted where it was alone, and what of it was in another class."""
    own = next(
        (
            hop
            for hop in item.hops
            if hop.direction == direction and not hop.shared and hop.status == "observed"
        ),
        None,
    )
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
        for name in ("discards", "out_of_sequence", "retransmissions", "pause_frames", "ecn_marked")
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
