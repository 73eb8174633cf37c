"""The guard of EOS: a session that is confirmed, lost, or in somebody's way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.core.errors import DeviceError, UnreachableError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import diff_states
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import Clock, load_spec, make_switch, talk
from tests.fabric.in_process import apply

LOSSY = plan_fabric(load_spec())[0].desired
LOSSLESS = plan_fabric(load_spec(mode="lossless"))[0].desired


@pytest.fixture
def switch(tmp_path: Path) -> EosSwitch:
    return make_switch(tmp_path)


@pytest.fixture(params=["4.31.2F", "4.32.1F"])
def either(tmp_path: Path, request: pytest.FixtureRequest) -> EosSwitch:
    """A switch of each form in which a waiting commit is shown; 4.32 brought the second one."""
    switch = make_switch(tmp_path, release=request.param)
    other = switch.session()
    for line in ("enable", "configure session probe", "vlan 9", "commit timer 00:10:00"):
        other.run(line)
    shown = other.run("show configuration sessions detail | json")
    assert ("commitTimerSessionName" in shown) == (request.param == "4.32.1F")
    assert ("pendingCommitTimer" in shown) == (request.param == "4.31.2F")
    other.run("configure session probe abort")
    return switch


def test_one_session_that_is_confirmed_after_it_was_read(switch: EosSwitch) -> None:
    exchange = talk(switch, serial=17)
    sent: list[str] = []
    run: Callable[[str], str] = exchange.session.run

    def record(line: str) -> str:
        sent.append(line)
        return run(line)

    exchange.session.run = record  # type: ignore[method-assign]
    apply(exchange, LOSSLESS)
    changing = [line for line in sent if not line.startswith("show ")]
    assert changing[0] == "configure session railyard-17"
    assert changing[-3:] == [
        "commit timer 00:05:00",
        "configure session railyard-17 commit",
        "write memory",
    ]
    timer, confirm = (sent.index(line) for line in changing[-3:-1])
    assert any("running-config" in line for line in sent[timer:confirm]), "it was read in between"
    assert switch.stored.startup == switch.stored.running
    assert switch.stored.unconfirmed is None
    sent.clear()
    apply(exchange, LOSSLESS)
    assert [line for line in sent if not line.startswith("show ")] == ["write memory"]


def test_a_refused_confirmation_takes_it_all_back(switch: EosSwitch) -> None:
    first = switch.snapshot()
    exchange = talk(switch)
    switch.fault(["reject", "railyard-1 commit"])
    with pytest.raises(DeviceError, match="previous values were put back; not saved"):
        apply(exchange, LOSSLESS)
    assert switch.snapshot() == first
    assert switch.config_sessions.held == {}


def _lose_at(exchange: Exchange, monkeypatch: pytest.MonkeyPatch, fatal: str) -> None:
    run: Callable[[str], str] = exchange.session.run
    armed: list[str] = []

    def breaks(line: str) -> str:
        if line.startswith("commit timer"):
            armed.append(line)
        if line.startswith(fatal) and (armed or not fatal.startswith("show")):
            raise UnreachableError(f"leaf-01: the session ended while `{line}` ran")
        return run(line)

    monkeypatch.setattr(exchange.session, "run", breaks)


def test_a_session_lost_after_the_commit_is_taken_back_by_the_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    switch = make_switch(tmp_path, clock)
    first = switch.snapshot()
    exchange = talk(switch)
    _lose_at(exchange, monkeypatch, "show vlan")
    with pytest.raises(UnreachableError, match="restores the previous configuration within 300 s"):
        apply(exchange, LOSSLESS)
    assert switch.port_view("Ethernet1/1").pfc_priorities == {3}
    clock.now_s = 299
    assert switch.port_view("Ethernet1/1").pfc_priorities == {3}
    clock.now_s = 300
    assert switch.port_view("Ethernet1/1").pfc_priorities == frozenset()
    assert switch.snapshot() == first
    apply(talk(switch, serial=2), LOSSLESS)
    assert diff_states(talk(switch).read(LOSSLESS).state, LOSSLESS) == ()


@pytest.mark.parametrize("fatal", ["qos trust", "show session-config", "show vlan", "commit timer"])
def test_the_next_run_takes_back_at_once_what_a_lost_one_left(
    either: EosSwitch, monkeypatch: pytest.MonkeyPatch, fatal: str
) -> None:
    first = either.snapshot()
    exchange = talk(either)
    _lose_at(exchange, monkeypatch, fatal)
    if fatal == "show session-config":
        run = exchange.session.run
        monkeypatch.setattr(exchange.session, "run", _ended(run, fatal))
    with pytest.raises(UnreachableError):
        apply(exchange, LOSSLESS)
    assert [*either.config_sessions.held] == ["railyard-1"]
    talk(either, serial=2)
    assert either.config_sessions.held == {}
    assert either.snapshot() == first


def _ended(run: Callable[[str], str], fatal: str) -> Callable[[str], str]:
    def breaks(line: str) -> str:
        if line.startswith(fatal):
            raise UnreachableError("leaf-01: the session ended")
        return run(line)

    return breaks


def test_a_commit_of_somebody_else_is_waited_for(either: EosSwitch) -> None:
    other = either.session()
    for line in ("enable", "configure session theirs", "vlan 50", "commit timer 00:10:00"):
        assert other.run(line) == ""
    with pytest.raises(
        DeviceError, match=r"session theirs awaits confirmation and is not Railyard's; .* abort"
    ):
        talk(either)
    assert 50 in either.stored.running.vlans
    other.run("configure session theirs commit")
    talk(either)


def test_sessions_of_others_are_left_alone(either: EosSwitch) -> None:
    other = either.session()
    for line in ("enable", "configure session theirs", "vlan 50"):
        other.run(line)
    apply(talk(either), LOSSY)
    assert either.config_sessions.held["theirs"].state == "pending"


def test_too_many_pending_sessions_are_named(switch: EosSwitch) -> None:
    other = switch.session()
    other.run("enable")
    for number in range(5):
        other.run(f"configure session theirs-{number}")
        other.run("end")
    with pytest.raises(DeviceError, match="Maximum number of pending sessions"):
        apply(talk(switch), LOSSY)


def test_a_held_lock_is_named(switch: EosSwitch) -> None:
    first = switch.snapshot()
    switch.fault(["lock", "operator"])
    with pytest.raises(DeviceError, match="configuration lock: held by operator"):
        apply(talk(switch), LOSSLESS)
    assert switch.snapshot() == first
