"""Findings about a node's GPUs, about logs of frameworks and of mpirun, and about jobs' images.

A finding about GPUs judges their state before, during and after a load; it names the GPU by index
and bus ID, and what to do with it. A value that the driver or the image hides never passes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from components.acceptance.evidence import Limits, Probe, ProbeEvidence, diff_counters
from components.acceptance.judge import verdict as verdicts
from components.acceptance.judge.nccl import asked_of, judge_framework, judge_load
from components.acceptance.judge.nccl_findings import LARGE_BYTES, show_bytes
from components.acceptance.judge.verdict import Finding, Verdict, row, row_of, verdict_for
from components.acceptance.logs import log_model
from components.acceptance.logs.log_model import DeepSpeedLog, DeepSpeedRow, ImageLog, TrainingLog
from components.acceptance.logs.node import GpuLook, NodeLog, NodeLook
from components.catalogue.operator_versions import parse_numbers
from components.core.plain_text import counted
from components.core.templates import read_table
from components.jobs.templates import SSHD

_SAME_TOTAL = 0.01
"""Each rank prints the sum of all: they differ by the moment of reading their clocks only."""
_ODD_STEP = 0.2
"""Name a rank if its own line differs from its share of the total by more than this."""
_FROM_FILE = "acceptance in the site's file"
_FOLDERS: Final = {"_perf": "nccl_tests", "_bw": "perftest"}
"""The end of a program's name to the key of its folder."""
_PACKAGES: Final = {SSHD: "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
_TORCH: Final = "torch"
"""The name in image_check.sh for the NCCL that PyTorch brings: on PyPI, 2.21.5 with torch 2.6.0,
and 2.26.2 with 2.7.0 (their `requires_dist`)."""
_HIDDEN_GID: Final = "ncclIbRoceGetVersionNum: Invalid argument"
"""The message of such an NCCL."""
_MPIS: Final = ("Open MPI", "OpenRTE")
"""The names of Open MPI 4 and 5 in `mpirun --version`."""
MissingPart = tuple[str, str, Mapping[str, str]]
"""The check, the image's state, and the words of the check's texts."""
_TABLES: Final[Mapping[str, Mapping[Any, Any]]] = read_table(__file__, "gpus")
SLOWED: Final[Mapping[int, str]] = _TABLES["slowed"]
PCIE_GBYTE_S: Final[Mapping[int, float]] = _TABLES["pcie_gbyte_s"]
PCIE_FRACTION: Final = 0.75
"""Least rate of a copy between host and GPU over the rate of its link. An H200 in a virtual machine
has 0.85 of 63 GB/s (recorded); Azure asks 52 GB/s of an H100, 0.83 (azurehpc-health-checks
0e0a1ac); the rest is left for slower hosts."""
_FEWEST: Final = 3
"""The fewest GPUs whose median shows a slow one."""
_GOOD: Final = ("pass", "skip", "not run")
"""DCGM's words, in the letters of 3.x (`PASS`, `Pass`) and 4.x."""


def judge_totals(log: TrainingLog, ranks: int | None = None) -> Finding:
    """Did the run end, with one total of every rank, and do they agree?"""
    totals = log.totals_images_s
    wanted = ranks if log.program == "tf_cnn_benchmarks" and ranks else 1
    took_part = log.gpus if log.program == "horovod" else len(totals)
    verdict: Verdict = "passed"
    actual, detail = counted(len(totals), "total"), ""
    if len(totals) < wanted:
        verdict, detail = "error", "the log is cut, or ranks are missing"
    elif max(totals) - min(totals) > _SAME_TOTAL * max(totals):
        verdict, detail = "failed", "every rank prints the sum of all, and they differ"
    elif ranks is not None and took_part != ranks:
        verdict, actual = "failed", f"{counted(took_part or 0, 'rank')} took part"
    whole = f"a total of each of {counted(ranks, 'rank')}" if ranks else "a total at the end"
    return row("totals", verdict, actual, detail, wanted=whole)


def judge_images(log: TrainingLog, floor: float, origin: str) -> Finding:
    """Is the median of the totals at or above a floor? They are sums already: never added up."""
    totals = log.totals_images_s
    middle = median(totals) if totals else 0.0
    verdict: Verdict = verdict_for(middle >= floor) if totals else "error"
    actual = f"{middle:.2f} images/s" if totals else "no total"
    parts = (f"median of {counted(len(totals), 'total')}; floor: {origin}", odd_steps(log))
    return row("throughput", verdict, actual, "; ".join(filter(None, parts)), floor=floor)


def odd_steps(log: TrainingLog) -> str:
    """Says which lines of single ranks contradict the total, as edited documents have them."""
    totals, steps = log.totals_images_s, log.steps_images_s
    middle = median(steps) if totals and steps else math.inf
    odd = [step for step in steps if abs(step - middle) > _ODD_STEP * middle]
    what = f"{len(odd)} of {len(steps)} lines of single ranks are far from the others"
    return f"{what}: {odd[0]:g}" if odd else ""


def judge_scan_completeness(log: DeepSpeedLog, sizes: int | None = None) -> Finding:
    """Is there a row of every size? The benchmark stops silently when memory runs out."""
    count, bad = len(log.rows), counted(len(log.bad_rows), "unreadable row")
    verdict: Verdict = "passed"
    actual, detail = counted(count, "row"), ""
    if log.bad_rows:
        verdict, actual, detail = "error", bad, f"the first: {log.bad_rows[0]}"
    elif not log.rows:
        verdict, actual = "error", "no result row"
    elif log.out_of_memory:
        verdict, actual = "failed", f"out of GPU memory after {actual}"
    elif sizes is not None and count != sizes:
        verdict = "error" if count < sizes else "failed"
    whole = counted(sizes, "size") if sizes else "a table with a result"
    return row("scan completeness", verdict, actual, detail, wanted=whole)


def slowest_of_largest(rows: Sequence[DeepSpeedRow]) -> DeepSpeedRow:
    """The row of the largest message; of several runs in a log, that of the slowest."""
    return min(rows, key=lambda row: (-row.size_bytes, row.busbw_gbit_s))


def judge_scan_busbw(log: DeepSpeedLog, floor: float, origin: str) -> Finding:
    """Is the largest message at or above a floor, in Gb/s?"""
    if not log.rows:
        return row("scan busbw unseen", "error", "no row", floor=floor)
    slowest = slowest_of_largest(log.rows)
    passed = slowest.busbw_gbit_s >= floor
    small = "" if slowest.size_bytes >= LARGE_BYTES else "no row reaches 1 GiB; "
    actual = f"{slowest.busbw_gbit_s:.2f} Gb/s at {show_bytes(slowest.size_bytes)}"
    return row("scan busbw", verdict_for(passed), actual, f"{small}floor: {origin}", floor=floor)


def judge_scan(item: ProbeEvidence, log: DeepSpeedLog, limits: Limits) -> list[Finding]:
    """All findings about a scan that ran to its end."""
    ranks, workers, found = item.probe.ranks, len(item.probe.nodes), len(set(log.resolved))
    named, seen = f"{found}: {', '.join(log.resolved) or 'none'}", f"{log.devices} devices"
    return [
        judge_scan_completeness(log, limits.scan_sizes or None),
        row("dns", verdict_for(found == workers), named, count=workers),
        row("devices", verdict_for(log.devices == ranks), seen, count=ranks),
        *judge_framework(item.nccl, asked_of(limits)),
        judge_scan_busbw(log, limits.scan_floor_gbit_s or 0.0, _FROM_FILE),
    ]


def judge_training(item: ProbeEvidence, log: TrainingLog, limits: Limits) -> list[Finding]:
    """All findings about a training benchmark that ran to its end."""
    return [
        judge_totals(log, item.probe.ranks),
        *judge_framework(item.nccl, asked_of(limits)),
        judge_images(log, limits.images_floor_s or 0.0, _FROM_FILE),
    ]


def judge_mpi(item: ProbeEvidence, log: log_model.MpiLog) -> list[Finding]:
    """Did nvidia-smi list every GPU of every host, or did every host answer exactly once?"""
    gpus, hosts = item.probe.ranks, item.probe.nodes
    if item.probe.kind == "mpi_gpus":
        return [row("listed gpus", verdict_for(log.gpus == gpus), f"{log.gpus} GPUs", count=gpus)]
    seen = Counter(host.partition(".")[0] for host in log.hosts)
    wrong = {
        "did not answer": [host for host in hosts if not seen[host]],
        "answered more than once": [host for host, count in sorted(seen.items()) if count > 1],
        "is not in the plan": sorted({*seen} - {*hosts}),
    }
    parts = [f"{', '.join(names)} {what}" for what, names in wrong.items() if names]
    return [row_of("hosts", parts, f"all {len(hosts)} answered once", hosts=", ".join(hosts))]


def judge_image(item: ProbeEvidence, log: ImageLog) -> list[Finding]:
    """One finding for each thing that the image lacks; if complete, one passed finding."""
    image = item.probe.image
    lacks = list(_lacks(item, log))
    if not log.complete:
        lacks.append(("image cut off", "its output ends in the middle", {}))
    if lacks:
        verdict = "failed" if log.complete else "error"
        return [
            row(check, verdict, f"the image {image} {has}", **more) for check, has, more in lacks
        ]
    has = [path.rpartition("/")[2] for path in log.programs.values()]
    versions = {log.mpirun_version: None} if log.mpirun_version else {}
    doubts, least = list[str](), item.probe.nccl_least
    for program, release in log.nccl.items():
        if release:
            versions[f"NCCL {release}"] = None
        elif least:
            why = f"macvlan pods on shared cards need {least} (NVIDIA/nccl#1573)"
            doubts.append(f"the look found no release of the NCCL of {program}; {why}")
        if release and release == item.probe.nccl_suspect:
            doubts.append(f"a site reports that NCCL {release} crashes on V100 (NVIDIA/nccl#2159)")
    actual = f"has {', '.join(has)}" + (f" ({', '.join(versions)})" if versions else "")
    return [row("whole image", "passed", actual, "; ".join(doubts), image=image)]


def _lacks(item: ProbeEvidence, log: ImageLog) -> Iterator[MissingPart]:
    for program in (name for name in item.probe.programs if not log.programs.get(name)):
        package = _PACKAGES.get(program)
        ends = (key for end, key in _FOLDERS.items() if program.endswith(end))
        key = "mpirun" if program.endswith("mpirun") else next(ends, None)
        first = f"name its place in jobs.programs.{key}" if key else ""
        first = f"install {package} in it" if package else first
        build = "build one with: railyard image build (docs/reference/probe-image.md)"
        step = f"{first}, or {build}" if first else build
        yield "image program", f"has no {program}", {"program": program, "step": step}
    if log.uid != "0":
        yield "image user", f"runs as user {log.uid or 'unknown'}", {}
    yield from _mpi_and_nccl_lacks(item.probe, log)
    for missing in log.missing:
        program, _, library = missing.partition(" ")
        has = f"lacks {library}, which {program} is linked with"
        yield "image library", has, {"program": program, "library": library}
    login = log.login if SSHD in item.probe.programs else ""
    if login and login != "ok":
        said = next((line for line in log.said if line), "it said nothing")
        more = next((line for line in log.said if "not allowed" in line or "REFUSED" in line), "")
        because = f"{said}; {more}" if more and more != said else said
        yield "image login", f"lets no login in: {because}", {}
    elif login and log.home != "/root":
        home = log.home or "no folder"
        yield "image home", f"has {home} as home of root, and the key is mounted at /root/.ssh", {}


def _mpi_and_nccl_lacks(probe: Probe, log: ImageLog) -> Iterator[MissingPart]:
    for program in (name for name, word in log.mpi.items() if word == "no"):
        has = f"has {program} without MPI: each rank would run as a separate job"
        yield "image without mpi", has, {"program": program}
    mpirun = next((path for name, path in log.programs.items() if name.endswith("mpirun")), "")
    if mpirun and not any(name in log.mpirun_version for name in _MPIS):
        said = log.mpirun_version or "it prints no version"
        yield "image mpirun", f"has another mpirun: {said}", {}
    elif mpirun and not log.daemon:
        yield "image daemon", f"has neither orted nor prted in {mpirun.rpartition('/')[0]}", {}
    # An NCCL of unknown release is only a doubt.
    least = probe.nccl_least
    for program, release in log.nccl.items():
        if not least or not release or parse_numbers(release) >= parse_numbers(least):
            continue
        check = "image torch" if program == _TORCH else "image nccl"
        fails = "fails in macvlan pods on shared cards (NVIDIA/nccl#1573)"
        has = f"has NCCL {release} for {program}, which {fails}: {_HIDDEN_GID}"
        yield check, has, {"program": program, "least": least}


def judge_node(item: ProbeEvidence, log: NodeLog) -> list[Finding]:
    """All findings about the GPUs of one node."""
    links: dict[str, list[float]] = {}
    for look in log.looks:
        for place, rate in look.links.items():
            links.setdefault(place.partition(" link ")[0] + look.phase, []).append(rate)
    # The least that all NVLinks of one GPU carry at the speed of its fastest link.
    gbyte_s = min((max(rates) * len(rates) for rates in links.values()), default=0.0)
    found = [] if item.nccl is None else judge_load(item, item.nccl, gbyte_s)
    before, after, gpus = log.of("before"), log.of("after"), item.probe.ranks
    said = "; ".join(log.said[:3])
    if not before or not before[0].gpus:
        said = said or f"absent from the image: {', '.join(log.absent)}"
        found.append(row("gpus unseen", "failed" if log.said else "error", said, count=gpus))
    else:
        counts = sorted({len(look.gpus) for look in (*before, *log.of("load"), *after)})
        right = verdict_for(counts == [gpus] and bool(after) and log.complete)
        lacks = "" if log.complete else ", and the log is cut off"
        lacks = lacks if after else ", and no look after the load"
        found.append(row("gpus", right, " and ".join(map(str, counts)) + lacks, count=gpus))
        ends = before[-1], (after or before)[-1]
        found += [_memory_row(*ends), _link_row(log), _clock_row(log), *_nvlink_rows(*ends)]
        found += [row("gpu texts", "skipped", said)] if log.said else []
    found += _copy_rows(log)
    if log.diagnosed:
        tests = [(f"{test} of GPU {gpu}: {word}", word) for test, gpu, word in log.diagnosed]
        wrong = [text for text, word in tests if word not in _GOOD]
        passed = sum(word == "pass" for _, word in tests)
        shown = "; ".join(wrong) or f"{passed} of {len(tests)} passed, the others were skipped"
        found.append(row("dcgm", verdict_for(not wrong and passed > 0), shown))
    if log.exit_code:
        found.append(row("load", "failed", f"it ended with {log.exit_code}"))
    return found


def _name(gpu: GpuLook) -> str:
    return f"GPU {gpu.index} ({gpu.bus_id})"


def _memory_row(before: NodeLook, after: NodeLook) -> Finding:
    """Judge errors that ECC could not correct, rows to replace, and the driver's request."""
    found: list[str] = []
    for gpu in after.gpus:
        rows, asked = after.remapped.get(gpu.bus_id), after.recovery.get(gpu.bus_id, "None")
        if gpu.uncorrected:
            found.append(f"{_name(gpu)}: {gpu.uncorrected} errors not corrected")
        if rows is not None and rows.failure:
            found.append(f"{_name(gpu)}: no spare row is left: replace it")
        elif rows is not None and rows.pending:
            found.append(f"{_name(gpu)}: rows wait to be replaced: reset it")
        if asked not in ("None", "[N/A]", "N/A"):
            found.append(f"{_name(gpu)}: the driver asks for: {asked}")
    untold = not any(gpu.uncorrected is not None for gpu in after.gpus)
    if untold and not found:
        return row("gpu memory unseen", "skipped", "the driver does not tell: is ECC on?")
    old = {gpu.bus_id: gpu.corrected or 0 for gpu in before.gpus}
    grown = sum(max((gpu.corrected or 0) - old.get(gpu.bus_id, 0), 0) for gpu in after.gpus)
    good = f"none; {grown} corrected in this run" if grown else "none"
    return row_of("gpu memory", found, good)


def _link_row(log: NodeLog) -> Finding:
    """Judge the PCIe generation only under load: an idle link may be slow to save power."""
    found: dict[str, None] = {}
    for look in log.looks:
        for gpu in look.gpus:
            if None in (gpu.pcie_width, gpu.pcie_width_max):
                continue
            if (gpu.pcie_width or 0) < (gpu.pcie_width_max or 0):
                found[f"{_name(gpu)}: {gpu.pcie_width} of {gpu.pcie_width_max} lanes"] = None
            if look.phase == "load" and (gpu.pcie_gen or 0) < (gpu.pcie_gen_max or 0):
                found[f"{_name(gpu)}: PCIe {gpu.pcie_gen} of {gpu.pcie_gen_max}"] = None
    return row_of("gpu pcie", [*found], "so it is")


def _clock_row(log: NodeLog) -> Finding:
    loaded = [gpu for look in log.of("load") for gpu in look.gpus]
    if not loaded:
        return row("gpu clocks unseen", "skipped", "no load ran")
    found: dict[str, None] = {}
    clocks: dict[str, list[float]] = {}
    for gpu in loaded:
        clocks.setdefault(_name(gpu), []).append(gpu.clock_mhz or 0.0)
        for bit, meaning in SLOWED.items():
            if (gpu.reasons or 0) & bit:
                heat = f" at {gpu.temperature_c:g} °C" if gpu.temperature_c else ""
                found[f"{_name(gpu)}: {meaning}{heat}"] = None
    middle = {name: median(seen) for name, seen in clocks.items()}
    found |= dict.fromkeys(f"{each} MHz" for each in below_siblings(middle))
    good = ", ".join(f"{name} {value:.0f} MHz" for name, value in middle.items())
    return row_of("gpu clocks", [*found], good)


def below_siblings(values: Mapping[str, float]) -> list[str]:
    """Find values at least 20 % below the median of all, and show both numbers."""
    if len(values) < _FEWEST:
        return []
    middle = median(values.values())
    return [
        f"{name}: {value:.4g}, the median is {middle:.4g}"
        for name, value in values.items()
        if value < verdicts.SLOW_SIBLING * middle
    ]


def _nvlink_rows(before: NodeLook, after: NodeLook) -> Iterator[Finding]:
    links = {**before.links, **after.links}
    best = max(links.values(), default=0.0)
    if links and not best:
        why = f"not proven: all {len(links)} are inactive, as on cards without a bridge"
        yield row("nvlink unseen", "skipped", why)
    if not best:
        return
    slow = [f"{place} is not shown any more" for place in links if place not in after.links]
    slow += [
        f"{place} {'is down' if not rate else f'has {rate:g} of {best:g} GB/s'}"
        for place, rate in after.links.items()
        if rate < verdicts.SLOW_SIBLING * best
    ]
    yield row_of("nvlink", slow, f"{counted(len(after.links), 'link')} at {best:g} GB/s")
    grown = diff_counters(before.link_errors, after.link_errors)
    # NVLink mends a bit error by a replay; a recovery trains the link again while it is in use.
    hard = [f"{place}: {n}" for place, n in grown.items() if n and not place.endswith("Replay")]
    yield row_of("nvlink errors", hard, f"none; {sum(grown.values())} replays")


def _copy_rows(log: NodeLog) -> Iterator[Finding]:
    lacks = "nvbandwidth" in " ".join(log.absent)
    if lacks or not log.bandwidths:
        why = "the image lacks nvbandwidth" if lacks else "nvbandwidth printed nothing"
        yield row("gpu copies", "skipped", f"not proven: {why}")
        return
    gpus = {gpu.index: gpu for look in log.looks for gpu in look.gpus}
    # 0 if the driver hides a link: then only the comparison with siblings counts.
    lanes = (
        PCIE_GBYTE_S.get(gpu.pcie_gen_max or 0, 0.0) * (gpu.pcie_width_max or 0)
        for gpu in gpus.values()
    )
    least = PCIE_FRACTION * min(lanes, default=0.0)
    for test in log.bandwidths:
        label = _TABLES["copies"].get(test.name, test.name)
        alone, count = len(test.gbyte_s) == 1, len(test.gbyte_s)
        firsts = [""] if alone else [f"GPU {line} and " for line in range(count)]
        named = [
            [(value, f"{first}GPU {column}") for column, value in enumerate(values)]
            for first, values in zip(firsts, test.gbyte_s, strict=True)
        ]
        cells = {place: value for each in named for value, place in each if value is not None}
        if test.status == "Waived":
            why = "nvbandwidth: it does not apply to this node"
            yield row("copy waived", "skipped", why, label=label)
        elif test.status != "Passed" or not cells:
            actual = "no number" if test.status == "Passed" else test.status or "nothing"
            yield row("copy failed", "failed", actual, label=label)
        else:
            floor, slow = least if alone else 0.0, list[str]()
            # The slowest copy of each GPU, then the second slowest of each, and so on; both ways.
            # Without NVSwitch some pairs of GPUs share two NVLinks and others one, as in a DGX-1.
            for lines in (named, zip(*named, strict=True)):
                known = ([(value, at) for value, at in each if value is not None] for each in lines)
                for alike in zip(*map(sorted, known), strict=False):
                    slow += below_siblings({place: value for value, place in alike})
            slow += [f"{place}: {value:.1f}" for place, value in cells.items() if value < floor]
            asked = f"at least {floor:.1f} GB/s, " if floor else ""
            good = f"{min(cells.values()):.1f} to {max(cells.values()):.1f} GB/s"
            yield row_of("copy", [*dict.fromkeys(slow)], good, label=label, asked=asked)
