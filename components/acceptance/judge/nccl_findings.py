"""Findings about a parsed NCCL log; used for evidence and for any log a user hands in.

Only NCCL's list of devices shows InfiniBand or RoCE. Only some lines or numbers tell NVLink from
PCIe. A way that no line shows is not proven: never a pass. Only ways.yaml decides, by the names of
networks and devices, which of them are RDMA.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, Literal, cast

from components.acceptance.judge.verdict import Finding, Verdict, first_rule, row, verdict_for
from components.acceptance.logs.log_model import Hca, HostNetwork, Measure, NcclLog, NcclRow, Sizes
from components.acceptance.logs.nccl_lines import bus_factor, families, rounding
from components.core.plain_text import counted
from components.core.templates import read_table

LARGE_BYTES: Final = 1 << 30
"""Rows from 1 GiB on show bandwidth; smaller ones show latency (16 MiB: 12 % of the plateau)."""
_ALIGNMENT_BYTES: Final = 16
"""nccl-tests rounds the part of one rank down to it (`getCollByteCount` of each collective)."""
_MOST_RANKS: Final = 65_536
"""Ranks that a log without a list may have."""
_MOST_SIZES: Final = 10_000
_LARGEST_STEP: Final = 16
"""Largest factor between the only two sizes of a log that lacks the wanted sizes: more is a gap."""
_AVERAGE_SLACK_GB_S: Final = 0.0055
"""Rows are printed with two decimals, the average with six digits."""
_RELATIVE_SLACK: Final = 5e-4
_LEAST_RATIO_GB_S: Final = 0.2
"""Below it, two decimals are too few to compare two bandwidths."""
_SPLIT = ("all_reduce", "all_gather", "reduce_scatter")
"""Collectives whose bus bandwidth is that of a ring; other algorithms may exceed it."""
_UNNAMED = 1.2
"""Times the line rate that a log may show if it names no algorithm: two hosts of 8 H100 reach 470
of 400 GB/s (nccl-tests issue 309)."""
_SLACK = 1.02
"""Times a limit by physics: clocks and the rounding of a table."""
_RELEASE = re.compile(r"\d+")
_LARGEST_OLD_ERROR = 1e-3
"""A relative error of the old column `error` beyond rounding of any float type but fp8."""
_SPIKE: Final = 1.5
_VARIES_PERCENT: Final = 5.0
"""Above either, nccl-tests' own tools/analyze_perf_json.py (2.19.6) marks a size."""
_APART: Final = 0.2
"""Deviation from the median of all processes that names one: a choice, unproven on hardware."""
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
_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bMI\d{2,3}|gfx\d")
_NVIDIA = re.compile(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|Graphics Device|\b(?:GB|GH|[ABHLPTV])\d{2,3}\b"
)


def completeness_of(log: NcclLog) -> tuple[Verdict, str, str]:
    """Whether one run is whole, what its log shows, and details.

    A log with a contradiction between its sizes, ranks and numbers was cut, mixed or edited.
    """
    if log.overlaps:
        what = "several runs began at the same time"
        return "failed", what, "the binary was built without MPI, or the launcher is not its own"
    if log.bad_rows:
        return "error", f"{len(log.bad_rows)} unreadable rows", f"the first: {log.bad_rows[0]}"
    if not log.rows:
        return "error", "no result row", "the log is cut, or the run hung or is still going on"
    rows, nranks, began = counted(len(log.rows), "row"), log.nranks or 0, log.init_complete
    large = all((row.size_bytes or 0) >= LARGE_BYTES for row in log.rows)
    checked = all(row.out_of_place.wrong is not None for row in log.rows)
    verdict, what, detail = "passed", f"{rows} and the footer", ""
    if log.program == "other":
        what = f"{counted(len(log.rows), 'result')}, {log.destroy_complete} of {began}"
        what, detail = f"{what} communicators ended", "not a log of nccl-tests"
        if 1 < began < nranks or not 0 < began <= log.destroy_complete:
            verdict, what = "error", "cut off: not all communicators ended"
            detail = "count of 'Destroy COMPLETE'"
    elif log.has_footer:
        detail = f"{began} of {nranks} ranks say that they started" if 0 < began < nranks else ""
    elif log.in_document and not log.has_preamble and large and checked:
        # A quoted table lacks start and end, but its rows count and its values were checked.
        what, detail = f"an excerpt with {rows}", "its start and end are not shown"
    else:
        verdict, what = "error", "cut off: the footer is missing"
        detail = f"{rows} before the cut"
    problem = next(_contradictions(log), None) if verdict == "passed" else None
    return ("error", *problem) if problem else (verdict, what, detail)


