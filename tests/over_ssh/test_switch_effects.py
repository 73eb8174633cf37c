"""What an update announces, against what the emulated switch shows before, between and after lines.

The expectation comes from the switch alone: which VLANs, MTU, class and link each port had. The
table of effects is only asked what it announced.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from components.core.difference import Effect
from components.core.errors import DeviceError
from components.fabric import device
from components.fabric.edit import Edit
from components.fabric.effects import interrupting
from components.fabric.state import EcnState, PortState, SwitchState
from components.remote.switch_session import SwitchSession
from lab.views import PortView
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
SYSTEMS: Final = ("onyx", "cumulus", "eos", "sonic")
SEEDS: Final = range(int(os.environ.get("RAILYARD_SEEDS", "6")))
Ports = dict[str, PortState]
Views = Mapping[str, PortView]


@pytest.fixture(params=SYSTEMS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room(request.param, tmp_path) as room:
        yield room


def _moved_vlan(port: PortState, rng: random.Random) -> PortState:
    to = rng.choice((211, 212))
    if port.mode == "access":
        return port.model_copy(update={"access_vlan": to})
    return port.model_copy(update={"trunk_vlans": (to,)})


def _more_vlans(port: PortState, rng: random.Random) -> PortState:
    held = port.trunk_vlans
    if port.mode == "access" or not isinstance(held, tuple):
        return port
    return port.model_copy(update={"trunk_vlans": tuple(sorted({*held, rng.choice((211, 212))}))})


def _new_mtu(port: PortState, rng: random.Random) -> PortState:
    return port.model_copy(update={"mtu_bytes": rng.choice((1500, 9000))})


def _shut(port: PortState, rng: random.Random) -> PortState:
    del rng
    return port.model_copy(update={"admin_up": False})


def _marked(port: PortState, rng: random.Random) -> PortState:
    ecn = EcnState(min_kib=rng.choice((300, 600)), max_kib=2000)
    return port.model_copy(update={"ecn": dict.fromkeys(port.ecn, ecn)})


def _classed(port: PortState, rng: random.Random) -> PortState:
    maps = {dscp: rng.randrange(8) for dscp in port.dscp_priorities}
    return port.model_copy(update={"dscp_priorities": maps})


EDITS: Final[tuple[Callable[[PortState, random.Random], PortState], ...]] = (
    _moved_vlan, _more_vlans, _new_mtu, _shut, _marked, _classed,
)  # fmt: skip


def edited(wanted: SwitchState, rng: random.Random, *, by_profile: bool) -> SwitchState:
    """One to three edits of some ports, and now and then a port that leaves the file."""
    ports: Ports = dict(wanted.ports)
    for _ in range(rng.randint(1, 3)):
        edit = rng.choice(EDITS)
        if by_profile and edit in {_marked, _classed}:
            continue  # the profile of the switch has the classes, and no port has others
        # A file has one map and one marking for all ports, and SONiC one row for each of them.
        shared = edit in {_classed, _marked}
        names = sorted(ports) if shared else rng.sample(sorted(ports), rng.randint(1, 2))
        way = rng.random()
        for name in names:
            ports[name] = edit(ports[name], random.Random(way) if shared else rng)  # noqa: S311
    if rng.random() < 0.3:
        del ports[rng.choice(sorted(ports))]
    named = {vlan for port in ports.values() for vlan in (port.access_vlan, *_trunk(port)) if vlan}
    return wanted.model_copy(update={"ports": ports, "vlans": tuple(sorted(named))})


def _trunk(port: PortState) -> tuple[int, ...]:
    return port.trunk_vlans if isinstance(port.trunk_vlans, tuple) else ()


@dataclass
class Watch:
    """What the ports showed before, and the worst of them since then."""

    room: SwitchRoom
    before: Views
    worst: dict[str, Effect]

    @classmethod
    def start(cls, room: SwitchRoom) -> Watch:
        before = look(room)
        return cls(room, before, dict.fromkeys(before, Effect.NONE))

    def __call__(self) -> None:
        for name, now in look(self.room).items():
            self.worst[name] = max(self.worst[name], noticed(self.before[name], now))


def look(room: SwitchRoom) -> Views:
    return {name: room.switch.port_view(name) for name in room.desired.ports}


def noticed(before: PortView, now: PortView) -> Effect:
    """What running traffic of a port noticed."""
    if not before.admin_up:
        return Effect.NONE
    if (
        not now.admin_up
        or (before.oper_up and not now.oper_up)
        or before.mtu_bytes != now.mtu_bytes
    ):
        return Effect.LINK
    if not _carried(before) <= _carried(now):
        return Effect.TRAFFIC
    return Effect.NONE if _classes(before) == _classes(now) else Effect.CLASS


def _carried(view: PortView) -> frozenset[tuple[str, int]]:
    tagged = {("tagged", vlan) for vlan in view.allowed_vlans if view.mode != "access"}
    untagged = {("untagged", view.access_vlan)} if view.mode != "trunk" else set[tuple[str, int]]()
    return frozenset(tagged | untagged)


def _classes(view: PortView) -> tuple[object, ...]:
    return (view.trust, view.dscp_to_priority, view.priority_to_tc, view.ecn_kib,
            view.pfc_priorities)  # fmt: skip


def announced(edit: Edit, seen: SwitchState) -> dict[str, Effect]:
    """The worst that is said of each port; what is said of the switch is said of all."""
    worst = dict.fromkeys(edit.wanted.ports, Effect.NONE)
    for change, effect in edit.effects(seen).items():
        named = change.where.removeprefix("port ")
        for port in (named,) if named in worst else worst:
            worst[port] = max(worst[port], effect)
    return worst


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_happens_to_a_port_that_was_not_announced(
    room: SwitchRoom, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{room.system} {seed}")  # noqa: S311 - it picks test data
    recorded = room.baseline()
    evidence = device.run_apply(room.request(baseline=recorded), room.env)
    env = {**room.env, device.PREVIOUS_OUTPUT: evidence}
    wanted = edited(room.desired, rng, by_profile=room.system == "cumulus")
    edit = Edit(room.system, wanted, room.desired, SwitchState.model_validate(recorded))
    seen = device.observe_switch(room.endpoint, room.system, edit.wanted, room.secrets)
    said, stops = announced(edit, seen), interrupting(edit.effects(seen))
    more = {"baseline": recorded, "desired": wanted.model_dump(mode="json")}
    watch = Watch.start(room)
    run = SwitchSession.run

    def watched(session: SwitchSession, command: str) -> str:
        answer = run(session, command)
        watch()
        return answer

    monkeypatch.setattr(SwitchSession, "run", watched)
    first = room.switch.snapshot()
    if stops:
        with pytest.raises(DeviceError, match="would interrupt traffic"):
            device.run_apply(room.request(ports="deny", **more), env)
        assert room.switch.snapshot() == first
        assert {*watch.worst.values()} == {Effect.NONE}
        done = json.loads(device.run_apply(room.request(**more), env))
        assert done["interrupted"]
    else:
        done = json.loads(device.run_apply(room.request(ports="deny", **more), env))
        assert not any(effect.interrupts for effect in watch.worst.values())
    unsaid = {
        port: (watch.worst[port], said[port]) for port in said if watch.worst[port] > said[port]
    }
    assert unsaid == {}, done["changed"]


def test_hosts_leave_before_their_ports_change_and_only_those(room: SwitchRoom) -> None:
    room.apply()
    first, (name, port) = room.switch.snapshot(), next(iter(room.desired.ports.items()))
    ports = {**room.desired.ports, name: port.model_copy(update={"mtu_bytes": 9000})}
    edited = room.desired.model_copy(update={"ports": ports}).model_dump(mode="json")
    away: list[Sequence[str]] = []

    @contextmanager
    def out_of_service(changing: Sequence[str]) -> Generator[None]:
        away.append(changing)
        assert room.switch.snapshot() == first
        yield
        assert room.switch.port_view(name).mtu_bytes == 9000

    request = room.request(ports="drain", desired=edited)
    device.run_apply(request, room.env, out_of_service)
    assert away == [(name,)]
