"""The state of one node's GPUs before, during and after a load, as `node_health.sh` prints it.

Forms: nvidia-smi 580.159.04 and nvbandwidth 0.8 on an H200 (tests/acceptance/recorded/node),
`nvidia-smi nvlink` on an H100 as stas00/ml-engineering prints it, DCGM 3.3 and 4.4's JSON by
`nvvs/include/NvvsJsonStrings.h` at these tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, cast

from components.acceptance.logs.lines import number
from components.acceptance.logs.log_model import ParseProblem, Seen

MARK: Final = "railyard-node: "
Phase = Literal["before", "load", "after"]
_LINK: Final = re.compile(r"\s*Link (\d+): (?:(<?inactive>?|[\d.]+ GB/s)|([\w ]+) Errors: (\d+))")
_GPU: Final = re.compile(r"GPU (\d+): ")
_MOST_SAID: Final = 20
"""Unknown lines to keep: enough to see what went wrong."""


class GpuLook(Seen):
    """One GPU, as nvidia-smi showed it once. A number is None if the driver does not show it."""

    index: int
    bus_id: str
    name: str
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    """The highest generation that both this GPU and its slot support."""
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_mhz: float | None = None
    clock_max_mhz: float | None = None
    corrected: int | None = None
    """ECC errors that were corrected since the driver was loaded."""
    uncorrected: int | None = None
    reasons: int | None = None
    """Bits of `clocks_event_reasons.active`, why the clock is not higher."""


class RowsRemapped(Seen):
    """Rows of a GPU's memory that were replaced."""

    correctable: int
    uncorrectable: int
    pending: bool
    """Rows wait for the next reset to be replaced."""
    failure: bool
    """No spare row was left."""


class NodeLook(Seen):
    """One look at all GPUs of a node."""

    phase: Phase
    gpus: tuple[GpuLook, ...] = ()
    remapped: Mapping[str, RowsRemapped] = {}
    """Bus ID to its rows."""
    recovery: Mapping[str, str] = {}
    """Bus ID to the action that the driver asks for: `None`, `Reset`, `Reboot`, `Drain P2P`."""
    links: Mapping[str, float] = {}
    """`GPU 0 link 3` to GB/s; 0 if it is inactive."""
    link_errors: Mapping[str, int] = {}
    """`GPU 0 link 3 CRC` to a count since the driver was loaded."""


class Bandwidths(Seen):
    """One test of nvbandwidth, or why it ran none."""

    name: str
    """Empty if it ran none."""
    status: str
    """`Passed`, `Waived` (it does not apply here), `Failed`, `Error`; a text if it ran none."""
    gbyte_s: tuple[tuple[float | None, ...], ...] = ()
    """By row and column; None on the diagonal."""


class NodeLog(Seen):
    """All facts about GPUs in the log of a node."""

    looks: tuple[NodeLook, ...] = ()
    bandwidths: tuple[Bandwidths, ...] = ()
    diagnosed: tuple[tuple[str, str, str], ...] = ()
    """DCGM: test, GPU, and status in lower case."""
    absent: tuple[str, ...] = ()
    exit_code: int | None = None
    """The exit code of the load; None if the log lacks it."""
    said: tuple[str, ...] = ()
    """Lines that fit no form."""
    complete: bool = False

    def of(self, phase: Phase) -> tuple[NodeLook, ...]:
        """The looks of one phase."""
        return tuple(look for look in self.looks if look.phase == phase)


def parse_node_log(text: str) -> NodeLog | ParseProblem:
    """Read the marked lines of a log; others are the load's own."""
    lines = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    if not lines:
        last = (text.strip().splitlines() or ["nothing"])[-1]
        kind = "unrecognised" if text.strip() else "empty"
        return ParseProblem(kind=kind, what=f"the pod said nothing of its GPUs, but: {last}")
    reader = _Reader()
    for kind, _, value in (line.partition(" ") for line in lines):
        reader.feed(kind, value)
    return reader.close()


