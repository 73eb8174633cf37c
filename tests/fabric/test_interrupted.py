"""A signal at every exchange of a step: the switch is as before, as wanted, or the words say what.

What must hold is read from the emulator's own snapshots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.core.errors import DeviceError
from components.fabric.exchange import Exchange
from components.fabric.moves import InterruptedRunError, shown
from components.remote.watched import InterruptedTwice, Stop, WatchedSession
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import apply, baseline_of, restore
from tests.fabric.switch_labs import LABS, NOT_SAVED, SAVED_ITSELF, SwitchLab

SYSTEMS: Final = ("onyx", "cumulus", "eos", "sonic")
BACK: Final = (NOT_SAVED, SAVED_ITSELF, "put back and saved")


class _Direct:
    """The emulator's session with the deadline that a session over SSH has."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - any session of a lab
        self.session, self.renewed = session, 0
        self.where: str = session.where

    def run(self, command: str) -> str:
        text: str = self.session.run(command)
        return text

    def left_s(self) -> float:
        return 1000.0

    def renew(self) -> None:
        self.renewed += 1


def _made(lab: SwitchLab, folder: Path) -> Any:  # noqa: ANN401 - any emulator
    switch = lab.make_switch(folder, Clock())
    lab.prepare(switch)
    return switch


def _seen(switch: Any) -> Any:  # noqa: ANN401 - any JSON
    """What it has, without the tables that SONiC's own buffer manager fills and leaves."""
    seen: dict[str, Any] = copy.deepcopy(switch.snapshot())
    for part in seen.values():
        for table in ("BUFFER_PG", "BUFFER_PROFILE") if isinstance(part, dict) else ():
            cast("dict[str, Any]", part).pop(table, None)
    return seen


def _count(lab: SwitchLab, folder: Path) -> int:
    exchange = lab.talk(_made(lab, folder))
    session = WatchedSession(_Direct(exchange.session), Stop())
    exchange.session = session
    apply(exchange, lab.desired)
    return session.sent


def _noted(exchange: Exchange, at: int) -> None:
    """The signal comes while command `at` runs; the step notes it."""
    direct, stop = _Direct(exchange.session), Stop()
    run, sent = direct.run, [0]

    def counts(command: str) -> str:
        sent[0] += 1
        if sent[0] == at:
            stop.asked = "SIGTERM"
        return run(command)

    direct.run = counts
    exchange.session = WatchedSession(direct, stop)


def _raised(exchange: Exchange, at: int) -> None:
    """Something raises KeyboardInterrupt after the switch took command `at`."""
    session: Any = exchange.session
    run, sent = session.run, [0]

    def breaks(command: str) -> str:
        sent[0] += 1
        answer: str = run(command)
        if sent[0] == at:
            raise KeyboardInterrupt
        return answer

    session.run = breaks


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
    for at in range(1, _count(lab, tmp_path / "count") + 1):
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
    session: Any = exchange.session
    run, sent = session.run, list[str]()

    def breaks(command: str) -> str:
        sent.append(command)
        answer: str = run(command)
        if len(sent) == last:
            raise KeyboardInterrupt
        if len(sent) > last:
            raise InterruptedTwice
        return answer

    session.run = breaks
    with pytest.raises(DeviceError, match="twice") as caught:
        apply(exchange, lab.desired)
    assert "nothing more was sent while the switch was changed" in str(caught.value)
    taken = str(caught.value).partition("taken")[2]
    assert any(line in taken for command in sent[:last] for line in shown(command))
    assert len(sent) == last + 1


def test_progress_is_said_once_after_half_of_the_time() -> None:
    said, now = list[str](), [0.0]

    class Slow(_Direct):
        def __init__(self) -> None:
            self.where = "leaf-01"

        def run(self, command: str) -> str:
            now[0] += 30
            return command

        def left_s(self) -> float:
            return 180 - now[0]

    session = WatchedSession(Slow(), Stop(), said.append, lambda: now[0])
    session.plan(657)
    for _ in range(5):
        session.run("interface ethernet 1/1 shutdown")
    assert said == ["leaf-01: 120 of 180 s used, 4 of 657 lines sent"]
