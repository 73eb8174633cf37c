"""Findings about a parsed perftest log; used for evidence and for any log a user hands in."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_network
from itertools import pairwise
from typing import Final, Literal

from components.acceptance.evidence import RailLimit
from components.acceptance.judge import verdict as verdicts
from components.acceptance.judge.verdict import Finding, first_rule, row, verdict_for
from components.acceptance.logs.log_model import PerftestLog
from components.core.plain_text import counted
from components.core.record import record, replace

PerftestLink = Literal["ib", "roce"]
LINK_TYPES: Final = {"ib": "IB", "roce": "Ethernet"}
_STEP: Final = 2
_LAST: Final = 2**23
"""`-a` goes from 2 bytes to 8 MiB, each size twice the one before (perftest, src/write_bw.c)."""
_OWN_SCAN: Final = 64
"""A table that begins here or above is a user's scan of sizes (a choice): no `-a` begins there, and
one that lost its first rows begins at 4 or a little above."""
_RDMA: Final = ("RC", "UC", "UD", "XRC", "DC")
"""Connections of InfiniBand and RoCE; perftest also has RawEth (packets without RDMA) and SRD."""
_NEVER_RAW: Final = ("RDMA_Write", "RDMA_Read", "Atomic", "RDMA_Atomic")
"""Titles that a test of raw Ethernet cannot have: it is called Send."""
_ONE_PACKET: Final = 4096
"""The largest RDMA MTU: without an MTU in the log, a message up to this length is one packet."""


def judge_perftest_completeness(log: PerftestLog) -> Finding:
    """Is there a whole table with readable rows, and with every size between its ends?"""
    still = any(each.average_gbit_s == 0 and not each.rate_mpps for each in log.rows)
    no_clock = "no rate: perftest could not measure the processor's clock"
    sizes = sorted({each.size_bytes for each in (*log.rows, *log.latency)})
    # Neighbours with a size missing between them, or a missing end of `-a`.
    gaps = [pair for pair in pairwise(sizes) if pair[1] != _STEP * pair[0]]
    between = "".join(f"from {one} B to {other} B" for one, other in gaps[:1])
    last = min(_LAST, log.mtu_bytes or _LAST) if log.connection_type == "UD" else _LAST
    differs = "".join(log.contradictions[:1])
    is_cut = len(sizes) > 1 and (_STEP < sizes[0] < _OWN_SCAN or sizes[-1] < last)
    first = f"the first: {''.join(log.bad_rows[:1])}"
    ends = f"{min(sizes, default=0)} B to {max(sizes, default=0)} B, and -a goes from {_STEP} B"
    verdict, (actual, detail) = first_rule(
        (log.clock_unknown and (still or log.bad_rows), "error", (no_clock, "")),
        (log.bad_rows, "error", (f"{len(log.bad_rows)} unreadable rows", first)),
        (not sizes, "error", ("no result row", "")),
        (not log.ended, "error", ("cut off: the rule under the table is missing", "")),
        (differs, "error", (f"the two ends differ: {differs}", "")),
        (gaps, "error", (f"rows are missing: {between}", "")),
        (is_cut, "error", (f"rows are missing: {ends} to {last} B", "")),
        (still, "failed", ("a row in which no message arrived", "")),
        (True, "passed", (counted(len(log.rows) or len(log.latency), "row"), "; ".join(log.notes))),
    )
    check = "perftest without a clock" if log.clock_unknown else "perftest completeness"
    return row(check, verdict, actual, detail)


def judge_gid(log: PerftestLog, rail: RailLimit | None = None) -> Finding:
    """Require each end's own GID over Ethernet; on a planned rail, one of the rail's addresses."""
    if log.link_type != "Ethernet" or not log.gids:
        return row("gid unseen", "skipped", "not shown")
    verdict, actual, step, foreign = "failed", log.gids[0], "", ""
    networks = [ip_network(each) for each in rail.networks] if rail else []
    for gid in log.gids if networks else ():
        # perftest prints the 16 bytes of an address as decimal numbers.
        parts = gid.split(":")
        values = [int(part, 10 if all(map(str.isdecimal, parts)) else 16) for part in parts]
        found = IPv6Address(bytes(values)) if max(values) < 256 else None  # noqa: PLR2004 - a byte
        four = found.ipv4_mapped if found else None
        if four is None or not any(four in network for network in networks):
            what = "link-local" if found and found.is_link_local else "of another network"
            what += f"; the rail has {', '.join(map(str, networks))}"
            foreign = f"{four or found or gid}, {what}"
            break
    if any(not gid.strip("0:") for gid in log.gids):
        actual = "a GID of zeros"
        step = "the interface lacks an address on that rail, or -x is wrong"
    elif len(log.gids) > 1 and len({*log.gids}) == 1:
        # Without a plan the user may have wanted it: it tests a card, not a cable.
        verdict = "failed" if rail else "error"
        actual += " at both ends: a port that sends to itself, over no cable"
        step = "run the server on another host, and call it by its address on that rail"
    elif foreign:
        actual, step = foreign, "take -x from the GID of the address on that rail, RoCE v2"
    else:
        verdict = "passed"
    of = f" of {rail.name}" if rail and rail.networks else ""
    return row("gid", verdict, actual, of=of, step=step)


def judge_link(log: PerftestLog, expect: PerftestLink) -> Finding:
    """Judge whether it is InfiniBand or RoCE, as expected; iWARP shows an Ethernet link too."""
    wanted, seen, transport = LINK_TYPES[expect], log.link_type, log.transport_type
    shown = log.connection_type or log.test.startswith(_NEVER_RAW)
    verdict, actual, detail = "failed", log.connection_type, ""
    if not seen:
        verdict, actual = "error", "not shown"
    elif log.connection_type == "SRD":
        detail = "Amazon's EFA, whose link type is printed as IB"
    elif log.connection_type not in ("", *_RDMA):
        detail = "packets of raw Ethernet, or a connection without RDMA"
    elif transport not in ("IB", ""):
        actual = {"IW": "iWARP"}.get(transport, transport)
        detail = "the transport is neither InfiniBand nor RoCE"
    elif seen != wanted:
        actual = seen
    else:
        doubts = {
            "no line 'Transport type' says that it is not iWARP": not transport,
            "a port lacks a LID: --force-link shows Ethernet as IB, and ibv_devinfo tells": (
                log.has_no_lid and not log.gids and wanted == LINK_TYPES["ib"]
            ),
            "no line 'Connection type' says that it is not raw Ethernet": not shown,
        }
        actual, detail = seen, next((text for text, holds in doubts.items() if holds), "")
        verdict = "error" if detail else "passed"
    return row("link", verdict, actual, detail, wanted=wanted)


def judge_average(log: PerftestLog, floor_gbit_s: float, origin: str) -> Finding:
    """Judge the average bandwidth of the largest size against a floor.

    The peak is not used, because duration mode does not measure it. If neither a title nor a call
    names the test, the number may be the sum of both directions, and half of it must reach the
    floor.
    """
    largest, why = log.largest, f"floor: {origin}"
    if largest is None:
        return row("average unseen", "error", "no row with a bandwidth", why, floor=floor_gbit_s)
    average = largest.average_gbit_s / (2 if log.bidirectional else 1)
    each = " each way" if log.bidirectional else ""
    check, verdict = "average", verdict_for(average >= floor_gbit_s)
    if not (log.test or log.call) and average / 2 < floor_gbit_s <= average:
        check, verdict = "average of a test without a name", "error"
        each = " one way or both together"
    mtu = f", MTU {log.mtu_bytes}" if log.mtu_bytes else ""
    actual = f"{average:.2f} Gb/s{each} at {largest.size_bytes} B{mtu}"
    return row(check, verdict, actual, why, floor=floor_gbit_s)


def _judge_times(log: PerftestLog, asked: PerftestAsked) -> Iterator[Finding]:
    if asked.most_us:
        least = min((each.size_bytes for each in log.latency), default=0)
        times = [each.typical_us for each in log.latency if each.size_bytes == least]
        actual = f"{max(times):.2f} us at {least} B" if times else "no row with a latency"
        verdict = verdict_for(max(times) <= asked.most_us) if times else "error"
        yield row("latency", verdict, actual, most=asked.most_us)
    if not asked.most_tail_us:
        return
    # All sizes that fit one packet count: a retransmission or a pause can hit each of them.
    packet = log.mtu_bytes or _ONE_PACKET
    small = [each for each in log.latency if each.size_bytes <= packet] or [*log.latency[:1]]
    tails = [(each.tail_us, each) for each in small if each.tail_us is not None]
    verdict, actual = "error", "no percentile" if small else "no row with a latency"
    check = "latency tail unseen"
    if small and len(tails) == len(small):
        tail, worst = max(tails, key=lambda each: each[0])
        check, verdict = "latency tail", verdict_for(tail <= asked.most_tail_us)
        actual = f"{tail:.2f} us at {worst.size_bytes} B, typical {worst.typical_us:.2f} us"
    yield row(check, verdict, actual, most=asked.most_tail_us)


@record
class PerftestAsked:
    """The things that a log of perftest must show; a field that is None demands nothing.

    The floor is the least average of the largest size, one way, in Gb/s of 10^9 bits; `most_us` the
    highest median latency of the smallest size; `most_tail_us` that of 99.9 % of small messages.
    """

    link: PerftestLink | None = None
    floor_gbit_s: float | None = None
    floor_origin: str = "--min-gbit"
    mtu_bytes: int | None = None
    most_us: float | None = None
    most_tail_us: float | None = None
    rail: RailLimit | None = None


def judge_perftest_run(log: PerftestLog, asked: PerftestAsked) -> list[Finding]:
    """The findings of one run: if it failed, the reason; if it is incomplete, only that."""
    failure = verdicts.find_failure(log.failures)
    if failure is not None:
        return [failure]
    completeness = judge_perftest_completeness(log)
    if completeness.verdict == "error":
        return [completeness]
    rail, found = asked.rail, [completeness]
    found += [judge_link(log, asked.link)] if asked.link else []
    found.append(judge_gid(log, rail))
    # In a pod with a VF its name proves nothing more. If two ports form one device, the kernel
    # calls it `mlx5_bond_0` (mlx5_ib, main.c).
    bond = rail and "bond" in log.device and log.device not in rail.devices
    if rail and log.device and (bond or rail.devices):
        actual = f"{log.device}, a bond of ports" if bond else log.device
        verdict = verdict_for(log.device in rail.devices)
        values = {"rail": rail.name, "devices": ", ".join(rail.devices) or "one port"}
        found.append(row("bond" if bond else "device", verdict, actual, **values))
    if asked.mtu_bytes is not None:
        seen = log.mtu_bytes
        verdict = "error" if seen is None else verdict_for(seen == asked.mtu_bytes)
        actual = "not shown" if seen is None else str(seen)
        found.append(row("mtu", verdict, actual, mtu=asked.mtu_bytes))
    if asked.floor_gbit_s is not None:
        found.append(judge_average(log, asked.floor_gbit_s, asked.floor_origin))
    rate = rail.line_rate_gbit_s * (2 if log.bidirectional else 1) if rail else 0.0
    most = max((each.average_gbit_s for each in log.rows), default=0.0)
    if rail and rate and most > rate:  # the data took another way
        found.append(row("line rate", "failed", f"{most:.2f} Gb/s", rate=rate, rail=rail.name))
    if ports := log.largest.ports_gbit_s if log.largest else ():
        shown = ", ".join(f"port {n} {each:.2f} Gb/s" for n, each in enumerate(ports, 1))
        right = verdict_for(min(ports) >= verdicts.SLOW_SIBLING * max(ports) > 0)
        found.append(row("ports", right, shown, share=verdicts.SLOW_SIBLING))
    return [*found, *_judge_times(log, asked)]


def judge_perftest_runs(log: PerftestLog, subject: str, asked: PerftestAsked) -> list[Finding]:
    """The findings of every run, each under its own name; bandwidths and latencies apart."""
    runs = log.runs
    both = any(run.rows for run in runs) and any(run.latency for run in runs)
    of_rate = replace(asked, most_us=None, most_tail_us=None) if both else asked
    of_time = replace(asked, floor_gbit_s=None) if both else asked
    return [
        found.about(name)
        for name, run in verdicts.name_runs(runs, subject)
        for found in judge_perftest_run(run, of_time if run.latency else of_rate)
    ]
