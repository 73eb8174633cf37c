"""A collective fails and all pairs pass: halves find the smallest failing group."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import pytest

from components.acceptance.judge.culprit import Halving, next_halves

SIZES = (8, 32, 128)


def play(size: int, passes: Callable[[frozenset[str]], bool]) -> tuple[Halving, int]:
    """What the running side does, with a cluster that answers each collective."""
    hosts = [f"gpu{number:03}" for number in range(size)]
    results = {frozenset(hosts): False}
    for steps in range(4 * size):
        step = next_halves(hosts, results)
        if not step.runs:
            return step, steps
        for run in step.runs:
            assert len({*run}) == len(run) >= 2
            assert frozenset(run) not in results
            results[frozenset(run)] = passes(frozenset(run))
    pytest.fail("it does not end")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("at", [0.0, 0.4, 0.99])
def test_one_bad_host_takes_log_n_steps(size: int, at: float) -> None:
    bad = f"gpu{int(at * size):03}"
    step, steps = play(size, lambda run: bad not in run)
    assert (step.found, steps) == (((bad,),), log2(size))
    assert step.text == f"every collective with {bad} fails"


@pytest.mark.parametrize("size", SIZES)
def test_two_bad_hosts_are_found_at_once(size: int) -> None:
    bad = {"gpu001", f"gpu{size - 2:03}"}
    step, steps = play(size, lambda run: not bad & run)
    assert {*step.found} == {(host,) for host in bad}
    assert steps <= log2(size) + 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("places", [(0, 0.99), (0.3, 0.4), (0.49, 0.5)])
def test_two_hosts_that_fail_only_together_are_named_together(
    size: int, places: tuple[float, float]
) -> None:
    bad = tuple(f"gpu{int(place * size):03}" for place in places)
    step, steps = play(size, lambda run: not {*bad} <= run)
    assert step.found == (bad,)
    assert steps <= 4 * log2(size) + 1
    assert "no smaller group failed" in step.text


def test_a_fault_of_size_alone_names_the_smallest_group_that_it_can_show() -> None:
    """More hosts than a switch's table or a memory limit allows: no host is bad."""
    step, _ = play(32, lambda run: len(run) <= 20)
    (group,) = step.found
    assert 20 < len(group) <= 32


def test_two_hosts_cannot_be_told_apart_without_a_third() -> None:
    assert play(2, lambda run: not run)[0].found == (("gpu000", "gpu001"),)


@pytest.mark.parametrize("size", [5, 7, 100])
def test_odd_numbers_end_too(size: int) -> None:
    bad = f"gpu{size - 1:03}"
    assert play(size, lambda run: bad not in run)[0].found == ((bad,),)


def test_of_three_hosts_two_are_left_because_no_pair_was_seen_to_pass() -> None:
    step, _ = play(3, lambda run: "gpu002" not in run)
    assert step.found == (("gpu001", "gpu002"),)