class _Reader:
    def __init__(self) -> None:
        self._looks: list[dict[str, Any]] = []
        self._texts: dict[str, list[str]] = {"nvbandwidth": [], "dcgm": []}
        self._absent: list[str] = []
        self._said: list[str] = []
        self._complete = False
        self._exit_code: int | None = None
        self._gpu = ""

    def feed(self, kind: str, value: str) -> None:
        if kind == "phase":
            begun = value.removeprefix("begin ")
            self._complete = value == "end"
            if begun in ("before", "load", "after"):
                self._looks.append({"phase": begun, "gpus": [], "remapped": {}, "recovery": {}})
                self._looks[-1] |= {"links": {}, "link_errors": {}}
        elif kind == "absent":
            self._absent.append(value)
        elif kind == "exit" and value.isdigit():
            self._exit_code = int(value)
        elif kind in self._texts:
            self._texts[kind].append(value)
        elif value.strip() and not (self._looks and self._read(kind, value)):
            self._said.append(f"{kind}: {value}")

    def _read(self, kind: str, value: str) -> bool:
        look, cells = self._looks[-1], [cell.strip() for cell in value.split(",")]
        if kind == "gpu" and (gpu := _gpu(cells)):
            look["gpus"].append(gpu)
        elif kind == "remap" and len(cells) == len(RowsRemapped.model_fields) + 1:
            bus_id, correctable, uncorrectable, pending, failure = cells
            if not (correctable.isdigit() and uncorrectable.isdigit()):
                return "N/A" in value  # before Ampere pages are retired, and no rows replaced
            look["remapped"][_bus(bus_id)] = RowsRemapped(
                correctable=int(correctable),
                uncorrectable=int(uncorrectable),
                pending=pending == "Yes",
                failure=failure == "Yes",
            )
        elif kind == "recovery":
            look["recovery"][_bus(cells[0])] = cells[-1]
        elif kind == "nvlink":
            return self._read_link(value, look)
        else:
            return False
        return True

    def _read_link(self, value: str, look: dict[str, Any]) -> bool:
        found = _LINK.match(value)
        if gpu := _GPU.match(value):
            self._gpu = gpu[1]
        elif found and found[2]:
            rate = 0.0 if "inactive" in found[2] else float(found[2].split()[0])
            look["links"][f"GPU {self._gpu} link {found[1]}"] = rate
        elif found:
            place = f"GPU {self._gpu} link {found[1]} {found[3]}"
            look["link_errors"][place] = int(found[4])
        return bool(gpu or found)

    def close(self) -> NodeLog:
        tests, other = _json("\n".join(self._texts["nvbandwidth"]))
        diagnosed, more = _json("\n".join(self._texts["dcgm"]))
        bandwidths: list[Bandwidths] = []
        for each in _walk(tests):
            if {"name", "status"} <= each.keys() or "error" in each:
                value = each.get("bandwidth_matrix")
                rows = cast("list[list[str]]", value) if isinstance(value, list) else []
                matrix = tuple(tuple(number(str(cell)) for cell in row) for row in rows)
                status = str(each.get("status", each.get("error"))).strip()
                name = str(each.get("name", ""))
                bandwidths.append(Bandwidths(name=name, status=status, gbyte_s=matrix))
        results: list[tuple[str, str, str]] = []
        for test in _walk(diagnosed):
            for each in _walk(test.get("results")):
                if "status" in each:  # DCGM 3 names the GPU by `gpu_ids`, DCGM 4 by `entity_id`
                    gpu = each.get("gpu_ids", each.get("gpu_id", each.get("entity_id", "")))
                    status = str(each["status"]).lower()
                    results.append((str(test.get("name", "")), str(gpu), status))
        return NodeLog(
            looks=tuple(NodeLook.model_validate(look) for look in self._looks),
            bandwidths=tuple(bandwidths),
            diagnosed=tuple(results),
            absent=tuple(self._absent),
            exit_code=self._exit_code,
            said=(*self._said, *other, *more)[:_MOST_SAID],
            complete=self._complete,
        )


def _bus(text: str) -> str:
    """`00000000:19:00.0` as `19:00.0`: nvidia-smi prints the domain, people do not."""
    return text.lower().removeprefix("00000000:")


def _gpu(cells: list[str]) -> GpuLook | None:
    fields = [*GpuLook.model_fields]
    if len(cells) != len(fields) or not cells[0].isdigit():
        return None
    index, bus_id, name, *numbers, reasons = cells
    bits = int(reasons, 16) if reasons.startswith("0x") else None
    values = int(index), _bus(bus_id), name, *map(number, numbers), bits
    return GpuLook.model_validate(dict(zip(fields, values, strict=True)))


def _json(text: str) -> tuple[object, list[str]]:
    """The JSON between other lines of a text; without JSON, the last lines."""
    begin, end = text.find("{"), text.rfind("}")
    with suppress(ValueError, RecursionError):
        if 0 <= begin < end:
            return json.loads(text[begin : end + 1]), []
    return None, text.strip().splitlines()[-3:]


def _walk(value: object) -> Iterator[Mapping[str, object]]:
    waiting = [value]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, dict):
            found = cast("dict[str, object]", each)
            yield found
            waiting += found.values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)
