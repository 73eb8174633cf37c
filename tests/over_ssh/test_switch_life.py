"""An emulated switch of every system over real SSH: from the first look to the undo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.errors import (
    DeviceError,
    HostKeyError,
    RailyardError,
    UnreachableError,
    UsageError,
)
from components.fabric import device
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from components.remote.switch_session import open_session
from lab import keys
from lab.site import lab_file, secrets_of
from lab.switches.emulators import make_switch as make_lab_switch
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS
from tests.over_ssh.switch_room import PASSWORD_VARIABLE, SwitchRoom, running_loop, switch_room

pytestmark = pytest.mark.lab


@pytest.fixture(params=SWITCH_SYSTEMS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room(request.param, tmp_path) as room:
        yield room


def test_the_whole_life(room: SwitchRoom) -> None:
    first = room.switch.snapshot()
    baseline = room.baseline()
    assert room.switch.snapshot() == first
    request = room.request(baseline=baseline)
    evidence = room.apply(request)
    assert (evidence["device"], evidence["saved"]) == (room.lab.plan.name, True)
    assert evidence["changed"]
    assert bool(evidence["interrupted"]) is room.lab.carried.interrupts
    parts = [*room.switch.snapshot().values()]
    assert parts[0] == parts[1], "what runs is what boots"
    assert room.drift() == ()
    again = room.apply(request)
    assert (again["changed"], again["interrupted"]) == ([], [])
    if room.lab.carried.counts:
        check_counters(room)
    device.run_restore(request, room.env)
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()


def test_a_denied_interruption_changes_nothing(room: SwitchRoom) -> None:
    """The step holds the policy itself, whatever a preview could or could not see."""
    first = room.switch.snapshot()
    request = room.request(ports="deny")
    if room.lab.carried.interrupts:
        with pytest.raises(DeviceError, match="would interrupt traffic") as caught:
            room.apply(request)
        assert "Nothing was changed" in str(caught.value)
        assert "disruption.ports = deny" in str(caught.value)
        assert room.switch.snapshot() == first
    room.apply()
    evidence = room.apply(request)
    assert (evidence["changed"], evidence["interrupted"]) == ([], [])
    assert room.drift() == ()


def check_counters(room: SwitchRoom) -> None:
    """What a class sent is counted in that class."""
    port = room.lab.port
    room.switch.add_counters(port, 3, tx_bytes=7_000_000_000)
    counted, _ = device.read_counted(room.endpoint, room.system, [port], room.secrets)
    assert counted[port].by_priority[3].tx_bytes == 7_000_000_000


def test_an_edit_gives_back_what_it_drops(room: SwitchRoom) -> None:
    before, baseline = room.observe().settings(), room.baseline()
    carried = room.lab.carried
    fewer = carried.fewer(room.desired)
    evidence = device.run_apply(room.request(baseline=baseline), room.env)
    edited = room.request(baseline=baseline, desired=fewer.model_dump(mode="json"))
    device.run_apply(edited, {**room.env, device.PREVIOUS_OUTPUT: evidence})
    after, lost = room.observe().settings(), {*room.desired.settings()} - {*fewer.settings()}
    gone = {key for key in lost if key[1].startswith(carried.given_back)}
    assert gone
    assert {key: after.get(key) for key in gone} == {key: before.get(key) for key in gone}


def test_drift_is_seen_and_repaired(room: SwitchRoom) -> None:
    room.apply()
    first, hand = room.view(), room.lab.carried.hand(room.desired)
    room.switch.fault(hand.fault)
    assert room.view() != first
    assert [str(each) for each in room.drift()] == [hand.drift]
    evidence = room.apply(room.request(repair="drift"))
    assert evidence["changed"] == [hand.repair]
    assert room.view() == first


def test_what_was_not_saved_is_lost_at_a_reload_and_seen_as_drift(room: SwitchRoom) -> None:
    room.reload()
    assert room.drift()
    room.apply()
    room.switch.fault(room.lab.carried.hand(room.desired).fault)
    room.reload()
    kept = room.system == "cumulus"  # NVUE of 5.9 saves what anybody applies
    assert bool(room.drift()) is kept, "what we applied is saved, what was typed by hand is not"


def test_a_wrong_password(room: SwitchRoom) -> None:
    with pytest.raises(DeviceError, match=f"refuses the password of user {room.lab.user}"):
        device.run_apply(room.request(), {PASSWORD_VARIABLE: "guess"})


def test_a_missing_password(room: SwitchRoom) -> None:
    with pytest.raises(UsageError, match=PASSWORD_VARIABLE):
        device.run_apply(room.request(), {})


def test_a_changed_host_key_sends_nothing(room: SwitchRoom) -> None:
    other = keys.host_key("test/another").public_openssh
    endpoint = replace(room.endpoint, host_key=other)
    with pytest.raises(HostKeyError, match="the host key is not the pinned one") as caught:
        open_session(endpoint, system_of(room.system).session, room.secrets, 20)
    assert not isinstance(caught.value, UnreachableError)
    assert str(caught.value).count("SHA256:") == 2
    fix = str(caught.value).partition("  fix")[2]
    assert 0 < fix.find("switch's own console") < fix.find("ssh-keyscan"), "else it pins a stranger"


def test_no_pinned_key_connects_nowhere(room: SwitchRoom) -> None:
    endpoint = replace(room.endpoint, host_key="")
    with pytest.raises(RailyardError, match="no host key is pinned"):
        device.observe_switch(endpoint, room.system, SwitchState(), room.secrets)


def test_nobody_listens(room: SwitchRoom) -> None:
    endpoint = replace(room.endpoint, port=1)
    with pytest.raises(UnreachableError, match="nothing listens there"):
        device.observe_switch(endpoint, room.system, SwitchState(), room.secrets)


def test_the_switch_stops_while_a_session_works_whose_client_has_gone(room: SwitchRoom) -> None:
    command = system_of(room.system).read_commands(room.desired)[0]
    with room.session(2) as session:
        room.switch.fault(["slow", "60"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run(command)
    room.switch.fault(["slow", "0"])
    with room.session():
        pass
    room.wait(room.switch.stop())
    assert room.switch.sessions == 0


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_the_lab_plays_a_site_with_it(system: str, tmp_path: Path) -> None:
    stack = f"{system}-over-ssh"
    spec = LABS[system].played(stack)
    config = lab_file(spec, stack, (tmp_path, tmp_path, tmp_path)).switches[0]
    switch = make_lab_switch(config, tmp_path / "leaf-01.json")
    plan = plan_fabric(spec)[0]
    desired = plan.desired.model_dump(mode="json")
    request = json.dumps({"endpoint": asdict(plan.endpoint), "os": plan.os, "desired": desired})
    secret = {PASSWORD_VARIABLE: secrets_of(stack)["switch_password"]}
    with running_loop() as loop:
        room = SwitchRoom(system, LABS[system], switch, plan.endpoint, loop, Clock())
        room.lab.prepare(switch)
        room.wait(switch.start())
        try:
            assert json.loads(device.run_apply(request, secret))["saved"]
            assert len(config.cables) + len(config.links) == len(spec.switches[0].ports)
            room.lab.carried.check_cables(switch, config.cables)
            assert switch.unmodelled == ()
        finally:
            room.wait(switch.stop())
