"""Settings of hosts beside ours: in the look, never in the step; what is repaired is ours."""

from __future__ import annotations

from components.core.key_values import HostState, parse_state
from components.drift.applied import Applied
from components.drift.device_drift import asked_of_step
from components.model.guard_spec import Guards, HostGuards
from components.plan.make import ClusterPlan, make_plan
from components.update.decide import judge_drift
from components.update.seen import Seen
from tests.golden.site import load_example
from tests.update.test_decide import as_applied, clean

SPEC = load_example("dgx-roce")
PLAN = make_plan(SPEC, "dev")
MAP = "nic.0000:05:00.0.priority_classes"
SHARED = {MAP: "0,0,0,0,0,0,0,0"}


def seen(plan: ClusterPlan) -> Seen:
    """Every device as planned, but for the map of one card of gpu01."""
    host = next(host for host in plan.hosts if host.name == "gpu01")
    return Seen({**clean(), "gpu01": HostState({**host.desired.values, **SHARED})})


def test_what_a_look_finds_beside_ours_is_no_difference() -> None:
    drifts = judge_drift(PLAN, as_applied(), seen(PLAN))
    (beside,) = [one for drift in drifts for one in drift.beside]
    assert (beside.kind, beside.found.actual) == ("host.priority_classes", SHARED[MAP])
    assert [drift.device for drift in drifts if drift.beside] == ["gpu01"]
    assert [found for drift in drifts for found in drift.differences] == []
    assert [drift.device for drift in drifts if drift.edited] == []


def test_a_step_has_no_key_that_is_only_looked_at() -> None:
    for host in PLAN.hosts:
        asked = asked_of_step(host.watched, Applied())
        extra = asked.values.keys() - host.desired.values.keys()
        assert (MAP in extra) == (host.name != "mgmt01")
        assert not extra & parse_state(host.converge.desired).values.keys()


def test_what_the_file_repairs_is_an_edit_and_is_not_said_beside() -> None:
    guards = Guards(host=HostGuards(priority_classes="repair"))
    plan = make_plan(SPEC.model_copy(update={"guards": guards}), "dev")
    (gpu01,) = [
        drift for drift in judge_drift(plan, as_applied(), seen(plan)) if drift.device == "gpu01"
    ]
    assert (gpu01.beside, gpu01.edited) == ((), True)
    changed = {
        key: value
        for host in plan.hosts
        if host.name == "gpu01"
        for key, value in host.desired.values.items()
        if PLAN.hosts[1].desired.values.get(key) != value
    }
    assert changed == {
        MAP: "1,0,2,3,4,5,6,7",
        "nic.0000:84:00.0.priority_classes": "1,0,2,3,4,5,6,7",
        "unit.railyard-nics.files": changed["unit.railyard-nics.files"],
    }
