"""Recorded values: where imported ones wait for their step, and those of ports that came later."""

from __future__ import annotations

from pathlib import Path

from components.fabric.state import SwitchState
from components.fabric.systems import system_of


def baseline_file(stack: str, device: str) -> Path:
    """The imported baseline of one switch; mostly there is none."""
    return Path(".railyard") / stack / "baseline" / f"{device}.json"


def with_new_ports(baseline: SwitchState, owned: SwitchState, system: str) -> SwitchState:
    """The recorded values, and the factory's of parts that were not there when they were taken."""
    parts = {part for each in (owned.splits or {}).values() for part in each}
    new = tuple(name for name in owned.ports if name in parts and name not in baseline.ports)
    if not new:
        return baseline
    factory = system_of(system).driver.factory_state(new).ports
    return baseline.model_copy(update={"ports": {**baseline.ports, **factory}})
