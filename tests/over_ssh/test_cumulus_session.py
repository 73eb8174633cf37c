"""What only Cumulus does over SSH: bash's exit statuses, and nothing in force before the apply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import UnreachableError
from components.fabric import device
from components.fabric.cabling import find_wrong_cables
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("cumulus", tmp_path) as room:
        yield room


def test_a_session_that_drops_before_the_apply_changed_nothing(room: SwitchRoom) -> None:
    first = room.switch.snapshot()
    room.switch.fault(["drop", "3"])
    with pytest.raises(UnreachableError, match="the session was lost while the switch was changed"):
        room.apply()
    assert room.switch.snapshot() == first, "nothing is in force before the apply"
    room.apply()
    assert room.switch.port_view("swp4").access_vlan == 111


def test_neighbours_are_heard_over_ssh(room: SwitchRoom) -> None:
    room.apply()
    room.switch.fault(["cable", "swp1", "vm02", "ens224"])
    seen = device.observe_switch(room.endpoint, "cumulus", room.desired, room.secrets)
    assert seen.neighbours is not None
    heard = seen.neighbours["swp1"]
    assert (heard.system, heard.description) == ("vm02", "ens224")
    assert find_wrong_cables(room.lab.plan.cables, seen.neighbours) == (
        "port swp1: vm02 ens224 is plugged in, the file says vm01/rail-0",
    )
    assert room.switch.unmodelled == ()


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello", "hello\n"),
        ("nv show nonsense", "Error: Invalid parameter\n  'show nonsense'\n[status 1]\n"),
        ("cl-support", "-bash: cl-support: command not found\n[status 127]\n"),
    ],
)
def test_the_exit_status_is_told(room: SwitchRoom, command: str, output: str) -> None:
    with room.session() as session:
        assert session.run(command) == output


def test_an_exec_request_has_an_exit_status(room: SwitchRoom) -> None:
    assert room.exec("nv set interface swp99 link state up") == (
        "Error: swp99 is not a physical interface on this switch\n",
        1,
    )
