"""Logs as they really arrive: through terminals and kubectl, twice, and as broken JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from tests.acceptance.recordings import load_nccl, load_perftest


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(f"{change(line)}\n" for line in text.splitlines())


@pytest.mark.parametrize("name", ["all_reduce_nvlink", "all_reduce_socket", "deepops_dgx1_roce"])
@pytest.mark.parametrize(
    "change",
    [
        _each(lambda line: f"\x1b[1;31m{line}\x1b[K"),
        _each(lambda line: f"\x1b[?25l\x1b]0;title\x07{line}"),
        _each(lambda line: f"2026-11-21T10:00:00.123456789Z {line}"),
        _each(lambda line: f"[pod/nccl-launcher-x7/mpi-launcher] {line}"),
        _each(lambda line: f"[pod/a/b] 2026-11-21T10:00:00Z {line}"),
        _each(lambda line: f"    {line}"),
        _each(lambda line: f"{line}\r"),
        "\ufeff".__add__,
    ],
)
def test_what_programs_add_to_lines_changes_nothing(
    name: str, change: Callable[[str], str]
) -> None:
    plain = judge_nccl_text(load_nccl(name))
    changed = judge_nccl_text(change(load_nccl(name)))
    assert (changed.lines, changed.exit_code) == (plain.lines, plain.exit_code)


def _half(**changes: object) -> dict[str, object]:
    return {"time": 5000.0, "alg_bw": 214.748, "bus_bw": 214.748, "nwrong": 0} | changes


def _json(**changes: object) -> str:
    result = {"size": 1 << 30, "out_of_place": _half(), "in_place": _half(**changes)}
    bounds: dict[str, object] = {"count": 0, "okay": "true"}
    return json.dumps({"results": [result], "out_of_bounds": bounds, "end_time": "now"})


def test_json_is_judged_like_text() -> None:
    assert judge_nccl_text(_json(), None, 200.0).exit_code == 0
    assert judge_nccl_text("\ufeff" + _json()).exit_code == 0
    assert judge_nccl_text(_json(nwrong=4)).exit_code == 1
    assert judge_nccl_text(_json(nwrong="4")).exit_code == 1
    assert judge_nccl_text(_json(nwrong="N/A")).exit_code == 0


def _document(**changes: object) -> str:
    """One run of JSON as nccl-tests writes it, with changes at its top."""
    sizes = [1 << power for power in (29, 30)]
    rows = [
        {"size": size, "out_of_place": _half(time=size / 2e5, alg_bw=200.0, bus_bw=300.0)}
        for size in sizes
    ]
    devices = [{"rank": rank, "hostname": "a"} for rank in range(4)]
    config = {
        "ngpus": 1,
        "minimum_bytes": sizes[0],
        "maximum_bytes": sizes[1],
        "step_factor": 2,
        "devices": devices,
    }
    whole: dict[str, object] = {
        "args": ["all_reduce_perf"],
        "config": config,
        "results": rows,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 300.0, "okay": "unchecked"},
        "errors": [],
        "end_time": "now",
    }
    return json.dumps(whole | changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"errors": ["unhandled system error"]}, 1),
        ({"average_bus_bandwidth": {"bandwidth": 300.0, "okay": "false"}}, 1),
        ({"average_bus_bandwidth": {"bandwidth": 250.0, "okay": "true"}}, 4),
        ({"out_of_bounds": {"count": 0, "okay": "false"}}, 1),
        ({"out_of_bounds": {"count": -3, "okay": "true"}}, 1),
        ({"results": json.loads(_json())["results"]}, 4),
        ({"args": ["all_gather_perf"]}, 4),
        ({"end_time": None}, 4),
    ],
)
def test_json_is_judged_in_all_its_parts(changes: dict[str, object], code: int) -> None:
    verdict = judge_nccl_text(_document(**changes), None, 290.0)
    assert verdict.exit_code == code, verdict.lines


@pytest.mark.parametrize("count", [-3, "4e0", "+1", 0.5, "x"])
def test_what_is_no_count_of_wrong_values_cannot_be_judged(count: object) -> None:
    assert judge_nccl_text(_json(nwrong=count)).exit_code == 4


def test_each_json_document_of_a_file_is_judged() -> None:
    assert judge_nccl_text(_document() + "\n" + _document(), None, 290.0).exit_code == 0
    assert judge_nccl_text(_document() + _document(errors=["x"])).exit_code == 1
    assert judge_nccl_text(_document() + '{"results": ').exit_code == 4


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["nwrong", "bus_bw", "alg_bw", "time"])
def test_json_numbers_that_are_none_cannot_be_judged(key: str, number: float) -> None:
    verdict = judge_nccl_text(_json(**{key: number}), None, 1.0)
    assert verdict.exit_code == 4


@pytest.mark.parametrize("number", ["1e400", "9" * 400])
@pytest.mark.parametrize("key", ["nwrong", "bus_bw", "alg_bw", "time"])
def test_json_numbers_that_are_too_large_cannot_be_judged(key: str, number: str) -> None:
    text = _json(**{key: "too large"}).replace('"too large"', number)
    assert judge_nccl_text(text, None, 1.0).exit_code == 4


def test_json_that_contradicts_itself_cannot_be_judged() -> None:
    verdict = judge_nccl_text(_json(alg_bw=300.0))
    assert (verdict.exit_code, "unreadable rows" in verdict.findings[0].actual) == (4, True)


def test_foreign_json_is_told_without_the_validators_words() -> None:
    (finding,) = judge_nccl_text('{"a": 1}').findings
    assert "results" in finding.actual
    assert "_Document" not in finding.actual


@pytest.mark.parametrize("slow_first", [True, False])
def test_of_two_perftest_runs_the_slower_one_counts(
    slow_first: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    good = load_perftest("deepops_dgx1_roce_flattened")
    slow = good.replace("92.40", "12.40").replace("0.176230", "0.023651")
    assert judge_perftest_text(slow, None, 90.0).exit_code == 1
    both = (slow, good) if slow_first else (good, slow)
    assert judge_perftest_text("\n".join(both), None, 90.0).exit_code == 1


def test_perftest_without_a_message_fails() -> None:
    text = load_perftest("deepops_dgx1_roce_flattened")
    still = text.replace("92.40", "0.00").replace("0.176230", "0.000000")
    assert judge_perftest_text(still).exit_code == 1


def test_perftest_without_a_clock_measured_nothing() -> None:
    text = load_perftest("rxe_clock_unknown")
    found = {each.check: each for each in judge_perftest_text(text).findings}
    assert found["completeness"].verdict == "error"
    assert "could not measure the processor's clock" in found["completeness"].actual
    assert "run it again" in found["completeness"].next_step
    assert "failed" not in {each.verdict for each in found.values()}
    assert judge_perftest_text(text).exit_code == 4


def test_rates_count_where_only_the_other_end_lacked_a_clock() -> None:
    lacks = "Correlation coefficient r^2: 0.71 < 0.9\n"
    assert judge_perftest_text(lacks + load_perftest("rxe_on_igb_vf")).exit_code == 0
