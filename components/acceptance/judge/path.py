"""Judges the way of a probe's bytes: their number, the class at every hop, losses and pauses.

A probe between two idle nodes runs at full speed in the wrong class too; only the counters show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import ceil, inf
from typing import Final, get_args

from components.acceptance.evidence import Hop, HopRole, Limits, ProbeEvidence, sends_back
from components.acceptance.judge.verdict import MEASURES, Finding, Verdict, row
from components.acceptance.logs.nccl_lines import bus_factor
from components.core.plain_text import counted
from components.core.record import record, replace
from components.model.jobs import LossLimits
from components.model.units import LARGEST_RDMA_MTU

_LEAST_SHARE_SEEN: Final = 0.9
"""Of the bytes that were sent by the log: counters read seconds apart still include all of them."""
_ABSENT: Final = 0.1
"""Below this share of the least amount the probe did not use the port, whatever its algorithm."""
HEADER_BYTES: Final = 102
"""Bytes of a RoCE v2 packet besides its payload: Ethernet 14, VLAN 4, IPv6 40, UDP 8, BTH 12, RETH
16, ICRC 4, FCS 4 (InfiniBand Architecture 1.4, annex A17). On InfiniBand it is less."""
_LEAST_IN_CLASS: Final = 0.95
"""Least share of a probe's bytes in the planned class: the rest is ARP, ping, management."""
_OTHERS: Final = 0.01
"""Share that ARP, ping, LLDP and the connection of the probe itself may add (a choice)."""
_UNTIMED_RUNS: Final = 6
"""Runs of a size that nccl-tests does not time: 5 to warm up by default until 2.17, fewer since,
and 1 to check the values (nccl-tests a0b82b2, src/common.cu)."""
_FLAGS: Final = 128 / 120
"""NCCL's protocol LL128 sends 8 bytes of flags with each 120 of data (NCCL 2.30.7, device.h)."""
_IN_MARGINS: Final = 2
"""`-D` of perftest leaves a quarter of the time at each end out of its table (its default)."""
_SCAN_TRIALS: Final = 50
_SCAN_WARMUPS: Final = 5
"""Defaults of DeepSpeed's benchmarks (DeepSpeedExamples, benchmarks/communication)."""
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
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
_WRONG_CLASS: Final = (
    "wrong class at egress",
    "wrong class at ingress",
    "wrong class at receiver_nic",
    "wrong class at sender_nic",
)
"""The checks of a hop's class, by the end of its role."""


@record
class Sent:
    """The fewest and the most bytes that may pass one rail in one direction."""

    least: int
    most: int
    is_certain: bool
    """The log gives the exact number; else both are bounds over all algorithms."""

    @property
    def text(self) -> str:
        """The amount, for people."""
        return show_size(self.least) if self.is_certain else f"at least {show_size(self.least)}"


def sent_bytes(item: ProbeEvidence, *, back: bool = False) -> Sent:
    """The payload that a probe sends over one rail in one direction, by its own log.

    A perftest prints the exact number. A collective sends an amount that depends on the algorithm:
    if its log names none, it is between that of the thriftiest and that of the most wasteful one.
    On InfiniBand it is the sum over all adapters of a worker. A training benchmark does not say how
    much it sends: 0. `back` asks for the bytes from the server of several perftests to the client:
    those of the read tests.
    """
    if item.perftest is not None:
        rows = item.perftest.rows
        if item.probe.tools[1:]:
            runs = (run for run in item.perftest.runs if ("Read" in run.test) == back)
            rows = tuple(row for run in runs for row in run.rows)
        exact = sum(row.size_bytes * row.iterations for row in rows)
        if " -D " in f"{item.command} ":
            return Sent(exact, exact * _IN_MARGINS, is_certain=False)
        # A message ends with a packet that may be nearly empty.
        short = sum(row.iterations for row in rows) * HEADER_BYTES
        return Sent(exact, exact + short, is_certain=True)
    if (scan := item.deepspeed) is not None:
        message = sum(row.size_bytes for row in scan.rows) * _SCAN_TRIALS
        extra = 1 + _SCAN_WARMUPS / _SCAN_TRIALS
        return _of_messages(item, scan.collective, message, extra, max(scan.devices, 1))
    log = item.nccl
    if item.probe.kind != "nccl" or log is None or not log.iterations or not log.ranks:
        return Sent(0, 0, is_certain=False)
    ranks = len({line.rank for line in log.ranks})
    name = log.collective or item.probe.collective
    extra = 1 + _UNTIMED_RUNS / log.iterations
    message = sum((row.size_bytes or 0) * len(row.halves) for row in log.rows) * log.iterations
    return _of_messages(item, name, message, extra, ranks)


