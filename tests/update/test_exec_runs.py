"""Which exec requests are sent again, what is refused, and what a person reads of them."""

from __future__ import annotations

import json
import re

import pytest

from components.checks.site import load_checked_site
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift
from components.fabric.device import judge_request
from components.fabric.edit import drift_of_switch
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.targets import numbered
from components.model.cluster import ClusterSpec, Disruption
from components.plan.make import ClusterPlan, make_plan
from components.plan.text import Choice, render_plan
from components.update.decide import intend, unrecorded_switches
from components.update.refusals import exec_notes, judge_executors
from components.update.seen import Seen
from tests.golden.site import EXAMPLES, changed_spec, load_example
from tests.update.judged import refusals, refused_disruptions, texts

DEVICE = load_example("dgx-roce")
LEAF = DEVICE.switches[0].model_copy(
    update={"executor": "exec", "exec_disruptive": "allow-interruptions"}
)

SPEC: ClusterSpec = changed_spec(DEVICE, switches=(LEAF,))
PLAN: ClusterPlan = make_plan(SPEC, "dev")
SWITCH: SwitchPlan = PLAN.switches[0]


def recorded(run: str = "", judged: str | None = None, saved: str | None = None) -> Applied:
    """The state after a run; `judged` and `saved` are the runs whose output was found good."""
    assert SWITCH.exec is not None
    apply, save = (numbered("onyx", text, run) for text in (SWITCH.exec.apply, SWITCH.exec.save))
    steps = {
        SWITCH.step_named("exec"): AppliedStep(create=apply),
        SWITCH.step_named("save"): AppliedStep(create=save),
    }
    for step, kind, text, of in (
        (SWITCH.step, "apply", SWITCH.exec.apply, judged),
        (SWITCH.step_named("saved"), "save", SWITCH.exec.save, saved),
    ):
        if of is not None:
            about = numbered("onyx", text, of)
            request = judge_request(SWITCH, "apply" if kind == "apply" else "save", about, "")
            steps[step] = AppliedStep(stdin=request)
    return Applied(steps)


def drift(applied: Applied) -> DeviceDrift:
    return drift_of_switch(SWITCH, applied, SWITCH.desired)


@pytest.mark.parametrize(
    ("applied", "number"),
    [
        (Applied(), None),
        (recorded(judged="", saved=""), None),
        (recorded("3", judged="3", saved="3"), "3"),
        (recorded(judged="", saved=None), "1"),
        (recorded(judged=None), "1"),
        (recorded("3", judged="2", saved="2"), "4"),
        (recorded("3", judged="3", saved="2"), "4"),
    ],
    ids=["new", "good", "good again", "not saved", "refused", "repair refused", "save refused"],
)
def test_what_was_not_found_good_is_sent_again(applied: Applied, number: str | None) -> None:
    notes = exec_notes(PLAN.switches, applied, (drift(applied),))
    assert notes.get(SWITCH.step_named("exec")) == number


def test_drift_sends_it_again_and_settles() -> None:
    good = recorded("3", judged="3", saved="3")
    port = SWITCH.desired.ports["1/2"].model_copy(update={"mtu_bytes": 1500})
    seen = SWITCH.desired.model_copy(update={"ports": {**SWITCH.desired.ports, "1/2": port}})
    intended = intend(PLAN, good, Seen({SWITCH.name: seen}), "changed")
    assert intended.notes[SWITCH.step_named("exec")] == "4"
    assert intended.notes[SWITCH.step] == "1: mtu_bytes of port 1/2 is 1500, want 9216"
    repaired = recorded("4", judged="4", saved="4")
    again = intend(PLAN, repaired, Seen({SWITCH.name: SWITCH.desired}), "changed")
    assert again.notes[SWITCH.step_named("exec")] == "4"


def test_another_executor_over_an_exec_is_refused() -> None:
    good = recorded(judged="", saved="")
    device = make_plan(DEVICE, "dev")
    (words,) = texts(judge_executors, device, good)
    assert "remove the steps leaf-01-exec and leaf-01-save with `pulumi state delete`" in words
    assert words in refusals(device, good, ())
    assert texts(judge_executors, PLAN, good) == ()
    assert texts(judge_executors, device, Applied()) == ()


def test_no_baseline_is_asked_for() -> None:
    found = (drift(Applied()),)
    assert unrecorded_switches(PLAN, found, {SWITCH.name: SWITCH.desired}) == ()


def test_deny_refuses_what_an_exec_always_interrupts() -> None:
    spec = changed_spec(SPEC, disruption=Disruption(ports="deny"))
    good, new = recorded(judged="", saved=""), Applied()
    (words,) = refused_disruptions(spec, PLAN, (drift(new),), {}, new)
    assert "an exec sends all lines of leaf-01, needed or not" in words
    assert "mtu_bytes: any value -> the file's" in words
    assert refused_disruptions(spec, PLAN, (drift(good),), {}, good) == ()
    edited = plan_with_mtu(9400)
    assert refused_disruptions(spec, edited, (drift(good),), {}, good) == (words,)


def test_deny_refuses_an_exec_that_is_sent_again_without_an_edit() -> None:
    """The last one was not found good, so this update repeats it: nothing in the file changed."""
    spec = changed_spec(SPEC, disruption=Disruption(ports="deny"))
    unsaved = recorded(judged="", saved=None)
    found = drift(unsaved)
    assert (found.edited, found.differences) == (False, ())
    (words,) = refused_disruptions(spec, PLAN, (found,), {}, unsaved)
    assert "an exec sends all lines of leaf-01" in words


def plan_with_mtu(mtu_bytes: int) -> ClusterPlan:
    rdma = SPEC.rdma.model_copy(update={"port_mtu_bytes": mtu_bytes})
    return make_plan(changed_spec(SPEC, rdma=rdma), "dev")


def test_the_plan_shows_the_texts_and_the_same_state() -> None:
    whole = Choice(scripts=True)
    text, device = render_plan(PLAN, whole), render_plan(make_plan(DEVICE, "dev"), whole)
    assert SWITCH.exec is not None
    for part in (SWITCH.exec.apply, SWITCH.exec.save, SWITCH.exec.undo):
        assert part in text
    assert "to the factory's values and not to those of before" in text
    assert "It interrupts: ports 1/1, 1/2, 1/3, 1/4: " in text
    end = re.compile(r"\n# (?:One exec|From factory)")
    states = [end.split(page.split("# Wanted state:")[1])[0] for page in (text, device)]
    assert states[0] == states[1]
    assert json.dumps(SWITCH.desired.model_dump(mode="json")) == json.dumps(
        make_plan(DEVICE, "dev").switches[0].desired.model_dump(mode="json")
    )


def test_the_plan_says_what_no_switch_was_seen_to_do() -> None:
    spec = load_checked_site(EXAMPLES / "mixed-fabric/plain-exec.yaml").spec_or_raise()
    unproven = "to those of before (unproven: that `config qos reload --ports` gives the ports"
    shown = {
        name: unproven in render_plan(make_plan(spec, "dev"), Choice(device=name))
        for name in ("leaf-01", "leaf-02", "leaf-03", "leaf-04")
    }
    assert [name for name, found in shown.items() if found] == ["leaf-04"]