def _contradictions(log: NcclLog) -> Iterator[tuple[str, str]]:
    numbers = sorted(line.rank for line in log.ranks)
    listed = f"{counted(len(numbers), 'rank')} in the list"
    if numbers != list(range(len(numbers))):
        lacking = sorted(set(range(numbers[-1] + 1)) - set(numbers))
        what = f"rank {lacking[0]} is missing" if lacking else "a rank is there twice"
        yield f"{listed}, and {what}", "lines of the list were lost"
    if numbers and (log.nranks or 0) > len(numbers):
        yield f"{listed}, {log.nranks} by NCCL", "lines were lost"
    if log.program != "other":
        yield from _wrong_sizes(log)
    # Bus bandwidth over bandwidth must be the factor of the collective over these ranks.
    ranks, names = count_ranks(log), families(log.collective)
    shown = [(row, half) for row in log.rows for half in row.halves]
    if ranks is None:
        halves = [half for _, half in shown if half.algbw_gb_s >= _LEAST_RATIO_GB_S]
        least = max((_ratio(half, -1) for half in halves), default=0.0)
        most = min((_ratio(half, +1) for half in halves), default=0.0)
        if halves and not any(_fits_some_ranks(name, least, most) for name in names):
            why = "rows were changed, or are of several runs"
            yield "bus bandwidths that fit no number of ranks", why
    else:
        factors = [bus_factor(name, ranks) for name in names]
        wrong = [[each for each in shown if not _is_ratio(each[1], factor)] for factor in factors]
        if all(wrong):
            row, half = wrong[0][0]
            odd_row = f"{half.busbw_gb_s:g} of {half.algbw_gb_s:g} GB/s at {row.size_bytes} B"
            known = " or ".join(f"{each:.4g}" for each in factors)
            what = f"a bus bandwidth that contradicts its row: {odd_row}"
            yield what, f"{ranks} ranks: factor {known}"
    # The footer's average is over all rows and both halves.
    mean = sum(half.busbw_gb_s for _, half in shown) / len(shown)
    average = log.average_busbw_gb_s
    if average is not None and abs(mean - average) > _AVERAGE_SLACK_GB_S + 2e-5 * mean:
        what = f"the footer's average is {average:g} GB/s, that of the rows {mean:.5g}"
        yield what, "a row was lost, or a number was changed"


def _wrong_sizes(log: NcclLog) -> Iterator[tuple[str, str]]:
    sizes = [row.size_bytes or 0 for row in log.rows]
    slack = _ALIGNMENT_BYTES * max(count_ranks(log) or 1, *(row.parts for row in log.rows))
    if log.sizes:
        asked = [*_asked(log.sizes)]
        # Each type, operation and cycle goes through all sizes.
        for index, size in enumerate(sizes):
            wanted = asked[index % len(asked)]
            if not wanted - slack < size <= wanted:
                yield f"the row of {wanted} B is missing", f"{size} B is in its place"
        if len(sizes) % len(asked):
            wanted = asked[len(sizes) % len(asked)]
            yield f"the row of {wanted} B is missing", f"{len(sizes)} of {len(asked)} rows"
        return
    starts = [at for at, (one, other) in enumerate(pairwise(sizes), 1) if other < one]
    first = sizes[: starts[0]] if starts else sizes
    for start, end in pairwise((0, *starts, len(sizes))):
        sweep = sizes[start:end]
        if gap := _gap(sweep, slack):
            yield f"rows are missing: {gap}", "sizes grow by one step"
        ends = abs(sweep[0] - first[0]), abs(sweep[-1] - first[-1])
        if max(ends) > slack or len(sweep) != len(first):
            yield f"sizes begin again at {sweep[0]} B", "and are not those of the first time"


