"""Lines of every system with a command line, errors in outputs, and what changes interrupt."""

from __future__ import annotations

from typing import Any

import pytest

from components.core.difference import Difference
from components.core.errors import Bug
from components.fabric.effects import effect_of
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import flatten
from tests.fabric.in_process import load_table

TABLE: dict[str, list[Any]] = load_table("lines.yaml")
PORTS = {"eos": "Ethernet1/1", "onyx": "1/1"}


@pytest.mark.parametrize("way", TABLE["ways"], ids=str)
def test_the_way_from_one_port_state_to_another(way: dict[str, Any]) -> None:
    driver, port = system_of(way["system"]), PORTS[way["system"]]
    was, now = (
        SwitchState(ports={port: PortState.model_validate(way[key])}) for key in ("was", "now")
    )
    lines = flatten(driver.plan_changes(was, now))
    if driver.name == "eos":
        assert lines == (f"interface {port}", *way["lines"], "exit")
    else:
        assert lines == tuple(f"interface ethernet {port} {line}" for line in way["lines"])
    assert driver.plan_changes(now, now) == ()


@pytest.mark.parametrize("way", TABLE["states"], ids=str)
def test_the_way_from_one_switch_state_to_another(way: dict[str, Any]) -> None:
    driver = system_of(way["system"])
    was, now = (SwitchState.model_validate(way[key]) for key in ("was", "now"))
    changes = driver.plan_changes(was, now)
    assert flatten(changes) == (*way["lines"],)
    assert any(each.settles for each in changes) == way.get("settles", False)
    assert driver.plan_changes(now, now) == ()


@pytest.mark.parametrize(("system", "output", "refusal"), TABLE["refusals"])
def test_an_error_in_an_output_is_found(system: str, output: str, refusal: str | None) -> None:
    assert system_of(system).find_refusal(output) == refusal


@pytest.mark.parametrize(
    ("system", "where", "setting", "was", "now", "breaks"), TABLE["interrupts"]
)
def test_what_interrupts_traffic(
    system: str, where: str, setting: str, was: str, now: str, *, breaks: bool
) -> None:
    assert effect_of(system, Difference(where, setting, was, now)).interrupts is breaks


@pytest.mark.parametrize("system", ["mlnxos", "ufm"])
def test_what_a_subnet_manager_has_not(system: str) -> None:
    driver = system_of(system)
    assert (driver.ports.commands, driver.ports.parse({})) == ((), ())
    assert driver.read_commands(SwitchState()) == ()
    assert driver.parse({}, SwitchState()).state == SwitchState()
    assert driver.plan_changes(SwitchState(), SwitchState()) == ()
    with pytest.raises(Bug, match="no counters of InfiniBand ports"):
        driver.counters(("1",))
