"""The PFC watchdog of EOS ports: taken out of the file, hidden, refused, changed by somebody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.state import diff_states
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import make_switch, talk
from tests.fabric.in_process import apply, baseline_of, edit
from tests.fabric.test_eos_exchange import (
    HISTORIES,
    LOSSLESS,
    WATCHED,
    line_of,
    wrote,
)


@pytest.fixture
def switch(tmp_path: Path) -> EosSwitch:
    return make_switch(tmp_path)


@settings(max_examples=25, deadline=None)
@given(history=HISTORIES, between=st.lists(st.integers(1, 4).flatmap(line_of), max_size=4))
def test_a_watchdog_that_leaves_the_file_leaves_nothing(
    history: list[str], between: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        wrote(switch, history)
        exchange = talk(switch)
        baseline = baseline_of(exchange, WATCHED)
        before = {n: p.watchdog.model_copy() for n, p in switch.stored.running.ports.items()}
        apply(exchange, WATCHED)
        wrote(switch, [line for line in between if "watchdog" in line])
        edit(exchange, WATCHED, LOSSLESS, baseline)
        assert {n: p.watchdog for n, p in switch.stored.running.ports.items()} == before
        assert diff_states(exchange.read(LOSSLESS).state, LOSSLESS) == ()
        assert switch.unmodelled == ()


def test_a_watchdog_line_that_the_switch_does_not_show_is_no_success(
    switch: EosSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = switch.snapshot()
    exchange = talk(switch)
    run: Callable[[str], str] = exchange.session.run
    hidden = "priority-flow-control pause watchdog"

    def shy(line: str) -> str:
        return run(line).replace(f"   {hidden}\n", "")

    monkeypatch.setattr(exchange.session, "run", shy)
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        apply(exchange, WATCHED)
    assert hidden in str(caught.value)
    assert switch.snapshot() == first


def test_a_platform_without_the_watchdog_of_a_port_refuses_and_keeps_nothing(
    switch: EosSwitch,
) -> None:
    first = switch.snapshot()
    switch.fault(["reject", "port timer"])
    with pytest.raises(DeviceError, match="the previous values were put back; not saved"):
        apply(talk(switch), WATCHED)
    assert switch.snapshot() == first


def test_drift_of_the_watchdog_is_told_and_repaired(switch: EosSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, WATCHED)
    watchdog = "priority-flow-control pause watchdog"
    switch.run_line(f"interface Ethernet2/1;no {watchdog}")
    switch.run_line(f"interface Ethernet3/1;{watchdog} port action notify-only")
    timer = "port timer timeout 1 polling-interval auto recovery-time 1"
    switch.run_line(f"interface Ethernet4/1;{watchdog} {timer}")
    found = [str(each) for each in diff_states(exchange.read(WATCHED).state, WATCHED)]
    assert found == [
        f"pfc_watchdog of port Ethernet{number}/1 is off, want on" for number in (2, 3)
    ]
    assert apply(exchange, WATCHED) == (
        "interface Ethernet2/1",
        watchdog,
        "exit",
        "interface Ethernet3/1",
        f"{watchdog} port action drop",
        "exit",
    )
    assert timer.endswith(str(switch.stored.running.ports["Ethernet4/1"].watchdog.timer))
