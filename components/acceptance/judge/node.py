"""Judges the GPUs of one node by their state before, during and after a load. Pure.

A finding names the GPU by index and bus ID, and says what to do with it. If the driver or the image
hides a value, its row never passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from components.acceptance.evidence import ProbeEvidence, diff_counters
from components.acceptance.judge.nccl import judge_load
from components.acceptance.judge.verdict import (
    SLOW_SIBLING,
    Finding,
    Verdict,
    row,
    row_of,
    verdict_for,
)
from components.acceptance.logs.node import Bandwidths, GpuLook, NodeLog, NodeLook
from components.core.plain_text import counted

SLOWED: Final[Mapping[int, str]] = {
    0x08: "hardware slowdown",
    0x20: "the driver lowers the clock because of heat",
    0x40: "the hardware lowers the clock because of heat",
    0x80: "power brake: the power supply or the rack asked for less",
}
"""Bits of nvml.h (CUDA 13.0), `nvmlClocksEventReason*`, for a fault. The power cap (0x04) is
normal: an H200 at full load has it all the time (recorded: 692 of 700 W, 1470 MHz)."""
PCIE_GBYTE_S: Final[Mapping[int, float]] = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""The rate of one lane and direction by generation: PCI-SIG's rate less its line code."""
PCIE_FRACTION: Final = 0.75
"""Least rate of a copy between host and GPU over the rate of its link. An H200 in a virtual machine
has 0.85 of 63 GB/s (recorded); Azure asks 52 GB/s of an H100, 0.83 (azurehpc-health-checks
0e0a1ac); the rest is left for slower hosts."""
_FEWEST: Final = 3
"""The fewest GPUs whose median shows a slow one."""


def judge_node(item: ProbeEvidence, log: NodeLog) -> list[Finding]:
    """All findings about the GPUs of one node."""
    links: dict[str, list[float]] = {}
    for look in log.looks:
        for place, rate in look.links.items():
            links.setdefault(place.partition(" link ")[0] + look.phase, []).append(rate)
    # The least that all NVLinks of one GPU carry at the speed of its fastest link.
    gbyte_s = min((max(rates) * len(rates) for rates in links.values()), default=0.0)
    load = [] if item.nccl is None else judge_load(item, item.nccl, gbyte_s)
    rows = [*_look_rows(item.probe.ranks, log), *_copy_rows(log), *_diagnosis_rows(log)]
    if log.exit_code:
        step = "read its lines in the log: 127 is a program that the image lacks, 137 a kill"
        actual = f"it ended with {log.exit_code}"
        rows.append(row("load", "failed", "a load that ends with 0", actual, step))
    return load + rows


def _look_rows(gpus: int, log: NodeLog) -> Iterator[Finding]:
    before, after = log.of("before"), log.of("after")
    if not before or not before[0].gpus:
        said = "; ".join(log.said[:3]) or f"absent from the image: {', '.join(log.absent)}"
        verdict: Verdict = "failed" if log.said else "error"
        step = "run nvidia-smi on the node: a GPU that fell off the bus ends it"
        yield row("gpus", verdict, f"{gpus} GPUs", said, step)
        return
    counts = sorted({len(look.gpus) for look in (*before, *log.of("load"), *after)})
    right = counts == [gpus] and bool(after) and log.complete
    lacks = "" if log.complete else ", and the log is cut off"
    shown = " and ".join(map(str, counts)) + (lacks if after else ", and no look after the load")
    step = "look for `NVRM: Xid` in the node's kernel log: a lost GPU needs a reset or repair"
    yield row("gpus", verdict_for(right), f"{gpus} GPUs in each look", shown, step)
    yield _memory_row(before[-1], (after or before)[-1])
    yield _link_row(log)
    yield _clock_row(log)
    yield from _nvlink_rows(before[-1], (after or before)[-1])
    if log.said:
        yield row("gpu texts", "skipped", "known texts only", "; ".join(log.said[:3]))


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
        return row("gpu memory", "skipped", "no errors", "the driver does not tell: is ECC on?")
    step = "drain the node, and reset or replace that GPU"
    old = {gpu.bus_id: gpu.corrected or 0 for gpu in before.gpus}
    grown = sum(max((gpu.corrected or 0) - old.get(gpu.bus_id, 0), 0) for gpu in after.gpus)
    good = f"none; {grown} corrected in this run" if grown else "none"
    return row_of("gpu memory", found, "no error that ECC cannot correct", good, step)


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
    step = "reseat the GPU or its riser; look at the slot's errors: `lspci -vv`, `dmesg | grep AER`"
    expected = "all lanes, and full speed under load"
    return row_of("gpu pcie", [*found], expected, "so it is", step)


def _clock_row(log: NodeLog) -> Finding:
    loaded = [gpu for look in log.of("load") for gpu in look.gpus]
    if not loaded:
        return row("gpu clocks", "skipped", "full clocks under load", "no load ran")
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
    step = "look at fans, air or water, power supplies and the rack's power limit"
    good = ", ".join(f"{name} {value:.0f} MHz" for name, value in middle.items())
    return row_of("gpu clocks", [*found], "no slowdown under load", good, step)


def below_siblings(values: Mapping[str, float]) -> list[str]:
    """Find values at least 20 % below the median of all, and show both numbers."""
    if len(values) < _FEWEST:
        return []
    middle = median(values.values())
    return [
        f"{name}: {value:.4g}, the median is {middle:.4g}"
        for name, value in values.items()
        if value < SLOW_SIBLING * middle
    ]


