"""What only SONiC does over SSH: bash's exit statuses, sudo, one large answer, its own factory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.fabric import device
from components.fabric.fabric_plan import plan_fabric
from components.fabric.systems.sonic.system import RELOAD_LOCK
from components.fabric.targets import plan_exec
from lab import keys
from lab.switches.emulators import make_switch as make_lab_switch
from lab.switches.sonic.server import SonicSwitch
from lab.views import SwitchConfig
from tests.fabric.eos_lab import Clock
from tests.fabric.sonic_lab import CABLES, PORTS, load_spec
from tests.fabric.switch_labs import LABS
from tests.over_ssh.switch_room import SwitchRoom, running_loop, switch_room

pytestmark = pytest.mark.lab
CLICK = """\
Usage: config vlan del [OPTIONS] <vid>
Try "config vlan del -h" for help.

Error: Vlan99 does not exist
[status 2]
"""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("sonic", tmp_path) as room:
        yield room


def test_an_apply_says_what_the_template_of_the_platform_had(room: SwitchRoom) -> None:
    evidence = room.apply()
    for text in (
        "access_vlan of port Ethernet0: absent -> 111",
        "pfc_priorities of port Ethernet8: 3,4 -> 3",
        "dscp_24-31_priority of port Ethernet8: 1 -> 3",
    ):
        assert text in evidence["changed"]
    assert any("pfc_priorities: " in each for each in evidence["interrupted"])
    files = {*room.switch.stored.files}
    assert files == {RELOAD_LOCK}, "the copy that proved the room on the disk is gone"
    assert room.switch.port_view("Ethernet32").pfc_priorities == {3, 4}


def test_a_reload_of_somebody_else_hinders_no_look(room: SwitchRoom) -> None:
    room.apply()
    room.switch.fault(["lock", "bob"])
    assert room.drift() == ()


def test_sudo_that_asks_for_a_password(room: SwitchRoom) -> None:
    room.switch.fault(["sudo-password", "on"])
    with pytest.raises(DeviceError, match="`sudo -n true` was refused: sudo: a password is"):
        room.baseline()


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello", "hello\n"),
        ("sudo config vlan add 111 && sudo config vlan del 111", ""),
        ("sudo config vlan del 99", CLICK),
        ("nv config show", "-bash: nv: command not found\n[status 127]\n"),
    ],
)
def test_the_exit_status_is_told(room: SwitchRoom, command: str, output: str) -> None:
    with room.session() as session:
        assert session.run(command) == output


def test_a_large_answer_arrives_whole(room: SwitchRoom) -> None:
    with room.session() as session:
        shown = json.loads(session.run("sudo sonic-cfggen -d --print-data"))
    assert shown == room.switch.stored.running


def test_an_exec_request_has_an_exit_status(room: SwitchRoom) -> None:
    told = room.exec("sudo config interface mtu Ethernet1 9000")
    assert told == ("Invalid port Ethernet1\n", 1)


def test_the_whole_configuration_goes_as_one_exec_request(room: SwitchRoom) -> None:
    texts = plan_exec("sonic", room.desired)
    assert texts is not None
    first = room.switch.snapshot()
    printed, status = room.exec(texts.apply)
    assert (printed.splitlines()[-1], status) == ("applied", 0)
    assert room.drift() == ()
    assert room.lab.saved_part(room.switch) == first["saved"]
    assert room.exec(texts.save)[1] == 0
    assert room.exec(texts.undo)[1] == 0
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()


def test_lossy_needs_nothing_that_the_first_boot_does_not_bring(tmp_path: Path) -> None:
    """Nobody has run `config qos reload` on a switch of the lab file."""
    plan = plan_fabric(load_spec(mode="lossy_ecn"))[0]
    config = SwitchConfig(
        name=plan.name,
        os=plan.os,
        model=plan.model,
        address="127.209.0.8",
        port=0,
        user="admin",
        password=LABS["sonic"].password,
        host_key_seed="test/leaf-02",
        cables=CABLES,
    )
    switch = make_lab_switch(config, tmp_path / "leaf-01.json")
    assert isinstance(switch, SonicSwitch)
    key = keys.host_key("test/leaf-02").public_openssh
    with running_loop() as loop:
        room = SwitchRoom("sonic", LABS["sonic"], switch, plan.endpoint, loop, Clock())
        room.wait(switch.start())
        room.endpoint = replace(
            plan.endpoint, address="127.209.0.8", port=switch.ssh_port, host_key=key
        )
        desired = plan.desired.model_dump(mode="json")
        request = {"endpoint": asdict(room.endpoint), "os": plan.os, "desired": desired}
        try:
            assert json.loads(device.run_apply(json.dumps(request), room.env))["saved"]
        finally:
            room.wait(switch.stop())
    for port in PORTS:
        view = switch.port_view(port)
        assert (view.oper_up, view.access_vlan, view.ecn_kib) == (True, 111, {3: (150, 1500)})
        assert (view.dscp_to_priority[26], view.pfc_priorities) == (3, frozenset())
    assert switch.unmodelled == ()
