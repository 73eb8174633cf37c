"""Marking, shares, watchdog times and spreading: planned, set, read, and put back exactly."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.switch_labs import LABS

SHARED: Final = {"shares": {0: 40, 3: 60}}
MARKED: Final = {"ecn_min_kib": 600, "ecn_max_kib": 3000, "ecn_mark_percent": 20}
WATCHED: Final = {"pfc_watchdog": True, "pfc_watchdog_ms": {"detect": 200, "restore": 400}}
EVERYTHING: Final[dict[str, dict[str, Any]]] = {
    "onyx": {"ecn_min_kib": 600, "ecn_max_kib": 3000, "schedule": SHARED},
    "cumulus": {**MARKED, "schedule": SHARED},
    "eos": {**MARKED, **WATCHED, "schedule": SHARED, "cnp_class": 7},
    "sonic": {**MARKED, **WATCHED, "schedule": SHARED, "cnp_class": 7},
}
"""System to all that it can have."""


def desired_of(system: str, **rdma: Any) -> SwitchState:  # noqa: ANN401 - any key of it
    return plan_fabric(LABS[system].load_spec(**{"mode": "lossless", **rdma}))[0].desired


@pytest.mark.parametrize("system", EVERYTHING)
def test_the_laws_hold_with_every_setting_of_queues(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    switch, desired = lab.make_switch(tmp_path, Clock()), desired_of(system, **EVERYTHING[system])
    first = switch.snapshot()
    exchange = lab.talk(switch)
    baseline = baseline_of(exchange, desired)
    assert switch.snapshot() == first
    plain = desired_of(system)
    for rest in (desired, lab.carried.fewer(desired), plain):
        assert apply(exchange, desired)
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        if rest != desired:
            edit(exchange, desired, rest, baseline)
            assert diff_states(exchange.read(rest).state, rest) == ()
        restore(exchange, rest, baseline)
        assert switch.snapshot() == first
    assert switch.unmodelled == ()


def _marking(low: int, high: int, percent: int) -> dict[str, Any]:
    return {"ecn_min_kib": low, "ecn_max_kib": low + high, "ecn_mark_percent": percent}


def _shares(best_effort: int, strict: tuple[int, ...]) -> dict[str, Any]:
    return {"shares": {0: best_effort, 3: 100 - best_effort}, "strict": strict}


MARKINGS: Final = st.builds(
    _marking, st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([1, 20, 100])
)
SCHEDULES: Final = st.one_of(
    st.none(),
    st.builds(_shares, st.integers(1, 99), st.sampled_from([(), (5,), (5, 7)])),
)
BY_HAND: Final = {
    "cumulus": [
        "nv set qos congestion-control theirs traffic-class 3 ecn enable; "
        "nv set qos congestion-control theirs traffic-class 3 min-threshold 40000; "
        "nv set qos congestion-control theirs traffic-class 3 max-threshold 200000; "
        "nv set interface swp1 qos congestion-control profile theirs",
        "nv set qos egress-scheduler theirs traffic-class 0,3 mode dwrr; "
        "nv set qos egress-scheduler theirs traffic-class 0,3 bw-percent 20; "
        "nv set qos egress-scheduler theirs traffic-class 6 mode strict; "
        "nv set interface swp2 qos egress-scheduler profile theirs",
        "nv set interface swp1 router adaptive-routing enable on",
        "nv set qos roce mode lossless",
    ],
    "eos": [
        "interface Ethernet1/1;uc-tx-queue 3;bandwidth percent 30;no priority",
        "interface Ethernet2/1;uc-tx-queue 0;bandwidth percent 5",
        "interface Ethernet1/1;uc-tx-queue 3;random-detect ecn minimum-threshold 10 kbytes "
        "maximum-threshold 20 kbytes max-mark-probability 20 weight 0",
    ],
}


@settings(max_examples=25, deadline=None)
@given(
    system=st.sampled_from(sorted(BY_HAND)),
    data=st.data(),
    marking=MARKINGS,
    schedule=SCHEDULES,
    other=SCHEDULES,
)
def test_whatever_was_there_second_apply_is_empty_and_undo_is_exact(
    system: str,
    data: st.DataObject,
    marking: dict[str, Any],
    schedule: dict[str, Any] | None,
    other: dict[str, Any] | None,
) -> None:
    lab = LABS[system]
    desired = desired_of(system, **marking, schedule=schedule)
    edited = desired_of(system, **marking, schedule=other)
    history = data.draw(st.lists(st.sampled_from(BY_HAND[system]), max_size=4))
    with TemporaryDirectory() as folder:
        switch = lab.make_switch(Path(folder), Clock())
        exchange = lab.talk(switch)
        for line in history:
            switch.run_line(line)
        switch.save_configuration()
        first = switch.snapshot()
        baseline = baseline_of(exchange, desired)
        apply(exchange, desired)
        assert apply(exchange, desired) == ()
        edit(exchange, desired, edited, baseline)
        assert diff_states(exchange.read(edited).state, edited) == ()
        assert apply(exchange, edited) == ()
        restore(exchange, edited, baseline)
        assert switch.snapshot() == first
        assert switch.unmodelled == ()
