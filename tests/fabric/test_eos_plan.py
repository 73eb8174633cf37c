"""The plan of a site with an EOS switch, its lines in both modes, and what it refuses."""

from __future__ import annotations

import pytest

from components.catalogue.switches.switch_model import parse_release
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Unsettable
from tests.fabric.eos_lab import load_spec

PFC = "priority-flow-control priority 3 no-drop"
HEAD = "priority-flow-control pause watchdog"
WATCHDOG = (
    HEAD,
    f"{HEAD} port timer timeout 0.20 polling-interval auto recovery-time 0.20",
    f"{HEAD} port action drop",
)


def test_the_watchdog_is_three_lines_of_the_ports_that_want_it() -> None:
    """The lines of either mode are in tests/golden/switches/eos.txt."""
    spec = load_spec(mode="lossless", pfc_watchdog=True)
    switch = spec.switches[0]
    other = switch.ports["Ethernet2/1"].model_copy(update={"pfc_watchdog": False})
    changed = switch.model_copy(update={"ports": {**switch.ports, "Ethernet2/1": other}})
    plan = plan_fabric(spec.model_copy(update={"switches": (changed,)}))[0]
    without = plan_fabric(load_spec(mode="lossless"))[0].commands_from_factory
    wanted: list[str] = []
    for line in without:
        wanted.append(line)
        ports = [each for each in wanted if each.startswith("interface ")]
        wanted += WATCHDOG if line == PFC and ports[-1] != "interface Ethernet2/1" else ()
    assert plan.commands_from_factory == tuple(wanted)
    assert [port.pfc_watchdog for port in plan.desired.ports.values()] == [True, None, True, True]


def test_the_example_site() -> None:
    plan = plan_fabric(load_spec())[0]
    assert (plan.os, plan.desired.vlans, plan.desired.roce) == ("eos", (111, 112), None)
    assert plan.desired.dscp_classes == {26: 3, 48: 6}
    port = plan.desired.ports["Ethernet2/1"]
    assert (port.mode, port.trunk_vlans, port.mtu_bytes, port.trust) == (
        "trunk",
        (112,),
        9214,
        "L3",
    )
    assert port.ecn == {3: EcnState(min_kib=150, max_kib=1500)}
    assert (port.strict_classes, port.pfc, port.pfc_priorities) == ((6,), None, None)
    bare = plan.model_copy(
        update={"cables": {}, "guarded": None, "timed_restore_s": None, "waves": ()}
    )
    assert SwitchPlan.model_validate_json(plan.model_dump_json()) == bare


def test_any_priority_can_be_lossless() -> None:
    spec = load_spec(mode="lossless", dscp=34)
    port = plan_fabric(spec)[0].desired.ports["Ethernet1/1"]
    assert (port.pfc_priorities, [*port.ecn]) == ((4,), [4])


def test_a_class_that_is_not_the_default_of_its_dscp_is_mapped() -> None:
    spec = load_spec(dscp=8)
    lines = plan_fabric(spec)[0].commands_from_factory
    assert "qos map dscp 8 to traffic-class 1" in lines, "EOS has it in class 0"
    assert not any("dscp 48" in line for line in lines)


def test_a_lane_of_a_split_port_is_a_port() -> None:
    spec = load_spec()
    switch = spec.switches[0]
    changed = switch.model_copy(update={"ports": {"Ethernet1/5": switch.ports["Ethernet1/1"]}})
    plan = plan_fabric(spec.model_copy(update={"switches": (changed,)}))[0]
    assert "interface Ethernet1/5" in plan.commands_from_factory


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("4.32.1F", (4, 32, 1)),
        ("4.33.1.1F", (4, 33, 1)),
        ("4.28.10.1M", (4, 28, 10)),
        ("4.30.0F-INT", (4, 30, 0)),
        ("3.9.2504", (3, 9, 2504)),
        ("strange", (0, 0, 0)),
    ],
)
def test_releases_parse(text: str, release: tuple[int, int, int]) -> None:
    assert parse_release(text) == release


def test_a_port_that_the_switch_does_not_have_is_no_work() -> None:
    wanted = SwitchState(ports={"Ethernet1/1": PortState(admin_up=True)})
    with pytest.raises(Unsettable, match="Ethernet1/1: not found"):
        system_of("eos").plan_changes(SwitchState(), wanted)
