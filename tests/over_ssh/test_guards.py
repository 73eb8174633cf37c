"""Settings beside ours on every switch system: made by hand, and said by the next look.

The rows are data, and the page of guards lists them: what is said there is played here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.difference import Difference
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import drift_exit_code, render_drift
from components.fabric import device
from components.fabric.device import observe_switch
from components.fabric.edit import asked_of_switch, drift_of_switch, foreign_settings_of
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from components.model.guard_spec import Guards, SwitchGuards, kinds
from components.plan.make import make_plan
from tests.checks.cases import REGENERATE
from tests.golden.site import load_example
from tests.guards import PAGE, Guard, render_page, rows
from tests.over_ssh.switch_room import SwitchRoom, switch_room
from tests.update.judged import refused_guards

ROWS: Final = tuple(row for row in rows() if row.system in SWITCH_SYSTEMS)
PLAN: Final = make_plan(load_example("dgx-roce"), "dev")
SYSTEMS: Final = tuple(dict.fromkeys(row.system for row in ROWS))
CONFIGURE: Final = {"onyx": ("configure terminal",), "eos": ("configure",)}
"""From the shell of a login to where a person types the lines of the table."""
COMMIT: Final = {"cumulus": ("nv config apply -y",)}
"""What puts them into force, where a line does not do that by itself."""


def lossy(room: SwitchRoom, guards: Guards | None = None) -> SwitchPlan:
    """The example without PFC and with a trunk, so that there is something beside both."""
    spec = room.lab.load_spec(mode="lossy_ecn")
    switch = spec.switches[0]
    name, port = next(iter(switch.ports.items()))
    ports = {**switch.ports, name: port.model_copy(update={"mode": "trunk"})}
    trunked = switch.model_copy(update={"ports": ports})
    changed = {"switches": (trunked, *spec.switches[1:]), "guards": guards or Guards()}
    plan = plan_fabric(spec.model_copy(update=changed))[0]
    room.desired = plan.desired
    return plan


def ports_of(row: Guard) -> tuple[str, ...]:
    return tuple(row.found[0].partition(" ")[2].split(", "))


def as_applied(plan: SwitchPlan) -> Applied:
    stdin = json.dumps({"desired": plan.desired.model_dump(mode="json")})
    return Applied({plan.step: AppliedStep(stdin)})


def type_by_hand(room: SwitchRoom, played: tuple[Guard, ...]) -> None:
    driver = system_of(room.system)
    with room.session() as session:
        lines = (*driver.enter, *CONFIGURE.get(room.system, ()))
        end = COMMIT.get(room.system, ())
        for line in (*lines, *(line for row in played for line in row.by_hand), *end):
            assert driver.find_refusal(session.run(line)) is None, line


@pytest.mark.lab
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_set_by_hand_is_said_and_nothing_else(system: str, tmp_path: Path) -> None:
    played = tuple(row for row in ROWS if row.system == system)
    with switch_room(system, tmp_path) as room:
        plan = lossy(room)
        applied = as_applied(plan)
        room.baseline()
        room.apply()
        asked = asked_of_switch(plan, applied)
        seen = observe_switch(room.endpoint, system, asked, room.secrets)
        assert foreign_settings_of(plan, applied, seen) == (), "as the plan left it"
        type_by_hand(room, played)
        seen = observe_switch(room.endpoint, system, asked, room.secrets)
        beside = foreign_settings_of(plan, applied, seen)
        drift = drift_of_switch(plan, applied, seen)
    expected = {
        (row.kind, Difference(*each))
        for row in played
        if not row.ours
        for each in (row.found, *row.also)
    }
    assert {(each.kind, each.found) for each in beside} == expected
    assert {*drift.differences} == {Difference(*row.found) for row in played if row.ours}
    only = replace(drift, differences=(), beside=beside)
    assert drift_exit_code((only,)) == 3
    assert all(str(each) in render_drift((only,)) for each in beside)
    site = replace(PLAN, switches=(plan,))
    assert refused_guards(Guards(default="warn"), site, Applied(), (only,)) == ()
    refused = refused_guards(Guards(default="refuse"), site, Applied(), (only,))
    assert len(refused) == len(beside)
    assert all("{" not in text for text in refused), "each fix is filled in"


@pytest.mark.lab
@pytest.mark.parametrize("system", sorted({row.system for row in ROWS if "repair" in row.ways}))
def test_what_is_to_be_repaired_is_ours_and_given_back(system: str, tmp_path: Path) -> None:
    """Apply, drift, repair and undo are those of every setting that the file owns."""
    played = tuple(row for row in ROWS if row.system == system and "repair" in row.ways)
    kinds = {row.kind.partition(".")[2] for row in played}
    guards = Guards(switch=SwitchGuards.model_validate(dict.fromkeys(kinds, "repair")))
    with switch_room(system, tmp_path) as room:
        plan = lossy(room, guards)
        applied = as_applied(plan)
        type_by_hand(room, played)
        was = room.switch.snapshot()["running"]
        baseline = room.baseline()
        room.apply(room.request(baseline=baseline))
        asked = asked_of_switch(plan, applied)

        def look() -> SwitchState:
            return observe_switch(room.endpoint, system, asked, room.secrets)

        assert foreign_settings_of(plan, applied, look()) == ()
        type_by_hand(room, played)
        drift = drift_of_switch(plan, applied, look())
        found = {(each.where, each.setting) for each in drift.differences}
        assert found >= {(f"port {port}", row.found[1]) for row in played for port in ports_of(row)}
        assert foreign_settings_of(plan, applied, look()) == (), "ours is not said twice"
        room.apply(room.request(baseline=baseline))
        again = drift_of_switch(plan, applied, look())
        assert again.differences == ()
        device.run_restore(room.request(baseline=baseline), room.env)
        assert room.switch.snapshot()["running"] == was


@pytest.mark.lab
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_lossless_switch_as_the_plan_left_it_has_nothing_beside(
    system: str, tmp_path: Path
) -> None:
    with switch_room(system, tmp_path) as room:
        room.lab.prepare(room.switch)
        plan = room.lab.plan
        room.baseline()
        room.apply()
        applied = as_applied(plan)
        asked = asked_of_switch(plan, applied)
        seen = observe_switch(room.endpoint, system, asked, room.secrets)
    assert foreign_settings_of(plan, applied, seen) == ()
    assert drift_of_switch(plan, applied, seen).differences == ()


def test_every_kind_is_in_the_table_for_every_system_that_carries_roce() -> None:
    carrying = [name for name, entry in SWITCH_SYSTEMS.items() if entry.carries == "roce"]
    wanted = {(name, kind) for name in carrying for kind in kinds() if kind.startswith("switch.")}
    assert {(row.system, row.kind) for row in ROWS} == wanted


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.system} {row.thing}" for row in ROWS])
def test_the_table_says_where_a_setting_can_be_repaired(row: Guard) -> None:
    repaired = row.kind in system_of(row.system).repairs
    assert row.ways == (() if row.ours else ("warn", "refuse", *(["repair"] if repaired else [])))


def test_the_page_is_made_of_the_table() -> None:
    if REGENERATE:
        PAGE.write_text(render_page())
    assert PAGE.read_text() == render_page()
