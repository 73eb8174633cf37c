"""What a look does with settings beside ours: said, refused, and never called no drift."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.core.difference import Difference, ForeignSetting
from components.drift.device_drift import DeviceDrift, drift_exit_code, render_drift
from components.model.guard_spec import Guards, SwitchGuards, kinds
from components.plan.make import ClusterPlan, make_plan
from components.update.decide import judge_drift, judge_situation
from components.update.seen import Seen, Situation
from tests.golden.site import load_example
from tests.update.judged import NO_SPEC, refused_guards
from tests.update.test_decide import as_applied, clean

PLAN = make_plan(load_example("dgx-roce"), "dev")
REWRITE = ForeignSetting(
    "switch.rewrite",
    Difference("port 1/1", "rewrite_dscp", "on", "off"),
    "the class of RoCE at the next hop",
    "interface ethernet 1/1 no qos rewrite dscp",
)
WEIGHT = ForeignSetting(
    "switch.schedule",
    Difference("port 1/1", "tc3_weight", "1", "12"),
    "the rate of RoCE",
    "interface ethernet 1/1 traffic-class 3 dcb ets wrr 12",
)


def with_foreign_settings(*found: ForeignSetting) -> tuple[DeviceDrift, ...]:
    drifts = judge_drift(PLAN, as_applied(), Seen(clean()))
    return tuple(
        replace(each, beside=found) if each.device == "leaf-01" else each for each in drifts
    )


def test_a_device_with_nothing_but_a_setting_beside_ours_is_not_called_no_drift() -> None:
    assert drift_exit_code(with_foreign_settings()) == 0
    drifts = with_foreign_settings(REWRITE, WEIGHT)
    assert drift_exit_code(drifts) == 3
    lines = render_drift(drifts).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("leaf-01 "))
    assert "2 settings outside the plan break RDMA traffic" in lines[head]
    assert lines[head + 1].strip() == (
        "rewrite_dscp of port 1/1 is on, harmless is off; outside the plan, and it breaks the "
        "class of RoCE at the next hop; fix: interface ethernet 1/1 no qos rewrite dscp"
    )
    assert "tc3_weight" in lines[head + 2]


def test_what_the_file_refuses_is_refused_at_once_and_what_it_warns_of_is_not() -> None:
    drifts = with_foreign_settings(REWRITE, WEIGHT)
    assert refused_guards(Guards(), PLAN, as_applied(), drifts) == ()
    only = Guards(switch=SwitchGuards(rewrite="refuse"))
    (words,) = refused_guards(only, PLAN, as_applied(), drifts)
    assert words == (
        "guards: leaf-01: rewrite_dscp of port 1/1 is on, harmless is off; it is outside the"
        " plan, and it breaks the class of RoCE at the next hop\n"
        "  where  leaf-01 (admin@192.168.1.5:22); guards.switch.rewrite is refuse\n"
        "  fix    interface ethernet 1/1 no qos rewrite dscp; to go on with a warning:"
        " guards.switch.rewrite: warn"
    )
    every = Guards(default="refuse", switch=SwitchGuards(schedule="warn"))
    assert refused_guards(every, PLAN, as_applied(), drifts) == (words,)
    assert len(refused_guards(Guards(default="refuse"), PLAN, as_applied(), drifts)) == 2


def test_a_site_that_is_not_looked_at_refuses_nothing() -> None:
    drifts = judge_drift(PLAN, as_applied(), Seen())
    assert refused_guards(Guards(default="refuse"), PLAN, as_applied(), drifts) == ()


def test_preflight_reads_the_refusal_as_one_about_the_switch() -> None:
    spec = NO_SPEC.model_copy(update={"guards": Guards(default="refuse")})
    drifts = with_foreign_settings(REWRITE)
    at = Situation(spec, PLAN, as_applied(), drifts=drifts)
    (found,) = [each for each in judge_situation(at, "preflight") if each.device == "leaf-01"]
    assert (found.device, found.rule) == ("leaf-01", "guards")


def test_every_kind_has_a_way_and_another_has_none() -> None:
    assert {Guards().way(kind) for kind in kinds()} == {"warn"}
    with pytest.raises(ValueError, match="not a kind of guard"):
        Guards().way("switch.colour")


def test_judging_looks_for_addresses_once_however_many_devices_drift(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once per device would take half an hour of processor time at 1,000 hosts."""
    watched, asked = PLAN.watched, list[ClusterPlan]()

    def count(plan: ClusterPlan) -> object:
        asked.append(plan)
        return watched

    monkeypatch.setattr(ClusterPlan, "watched", property(count))
    drifts = judge_drift(PLAN, as_applied(), Seen())
    assert len(drifts) > 3
    asked.clear()
    judge_situation(Situation(NO_SPEC, PLAN, as_applied(), drifts=drifts), "update")
    assert len(asked) == 1
