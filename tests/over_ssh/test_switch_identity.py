"""Every system says over real SSH what preflight compares, and its configuration does not move."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.fabric import device
from components.fabric.device import look_at_switch
from components.fabric.edit import read_baseline
from components.fabric.parts import recorded_identity
from components.fabric.systems import system_of
from lab.switches.stored import Chassis
from tests.fabric.switch_labs import LABS
from tests.over_ssh.switch_room import switch_room

pytestmark = pytest.mark.lab
SAYS = {
    "onyx": ("3.9.2504", "MSN2700-CS2F"),
    "cumulus": ("5.9.2", "MSN2700"),
    "eos": ("4.32.1F", "DCS-7060DX5-64S-F"),
    "sonic": ("202405.1-3f2b7c1e0", "DellEMC-Z9332f-O32"),
    "mlnxos": ("3.11.2016", "MQM9700-CS2F"),
}
"""System to the release and the model of its emulator."""
DENIED = {
    "onyx": 'Unrecognized command "configure terminal"',
    "cumulus": "cumulus nvshow",
    "eos": "Authorization denied for command 'configure session railyard-look'",
    "mlnxos": 'Unrecognized command "configure terminal"',
}
"""System to what it says to a login that may only look."""


@pytest.mark.parametrize("system", LABS)
def test_a_switch_says_what_it_is(system: str, tmp_path: Path) -> None:
    with switch_room(system, tmp_path) as room:
        before = room.observe()
        state, identity = look_at_switch(room.endpoint, system, room.desired, room.secrets)
        assert room.observe() == before == state
    assert (identity.release, identity.model) == SAYS[system]
    assert identity.rights == ""
    assert system_of(system).identity is not None


@pytest.mark.parametrize("system", LABS)
def test_a_step_never_writes_on_another_switch(system: str, tmp_path: Path) -> None:
    """The recorded serial number counts, else the one of the baseline; the file's wins."""
    with switch_room(system, tmp_path) as room:
        baseline = device.run_baseline(room.request(), room.env)
        recorded = {"baseline": read_baseline(baseline)}
        evidence = device.run_apply(room.request(**recorded), room.env)
        serial, before = room.switch.chassis.serial, room.switch.snapshot()
        assert [recorded_identity(text) for text in (baseline, evidence)] == [
            room.observe().identity
        ] * 2
        room.switch.chassis = Chassis("MT9999X99999", "0c42a1ffffff")
        last = {device.PREVIOUS_OUTPUT: evidence}
        refused = f"its serial number is MT9999X99999, and it was {serial}"
        for step in (device.run_apply, device.run_restore):
            for more in ({}, last):
                with pytest.raises(DeviceError, match=refused):
                    step(room.request(**recorded), room.env | more)
        with pytest.raises(DeviceError, match="and the file says MT1111X11111"):
            device.run_baseline(room.request(serial="MT1111X11111"), room.env)
        assert room.switch.snapshot() == before
        replaced = room.request(**recorded, serial="MT9999X99999")
        assert json.loads(device.run_apply(replaced, room.env | last))["changed"] == []


@pytest.mark.parametrize("system", LABS)
def test_a_login_that_may_only_look_is_found_out(system: str, tmp_path: Path) -> None:
    with switch_room(system, tmp_path) as room:
        room.switch.fault(["read-only", "on"])
        before = room.switch.snapshot()
        if system == "sonic":
            with pytest.raises(DeviceError, match="`sudo -n true` was refused"):
                look_at_switch(room.endpoint, system, room.desired, room.secrets)
        else:
            _, identity = look_at_switch(room.endpoint, system, room.desired, room.secrets)
            assert DENIED[system] in identity.rights
        assert room.switch.snapshot() == before
        assert room.switch.unmodelled == ()


@pytest.mark.parametrize("system", ["cumulus", "sonic"])
def test_a_second_stack_is_refused_by_the_switch_itself(system: str, tmp_path: Path) -> None:
    with switch_room(system, tmp_path) as room:
        factory = room.switch.snapshot()
        baseline = device.run_baseline(room.request(stack="dev"), room.env)
        dev = room.request(baseline=read_baseline(baseline), stack="dev")
        device.run_apply(dev, room.env)
        assert room.exec("ls -1 /var/lib/railyard") == ("dev\n", 0)
        before = room.switch.snapshot()
        for step in (device.run_baseline, device.run_apply, device.run_restore):
            other = room.request(baseline=read_baseline(baseline), stack="prod")
            if step is device.run_baseline:
                other = room.request(stack="prod")
            with pytest.raises(DeviceError, match="the stack dev manages this switch"):
                step(other, room.env)
        assert room.switch.snapshot() == before
        device.run_restore(dev, room.env)
        assert room.exec("ls -1 /var/lib/railyard")[1] == 2
        assert room.switch.snapshot() == factory
        assert json.loads(device.run_apply(room.request(stack="prod"), room.env))["changed"]


@pytest.mark.parametrize("system", ["cumulus", "sonic"])
def test_a_switch_forgets_a_stack_only_if_it_was_undone(system: str, tmp_path: Path) -> None:
    """A refused update leaves no mark, and the mark does not hide drift."""
    with switch_room(system, tmp_path) as room:
        before = room.switch.snapshot()
        with pytest.raises(DeviceError, match="would interrupt traffic"):
            device.run_apply(room.request(stack="dev", ports="deny"), room.env)
        assert room.switch.snapshot() == before
        device.run_apply(room.request(stack="dev"), room.env)
        assert json.loads(device.run_apply(room.request(stack="dev"), room.env))["changed"] == []