def claimed_s(item: ProbeEvidence) -> float:
    """The seconds that the rows of a log took, by their own numbers, without warm-up runs."""
    sent = sum(
        row.size_bytes * row.iterations * 8 / (row.average_gbit_s * 1e9)
        for run in (item.perftest.runs if item.perftest else ())
        for row in run.rows
        if row.average_gbit_s
    )
    halves = [half for row in (item.nccl.rows if item.nccl else ()) for half in row.halves]
    runs = (item.nccl.iterations if item.nccl else None) or 0
    return sent + sum(half.time_us for half in halves) * runs / 1e6


def judge_amount(sent: Sent, seen: int, mtu_bytes: int = LARGEST_RDMA_MTU) -> Verdict:
    """Judge an amount of bytes; uncertain bounds prove only absence, no other fault.

    A packet of `mtu_bytes` has headers and at most one acknowledgement. More: others used the port.
    """
    if seen < max(sent.least * _ABSENT, 1):
        return "failed"
    if seen < sent.least * _LEAST_SHARE_SEEN:
        return "failed" if sent.is_certain else "error"
    most = sent.most * (1 + 2 * HEADER_BYTES / mtu_bytes + _OTHERS)
    return "error" if 0 < most < seen else "passed"


def show_size(count: int) -> str:
    """A number of bytes in decimal units, as counters and line rates are."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _of_messages(item: ProbeEvidence, program: str, message: int, extra: float, ranks: int) -> Sent:
    """The bytes that cross the boundary of a host in each direction on one rail."""
    here = ranks / max(len(item.probe.nodes), 1)
    name = program.partition("_perf")[0]
    if name.startswith(("alltoall", "all_to_all")):
        # Every rank sends its part to each rank of other hosts, with any algorithm.
        least = most = here * (ranks - here) / ranks
    elif item.nccl is not None and item.nccl.algorithms == ("RING",):
        least = most = bus_factor(name, ranks)
    else:
        # An all-reduce sends all of its data once up or down some tree; a gathering, at least what
        # the host itself has. A double tree sends it twice in places, as a ring nearly does.
        least, most = (1.0 if name == "all_reduce" else here / ranks), 2.0
    part = message / max(len(item.probe.rails), 1)
    return Sent(round(part * least), round(part * most * extra * _FLAGS), is_certain=least == most)


def judge_storms(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding for each port whose watchdog fired in the class of RoCE during the probe.

    A lossless class pauses under congestion, which fails no fast probe. If the watchdog finds a
    queue stuck, it drops the packets in it, unless it only reports.
    """
    wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
    if wanted is None:
        return []
    drop = "with the action drop, what waits there is lost"
    return [
        row("pfc watchdog", "failed", f"the watchdog fired {_times(count)}",
            f"{place} was paused without end in traffic class {wanted}; {drop}",
            number=wanted, place=place)
        for place, count in _places(item, lambda hop: hop.storms.get(wanted, 0)).items()
    ]  # fmt: skip


