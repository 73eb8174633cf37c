"""Reads the JSON that nccl-tests writes with `-J FILE`.

Its quirks: truth values are strings, `nwrong` is null when nothing was checked, and `env` holds the
whole environment of the job: nothing of it is read, which keeps secrets out of evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from components.acceptance.logs.lines import read_json
from components.acceptance.logs.log_model import (
    LogFailure,
    Measure,
    NcclLog,
    NcclRow,
    ParseProblem,
    RankLine,
    Sizes,
)
from components.acceptance.logs.nccl_table import fits


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _Half(_Part):
    time: float | None = None
    cpu_time: float | None = None
    alg_bw: float = Field(ge=0)
    bus_bw: float = Field(ge=0)
    nwrong: int | float | str | None = None


class _Iterations(_Part):
    max_us: float | None = None
    cv_pct: float | None = None
    skipped_iterations: int = Field(default=0, ge=0)
    per_process_max_times_us: tuple[tuple[float, ...], ...] = ()


class _Result(_Part):
    size: int = Field(ge=0)
    out_of_place: _Half
    out_of_place_per_iter: _Iterations = _Iterations()
    in_place: _Half | None = None
    in_place_per_iter: _Iterations = _Iterations()


class _Device(_Part):
    rank: int
    group: int = 0
    hostname: str = ""


class _Config(_Part):
    ngpus: int = 1
    minimum_bytes: int | None = None
    maximum_bytes: int | None = None
    step_factor: int | None = None
    step_bytes: int | None = None
    iterations: int | None = None
    devices: tuple[_Device, ...] = ()


class _Bounds(_Part):
    count: int = 0
    okay: bool | str = "unchecked"


class _Average(_Part):
    bandwidth: float | None = None
    okay: bool | str = "unchecked"


class _Document(_Part):
    nccl_version: int | str = ""
    args: tuple[str, ...] = ()
    config: _Config = _Config()
    results: tuple[_Result, ...]
    out_of_bounds: _Bounds | None = None
    average_bus_bandwidth: _Average | None = None
    errors: tuple[object, ...] = ()
    end_time: str | float | None = None


def parse_nccl_json(text: str) -> NcclLog | ParseProblem:
    """Reads JSON documents of nccl-tests, one for each run; a cut or foreign one is a problem."""
    logs = read_json(text, "nccl-tests", lambda value: _log(_Document.model_validate(value)))
    if isinstance(logs, ParseProblem):
        return logs
    return logs[0].model_copy(update={"other_runs": tuple(logs[1:])})


def _log(document: _Document) -> NcclLog:
    name = document.args[0].rpartition("/")[2] if document.args else ""
    config, bounds = document.config, document.out_of_bounds
    average = document.average_bus_bandwidth
    share = None if "alltoallv" in name else 1.0
    if "hypercube" in name and config.devices:
        share = (len(config.devices) - 1) / len(config.devices)
    return NcclLog(
        program="nccl-tests",
        collective=name,
        nccl_version=release_of(document.nccl_version),
        has_preamble=True,
        has_footer=bounds is not None and document.end_time is not None,
        max_bytes=config.maximum_bytes,
        iterations=config.iterations,
        tables=1,
        rows=tuple(
            NcclRow(
                size_bytes=each.size,
                out_of_place=_half(each.out_of_place, each.out_of_place_per_iter),
                in_place=_half(each.in_place, each.in_place_per_iter) if each.in_place else None,
            )
            for each in document.results
        ),
        bad_rows=tuple(_contradictions(document.results, share))[:_MOST_BAD_ROWS],
        out_of_bounds=None if bounds is None else abs(bounds.count) or int(_is_false(bounds.okay)),
        average_busbw_gb_s=average.bandwidth if average else None,
        # Of several GPUs in one process, only the first is listed.
        ranks=tuple(
            RankLine(rank=each.rank, host=each.hostname, group=each.group)
            for each in config.devices
            if config.ngpus == 1
        ),
        sizes=_sizes(config),
        failures=tuple(_failures(document)),
    )


_NEW_CODES: Final = 10_000
"""From 2.9 on, a code is X*10000 + Y*100 + Z, before X*1000 + Y*100 + Z (nccl.h, NCCL_VERSION)."""


def release_of(code: int | str) -> str:
    """The release of an NCCL_VERSION_CODE: 2.18.3 of 21803; another text unchanged."""
    text = str(code)
    if not (text.isascii() and text.isdecimal()) or not int(text):
        return "" if text == "0" else text
    major, rest = divmod(int(text), _NEW_CODES if int(text) >= _NEW_CODES else _NEW_CODES // 10)
    return f"{major}.{rest // 100}.{rest % 100}"


def _contradictions(results: Iterable[_Result], share: float | None) -> Iterator[str]:
    for result in results if share is not None else ():
        size = result.size * (share or 1.0)
        for half in (result.out_of_place, result.in_place):
            if half is None or (half.time is None and half.cpu_time is not None):
                continue  # the processor's own time does not depend on the size
            time = half.time or 0.0
            if not fits(size, (time, time), half.alg_bw):
                yield f"{result.size} bytes: {half.alg_bw} GB/s in {time} us"


def _sizes(config: _Config) -> Sizes | None:
    if config.minimum_bytes is None or config.maximum_bytes is None:
        return None
    # Of the two steps, the unused one is 0 or missing.
    return Sizes(
        least_bytes=config.minimum_bytes,
        most_bytes=config.maximum_bytes,
        factor=config.step_factor if (config.step_factor or 0) > 1 else None,
        step_bytes=config.step_bytes or None,
    )


def _failures(document: _Document) -> Iterator[LogFailure]:
    # A run without errors has one empty text.
    meaning = "nccl-tests saw an error of NCCL"
    for error in [each for each in document.errors if str(each).strip()][:_MOST_BAD_ROWS]:
        yield LogFailure(kind="nccl_tests", line=str(error)[:300], meaning=meaning)
    average = document.average_bus_bandwidth
    if average is not None and _is_false(average.okay):
        line = f"average_bus_bandwidth {average.bandwidth} is not okay"
        meaning = "nccl-tests' own bandwidth limit was missed (NCCL_TESTS_MIN_BW)"
        yield LogFailure(kind="below_limit", line=line, meaning=meaning)


def _is_false(okay: bool | str) -> bool:  # noqa: FBT001 - the document has it as either
    return str(okay).strip().lower() in ("false", "failed", "0", "no")


_UNCHECKED: Final = frozenset({"n/a", "na", "null", "none", "unchecked", ""})
_MOST_BAD_ROWS: Final = 20


def _half(half: _Half, each: _Iterations) -> Measure:
    processes = [times[each.skipped_iterations :] for times in each.per_process_max_times_us]
    return Measure(
        time_us=half.time or half.cpu_time or 0.0,
        algbw_gb_s=half.alg_bw,
        busbw_gb_s=half.bus_bw,
        wrong=_count(half.nwrong),
        slowest_us=each.max_us,
        varies_percent=each.cv_pct,
        process_us=tuple(sum(times) / len(times) for times in processes if times),
    )


def _count(nwrong: float | str | None) -> int | None:
    """Wrong values; None if the run checked nothing."""
    if nwrong is None or (isinstance(nwrong, str) and nwrong.strip().lower() in _UNCHECKED):
        return None
    if isinstance(nwrong, str) and not nwrong.strip().isdecimal():
        raise ValueError(f"nwrong: {nwrong[:40]!r} is not a count")
    count = float(nwrong)
    if count < 0 or count != round(count):
        raise ValueError(f"nwrong: {nwrong} is not a count")
    return round(count)
