"""A port that does not come back after a change: the step fails, says so, and asks again later."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.fabric.gate import place_file
from components.remote.tools import FOLDER
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
SYSTEMS = ("onyx", "cumulus", "eos", "sonic")
LINES = {"onyx": "mtu", "cumulus": "mtu", "eos": "mtu", "sonic": "mtu"}
"""What the line holds that sets the MTU of a port."""
SETTLE_S = 1


@pytest.fixture(params=SYSTEMS)
def room(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SwitchRoom]:
    """A switch as the file wants it, in the second of three waves."""
    monkeypatch.chdir(tmp_path)
    with switch_room(request.param, tmp_path) as room:
        write_place(room, watched=True)
        room.apply()
        yield room


def write_place(room: SwitchRoom, *, watched: bool) -> None:
    waves = ["leaf-00", room.lab.plan.name, "leaf-[02-64]"]
    place = {"wave": 1, "waves": waves, "settle_s": SETTLE_S, "watched": watched}
    path = FOLDER.parent / place_file(room.endpoint)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(place))


def edited(room: SwitchRoom) -> str:
    """The request of an update with another MTU."""
    ports = {
        name: port.model_copy(update={"mtu_bytes": port.mtu_bytes and 4200})
        for name, port in room.desired.ports.items()
    }
    state = room.desired.model_copy(update={"ports": ports})
    return room.request(desired=state.model_dump(mode="json"))


def break_link(room: SwitchRoom) -> str:
    port = room.lab.port
    room.switch.fault(["lose-link", port, LINES[room.system]])
    return port


def test_a_port_that_stays_down_fails_the_step(room: SwitchRoom) -> None:
    port = break_link(room)
    with pytest.raises(DeviceError) as caught:
        room.apply(edited(room))
    text = str(caught.value)
    assert f"port {port} was up and is down" in text
    assert "wave    2 of 3: leaf-01" in text
    assert "done    leaf-00" in text
    assert "not begun  leaf-[02-64]" in text
    assert "run `pulumi up` again" in text
    assert "undo the edit in the file" in text
    assert room.lab.saved_part(room.switch) == next(iter(room.switch.snapshot().values()))
    again = edited(room)
    with pytest.raises(DeviceError, match=f"port {port} was up and is down"):
        room.apply(again)  # nothing is left to change, and the port is still down
    room.switch.fault(["lose-link", "off"])
    room.switch.fault(["link-down", port, "off"])
    assert room.apply(again)["changed"] == []
    assert room.apply(again)["changed"] == [], "what was missing is forgotten"


def test_the_edit_is_taken_back(room: SwitchRoom) -> None:
    port = break_link(room)
    with pytest.raises(DeviceError, match="was up and is down"):
        room.apply(edited(room))
    room.switch.fault(["lose-link", "off"])
    room.switch.fault(["link-down", port, "off"])
    assert room.apply()["changed"]
    assert room.drift() == ()


def test_a_port_that_comes_back_in_time_is_waited_for(room: SwitchRoom) -> None:
    began_s = time.monotonic()
    room.apply(edited(room))
    assert time.monotonic() - began_s < 20
    assert not [*FOLDER.parent.glob("*-missing")]


def test_on_a_new_site_nothing_is_waited_for(room: SwitchRoom) -> None:
    write_place(room, watched=False)
    break_link(room)
    assert room.apply(edited(room))["changed"]


def test_a_refused_line_says_which_waves_were_not_begun(room: SwitchRoom) -> None:
    room.switch.fault(["reject", LINES[room.system]])
    with pytest.raises(DeviceError) as caught:
        room.apply(edited(room))
    assert "not begun  leaf-[02-64]" in str(caught.value)
