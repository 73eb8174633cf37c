"""Reads the JSON that nccl-tests writes with `-J FILE`.

Its quirks: truth values are strings, `nwrong` is null when nothing was checked, and `env` holds the
whole environment of the job: it is not read, so that no secret gets into evidence.
"""

from __future__ import annotations

import json
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, ParseProblem, RankLine
from components.acceptance.logs.nccl_table import agrees


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Half(_Part):
    time: float | None = None
    cpu_time: float | None = None
    alg_bw: float
    bus_bw: float
    nwrong: int | float | str | None = None


class _Result(_Part):
    size: int = Field(ge=0)
    out_of_place: _Half
    in_place: _Half | None = None


class _Device(_Part):
    rank: int
    hostname: str = ""


class _Config(_Part):
    maximum_bytes: int | None = None
    iterations: int | None = None
    devices: tuple[_Device, ...] = ()


class _Bounds(_Part):
    count: int = 0
    okay: bool | str = "unchecked"


class _Average(_Part):
    bandwidth: float | None = None


class _Document(_Part):
    nccl_version: int | str = ""
    args: tuple[str, ...] = ()
    config: _Config = _Config()
    results: tuple[_Result, ...]
    out_of_bounds: _Bounds | None = None
    average_bus_bandwidth: _Average | None = None
    end_time: str | float | None = None


def parse_nccl_json(text: str) -> NcclLog | ParseProblem:
    """Reads one JSON document of nccl-tests; a cut or foreign document is a problem."""
    try:
        document = _Document.model_validate(
            cast("object", json.loads(text, parse_constant=_refuse_constant))
        )
    except (ValueError, RecursionError, ValidationError) as error:
        first = _first_fault(error)
        return ParseProblem(
            kind="unrecognised", what=f"it looks like JSON, but not that of nccl-tests: {first}"
        )
    rows = tuple(_row(result) for result in document.results)
    bad = tuple(
        f"{row.size_bytes} bytes: {half.algbw_gb_s} GB/s in {half.time_us} us"
        for row in rows
        for half in (row.out_of_place, row.in_place)
        if half is not None and not agrees(row.size_bytes or 0, half)
    )
    bounds = document.out_of_bounds
    wrong = None
    if bounds is not None:
        wrong = bounds.count or int(str(bounds.okay).lower() == "false")
    average = document.average_bus_bandwidth
    return NcclLog(
        program="nccl-tests",
        collective=document.args[0].rpartition("/")[2] if document.args else "",
        nccl_version=str(document.nccl_version),
        has_preamble=True,
        has_footer=bounds is not None and document.end_time is not None,
        max_bytes=document.config.maximum_bytes,
        iterations=document.config.iterations,
        tables=1,
        rows=rows,
        bad_rows=bad,
        out_of_bounds=wrong,
        average_busbw_gb_s=average.bandwidth if average else None,
        ranks=tuple(RankLine(rank=d.rank, host=d.hostname) for d in document.config.devices),
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no measurement")


def _first_fault(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error).partition("\n")[0]
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg'].lower()}"


def _row(result: _Result) -> NcclRow:
    return NcclRow(
        size_bytes=result.size,
        out_of_place=_half(result.out_of_place),
        in_place=_half(result.in_place) if result.in_place else None,
    )


def _half(half: _Half) -> Measure:
    return Measure(
        time_us=half.time or half.cpu_time or 0.0,
        algbw_gb_s=half.alg_bw,
        busbw_gb_s=half.bus_bw,
        wrong=_count(half.nwrong),
    )


def _count(nwrong: float | str | None) -> int | None:
    """Wrong values; texts such as `N/A` say that nothing was checked."""
    if isinstance(nwrong, str):
        return int(nwrong) if nwrong.isdecimal() else None
    return None if nwrong is None else round(nwrong)
