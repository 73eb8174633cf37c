"""The laws of every driver, on one switch in this process."""

from __future__ import annotations

from pathlib import Path

from components.fabric.device import every_key
from components.fabric.state import diff_states
from components.fabric.targets import target_of_apply, target_of_restore
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import SwitchLab


def check_laws(lab: SwitchLab, folder: Path) -> None:
    """An apply is found again and its second one is empty; the undo is exact, and all is saved."""
    desired = lab.desired
    switch = lab.make_switch(folder, Clock())
    first = switch.snapshot()
    exchange = lab.talk(switch)
    baseline = exchange.read(every_key(exchange.list_ports(), desired)).state
    assert switch.snapshot() == first, "reading changes nothing"
    lines = exchange.converge(desired, lambda r: target_of_apply(r.state, desired)).lines
    assert lines
    assert diff_states(exchange.read(desired).state, desired) == ()
    assert exchange.converge(desired, lambda r: target_of_apply(r.state, desired)).lines == ()
    running = next(iter(switch.snapshot().values()))
    assert running == lab.saved_part(switch)
    lab.carried.check(switch, desired)
    exchange.converge(
        desired, lambda r: target_of_restore(r.state, desired, baseline, r.vlan_holders)
    )
    assert switch.snapshot() == first
    assert switch.unmodelled == ()
