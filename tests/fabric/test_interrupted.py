"""A signal at every exchange of a step: the switch is as before, as wanted, or the words say what.

What must hold is read from the emulator's own snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.core.errors import DeviceError
from components.fabric.exchange import Exchange
from components.fabric.moves import InterruptedRunError, shown
from components.remote.one_run import InterruptedTwice, Stop, WatchedSession
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import DirectSession, answer, apply, baseline_of, restore
from tests.fabric.switch_labs import LABS, NOT_SAVED, SAVED_ITSELF, SwitchLab

SYSTEMS: Final = ("onyx", "cumulus", "eos", "sonic")
BACK: Final = (NOT_SAVED, SAVED_ITSELF, "put back and saved")


class _Direct(DirectSession):
    """With the deadline that a session over SSH has."""

    def left_s(self) -> float:
        return 1000.0

    def renew(self) -> None:
        """It is far away."""


def _made(lab: SwitchLab, folder: Path) -> Any:  # noqa: ANN401 - any emulator
    switch = lab.make_switch(folder, Clock())
    lab.prepare(switch)
    return switch


def _seen(switch: Any) -> Any:  # noqa: ANN401 - any JSON
    """What it has, without the tables that SONiC's own buffer manager fills and leaves."""
    seen: dict[str, Any] = switch.snapshot()
    for part in seen.values():
        for table in ("BUFFER_PG", "BUFFER_PROFILE") if isinstance(part, dict) else ():
            cast("dict[str, Any]", part).pop(table, None)
    return seen


def _count(lab: SwitchLab, folder: Path) -> int:
    exchange = lab.talk(_made(lab, folder))
    sent = answer(exchange)
    apply(exchange, lab.desired)
    return len(sent)


def _noted(exchange: Exchange, at: int) -> None:
    """The signal comes while command `at` runs; the step notes it."""
    stop = Stop()

    def asks(_command: str, number: int) -> None:
        if number == at:
            stop.asked = "SIGTERM"

    answer(exchange, asks)
    exchange.session = WatchedSession(_Direct(exchange.session), stop)


def _raised(exchange: Exchange, at: int) -> None:
    """Something raises KeyboardInterrupt after the switch took command `at`."""
    run = exchange.session.run

    def breaks(command: str, number: int) -> None:
        if number == at:
            run(command)
            raise KeyboardInterrupt

    answer(exchange, breaks)


def _said(run: Callable[[], object]) -> str | None:
    """What an interrupted run says; empty: it had only read. None: it came to its end."""
    try:
        run()
    except InterruptedRunError as error:
        return str(error)
    except KeyboardInterrupt:
        return ""
    return None


@pytest.mark.parametrize("interrupt", [_noted, _raised])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_signal_at_any_exchange_of_an_apply_leaves_nothing_half(
    system: str, interrupt: Callable[[Exchange, int], None], tmp_path: Path
) -> None:
    lab, ended, back = LABS[system], 0, 0
    last = _count(lab, tmp_path / "count")
    # Both go the same way back, which takes long where there are many.
    for at in range(1, last + 1, 1 if interrupt is _noted else max(1, last // 20)):
        switch = _made(lab, tmp_path / str(at))
        first = _seen(switch)
        exchange = lab.talk(switch)
        interrupt(exchange, at)
        said = _said(lambda exchange=exchange: apply(exchange, lab.desired))
        if said is None:
            ended += 1
            assert apply(lab.talk(switch), lab.desired) == (), at
            continue
        assert _seen(switch) == first, (at, said)
        assert not said or any(words in said for words in BACK), (at, said)
        back += bool(said)
    assert back > 1
    assert ended == (1 if interrupt is _noted else 0), "only a signal after the last command"


@pytest.mark.parametrize("system", ["cumulus", "eos", "sonic"])
def test_a_signal_at_any_tenth_exchange_of_a_restore(system: str, tmp_path: Path) -> None:
    lab, at = LABS[system], 1
    while True:
        switch = _made(lab, tmp_path / str(at))
        baseline = baseline_of(lab.talk(switch), lab.desired)
        apply(lab.talk(switch), lab.desired)
        applied, exchange = _seen(switch), replace(lab.talk(switch), serial=2)
        _noted(exchange, at)
        said = _said(lambda exchange=exchange, old=baseline: restore(exchange, lab.desired, old))
        if said is None:
            break
        assert _seen(switch) == applied, (at, said)
        assert not said or any(words in said for words in BACK), (at, said)
        at += 10
    assert at > 10


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_second_signal_says_which_lines_were_taken(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    last = _count(lab, tmp_path / "count") // 2
    switch = _made(lab, tmp_path / "switch")
    exchange = lab.talk(switch)
    run = exchange.session.run

    def breaks(command: str, number: int) -> str:
        said = run(command)
        if number == last:
            raise KeyboardInterrupt
        if number > last:
            raise InterruptedTwice
        return said

    sent = answer(exchange, breaks)
    with pytest.raises(DeviceError, match="twice") as caught:
        apply(exchange, lab.desired)
    assert "nothing more was sent while the switch was changed" in str(caught.value)
    taken = str(caught.value).partition("taken")[2]
    assert any(line in taken for command in sent[:last] for line in shown(command))
    assert len(sent) == last + 1


def test_progress_is_said_once_after_half_of_the_time() -> None:
    said, now = list[str](), [0.0]

    class Slow(_Direct):
        def run(self, command: str) -> str:
            now[0] += 30
            return command

        def left_s(self) -> float:
            return 180 - now[0]

    session = WatchedSession(Slow(None, "leaf-01"), Stop(), said.append, lambda: now[0])
    session.plan(657)
    for _ in range(5):
        session.run("interface ethernet 1/1 shutdown")
    assert said == ["leaf-01: 120 of 180 s used, 4 of 657 lines sent"]