def warn_pauses(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Warnings: pauses in other priorities than that of RoCE."""
    if limits.priority is None:
        return []
    return [
        row("pauses of another class", "failed", f"{count} in priority {number} at {place}",
            f"another class pauses at {place}, and holds up what shares the port",
            number=limits.priority)
        for number in range(8) if number != limits.priority
        for place, count in _places(item, partial(_paused, number)).items()
    ]  # fmt: skip


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


def judge_path(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per rail and direction; the first wrong hop names the fault."""
    if limits.priority is None:
        return []
    if not item.hops:
        return [_unread("all rails", "no counter was read")]
    hops = sorted(item.hops, key=lambda hop: (hop.rail, hop.direction))
    seen = {hop.rail for hop in hops}
    return [
        _judge_direction(item, f"{rail}, {direction}", list(group), limits)
        for (rail, direction), group in groupby(hops, key=lambda hop: (hop.rail, hop.direction))
    ] + [_unread(rail, "no counter was read") for rail in item.probe.rails if rail not in seen]


def judge_losses(
    item: ProbeEvidence, priority: int | None = None, losses: LossLimits | None = None
) -> list[Finding]:
    """Warnings: losses, repeats, pauses and marks within the limits, or without counters."""
    nics = [hop for hop in item.hops if hop.status in _READ and hop.role.endswith("_nic")]
    unknown = {hop.place: hop.detail for hop in nics if hop.detail}
    return [
        *(each for each, fails in _lost(item, priority, losses or LossLimits()) if not fails),
        *(row("losses", "error", why, why, where=place) for place, why in unknown.items()),
    ]


def fail_losses(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Fail losses, repeats, pauses and marks beyond the limits, once for each port."""
    found = (each for each, fails in _lost(item, limits.priority, limits.losses) if fails)
    at = {(each.check, each.actual.partition(" ")[2].partition(" (")[0]): each for each in found}
    return list(at.values())


def _lost(
    item: ProbeEvidence, priority: int | None, losses: LossLimits
) -> Iterator[tuple[Finding, bool]]:
    least = sent_bytes(item).least
    for hop in item.hops:
        moved = max(hop.total_bytes or 0, least)
        where = f"{hop.place} ({hop.rail}, {hop.direction})"
        for name, what, limit in _LOSSES:
            count: int = getattr(hop, name) or 0
            if name == "pause_frames" and priority is not None:
                count -= sum(_paused(number, hop) for number in range(8) if number != priority)
            per_tb: float | None = getattr(losses, limit)
            allowed = inf if per_tb is None else max(losses.per_port, per_tb * moved / 1e12)
            fails, quiet = count > allowed, 0.0
            if name == "ecn_marked":  # many to one is marked: that is how ECN works
                is_pair = item.probe.kind == "perftest"
                fails, quiet = fails and is_pair, losses.per_port if is_pair else allowed
            if count > quiet:
                most = f"{what}: at most {allowed:.0f} in {show_size(moved)}"
                wanted, seen = most if fails else f"no {what}", f"{count} at {where}"
                yield row("lost packets", "failed", seen, name=name, wanted=wanted), fails
        for name, count in hop.errors.items():
            fails = losses.errors_per_port is not None and count > losses.errors_per_port
            yield row("port errors", "failed", f"{count} at {where}", name=name), fails


def _judge_direction(item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits) -> Finding:
    hops.sort(key=lambda hop: _ROLES.index(hop.role))
    missing = [role for role in _ALWAYS if role not in {hop.role for hop in hops}]
    dark = [hop for hop in hops if hop.status == "no_login"]
    if len(dark) == len(hops):
        # This is unproven, and a login would not help.
        places = " -> ".join(hop.place for hop in dark)
        return row("dark hops", "skipped", DARK, places, where=where)
    hops = [hop for hop in hops if hop.status != "no_login"]
    hops = [_together(list(group)) for _, group in groupby(hops, key=lambda hop: hop.role)]
    blind = [hop for hop in hops if hop.status not in _READ]
    odd = [bad for hop in hops if hop.status in _READ and (bad := _fault(item, where, hop, limits))]
    if odd:
        return next((each for each in odd if each.verdict == "failed"), odd[0])
    # If a system cannot count arriving bytes, the class in which they leave is the proof.
    proven = [hop for hop in hops if hop.status == "observed"]
    why = "" if proven else f"no hop counts by class: {hops[0].place}: {hops[0].detail}"
    if missing:
        why = f"no counter of {missing[0].replace('_', ' ')}"
    if blind:
        what = f"{blind[0].place} {blind[0].status.replace('_', ' ')}"
        why = f"{what}: {blind[0].detail}".rstrip(": ")
    if why:
        return _unread(where, why)
    least = min(_share(hop, limits) for hop in proven)
    unseen = f"; {' and '.join(hop.place for hop in dark)} {DARK}" if dark else ""
    classes = f"priority {limits.priority}"
    if limits.traffic_class not in (None, limits.priority):
        classes += f", traffic class {limits.traffic_class}"
    actual = f"at least {least * 100:.0f} % of {show_size(proven[0].total_bytes or 0)}{unseen}"
    places = " -> ".join(hop.place for hop in hops)
    values = {"where": where, "classes": classes, "hops": counted(len(proven), "hop")}
    return row("traffic class", "passed", actual, places, **values)


def _together(hops: list[Hop]) -> Hop:
    """Join ports that share the traffic of one place into one hop; one unread port spoils it."""
    if len(hops) == 1:
        return hops[0]
    blind = next((hop for hop in hops if hop.status not in _READ), None)
    if blind is not None:
        return blind
    counted = [hop.total_bytes for hop in hops if hop.total_bytes is not None]
    classes: Counter[int] = Counter()
    ports: dict[str, list[str]] = {}
    for hop in hops:
        classes.update(hop.bytes_by_class)
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


def _fault(item: ProbeEvidence, where: str, hop: Hop, limits: Limits) -> Finding | None:
    """The wrong class or amount of a hop's bytes."""
    if hop.total_bytes is None:
        return None
    right = _share(hop, limits) >= _LEAST_IN_CLASS
    if hop.total_bytes and hop.status != "uncounted" and not right:
        name, wanted = _class_of(hop, limits)
        expected = f"{name} {wanted}"
        size, in_class = hop.total_bytes - hop.bytes_by_class.get(wanted, 0), f"not in {expected}"
        others = {key: n for key, n in hop.bytes_by_class.items() if key != wanted and n > 0}
        if others:
            top = max(others, key=lambda key: others[key])
            size, in_class = others[top], f"in {name} {top}"
        actual = f"{size / hop.total_bytes * 100:.0f} % of {show_size(hop.total_bytes)} {in_class}"
        why = f"wrong traffic class at {hop.place}: expected {expected}, {actual}"
        check = next(it for it in _WRONG_CLASS if hop.role.endswith(it.rpartition(" ")[2]))
        values = {"where": where, "wanted": expected, "place": hop.place, "device": hop.device}
        return row(check, "failed", actual, why, **values)
    sent = sent_bytes(item, back=sends_back(item.probe, hop.direction))
    seen = item.perftest and item.perftest.mtu_bytes
    mtu_bytes = min(limits.rdma_mtu_on([hop.rail]), seen or LARGEST_RDMA_MTU)
    # Ports between two leaves also carry the probe's other directions.
    ways = {(each.rail, each.direction) for each in item.hops if each.role == hop.role}
    most = sent.most * (1 if hop.role in _ALWAYS else len(ways))
    verdict = judge_amount(replace(sent, most=most), hop.total_bytes, mtu_bytes)
    if verdict == "passed":
        return None
    check = "bytes at a hop"
    detail = "more than the probe can have sent: this cannot be judged because of other traffic"
    if hop.total_bytes < max(sent.least, 1):
        check = "too few bytes at a hop"
        detail = "less than the probe can have sent: nothing is proven there"
    if verdict == "failed":
        detail = f"the probe's bytes did not pass {hop.place}"
    values = {"where": where, "sent": sent.text, "place": hop.place}
    return row(check, verdict, f"{show_size(hop.total_bytes)} seen there", detail, **values)


def _unread(where: str, why: str) -> Finding:
    return row("unread hops", "error", "not observed", why, where=where)


def _class_of(hop: Hop, limits: Limits) -> tuple[str, int]:
    if not hop.role.endswith("_egress"):
        return "priority", limits.priority or 0
    wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
    return "traffic class", wanted or 0


def _share(hop: Hop, limits: Limits) -> float:
    _, wanted = _class_of(hop, limits)
    return hop.bytes_by_class.get(wanted, 0) / hop.total_bytes if hop.total_bytes else 0.0


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
        hops = [*item.hops]
        for place, hop in enumerate(hops):
            if not hop.shared:
                continue
            together = sums[item.round, hop.device, hop.interface, hop.role]
            own, (_, wanted) = _own(item, hop.direction, limits), _class_of(hop, limits)
            share, known = (
                size / (together["bytes"] or 1) for size in (own["bytes"], together["stray"])
            )
            counted = {
                name: ceil(value * share)
                for name, *_ in _LOSSES
                if (value := getattr(hop, name)) is not None
            }
            total = round((hop.total_bytes or 0) * share)
            stray = max(1 - _share(hop, limits) - known, 0.0) + own["stray"] / (own["bytes"] or 1)
            others = {key: size for key, size in hop.bytes_by_class.items() if key != wanted}
            wrong = min(round(total * stray), total) if others and total else 0
            classes = {wanted: total}
            if others:
                largest = max(others, key=lambda key: others[key])
                classes = {wanted: total - wrong, largest: wrong}
            part = f"{hop.interface} (its part among {hop.shared} probes)"
            update = {
                "interface": hop.interface if limits.priority is None else part,
                "total_bytes": None if hop.total_bytes is None else total,
                "bytes_by_class": classes if hop.bytes_by_class else {},
            }
            hops[place] = hop.model_copy(update=counted | update)
        yield item.model_copy(update={"hops": tuple(hops)})


def _own(item: ProbeEvidence, direction: str, limits: Limits) -> dict[str, int]:
    """The bytes that a probe counted at a port which it used alone, and those in another class."""
    alone = [hop for hop in item.hops if hop.direction == direction and not hop.shared]
    own = next((hop for hop in alone if hop.status == "observed"), None)
    total = (own.total_bytes if own else 0) or sent_bytes(item).most
    return {"bytes": total, "stray": round(total * (1 - _share(own, limits))) if own else 0}
