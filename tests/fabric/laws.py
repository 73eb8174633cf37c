"""The laws of every driver, on one switch in this process."""

from __future__ import annotations

from pathlib import Path

from components.fabric.state import PortState, SwitchState, diff_states
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.switch_labs import SwitchLab


def check_laws(lab: SwitchLab, folder: Path) -> None:
    """An apply is found again and its second one is empty; the undo is exact, and all is saved.

    What an edit drops is given back: the undo of the rest leaves nothing of it either.
    """
    desired = lab.desired
    switch = lab.make_switch(folder, Clock())
    first = switch.snapshot()
    exchange = lab.talk(switch)
    baseline = baseline_of(exchange, desired)
    assert switch.snapshot() == first, "reading changes nothing"
    wishless = SwitchState(ports=dict.fromkeys(desired.ports, PortState()))
    assert apply(exchange, wishless) == ()
    assert switch.snapshot() == first, "an empty wish changes nothing"
    for rest in (desired, lab.carried.fewer(desired)):
        assert apply(exchange, desired)
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        running = next(iter(switch.snapshot().values()))
        assert running == lab.saved_part(switch)
        lab.carried.check(switch, desired)
        if rest != desired:
            edit(exchange, desired, rest, baseline)
            assert diff_states(exchange.read(rest).state, rest) == ()
        restore(exchange, rest, baseline)
        assert switch.snapshot() == first
    assert switch.unmodelled == ()
