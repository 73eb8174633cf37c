"""Findings about logs of frameworks and of mpirun, and about the images of jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from components.acceptance.evidence import Limits, Probe, ProbeEvidence
from components.acceptance.judge.nccl import asked_of, judge_framework
from components.acceptance.judge.nccl_findings import LARGE_BYTES, show_bytes
from components.acceptance.judge.verdict import Finding, Verdict, row, row_of, verdict_for
from components.acceptance.logs.log_model import (
    DeepSpeedLog,
    DeepSpeedRow,
    ImageLog,
    MpiLog,
    TrainingLog,
)
from components.catalogue.operator_versions import parse_numbers
from components.core.plain_text import counted
from components.jobs.templates import SSHD

_SAME_TOTAL = 0.01
"""Each rank prints the sum of all: they differ by the moment of reading their clocks only."""
_ODD_STEP = 0.2
"""Name a rank if its own line differs from its share of the total by more than this."""


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
    expected = f"a total of each of {counted(ranks, 'rank')}" if ranks else "a total at the end"
    step = "look at the end of the log, and at the hostfile"
    return row("completeness", verdict, expected, actual, step, detail)


def judge_images(log: TrainingLog, floor: float, origin: str) -> Finding:
    """Is the median of the totals at or above a floor? They are sums already: never added up."""
    totals = log.totals_images_s
    middle = median(totals) if totals else 0.0
    verdict: Verdict = verdict_for(middle >= floor) if totals else "error"
    actual = f"{middle:.2f} images/s" if totals else "no total"
    step = "look at the transport and GPUDirect of its NCCL, then at the GPUs' clocks"
    parts = (f"median of {counted(len(totals), 'total')}; floor: {origin}", odd_steps(log))
    why = "; ".join(filter(None, parts))
    return row("throughput", verdict, f"images/s >= {floor:g}", actual, step, why)


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
    expected = counted(sizes, "size") if sizes else "a table with a result"
    step = "take the log again, or lower --maxsize"
    return row("completeness", verdict, expected, actual, step, detail)


def slowest_of_largest(rows: Sequence[DeepSpeedRow]) -> DeepSpeedRow:
    """The row of the largest message; of several runs in a log, that of the slowest."""
    return min(rows, key=lambda row: (-row.size_bytes, row.busbw_gbit_s))


def judge_scan_busbw(log: DeepSpeedLog, floor: float, origin: str) -> Finding:
    """Is the largest message at or above a floor, in Gb/s?"""
    expected = f"busbw >= {floor:g} Gb/s"
    if not log.rows:
        return row("bandwidth", "error", expected, "no row")
    slowest = slowest_of_largest(log.rows)
    passed = slowest.busbw_gbit_s >= floor
    small = "" if slowest.size_bytes >= LARGE_BYTES else "no row reaches 1 GiB; "
    actual = f"{slowest.busbw_gbit_s:.2f} Gb/s at {show_bytes(slowest.size_bytes)}"
    step = "compare with nccl-tests over the same workers"
    return row("bandwidth", verdict_for(passed), expected, actual, step, f"{small}floor: {origin}")


_FROM_FILE = "acceptance in the site's file"


def judge_scan(item: ProbeEvidence, log: DeepSpeedLog, limits: Limits) -> list[Finding]:
    """All findings about a scan that ran to its end."""
    ranks, workers = item.probe.ranks, len(item.probe.nodes)
    found, resolve = len(set(log.resolved)), f"{workers} names of the hostfile resolve"
    named, seen = f"{found}: {', '.join(log.resolved) or 'none'}", f"{log.devices} devices"
    dns = "look at the job's headless Service and at CoreDNS"
    slots = "look at the hostfile and the slots"
    return [
        judge_scan_completeness(log, limits.scan_sizes or None),
        row("dns", verdict_for(found == workers), resolve, named, dns),
        row("ranks", verdict_for(log.devices == ranks), f"{ranks} devices", seen, slots),
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


def judge_mpi(item: ProbeEvidence, log: MpiLog) -> list[Finding]:
    """Did nvidia-smi list every GPU of every host, or did every host answer exactly once?"""
    gpus, hosts = item.probe.ranks, item.probe.nodes
    if item.probe.kind == "mpi_gpus":
        right, step = log.gpus == gpus, "look at nvidia-smi on each host, then in its container"
        return [row("gpus", verdict_for(right), f"{gpus} GPUs", f"{log.gpus} GPUs", step)]
    seen = Counter(host.partition(".")[0] for host in log.hosts)
    wrong = {
        "did not answer": [host for host in hosts if not seen[host]],
        "answered more than once": [host for host, count in sorted(seen.items()) if count > 1],
        "is not in the plan": sorted({*seen} - {*hosts}),
    }
    parts = [f"{', '.join(names)} {what}" for what, names in wrong.items() if names]
    expected = f"one answer from each of {', '.join(hosts)}"
    step = "look at the keys and at known_hosts of the containers"
    return [row_of("hosts", parts, expected, f"all {len(hosts)} answered once", step)]


_CONTRACT: Final = "docs/reference/probe-image.md"
_FOLDERS: Final = {"_perf": "nccl_tests", "_bw": "perftest"}
"""The end of a program's name to the key of its folder."""
_SSH_PACKAGES: Final = {
    SSHD: "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
_TORCH: Final = "torch"
"""The name in image_check.sh for the NCCL that PyTorch brings: on PyPI, 2.21.5 with torch 2.6.0,
and 2.26.2 with 2.7.0 (their `requires_dist`)."""
_HIDDEN_GID: Final = "ncclIbRoceGetVersionNum: Invalid argument"
"""The message of such an NCCL."""
_MPIS: Final = ("Open MPI", "OpenRTE")
"""The names of Open MPI 4 and 5 in `mpirun --version`."""


def judge_image(item: ProbeEvidence, log: ImageLog) -> list[Finding]:
    """One finding for each thing that the image lacks; if complete, one passed finding."""
    image = item.probe.image
    lacks = list(_lacks(item, log))
    if not log.complete:
        lacks.append(("the whole look", "its output ends in the middle", "read the pod's events"))
    if lacks:
        verdict = "failed" if log.complete else "error"
        return [
            row("image", verdict, expected, f"the image {image} {actual}", step)
            for expected, actual, step in lacks
        ]
    has = [path.rpartition("/")[2] for path in log.programs.values()]
    releases = dict.fromkeys(f"NCCL {release}" for release in log.nccl.values() if release)
    versions = ", ".join([*([log.mpirun_version] if log.mpirun_version else []), *releases])
    actual = f"has {', '.join(has)}" + (f" ({versions})" if versions else "")
    doubts = "; ".join(_nccl_doubts(item.probe, log))
    return [row("image", "passed", image, actual, detail=doubts)]


MissingPart = tuple[str, str, str]
"""The expected thing, the image's state, and the fix."""


def _lacks(item: ProbeEvidence, log: ImageLog) -> Iterator[MissingPart]:
    for program in (name for name in item.probe.programs if not log.programs.get(name)):
        package = _SSH_PACKAGES.get(program)
        ends = (key for end, key in _FOLDERS.items() if program.endswith(end))
        key = "mpirun" if program.endswith("mpirun") else next(ends, None)
        first = f"name its place in jobs.programs.{key}" if key else ""
        first = f"install {package} in it" if package else first
        build = f"build one with: railyard image build ({_CONTRACT})"
        yield program, f"has no {program}", f"{first}, or {build}" if first else build
    if log.uid != "0":
        has = f"runs as user {log.uid or 'unknown'}"
        yield "root", has, f"remove USER from the image: {_CONTRACT}"
    yield from _mpi_lacks(log)
    yield from _nccl_lacks(item.probe, log)
    for missing in log.missing:
        program, _, library = missing.partition(" ")
        step = "install the library, or put its folder into ENV LD_LIBRARY_PATH of the image"
        has = f"lacks {library}, which {program} is linked with"
        yield f"{library} for {program}", has, step
    if SSHD in item.probe.programs:
        yield from _login_lacks(log)


def _mpi_lacks(log: ImageLog) -> Iterator[MissingPart]:
    for program, word in log.mpi.items():
        if word == "no":
            has = f"has {program} without MPI: each rank would run as a separate job"
            yield f"{program} built with MPI=1", has, f"build nccl-tests with MPI=1: {_CONTRACT}"
    mpirun = next((path for name, path in log.programs.items() if name.endswith("mpirun")), "")
    if not mpirun:
        return
    if not any(name in log.mpirun_version for name in _MPIS):
        has = f"has another mpirun: {log.mpirun_version or 'it prints no version'}"
        yield "mpirun of Open MPI", has, "name Open MPI's in jobs.programs.mpirun"
    elif not log.daemon:
        has = f"has neither orted nor prted in {mpirun.rpartition('/')[0]}"
        step = "name the whole path of Open MPI's own mpirun in jobs.programs.mpirun"
        yield "orted or prted next to mpirun", has, step


def _nccl_lacks(probe: Probe, log: ImageLog) -> Iterator[MissingPart]:
    """Find each NCCL that is too old for the site's pods; an unknown release is only a doubt."""
    least = probe.nccl_least
    for program, release in log.nccl.items():
        if not least or not release or parse_numbers(release) >= parse_numbers(least):
            continue
        step = f"take an image with it, or build one with: railyard image build ({_CONTRACT})"
        if program == _TORCH:
            step = "take an image whose PyTorch brings it, as 2.7.0 does"
        fails = "fails in macvlan pods on shared cards (NVIDIA/nccl#1573)"
        has = f"has NCCL {release} for {program}, which {fails}: {_HIDDEN_GID}"
        yield f"NCCL {least} or newer for {program}", has, step


def _nccl_doubts(probe: Probe, log: ImageLog) -> Iterator[str]:
    for program, release in log.nccl.items():
        if probe.nccl_least and not release:
            why = f"macvlan pods on shared cards need {probe.nccl_least} (NVIDIA/nccl#1573)"
            yield f"the look found no release of the NCCL of {program}; {why}"
        if release and release == probe.nccl_suspect:
            yield f"a site reports that NCCL {release} crashes on V100 (NVIDIA/nccl#2159)"


def _login_lacks(log: ImageLog) -> Iterator[MissingPart]:
    if log.login and log.login != "ok":
        said = next((line for line in log.said if line), "it said nothing")
        more = next((line for line in log.said if "not allowed" in line or "REFUSED" in line), "")
        because = f"{said}; {more}" if more and more != said else said
        step = f"mend its sshd: make /run/sshd, and let root log in by key ({_CONTRACT})"
        yield "root to log in over SSH by key", f"lets no login in: {because}", step
    elif log.login and log.home != "/root":
        home = log.home or "no folder"
        has = f"has {home} as home of root, and the key is mounted at /root/.ssh"
        yield "/root as home of root", has, "give root the home /root in /etc/passwd"
