"""Documents of nccl-tests (`-J`), key by key; expectations follow from what the keys mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.acceptance.logs.lines import open_log
from components.acceptance.logs.log_model import (
    Measure,
    NcclLog,
    ParseProblem,
    RankLine,
)
from components.acceptance.logs.nccl import parse_nccl_json

EMPTY = ParseProblem(kind="empty", what="the log is empty")


def test_json_is_read_up_to_a_limit() -> None:
    assert open_log(["{", "a", "b"])[0] == "{ab"
    most = "x" * ((64 << 20) - 1)
    assert open_log(["{", most])[0] == "{" + most
    assert open_log(["{", most, "y"])[0] == ParseProblem(
        kind="unrecognised", what="it is a JSON document of over 64 MiB"
    )


@pytest.mark.parametrize(
    ("chunks", "document", "texts"),
    [
        ([], EMPTY, []),
        ([" ", "\n"], EMPTY, []),
        (["\n\n", " {x", "y"], "{xy", []),
        (["\ufeff{"], "{", []),
        (["  a"], None, [" a"]),
        (["a", "b"], None, ["ab"]),
        (["\x00\x00", "b"], None, ["b"]),
        (['{"log":"x"}'], None, ["x"]),
    ],
)
def test_the_first_text_of_a_log(
    chunks: list[str], document: str | ParseProblem | None, texts: list[str]
) -> None:
    found, lines = open_log(chunks)
    assert (found, [line.text for line in lines]) == (document, texts)


def document(**changes: Any) -> str:  # noqa: ANN401 - any key
    half = {"time": 100.0, "alg_bw": 10.48576, "bus_bw": 10.48576, "nwrong": 0}
    whole: dict[str, Any] = {
        "args": ["/opt/broadcast_perf"],
        "results": [{"size": 1048576, "out_of_place": half}],
        "out_of_bounds": {"count": 0, "okay": True},
        "end_time": "now",
    }
    return json.dumps(whole | changes)


def read_json(**changes: Any) -> NcclLog:  # noqa: ANN401 - any key
    log = parse_nccl_json(document(**changes))
    assert isinstance(log, NcclLog)
    return log


def result(**half: Any) -> dict[str, Any]:  # noqa: ANN401 - any key
    whole: dict[str, Any] = {"alg_bw": 10.48576, "bus_bw": 10.48576, "nwrong": 0}
    return {"results": [{"size": 1048576, "out_of_place": whole | half}]}


def test_a_document_of_nccl_tests() -> None:
    log = read_json()
    assert (log.collective, log.has_preamble, log.has_footer) == ("broadcast_perf", True, True)
    assert (log.out_of_bounds, log.average_busbw_gb_s, log.tables) == (0, None, 1)
    assert (log.bad_rows, log.ranks, log.failures, log.sizes) == ((), (), (), None)
    assert log.rows[0].out_of_place == Measure(
        time_us=100.0, algbw_gb_s=10.48576, busbw_gb_s=10.48576, wrong=0
    )
    assert not read_json(end_time=None).has_footer
    assert not read_json(out_of_bounds=None).has_footer
    assert read_json(out_of_bounds={"count": 0, "okay": "false"}).out_of_bounds == 1
    assert read_json(out_of_bounds={"count": -3, "okay": "true"}).out_of_bounds == 3
    assert read_json(args=[]).collective == ""


@pytest.mark.parametrize(
    ("half", "bad"),
    [
        ({"time": 100.0}, ()),
        ({"time": 110.0}, ("1048576 bytes: 10.48576 GB/s in 110.0 us",)),
        ({"cpu_time": 7.0}, ()),
        ({}, ("1048576 bytes: 10.48576 GB/s in 0.0 us",)),
        ({"time": 100.0, "cpu_time": 7.0}, ()),
    ],
)
def test_a_documents_time_must_fit_its_bandwidth(half: dict[str, float], bad: Any) -> None:  # noqa: ANN401 - texts
    assert read_json(**result(**half)).bad_rows == bad


def test_a_document_of_hypercube_leaves_out_a_ranks_own_part() -> None:
    devices = [{"rank": rank, "hostname": "w0"} for rank in range(4)]
    # Three quarters of 1 MiB in 100 us.
    more: dict[str, Any] = result(time=100.0, alg_bw=7.86432, bus_bw=7.86432)
    args = ["/opt/hypercube_perf"]
    assert read_json(args=args, config={"devices": devices}, **more).bad_rows == ()
    assert len(read_json(args=args, **more).bad_rows) == 1
    assert len(read_json(config={"devices": devices}, **more).bad_rows) == 1


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        ({"minimum_bytes": 8}, None),
        ({"maximum_bytes": 8}, None),
        ({"minimum_bytes": 8, "maximum_bytes": 64, "step_factor": 2}, (2, None)),
        ({"minimum_bytes": 8, "maximum_bytes": 64, "step_factor": 1, "step_bytes": 8}, (None, 8)),
        ({"minimum_bytes": 8, "maximum_bytes": 64, "step_factor": 0, "step_bytes": 8}, (None, 8)),
    ],
)
def test_the_sizes_that_a_document_asked_for(
    config: dict[str, int], sizes: tuple[int | None, int | None] | None
) -> None:
    log = read_json(config=config)
    assert (log.sizes and (log.sizes.factor, log.sizes.step_bytes)) == sizes
    assert (log.sizes and log.sizes.most_bytes) == (sizes and 64)


def test_ranks_and_errors_of_a_document() -> None:
    devices = [{"rank": 0, "hostname": "w0", "group": 1}]
    assert read_json(config={"devices": devices}).ranks == (RankLine(rank=0, host="w0", group=1),)
    assert read_json(config={"devices": devices, "ngpus": 2}).ranks == ()
    assert read_json(errors=["", " "]).failures == ()
    assert [each.line for each in read_json(errors=["", "bad"]).failures] == ["bad"]
    assert len(read_json(errors=["bad"] * 30).failures) == 20
    missed = {"bandwidth": 3.0, "okay": "FAILED"}
    assert [each.kind for each in read_json(average_bus_bandwidth=missed).failures] == [
        "below_limit"
    ]
    assert read_json(average_bus_bandwidth=missed | {"okay": True}).failures == ()


@pytest.mark.parametrize(
    ("nwrong", "wrong"),
    [(None, None), ("N/A", None), ("unchecked", None), ("", None), ("3", 3), (2, 2), (2.0, 2)],
)
def test_a_documents_count_of_wrong_values(nwrong: object, wrong: int | None) -> None:
    assert read_json(**result(time=100.0, nwrong=nwrong)).rows[0].out_of_place.wrong == wrong


@pytest.mark.parametrize("nwrong", [-1, 0.5, "x", "-1", "1.0"])
def test_a_documents_count_that_is_none(nwrong: object) -> None:
    problem = parse_nccl_json(document(**result(time=100.0, nwrong=nwrong)))
    assert isinstance(problem, ParseProblem)
    assert problem.what.endswith("is not a count")


def test_several_documents_are_several_runs_and_not_too_many() -> None:
    log = parse_nccl_json(",\n".join([document()] * 200))
    assert isinstance(log, NcclLog)
    assert len(log.runs) == 200
    problem = parse_nccl_json("\n".join([document()] * 201))
    assert isinstance(problem, ParseProblem)
    assert problem.what == "more than 200 JSON documents: judge them one by one"
