from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.difference import Difference
from components.core.key_values import HostState, parse_state
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import (
    DeviceDrift,
    Unreachable,
    asked_of_step,
    drift_exit_code,
    drift_of_step,
    render_drift,
)
from components.fabric.edit import asked_of_switch, drift_of_switch
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import Neighbour, PortState, SwitchState
from components.hosts.host_plan import plan_hosts
from components.plan.make import make_plan
from components.update.decide import judge_drift
from components.update.seen import Seen
from tests.golden.site import load_example

SWITCH = plan_fabric(load_example("dgx-roce"))[0]
HOST = plan_hosts(load_example("dgx-roce"), "dev")[1]
EACH_CARD = parse_state(HOST.converge.desired).render()
"""Its stdin with the lines of each card, as stacks from before recorded it."""


def switch_stdin(desired: SwitchState, repair: str = "") -> str:
    return json.dumps({"desired": desired.model_dump(mode="json"), "repair": repair, "os": "onyx"})


def applied_switch(desired: SwitchState, repair: str = "") -> Applied:
    return Applied({SWITCH.step: AppliedStep(stdin=switch_stdin(desired, repair))})


def applied_host(stdin: str) -> Applied:
    return Applied({HOST.converge.name: AppliedStep(stdin=stdin)})


def look_at_switch(facts: SwitchState | Unreachable | None, applied: Applied) -> DeviceDrift:
    return drift_of_switch(SWITCH, applied, facts)


def look_at_host(facts: HostState | Unreachable | None, applied: Applied) -> DeviceDrift:
    return drift_of_step(HOST.watched, applied, facts)


def with_port(state: SwitchState, name: str, **changed: object) -> SwitchState:
    port: PortState = state.ports[name].model_copy(update=changed)
    return state.model_copy(update={"ports": {**state.ports, name: port}})


def test_nothing_to_drift_from_before_the_first_apply() -> None:
    drift = look_at_switch(SWITCH.desired, Applied())
    assert (drift.applied, drift.edited, drift.differences) == (False, True, ())
    assert drift.note == ""


def test_a_switch_as_it_was_left() -> None:
    drift = look_at_switch(SWITCH.desired, applied_switch(SWITCH.desired))
    assert (drift.applied, drift.edited, drift.observed) == (True, False, True)
    assert (drift.differences, drift.note) == ((), "")


def test_drift_is_measured_against_what_was_applied_and_not_against_the_file() -> None:
    """The file now wants 9214 on 1/2; somebody made it 1500; 9216 was applied."""
    was = SWITCH.desired
    now = with_port(was, "1/2", mtu_bytes=9214)
    edited = SWITCH.model_copy(update={"desired": now})
    drift = drift_of_switch(edited, applied_switch(was), with_port(was, "1/2", mtu_bytes=1500))
    assert drift.edited
    assert drift.differences == (Difference("port 1/2", "mtu_bytes", "1500", "9216"),)


def test_a_setting_that_is_gone_is_absent() -> None:
    facts = SWITCH.desired.model_copy(update={"vlans": (1, 111)})
    drift = look_at_switch(facts, applied_switch(SWITCH.desired))
    assert [str(each) for each in drift.differences] == [
        "vlan_112 of switch is absent, want present"
    ]


def test_what_is_not_ours_is_no_drift() -> None:
    facts = SWITCH.desired.model_copy(
        update={"vlans": (*SWITCH.desired.vlans, 999), "pfc_priorities": (0, 1)}
    )
    assert look_at_switch(facts, applied_switch(SWITCH.desired)).differences == ()


def test_a_host_ignores_how_the_last_run_was_done() -> None:
    """Stack name and repair note stand in a step's stdin, and are no settings of the host."""
    drift = look_at_host(HOST.desired, applied_host(HOST.converge.desired + "repair=1: x\n"))
    assert (drift.edited, drift.differences) == (False, ())
    assert drift.note == "1: x"


def test_a_host_that_lost_its_vfs() -> None:
    facts = HostState({**HOST.desired.values, "nic.0000:84:00.0.vfs": "0"})
    drift = look_at_host(facts, applied_host(HOST.converge.desired))
    assert drift.note == "1: vfs of nic 0000:84:00.0 is 0, want 8"


def test_an_unreachable_device_is_neither_clean_nor_drifted() -> None:
    drift = look_at_host(Unreachable("no answer"), applied_host(HOST.converge.desired))
    assert (drift.observed, drift.unreachable, drift.differences) == (False, "no answer", ())


LOSABLE = sorted(key for key, value in HOST.desired.values.items() if value != "absent")
"""A key that is not read is one with the value `absent`: what shall be absent cannot be lost."""