def _asked(sizes: Sizes) -> Iterator[int]:
    """The sizes that nccl-tests runs through (`TimeTest` of src/common.cu)."""
    factor, step = max(sizes.factor or 1, 1), sizes.step_bytes or 0
    # Too little memory lowers both ends.
    size, last = min(sizes.least_bytes, sizes.most_bytes), -1
    for _ in range(_MOST_SIZES):
        if size > sizes.most_bytes or size == last:
            return
        yield size
        last, size = size, size * factor if factor > 1 else size + step


def _gap(sizes: Sequence[int], slack: int) -> str:
    shown = [size for size in sizes if size > slack * _LARGEST_STEP] or list(sizes)
    pairs = [(one, other) for one, other in pairwise(shown) if one > 0]
    if not pairs:
        return ""
    last, largest = pairs[-1]
    factor, step = largest / last, largest - last
    if len(pairs) == 1 and factor > _LARGEST_STEP:
        return f"from {last} B to {largest} B"
    grown = [pair for pair in pairs if abs(pair[1] - pair[0] * factor) > slack * (factor + 1)]
    added = any(abs(other - one - step) > 2 * slack for one, other in pairs)
    return f"from {grown[0][0]} B to {grown[0][1]} B" if grown and added else ""


def count_ranks(log: NcclLog) -> int | None:
    """Ranks of one collective: those of the first group of the list, or by NCCL's own lines."""
    first = log.ranks[0].group if log.ranks else 0
    return sum(line.group == first for line in log.ranks) or log.nranks


def _is_ratio(half: Measure, factor: float) -> bool:
    slack = rounding(half.busbw_gb_s) + factor * rounding(half.algbw_gb_s)
    expected = half.algbw_gb_s * factor
    return abs(half.busbw_gb_s - expected) <= slack + _RELATIVE_SLACK * expected


def _ratio(half: Measure, sign: int) -> float:
    """The least or the most that the ratio of two printed bandwidths may be."""
    busbw = half.busbw_gb_s + sign * rounding(half.busbw_gb_s)
    algbw = half.algbw_gb_s - sign * rounding(half.algbw_gb_s)
    return busbw / algbw * (1 + sign * _RELATIVE_SLACK)


def _fits_some_ranks(collective: str, least: float, most: float) -> bool:
    if least > most:
        return False
    if bus_factor(collective, 2) == bus_factor(collective, 4) == 1.0:
        return least <= 1.0 <= most
    # The factor is `whole` (n-1)/n.
    whole = 2 * bus_factor(collective, 2)
    if least >= whole:
        return False
    smallest = max(2, math.ceil(whole / (whole - least) - 1e-9)) if least > 0 else 2
    return smallest <= _MOST_RANKS and whole * (smallest - 1) / smallest <= most


def judge_completeness(log: NcclLog) -> Finding:
    """Is the log whole: from its start to its footer, with all ranks and sizes?"""
    verdict, actual, detail = completeness_of(log)
    if verdict == "passed" and (len(log.ranks) or log.nranks) == 1:
        verdict, actual = "error", "a single rank, without traffic"
    return row("nccl completeness", verdict, actual, detail)


def judge_correctness(log: NcclLog, *, must: bool = False) -> Finding:
    """Did the collective compute the right values? With `must`, each row must have been checked."""
    halves = [half for each in log.rows for half in each.halves]
    wrong = sum(half.wrong or 0 for half in halves)
    errors = [half.error for half in halves if half.error is not None]
    verdict, detail = "failed", "data were corrupted"
    if log.out_of_bounds or wrong:
        actual = f"{max(log.out_of_bounds or 0, wrong)} wrong values"
    elif errors and max(errors) > _LARGEST_OLD_ERROR:
        actual = f"a relative error of {max(errors):g}"
    elif errors or any(half.wrong is not None for half in halves):
        verdict, actual = "passed", "0 wrong values"
        detail = f"checked in {counted(len(log.rows), 'row')}"
    else:
        verdict, actual = "skipped", "not checked"
        detail = "the run did not check its values" if log.rows else "no row"
    first = [each.out_of_place for each in log.rows]
    gaps = sum(each.wrong is None and each.error is None for each in first)
    if must and verdict != "failed" and (gaps or not log.rows):
        verdict, actual, detail = "error", f"{gaps} rows not checked", "run nccl-tests with -c 1"
    step = "suspect memory, cable or NIC; run again" if verdict == "failed" else ""
    return row("correctness", verdict, actual, detail, step=step)


