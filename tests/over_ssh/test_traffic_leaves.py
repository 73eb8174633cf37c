"""`ports: drain` on a switch with BGP sessions: traffic leaves before a change, and comes back.

What the switch asks its neighbours for is read off the emulator before each line that it gets.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from components.core.errors import DeviceError
from components.fabric import device
from components.fabric.exchange import Exchange
from components.fabric.gate import place_file
from components.model.cluster import ClusterSpec
from components.remote.tools import FOLDER
from lab.site import lab_file
from lab.switches.emulators import make_switch
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import KINDS, routed_of
from tests.fabric.switch_labs import LABS, SwitchLab
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
SYSTEMS = ("cumulus", "eos", "sonic")
TITLES = {
    "cumulus": "BGP graceful shutdown",
    "eos": "EOS maintenance mode",
    "sonic": "BGP graceful shutdown",
}
BY_HAND = {
    "cumulus": ("nv set router bgp graceful-shutdown on", "nv config apply -y"),
    "eos": ("enable", "configure", "maintenance", "unit System", "quiesce", "end"),
    "sonic": ("sudo sonic-db-cli CONFIG_DB HSET 'BGP_GLOBALS|default' graceful_shutdown true",),
}
"""What a person types (the vendor's manuals; sonic-db-cli is Redis' own HSET)."""
AWAY_WORD = {"cumulus": "graceful-shutdown", "eos": "quiesce", "sonic": "graceful_shutdown"}


def routed_site(system: str) -> ClusterSpec:
    """Leaves below a spine; the first switch is a leaf with two hosts' ports and two links."""
    return routed_of(system, mode="lossless")


def routed_lab(system: str) -> SwitchLab:
    spec = routed_site(system)

    def make(folder: Path, _clock: Clock) -> Any:  # noqa: ANN401 - one emulator a system
        config = lab_file(spec, "fabric", (folder, folder, folder)).switches[0]
        known = LABS[system]
        switch: Any = make_switch(
            replace(config, address=known.address, port=0, user=known.user,
                    password=known.password, host_key_seed=f"test/{config.name}"),
            folder / f"{config.name}.json",
        )  # fmt: skip
        for line in KINDS[system].first:
            switch.run_line(line)
        return switch

    def load(**_: object) -> ClusterSpec:
        return spec

    return replace(LABS[system], make_switch=make, load_spec=load)


@dataclass
class Recorder:
    """Every line that the switch gets, and whether it asked for other paths before it."""

    room: SwitchRoom
    lines: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    def __post_init__(self) -> None:
        """Listen before the switch decides about a line."""
        refuse = self.room.switch.refuse

        def recorded(line: str) -> str | None:
            self.lines.append((line, self.is_away))
            return refuse(line)

        self.room.switch.refuse = recorded

    @property
    def is_away(self) -> bool:
        return self.room.switch.router_view().drained

    def while_changing(self, word: str) -> set[bool]:
        """Whether traffic was away at each line with this word."""
        return {away for line, away in self.lines if word in line and "show" not in line}

    def sent(self, word: str) -> bool:
        return any(word in line and "show" not in line for line, _ in self.lines)


@pytest.fixture(params=SYSTEMS)
def room(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SwitchRoom]:
    monkeypatch.chdir(tmp_path)
    with switch_room(request.param, tmp_path, routed_lab(request.param)) as room:
        path = FOLDER.parent / place_file(room.endpoint)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"settle_s": 1}))
        room.apply(room.request())
        yield room
        assert room.switch.unmodelled == ()


@contextmanager
def nobody(_ports: Sequence[str]) -> Generator[tuple[str, ...]]:
    yield ()


def edited(room: SwitchRoom, **more: object) -> str:
    """The request of an update with another MTU on every port to a host."""
    ports = {
        name: port.model_copy(update={"mtu_bytes": 4200}) if port.trunk_vlans else port
        for name, port in room.desired.ports.items()
    }
    state = room.desired.model_copy(update={"ports": ports})
    return room.request(desired=state.model_dump(mode="json"), ports="drain", **more)


def drain(room: SwitchRoom, request: str) -> Any:  # noqa: ANN401 - JSON of the evidence
    return json.loads(device.run_apply(request, room.env, nobody))


def by_hand(room: SwitchRoom) -> None:
    session = room.switch.session()
    for line in BY_HAND[room.system]:
        session.run(line)
    assert room.switch.router_view().drained


