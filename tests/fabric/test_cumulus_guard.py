"""The guard of Cumulus: a revision that is confirmed, lost, in somebody's way, or not offered."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError, UnreachableError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems.base import Occupied, Unreadable
from components.fabric.systems.cumulus import find_id, find_stale
from components.fabric.targets import target_of_apply
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric.cumulus_lab import load_spec, make_switch, talk
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import NOT_SAVED, SAVED_ITSELF

DESIRED = plan_fabric(load_spec())[0].desired
TIMER = "nv config apply --confirm 300s -y -m"


@pytest.fixture
def switch(tmp_path: Path) -> CumulusSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def old(tmp_path: Path) -> CumulusSwitch:
    """The last release without `nv config revision`; it saves nothing by itself either."""
    return make_switch(tmp_path, release="5.4.0")


def apply(exchange: Exchange, desired: SwitchState = DESIRED) -> tuple[str, ...]:
    return exchange.converge(desired, lambda r: target_of_apply(r.state, desired)).lines


def never(_line: str) -> bool:
    return False


def tap(
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
    lost_before: Callable[[str], bool] = never,
    lost_after: Callable[[str], bool] = never,
) -> list[str]:
    """Record what is sent, and lose the session before or after a line."""
    sent: list[str] = []
    run: Callable[[str], str] = exchange.session.run

    def tell(line: str) -> str:
        lost = UnreachableError(f"leaf-01: the session ended while `{line}` ran")
        if lost_before(line):
            raise lost
        sent.append(line)
        printed = run(line)
        if lost_after(line):
            raise lost
        return printed

    monkeypatch.setattr(exchange.session, "run", tell)
    return sent


def test_one_revision_that_is_confirmed_after_it_was_read(
    switch: CumulusSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(switch, serial=17)
    sent = tap(exchange, monkeypatch)
    apply(exchange)
    timer = sent.index(f"{TIMER} railyard-17")
    confirm = sent.index("nv config apply 2 --confirm-yes")
    assert sent[timer - 1] == "nv config diff"
    assert "nv config show -o json" in sent[timer:confirm], "it was read in between"
    assert sent[confirm + 1 :] == ["nv config save"]
    assert switch.stored.unconfirmed is None
    assert switch.stored.startup == switch.stored.applied
    sent.clear()
    assert apply(exchange) == ()
    assert not any("apply" in line for line in sent)


@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 14))
def test_wherever_the_session_is_lost_the_switch_goes_back_by_itself(number: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        switch = make_switch(Path(folder), clock)
        first = switch.snapshot()
        exchange = talk(switch)
        numbers = count()
        tap(exchange, patch, lambda _line: next(numbers) >= number)
        try:
            apply(exchange)
        except UnreachableError:
            confirmed = switch.stored.unconfirmed is None and bool(switch.stored.applied)
            clock.now_s = 299
            switch.revisions.tick()
            clock.now_s = 300
            now = switch.snapshot()
            assert isinstance(now, dict)
            assert isinstance(first, dict)
            assert now["startup"] in (first["startup"], now["applied"]), "never saved half"
            assert confirmed or now == first
        apply(talk(switch, serial=2))
        assert diff_states(talk(switch, serial=3).read(DESIRED).state, DESIRED) == ()
        assert switch.stored.startup == switch.stored.applied
        assert switch.unmodelled == ()


def test_a_session_lost_after_the_apply_says_what_happens(
    switch: CumulusSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(switch)
    tap(exchange, monkeypatch, lost_before=lambda line: line.endswith("--confirm-yes"))
    with pytest.raises(UnreachableError, match="restores the previous configuration within 300 s"):
        apply(exchange)
    assert switch.port_view("swp1").pfc_priorities == {3}


def test_the_next_run_takes_back_at_once_what_a_lost_one_left(
    switch: CumulusSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = switch.snapshot()
    exchange = talk(switch, serial=17)
    tap(exchange, monkeypatch, lost_after=lambda line: line.startswith(TIMER))
    with pytest.raises(UnreachableError):
        apply(exchange)
    assert switch.snapshot() != first
    talk(switch, serial=18)
    assert switch.snapshot() == first
    assert switch.stored.unconfirmed is None


@pytest.mark.parametrize("rejected", ["config diff", "--confirm 300s", "--confirm-yes"])
def test_a_refusal_takes_it_all_back(switch: CumulusSwitch, rejected: str) -> None:
    first = switch.snapshot()
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError, match=SAVED_ITSELF):
        apply(talk(switch))
    assert switch.snapshot() == first
    assert switch.stored.unconfirmed is None
    assert switch.stored.pending is None


def test_a_revision_of_somebody_else_is_waited_for(switch: CumulusSwitch) -> None:
    other = switch.session()
    other.run("nv set interface swp9 link mtu 1500; nv config apply --confirm 10m -y")
    with pytest.raises(
        DeviceError,
        match=r"revision 2 awaits confirmation and is not Railyard's; .*Nothing was changed",
    ):
        talk(switch)
    assert switch.port_view("swp9").mtu_bytes == 1500
    other.run("nv config apply 2 --confirm-yes")
    assert apply(talk(switch)) != ()


def test_a_release_without_the_list_is_applied_to_for_good(
    old: CumulusSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(old)
    sent = tap(exchange, monkeypatch)
    apply(exchange)
    changing = [line for line in sent if "show" not in line]
    assert changing[-3:] == ["nv config diff", "nv config apply -y", "nv config save"]
    assert old.stored.unconfirmed is None
    assert old.port_view("swp1").pfc_priorities == {3}


def test_a_refusal_on_such_a_release_puts_back_too(old: CumulusSwitch) -> None:
    first = old.snapshot()
    old.faults.reject.append("link state up")
    with pytest.raises(DeviceError, match=NOT_SAVED):
        apply(talk(old))
    assert old.snapshot() == first
    assert old.stored.pending is None


def test_without_the_number_the_bare_form_confirms(
    switch: CumulusSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(switch)
    run: Callable[[str], str] = exchange.session.run
    sent: list[str] = []

    def vague(line: str) -> str:
        sent.append(line)
        return "no table\n" if line.startswith("nv config revision") else run(line)

    monkeypatch.setattr(exchange.session, "run", vague)
    apply(exchange)
    assert "nv config apply --confirm-yes" in sent
    assert switch.stored.unconfirmed is None


def test_the_table_of_revisions() -> None:
    ours = '{"2": {"state": "applied"}, "3": {"state": "confirm", "note": "railyard-9"}}'
    assert find_stale(ours) == ("3",)
    assert find_stale('{"3": {"state": "applied", "message": "railyard-9"}}') == ()
    with pytest.raises(Occupied, match="revision 4 awaits confirmation and is not Railyard's"):
        find_stale('{"4": {"state": "confirm", "message": "ops"}}')
    assert find_id(ours, "railyard-9") == "3"
    assert find_id('{"4": {"state": "confirm"}}', "railyard-9") == "4"
    assert find_id("{}", "railyard-9") == ""
    with pytest.raises(Unreadable, match="no table of revisions"):
        find_id("Rev ID  State", "railyard-9")