def judge_transport(log: NcclLog, expect: Expectation | None) -> Finding:
    """Did the data take the expected transport, by the lines that prove it?"""
    channels = log.channels
    counts = {f"NET/{name}": count for name, count in sorted(channels.net.items())}
    counts |= {"P2P": channels.peer, "SHM": channels.shared_memory}
    counts |= dict.fromkeys(channels.other, 1)
    seen = [name for name, count in counts.items() if count]
    # Channel lines are the proof if there are any.
    layers = ", ".join(sorted(_used_devices(log)))
    proof = f"channel lines: {', '.join(f'{counts[name]} {name}' for name in seen)}"
    proof += f"; devices: {layers}" if layers else ""
    if not seen:
        seen = [f"NET/{name}" for name in sorted(log.networks)]
        proof = "from 'Using network' only: no channel line proves it"
    if expect is None:
        why = proof if seen else "give --expect to judge it"
        actual = f"{', '.join(seen) or 'none shown'} (not proven)"
        return row("any transport", "skipped", actual, why)
    verdict, why = judge_way(log, expect)
    sockets = "Socket" in {*log.channels.net, *log.networks}
    check = "transport over sockets" if sockets else "transport"
    check = "transport over nvlink" if expect == "nvlink" else check
    reasons = dict.fromkeys(filter(None, (why, proof if seen else "")))
    actual = ", ".join(seen) or "not shown"
    return row(check, verdict, actual, "; ".join(reasons), wanted=expect)


def judge_warnings(log: NcclLog) -> Finding | None:
    """Unknown warnings, and messages from before the run: no right run fails by them."""
    warnings = [*log.warnings, *(each.line for each in log.failures if each.is_before_run)]
    if not warnings:
        return None
    actual = f"{counted(len(warnings), 'unknown warning')}: {warnings[0]}"
    return row("warnings", "skipped", actual, "; ".join(warnings[1:4]))


def judge_gdr(log: NcclLog) -> Finding:
    """Do all network channels go straight to GPU memory?"""
    total, gdr = log.channels.net_total, log.channels.gdr
    verdict: Verdict = verdict_for(gdr == total) if total else "error"
    return row("gpudirect" if total else "gpudirect unseen", verdict, f"{gdr} of {total} channels")


def judge_busbw(log: NcclLog, floor_gb_s: float, origin: str) -> Finding:
    """Is every large row at or above a floor in GB/s of 10^9 bytes, which comes from `origin`?"""
    rows, basis = judged_rows(log)
    if not rows:
        return row("busbw unseen", "error", "no row with a bandwidth", origin, floor=floor_gb_s)
    worst, actual = _worst(rows)
    check = "busbw of one host" if len({line.host for line in log.ranks}) == 1 else "busbw"
    verdict, why = verdict_for(worst >= floor_gb_s), f"{basis}; floor: {origin}"
    return row(check, verdict, actual, why, floor=floor_gb_s)


def _worst(rows: Sequence[NcclRow]) -> tuple[float, str]:
    worst = min(rows, key=lambda each: each.worst_busbw_gb_s)
    shown = f"{worst.worst_busbw_gb_s:.2f} GB/s at {show_bytes(worst.size_bytes)}"
    return worst.worst_busbw_gb_s, shown