def test_traffic_leaves_before_the_change_and_comes_back(room: SwitchRoom) -> None:
    recorder = Recorder(room)
    evidence = drain(room, edited(room))
    assert evidence["shifted"] == TITLES[room.system]
    assert evidence["changed"]
    assert recorder.while_changing("mtu") == {True}
    assert not recorder.lines[0][1]
    assert not recorder.is_away
    parts = [*room.switch.snapshot().values()]
    assert parts[0] == parts[1], "what runs is what boots, without the drain"
    assert not [*FOLDER.parent.glob("*-away")]


def test_nothing_is_sent_where_nothing_is_interrupted_or_the_file_allows_it(
    room: SwitchRoom,
) -> None:
    recorder = Recorder(room)
    assert "shifted" not in drain(room, room.request(ports="drain"))
    allowed = json.loads(edited(room)) | {"ports": "allow"}
    assert "shifted" not in room.apply(json.dumps(allowed))
    assert not recorder.sent(AWAY_WORD[room.system])


def test_a_refused_change_brings_traffic_back(room: SwitchRoom) -> None:
    first = room.switch.snapshot()
    room.switch.fault(["reject", "mtu"])
    recorder = Recorder(room)
    with pytest.raises(DeviceError, match="put back") as caught:
        drain(room, edited(room))
    assert True in {away for _, away in recorder.lines}
    assert caught.value.kept is False, "the text with the waves is a new error"
    assert "still in" not in str(caught.value)
    assert not recorder.is_away
    assert room.switch.snapshot() == first


def test_a_switch_that_refuses_to_be_drained_is_not_changed(room: SwitchRoom) -> None:
    first = room.switch.snapshot()
    room.switch.fault(["reject", AWAY_WORD[room.system]])
    with pytest.raises(DeviceError, match=r"set disruption\.ports to allow") as caught:
        drain(room, edited(room))
    assert TITLES[room.system] in str(caught.value)
    assert room.switch.snapshot() == first


def kill_in_the_change(room: SwitchRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends after traffic left and before anything changed, as SIGKILL ends it."""

    def killed(*_: object, **__: object) -> NoReturn:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Exchange, "converge", killed)
        with pytest.raises(SystemExit):
            drain(room, edited(room))
    assert room.switch.router_view().drained


@pytest.mark.parametrize("ports", ["drain", "allow"])
def test_the_next_run_brings_back_what_a_killed_one_sent_away(
    room: SwitchRoom, monkeypatch: pytest.MonkeyPatch, ports: str
) -> None:
    kill_in_the_change(room, monkeypatch)
    request = json.dumps(json.loads(edited(room)) | {"ports": ports})
    device.run_apply(request, room.env, nobody if ports == "drain" else None)
    assert not room.switch.router_view().drained
    assert not [*FOLDER.parent.glob("*-away")]


def test_an_undo_leaves_no_switch_away(room: SwitchRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = room.baseline()
    kill_in_the_change(room, monkeypatch)
    device.run_restore(room.request(baseline=baseline), room.env)
    assert not room.switch.router_view().drained


def test_a_switch_that_a_person_sent_away_stays_away(room: SwitchRoom) -> None:
    by_hand(room)
    recorder = Recorder(room)
    evidence = drain(room, edited(room))
    assert evidence["changed"]
    assert "shifted" not in evidence
    assert recorder.is_away
    assert not recorder.sent(AWAY_WORD[room.system])


def test_a_lost_session_leaves_it_away_and_says_so(room: SwitchRoom) -> None:
    """Nobody can bring it back then; the next run does."""
    recorder = Recorder(room)
    cut = room.switch.refuse

    def cut_at_the_change(line: str) -> str | None:
        if "mtu" in line and recorder.is_away:
            room.switch.drop_sessions()
        return cut(line)

    room.switch.refuse = cut_at_the_change
    with pytest.raises(DeviceError, match="session was lost") as caught:
        drain(room, edited(room))
    assert f"leaf-01 is still in {TITLES[room.system]}" in str(caught.value)
    assert recorder.is_away
    room.switch.refuse = cut
    room.clock.now_s += 3600  # a candidate that nobody confirmed is gone
    assert drain(room, edited(room))["desired"]
    assert not recorder.is_away