@settings(max_examples=60, deadline=None)
@given(
    lost=st.sets(st.sampled_from(LOSABLE)),
    earlier=st.integers(min_value=0, max_value=30),
)
def test_a_note_counts_up_and_names_exactly_what_was_lost(lost: set[str], earlier: int) -> None:
    note = f"repair={earlier}: something else\n" if earlier else ""
    facts = HostState({key: val for key, val in HOST.desired.values.items() if key not in lost})
    drift = look_at_host(facts, applied_host(HOST.converge.desired + note))
    assert len(drift.differences) == len(lost)
    if lost:
        number, _, words = drift.note.partition(": ")
        assert int(number) == earlier + 1
        assert len(words.split("; ")) == len(lost)
        assert "\n" not in drift.note
    else:
        assert drift.note == note.removeprefix("repair=").rstrip("\n")


@settings(max_examples=30, deadline=None)
@given(lost=st.sets(st.sampled_from(LOSABLE), min_size=1))
def test_a_repaired_host_is_quiet_and_keeps_its_note(lost: set[str]) -> None:
    facts = HostState({key: val for key, val in HOST.desired.values.items() if key not in lost})
    drift = look_at_host(facts, applied_host(HOST.converge.desired))
    after = look_at_host(
        HOST.desired, applied_host(f"{HOST.converge.desired}repair={drift.note}\n")
    )
    assert (after.edited, after.differences, after.note) == (False, (), drift.note)


CLEAN = look_at_switch(SWITCH.desired, applied_switch(SWITCH.desired))
DRIFTED = replace(CLEAN, differences=(Difference("port 1/2", "mtu_bytes", "1500", "9216"),))
SILENT = replace(CLEAN, device="gpu01", observed=False, unreachable="gpu01: no answer")
NEW = look_at_switch(None, Applied())
NOT_SEEN = replace(CLEAN, observed=False)


@pytest.mark.parametrize(
    ("drifts", "code"),
    [
        ((), 0),
        ((CLEAN, CLEAN), 0),
        ((CLEAN, DRIFTED), 3),
        ((DRIFTED, SILENT), 4),
        ((CLEAN, SILENT), 4),
    ],
)
def test_exit_codes(drifts: tuple[DeviceDrift, ...], code: int) -> None:
    assert drift_exit_code(drifts) == code


def test_the_report_tells_every_case_apart() -> None:
    assert render_drift((CLEAN, DRIFTED, SILENT, NEW, NOT_SEEN)).splitlines() == [
        "leaf-01      no drift",
        "leaf-01      drift: 1 setting differs from the last update",
        "               mtu_bytes of port 1/2 is 1500, want 9216",
        "gpu01        unreachable: gpu01: no answer",
        "leaf-01      never applied",
        "leaf-01      not observed",
    ]


def test_what_the_file_no_longer_names_is_still_read() -> None:
    """Else a setting that an edit drops would look like drift."""
    one_more = {**SWITCH.desired.ports, "1/9": PortState(mtu_bytes=9216)}
    more = SWITCH.desired.model_copy(update={"ports": one_more})
    applied = applied_switch(more)
    asked = asked_of_switch(SWITCH, applied)
    assert set(asked.ports) == set(more.ports)
    assert look_at_switch(more, applied).differences == ()
    plain = SWITCH.model_copy(update={"guarded": None})
    assert asked_of_switch(plain, Applied()) == SWITCH.desired

    dropped = "nic.0000:99:00.0.mtu_bytes=9000\n"
    asked = asked_of_step(HOST.watched, applied_host(EACH_CARD + dropped))
    wanted = {**HOST.guarded.asked().values, **HOST.desired.values}
    assert asked.values == {**wanted, "nic.0000:99:00.0.mtu_bytes": "9000"}
    assert asked_of_step(HOST.watched, Applied()) == HostState(wanted)


def test_where_both_name_a_setting_the_applied_value_is_asked_for() -> None:
    key = next(key for key in HOST.desired.values if key.endswith(".mtu_bytes"))
    older = EACH_CARD.replace(f"{key}={HOST.desired.values[key]}", f"{key}=1500")
    assert asked_of_step(HOST.watched, applied_host(older)).values[key] == "1500"


def test_a_wrong_cable_is_told_and_asks_for_no_repair() -> None:
    heard = {"1/3": Neighbour(system="gpu01", description="enp5s0")}
    facts = SWITCH.desired.model_copy(update={"neighbours": heard})
    plan = make_plan(load_example("dgx-roce"), "dev")
    drifts = judge_drift(plan, applied_switch(SWITCH.desired), Seen({SWITCH.name: facts}))
    [drift] = [each for each in drifts if each.device == SWITCH.name]
    assert (drift.differences, drift.note) == ((), "")
    assert drift_exit_code((drift,)) == 3
    text = render_drift((drift,))
    assert "cabling: 1 port is not plugged as the file says" in text
    assert "port 1/3: gpu01 enp5s0 is plugged in, the file says gpu02/rail-0" in text