def judge_ceiling(log: NcclLog, rails_gb_s: float, hosts: int) -> Finding | None:
    """Is the bus bandwidth more than the rails can carry? None: it is not.

    A ring sends over the rails what busbw says. Any other algorithm may send less, but not less
    than each host must: busbw is at most (ranks - 1) / ranks * hosts / (hosts - 1) of the rails, so
    1.875 times with 2 hosts of 8 (NCCL 2.30.7, src/graph/tuning.cc:320, NVLSTree), and with
    switches that compute (CollNet) 2 * (ranks - 1) / ranks at any size.
    """
    ranks = count_ranks(log) or 0
    rows, _ = judged_rows(log)
    best = max((row.worst_busbw_gb_s for row in rows), default=0.0) / _SLACK
    if hosts < 2 or not ranks or not rails_gb_s or best <= rails_gb_s:  # noqa: PLR2004 - a pair
        return None
    once = (ranks - 1) / ranks
    in_switches = any(name.startswith("COLLNET") for name in log.algorithms)
    many = 2 if in_switches else hosts / (hosts - 1)
    most = rails_gb_s * max(1.0, once * many if log.collective.startswith(_SPLIT) else 1.0)
    named = ", ".join(log.algorithms)
    if best <= most and {*log.algorithms} - {"RING"}:
        return None
    if not named and best <= rails_gb_s * _UNNAMED:
        return None
    more = f"; {most:.2f} with {named or 'a tree'}" if most > rails_gb_s else ""
    check, verdict = "plausible bandwidth", "failed"
    why = "the bytes did not go over the planned rails alone, or the log is of another run"
    if best <= most and not named:
        check, verdict = "bandwidth of a tree", "error"
        why = "a tree sends less over the rails than busbw says, so one may be missing"
    return row(check, verdict, f"{best * _SLACK:.2f} GB/s", why, rails=rails_gb_s, more=more)


def judged_rows(log: NcclLog) -> tuple[tuple[NcclRow, ...], str]:
    """The rows that count for bandwidth, and a sentence that says which."""
    large = tuple(each for each in log.rows if (each.size_bytes or 0) >= LARGE_BYTES)
    if large:
        return large, f"the lowest of {counted(len(large), 'row')} of 1 GiB and more"
    if not log.rows:
        return (), ""
    largest = max(log.rows, key=lambda each: each.size_bytes or 0)
    return (largest,), f"no row reaches 1 GiB: the largest row, {show_bytes(largest.size_bytes)}"


def show_bytes(size: int | None) -> str:
    """A size in binary units, as nccl-tests takes it."""
    if size is None:
        return "unstated size"
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size} B"


def judge_version(log: NcclLog, least: str) -> Finding:
    """Is NCCL new enough, and of one release on every host?"""
    versions = {each.partition("+")[0] for each in (log.nccl_version, *log.other_versions)}
    shown = sorted(versions - {""})
    verdict: Verdict = "error"
    if shown and not log.is_rccl:
        oldest, *releases = (
            [*map(int, _RELEASE.findall(each))] for each in (least.partition("+")[0], *shown)
        )
        verdict = verdict_for(len(shown) == 1 and all(each >= oldest for each in releases))
    if len(shown) > 1:
        return row("nccl versions", verdict, " and ".join(shown), least=least)
    return row("nccl version", verdict, log.nccl_version or "not shown", least=least)


def judge_network(log: NcclLog) -> Finding:
    """Does every rank use NCCL's own InfiniBand transport or the plugin of HPC-X, all the same?"""
    names = sorted(log.networks)
    verdict: Verdict = "error"
    if names:
        verdict = verdict_for(len(names) == 1 and way_of(names[0], log.providers) == "verbs")
    actual = ", ".join(f"{name} ({log.networks[name]})" for name in names) or "not shown"
    return row("network", verdict, actual)


def judge_topology(log: NcclLog, path: str) -> Finding:
    """Did NCCL get the topology file, and could it read it?"""
    seen = ", ".join(log.topology_files) or "not shown"
    right = log.topology_files == (path,)
    if log.topology_unread:
        seen, right = f"{log.topology_unread[0]} could not be opened", False
    return row("topology file", verdict_for(right), seen, path=path)


