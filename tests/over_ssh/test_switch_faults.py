"""One table of what goes wrong, over real SSH, against every switch system that there is.

Each switch is asked for all that its system has: split ports, numbered and bare
links with BGP and BFD, adaptive routing, queues. Whatever happens: nothing is saved by halves, the
next run converges, and the undo is exact.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

import pytest

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.errors import DeviceError, UnreachableError
from components.fabric import device
from components.fabric.systems import system_of
from components.remote.switch_session import SwitchSession
from lab.switches.cumulus import cli as cumulus_cli
from tests.fabric.switch_labs import put_back
from tests.fabric.whole_intents import whole_lab
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
KILLED: Final = """
import os, sys
from components.fabric.device import run_apply
print(run_apply(sys.stdin.read(), os.environ))
"""


class Outcome(Enum):
    """What an apply comes to."""

    WORKS = auto()
    """As if nothing were wrong."""
    UNTOUCHED = auto()
    """It fails before the first change, and says why."""
    PUT_BACK = auto()
    """It fails, and the values of before are back."""
    LOST = auto()
    """It fails in the middle: running may be half, saved is not."""
    TAKEN_BACK = auto()
    """The same, and the switch itself goes back when its timer runs out."""


@dataclass(frozen=True)
class Absent:
    """A fault that a system cannot have, and why."""

    why: str


@dataclass(frozen=True)
class Traits:
    """What differs between systems when something goes wrong."""

    middle: str
    """A line in the middle of the first apply, whatever the one-shot brought."""
    lock: Callable[[SwitchRoom], str] | Absent
    """Let somebody else hold the configuration; returns what the error says."""
    unlock: Callable[[SwitchRoom], object] = lambda _room: None
    drop_after: int = 3
    """So many lines are taken before the session drops: in the middle of routing."""
    at_commit: bool = True
    """Changes come into force together, for a while only."""
    pages: bool = True
    """Long answers stop in a pager unless the session turns that off."""


def _eos_lock(room: SwitchRoom) -> str:
    room.switch.fault(["lock", "operator"])
    return "held by operator"


def _cumulus_lock(room: SwitchRoom) -> str:
    room.switch.session().run("nv set interface swp9 link mtu 1500; nv config apply --confirm -y")
    return "awaits confirmation and is not Railyard's"


def _sonic_lock(room: SwitchRoom) -> str:
    room.switch.fault(["lock", "operator"])
    return "a config reload or another update is running"


TRAITS: Final[dict[str, Traits]] = {
    "onyx": Traits(
        middle="interface ethernet 1/1/2 mtu 9216",
        drop_after=16,
        lock=Absent("every line acts at once, and nobody can hold the configuration"),
        at_commit=False,
    ),
    "cumulus": Traits(
        middle="nv set interface swp29s0 ip address 10.254.0.2/31",
        drop_after=30,
        lock=_cumulus_lock,
        unlock=lambda room: room.switch.fault(["commit-timer"]),
        pages=False,
    ),
    "eos": Traits(
        middle="neighbor interface Ethernet29/5 peer-group RAILYARD remote-as 65001",
        drop_after=100,
        lock=_eos_lock,
        unlock=lambda room: room.switch.fault(["lock", "off"]),
    ),
    "mlnxos": Traits(
        middle="ib partition storage member a0:88:c2:03:00:01:10:00 type full force",
        lock=Absent("every line acts at once, and nobody can hold the configuration"),
        at_commit=False,
    ),
    "sonic": Traits(
        middle='"Ethernet4":{"mtu":"9216"}',
        drop_after=2,
        lock=_sonic_lock,
        unlock=lambda room: room.switch.fault(["lock", "off"]),
        at_commit=False,
        pages=False,
    ),
}
"""One entry a system: a new one without it fails here."""


@dataclass
class Trouble:
    """One fault at work: what the error says, and how it ends."""

    says: str = ""
    end: Callable[[], object] = lambda: None
    run: Callable[[SwitchRoom, str], object] = field(default=SwitchRoom.apply)


Plant = Callable[[SwitchRoom, pytest.MonkeyPatch], Trouble | Absent]


def _fault(room: SwitchRoom, says: str, *words: str) -> Trouble:
    room.switch.fault(list(words))
    off = {"disk-full": "off", "slow": "0"}.get(words[0], "off")
    return Trouble(says, lambda: room.switch.fault([words[0], off]))


def _dropped(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble:
    room.switch.fault(["drop", str(TRAITS[room.system].drop_after)])
    return Trouble("the session was lost while the switch was changed")


def _dropped_at_commit(room: SwitchRoom, patch: pytest.MonkeyPatch) -> Trouble | Absent:
    guard = system_of(room.system).guard
    if not TRAITS[room.system].at_commit:
        assert guard is None
        return Absent("each line acts at once")
    assert guard is not None
    first = guard.confirm.split("{")[0] if "{" in guard.confirm else guard.confirm
    last = guard.confirm.rpartition("}")[2]
    run = SwitchSession.run

    def breaks(session: SwitchSession, line: str) -> str:
        if line.startswith(first) and line.endswith(last):
            session.__exit__(None, None, None)
        return run(session, line)

    patch.setattr(SwitchSession, "run", breaks)
    return Trouble(f"restores the previous configuration within {guard.rollback_s} s", patch.undo)


def _slow(room: SwitchRoom, patch: pytest.MonkeyPatch) -> Trouble:
    patch.setattr(device, "WRITE_DEADLINE_S", 4.0)
    room.switch.fault(["slow", "6"])

    def end() -> None:
        patch.undo()
        room.switch.fault(["slow", "0"])

    return Trouble("within (the deadline of )?4 s", end)


def _paged(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble | Absent:
    if not TRAITS[room.system].pages:
        return Absent("bash pages nothing by itself, and PAGER is cat")
    return Trouble()


def _locked(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble | Absent:
    traits = TRAITS[room.system]
    if isinstance(traits.lock, Absent):
        return traits.lock
    return Trouble(traits.lock(room), lambda: traits.unlock(room))


def _disk_full(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble:
    return _fault(room, "No space left on device", "disk-full", "on")


def _rejected(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble:
    return _fault(room, "refused a line", "reject", TRAITS[room.system].middle)


def _deaf(room: SwitchRoom, patch: pytest.MonkeyPatch) -> Trouble:
    run, deaf = SwitchSession.run, TRAITS[room.system].middle

    def ignores(session: SwitchSession, line: str) -> str:
        return "" if deaf in line else run(session, line)

    patch.setattr(SwitchSession, "run", ignores)
    read = cumulus_cli.read_patch

    def drops(text: str) -> list[tuple[str, list[str]]]:
        return [line for line in read(text) if f"nv {line[0]} {' '.join(line[1])}" != deaf]

    patch.setattr(cumulus_cli, "read_patch", drops)
    return Trouble("took every line and still differs", patch.undo)


def _no_login(room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble:
    return _fault(room, "no session within", "sessions", "0")


def _unreadable(room: SwitchRoom, patch: pytest.MonkeyPatch) -> Trouble:
    driver = system_of(room.system)
    asked = {driver.read_commands(room.desired)[0], driver.whole_command({}, room.desired)}
    run = SwitchSession.run

    def garbles(session: SwitchSession, line: str) -> str:
        return "<?xml version='1.0'?>\n" if line in asked else run(session, line)

    patch.setattr(SwitchSession, "run", garbles)
    return Trouble("cannot read the answer to", patch.undo)


def _killed(_room: SwitchRoom, _patch: pytest.MonkeyPatch) -> Trouble:
    return Trouble("killed", run=kill_apply)


FAULTS: Final[dict[str, tuple[Plant, Outcome]]] = {
    "the session drops before the changes are in force": (_dropped, Outcome.LOST),
    "the session drops before the confirmation": (_dropped_at_commit, Outcome.TAKEN_BACK),
    "a prompt comes after the deadline": (_slow, Outcome.UNTOUCHED),
    "the switch pages long answers": (_paged, Outcome.WORKS),
    "somebody else holds the configuration": (_locked, Outcome.UNTOUCHED),
    "the disk is full at the save": (_disk_full, Outcome.PUT_BACK),
    "a line in the middle is rejected": (_rejected, Outcome.PUT_BACK),
    "a line is taken and does nothing": (_deaf, Outcome.PUT_BACK),
    "no login is left": (_no_login, Outcome.UNTOUCHED),
    "an answer cannot be read": (_unreadable, Outcome.UNTOUCHED),
    "the apply is killed": (_killed, Outcome.LOST),
}


@pytest.fixture(params=SWITCH_SYSTEMS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SwitchRoom]:
    assert request.param in TRAITS, f"the fault table knows nothing of {request.param}"
    with switch_room(request.param, tmp_path, whole_lab(request.param)) as room:
        yield room


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault(room: SwitchRoom, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, outcome = FAULTS[name]
    baseline = room.baseline()
    request = room.request(baseline=baseline)
    clean = room.switch.snapshot()
    with monkeypatch.context() as patch:
        trouble = plant(room, patch)
        if isinstance(trouble, Absent):
            assert trouble.why
            return
        planted = room.switch.snapshot()
        check_outcome(room, trouble, outcome, request, planted)
        trouble.end()
    assert room.apply(request)["saved"], "the next run converges"
    assert room.drift() == ()
    device.run_restore(request, room.env)
    assert room.switch.snapshot() == clean
    assert room.switch.unmodelled == ()


def check_outcome(
    room: SwitchRoom, trouble: Trouble, outcome: Outcome, request: str, planted: object
) -> None:
    saved = room.lab.saved_part(room.switch)
    if outcome is Outcome.WORKS:
        trouble.run(room, request)
        return
    kind = DeviceError if outcome is Outcome.PUT_BACK else (DeviceError, UnreachableError)
    with pytest.raises(kind, match=trouble.says) as caught:
        trouble.run(room, request)
    assert room.lab.saved_part(room.switch) == saved, "never saved half"
    if room.lab.password != room.lab.user:
        assert room.lab.password not in str(caught.value)
    if outcome is Outcome.PUT_BACK:
        assert put_back(room.lab.plan.os) in str(caught.value)
    if outcome is Outcome.TAKEN_BACK:
        assert room.switch.snapshot() != planted, "in force, and not confirmed"
        room.clock.now_s += 1000
    if outcome is not Outcome.LOST:
        assert room.switch.snapshot() == planted


def kill_apply(room: SwitchRoom, request: str) -> None:
    """Kill an apply just when the switch has one line in the middle."""
    half = threading.Event()
    watch_for(room.switch, half, TRAITS[room.system].middle)
    environ = {**os.environ, **room.env}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, env=environ, text=True
    ) as apply:
        assert apply.stdin is not None
        apply.stdin.write(request)
        apply.stdin.close()
        assert half.wait(timeout=60)
        apply.send_signal(signal.SIGKILL)
        apply.wait(timeout=60)
    raise UnreachableError("killed")


def watch_for(switch: Any, seen: threading.Event, fatal: str) -> None:  # noqa: ANN401 - any emulator
    """Hold the switch for a moment after one line, so that the kill falls right there."""
    refuse: Callable[[str], str | None] = switch.refuse

    def refuse_and_tell(line: str) -> str | None:
        if not seen.is_set() and fatal in line:
            switch.faults.slow_s = 1.0
            threading.Timer(0.5, lambda: setattr(switch.faults, "slow_s", 0.0)).start()
            seen.set()
        return refuse(line)

    switch.refuse = refuse_and_tell