def _nvlink_rows(before: NodeLook, after: NodeLook) -> Iterator[Finding]:
    links = {**before.links, **after.links}
    best = max(links.values(), default=0.0)
    if links and not best:
        why = f"not proven: all {len(links)} are inactive, as on cards without a bridge"
        yield row("nvlink", "skipped", "every NVLink up at one speed", why)
    if not best:
        return
    slow = [f"{place} is not shown any more" for place in links if place not in after.links]
    slow += [
        f"{place} {'is down' if not rate else f'has {rate:g} of {best:g} GB/s'}"
        for place, rate in after.links.items()
        if rate < SLOW_SIBLING * best
    ]
    step = "reset the GPUs; if it stays, the GPU's board or the NVSwitch: `nvidia-smi nvlink -s`"
    good = f"{counted(len(after.links), 'link')} at {best:g} GB/s"
    yield row_of("nvlink", slow, "every NVLink up at one speed", good, step)
    grown = diff_counters(before.link_errors, after.link_errors)
    # NVLink mends a bit error by a replay; a recovery trains the link again while it is in use.
    hard = [f"{place}: {n}" for place, n in grown.items() if n and not place.endswith("Replay")]
    good = f"none; {sum(grown.values())} replays"
    yield row_of("nvlink errors", hard, "no recovery and no CRC error", good, step)


_LABELS: Final = {
    "": "of any kind",
    "host_to_device_memcpy_ce": "host to GPU",
    "device_to_host_memcpy_ce": "GPU to host",
    "device_to_device_memcpy_read_ce": "GPU to GPU",
}


def _copy_rows(log: NodeLog) -> Iterator[Finding]:
    lacks = "nvbandwidth" in " ".join(log.absent)
    if lacks or not log.bandwidths:
        why = "the image lacks nvbandwidth" if lacks else "nvbandwidth printed nothing"
        expected = "bandwidth between host and GPUs"
        yield row("gpu copies", "skipped", expected, f"not proven: {why}")
        return
    gpus = {gpu.index: gpu for look in log.looks for gpu in look.gpus}
    for test in log.bandwidths:
        yield _copy_row(test, _LABELS.get(test.name, test.name), gpus)


def _copy_row(test: Bandwidths, label: str, gpus: Mapping[int, GpuLook]) -> Finding:
    check = f"copy {label}"
    if test.status == "Waived":
        return row(check, "skipped", "a bandwidth", "nvbandwidth: it does not apply to this node")
    cells = {
        _place(test, line, column): value
        for line, values in enumerate(test.gbyte_s)
        for column, value in enumerate(values)
        if value is not None
    }
    if test.status != "Passed" or not cells:
        step = "run nvbandwidth yourself on that node"
        actual = "no number" if test.status == "Passed" else test.status or "nothing"
        return row(check, "failed", "nvbandwidth: Passed", actual, step)
    slow = [text for alike in _alike(test) for text in below_siblings(alike)]
    floor = 0.0
    if len(test.gbyte_s) == 1:
        # 0 if the driver hides its link: then only the comparison with siblings counts.
        lanes = (
            PCIE_GBYTE_S.get(gpu.pcie_gen_max or 0, 0.0) * (gpu.pcie_width_max or 0)
            for gpu in gpus.values()
        )
        floor = PCIE_FRACTION * min(lanes, default=0.0)
        slow += [f"{place}: {value:.1f}" for place, value in cells.items() if value < floor]
    asked = f"at least {floor:.1f} GB/s, " if floor else ""
    low, high = min(cells.values()), max(cells.values())
    good = f"{low:.1f} to {high:.1f} GB/s"
    step = "look at the GPU's slot, at the memory of its CPU, and at ACS on PCIe switches"
    expected = f"{asked}none 20 % below the others"
    return row_of(check, [*dict.fromkeys(slow)], expected, good, step)


def _alike(test: Bandwidths) -> Iterator[Mapping[str, float]]:
    """The slowest copy of each GPU, then the second slowest of each, and so on; both ways.

    Without NVSwitch some pairs of GPUs share two NVLinks and others one, as in a DGX-1.
    """
    named = [
        [(value, _place(test, row, column)) for column, value in enumerate(values)]
        for row, values in enumerate(test.gbyte_s)
    ]
    for lines in (named, zip(*named, strict=True)):
        copies = ([(value, place) for value, place in line if value is not None] for line in lines)
        for group in zip(*map(sorted, copies), strict=False):
            yield {place: value for value, place in group}


def _place(test: Bandwidths, row: int, column: int) -> str:
    return f"GPU {column}" if len(test.gbyte_s) == 1 else f"GPU {row} and GPU {column}"


_GOOD: Final = ("pass", "skip", "not run")
"""DCGM's words, in the letters of 3.x (`PASS`, `Pass`) and 4.x."""


def _diagnosis_rows(log: NodeLog) -> Iterator[Finding]:
    if not log.diagnosed:
        return
    wrong = [
        f"{test} of GPU {gpu}: {status}"
        for test, gpu, status in log.diagnosed
        if status not in _GOOD
    ]
    passed = sum(status == "pass" for _, _, status in log.diagnosed)
    shown = "; ".join(wrong) or f"{passed} of {len(log.diagnosed)} passed, the others were skipped"
    step = "run `dcgmi diag -r 3` on that node, and follow its advice"
    yield row("dcgm", verdict_for(not wrong and passed > 0), "no test that fails", shown, step)