def judge_hcas(log: NcclLog, count: int, wanted: Sequence[str] = ()) -> Finding:
    """Do each host's channels use so many adapters, the wanted ones, with relaxed ordering?"""
    problems, unseen, lists = list[str](), list[str](), set[str]()
    for host in log.hosts:
        used, where = _in_use(log, host), host.host or "a host"
        devices = [hca.device for hca in used or host.hcas]
        layers = {hca.link_layer for hca in used or host.hcas}
        lists.add(", ".join(devices))
        missing = [name for name in wanted if name not in devices]
        if not used and not log.in_document:
            unseen.append(f"no channel line shows the adapters of {where}")
        if len(devices) != count:
            problems.append(f"{len(devices)} on {where} ({', '.join(sorted({*devices}))})")
        elif missing:
            problems.append(f"{', '.join(missing)} is not used on {where}")
        elif layers != {"IB"}:
            problems.append(f"{' and '.join(sorted(layers))} on {where}")
        elif not host.relaxed_ordering:
            problems.append(f"no relaxed ordering on {where}")
    verdict: Verdict = verdict_for(not problems) if log.hosts else "error"
    if unseen and verdict == "passed":
        verdict, problems = "error", unseen[:1]
    names = f" with {', '.join(wanted)}" if wanted else ""
    good = f"{count} on each of {counted(len(log.hosts), 'host')}: " + " | ".join(sorted(lists))
    actual = "; ".join(problems) or (good if log.hosts else "not shown")
    return row("hcas", verdict, actual, count=count, names=names)


def judge_pace(log: NcclLog, warn_gb_s: float) -> Finding | None:
    """A warning when a large row is above the floor and below what healthy systems reach."""
    rows, basis = judged_rows(log)
    worst, actual = _worst(rows) if rows else (warn_gb_s, "")
    if worst >= warn_gb_s:
        return None
    return row("pace", "failed", actual, basis, warn=warn_gb_s)


def warn_stragglers(log: NcclLog) -> list[Finding]:
    """Of the largest size: iterations that vary, and processes that differ from the others.

    A process that takes longer is slow, or far from the others. One that takes less time came
    late: its kernel starts when the others already wait for it.
    """
    rows = [each for each in log.rows if each.size_bytes]
    if not rows:
        return []
    largest = max(rows, key=lambda each: each.size_bytes or 0)
    halves = [half for half in largest.halves if half.slowest_us]
    odd = [half for half in halves if (half.slowest_us or 0) > _SPIKE * half.time_us]
    odd += [half for half in halves if (half.varies_percent or 0) > _VARIES_PERCENT]
    named: dict[str, None] = {}
    for times in (half.process_us for half in halves):
        usual = median(times) if times else 0.0
        ranks = log.ranks if len(log.ranks) == len(times) else ()
        known = {line.rank: f" ({line.host})" for line in ranks}
        for number, time in enumerate(times):
            if abs(time - usual) > _APART * usual:
                less = "more time" if time > usual else "less time, so the others waited for it"
                name = f"process {number}{known.get(number, '')}"
                named[f"{name} took {abs(time / usual - 1):.0%} {less}"] = None
    if not odd and not named:
        return []
    worst = max(odd or halves, key=lambda half: half.slowest_us or 0)
    actual = f"the longest iteration took {worst.slowest_us:g} us, the mean is {worst.time_us:g} us"
    actual += f", and they vary by {worst.varies_percent or 0:g} %"
    check, why = "named stragglers" if named else "stragglers", "; ".join(named)
    return [row(check, "failed", actual, why, spike=_SPIKE, varies=_VARIES_PERCENT)]


def speaks(device: str) -> str:
    """The kind of a device, or of merged ones (`mlx5_0+mlx5_1`), by name; empty if unknown."""
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
    strangers = ", ".join((ranks or (() if own else channels.strangers))[:1])
    # Without channel lines by `Using network`: the network for use between hosts, not the one used.
    ways = {way_of(name, log.providers) for name in (channels.net if own else log.networks)}
    known = {_WANTED.get(expect), "unknown"}
    is_one = max(len({line.host for line in log.ranks}), log.nodes or 0) <= 1
    lack = "channel line proves it" if ways else "transport line"
    unproven = not own and (expect == "nvlink" or not ways or ways & known)
    odd = f"channel lines of {strangers}, which the list of ranks does not have"
    verdict, why = first_rule(
        (channels.other, "error", f"channels over {', '.join(channels.other)}, which is not known"),
        (strangers, "error", odd),
        (own and expect == "nvlink", "passed", ""),
        (own and not channels.net and is_one, "failed", ""),
        (own and not channels.net, "error", "no line shows a channel between hosts"),
        (unproven, "error", f"no {lack}; run with NCCL_DEBUG=INFO"),
        (ways - known, "failed", ""),
        ("unknown" in ways, "error", "no line says what this network sends over"),
        (True, "passed", ""),
    )
    if verdict != "passed" or expect == "socket":
        return verdict, why
    return _over_nvlink(log) if expect == "nvlink" else _link_layer(log, LAYERS[expect])


def _over_nvlink(log: NcclLog) -> tuple[Verdict, str]:
    channels, links = log.channels, set(log.gpu_links)
    names = [name for line in log.ranks if (name := line.gpu.partition("] ")[2])]
    foreign = not all(_NVIDIA.search(name) for name in names) or not (names or log.nccl_version)
    best = max((row.worst_busbw_gb_s for row in log.rows), default=0.0)
    amd = log.is_rccl or any(_AMD.search(name) for name in names)
    one_gpu = f"two ranks use one GPU ({', '.join(log.shared_gpus[:1])}): its own memory, no link"
    few = not channels.mnnvl and log.gpus_known < 2  # noqa: PLR2004 - the two ends of a link
    by_pcie = f"GPUs reach each other over PCIe: {', '.join(sorted(links))}"
    return first_rule(
        (channels.net_total or channels.shared_memory, "failed", ""),
        (links and "NVL" not in links, "failed", by_pcie),
        (amd, "failed", "the GPUs are not NVIDIA's: AMD's xGMI is not NVLink"),
        (log.shared_gpus, "error", one_gpu),
        (few, "error", "no line shows that the ranks are on different GPUs"),
        (foreign, "error", f"no line says that {[*names, 'a GPU'][0]} is NVIDIA's"),
        (channels.mnnvl or log.multi_node_nvlink, "passed", "MNNVL between hosts"),
        (links == {"NVL"}, "passed", "NCCL's search found NVL from GPU to GPU"),
        (best > PCIE_LIMIT_GB_S, "passed", f"{best:g} GB/s is more than PCIe can carry"),
        (True, "error", "P2P goes over PCIe too: no line and no number proves NVLink"),
    )


def _used_devices(log: NcclLog) -> dict[str, set[str]]:
    """Link layer to its devices, among those that the channels use."""
    found: dict[str, set[str]] = {}
    for host in log.hosts:
        for hca in _in_use(log, host) or host.hcas:
            found.setdefault(hca.link_layer, set()).add(hca.device)
    return found


def _in_use(log: NcclLog, host: HostNetwork) -> tuple[Hca, ...]:
    """The devices of a host that its channels use; empty if the channels do not show them."""
    used = log.channels.devices_by_host.get(host.host, ())
    if not {hca.index for hca in host.hcas}.issuperset(used):
        return ()
    return tuple(hca for hca in host.hcas if hca.index in used)


def _link_layer(log: NcclLog, wanted: str) -> tuple[Verdict, str]:
    devices = _used_devices(log)
    known = {name: speaks(name) for names in devices.values() for name in sorted(names)}
    aliens = [f"{name} is {what}" for name, what in known.items() if what not in ("RoCE", "")]
    unknown = "".join([name for name, what in known.items() if not what][:1])
    hosts = {line.host for line in log.ranks}
    unseen = "".join(sorted(hosts - set(log.channels.hosts_on_net))[:1])
    iwarp = f"{unknown} may speak iWARP, which NCCL shows as RoCE: ibv_devinfo tells"
    lack = "no line 'NET/IB : Using' says whether it is InfiniBand or RoCE"
    return first_rule(
        (aliens, "failed", "".join(aliens[:1])),
        (not devices, "error", lack),
        (wanted not in devices, "failed", ""),
        (len(devices) > 1, "error", "devices of both link layers are in use"),
        (wanted == LAYERS["roce"] and unknown, "error", iwarp),
        (len(hosts) > 1 and unseen, "error", f"no line shows a network channel of {unseen}"),
        (True, "passed", ""),
    )
