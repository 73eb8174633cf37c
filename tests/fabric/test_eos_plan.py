"""The plan of a site with an EOS switch, its lines in both modes, and what it refuses."""

from __future__ import annotations

import pytest

from components.catalogue.switches.switch_model import parse_release
from components.core.difference import Difference
from components.fabric.parts import sources, write_fields
from components.fabric.plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.eos.driver import EosDriver
from tests.fabric.eos_lab import load_spec

ECN = (
    "random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes "
    "max-mark-probability 100 weight 0"
)
BEFORE = ("enable", "configure session railyard-1", "vlan 111", "exit", "vlan 112", "exit")
AFTER = (
    "show session-config diffs",
    "commit timer 00:05:00",
    "configure session railyard-1 commit",
    "write memory",
)
WATCHDOG = (
    "priority-flow-control pause watchdog",
    (
        "priority-flow-control pause watchdog port timer timeout 0.20 polling-interval auto "
        "recovery-time 0.20"
    ),
    "priority-flow-control pause watchdog port action drop",
)
PFC = ("priority-flow-control on", "priority-flow-control priority 3 no-drop")


def _block(port: int, *pfc: str) -> tuple[str, ...]:
    return (
        f"interface Ethernet{port}/1",
        "switchport mode trunk",
        f"switchport trunk allowed vlan {112 - port % 2}",
        "qos trust dscp",
        *pfc,
        "uc-tx-queue 3",
        ECN,
        "exit",
        "exit",
    )


UNWRITTEN = sources(trust=False, mode=False)


def _watched(**words: str) -> dict[str, object]:
    """The lines of a port's watchdog, as they are found; together they are off unless said."""
    return {"pfc_watchdog": False, "native": {"pfc_watchdog": write_fields(words)}}


@pytest.mark.parametrize(("mode", "pfc"), [("lossy_ecn", ()), ("lossless", PFC)])
def test_the_lines_from_factory_settings(mode: str, pfc: tuple[str, ...]) -> None:
    ports = (line for port in range(1, 5) for line in _block(port, *pfc))
    assert plan_fabric(load_spec(mode=mode))[0].commands_from_factory == (*BEFORE, *ports, *AFTER)


def test_the_watchdog_is_three_lines_of_the_ports_that_want_it() -> None:
    spec = load_spec(mode="lossless", pfc_watchdog=True)
    switch = spec.switches[0]
    other = switch.ports["Ethernet2/1"].model_copy(update={"pfc_watchdog": False})
    changed = switch.model_copy(update={"ports": {**switch.ports, "Ethernet2/1": other}})
    plan = plan_fabric(spec.model_copy(update={"switches": (changed,)}))[0]
    ports = (
        line
        for port in range(1, 5)
        for line in _block(port, *PFC, *(WATCHDOG if port != 2 else ()))
    )
    assert plan.commands_from_factory == (*BEFORE, *ports, *AFTER)
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


@pytest.mark.parametrize(
    ("setting", "interrupts"),
    [
        ("mtu_bytes", True),
        ("pfc", True),
        ("pfc_priorities", True),
        ("pfc_watchdog", False),
        ("trust", False),
        ("mode", True),
    ],
)
def test_what_interrupts_traffic(setting: str, interrupts: bool) -> None:  # noqa: FBT001 - a table
    change = Difference("port Ethernet1/1", setting, "a", "b")
    assert EosDriver().interrupts(change) is interrupts


@pytest.mark.parametrize(
    ("was", "target", "lines"),
    [
        ({"admin_up": True}, {"admin_up": False}, ("shutdown",)),
        ({"admin_up": False}, {"admin_up": True}, ("no shutdown",)),
        (
            {"mtu_bytes": 9000},
            {"mtu_bytes": 9214, "native": sources(mtu_bytes=False)},
            ("no l2 mtu",),
        ),
        (
            {"mode": "routed", "native": UNWRITTEN, "trust": "L3"},
            {"mode": "access", "access_vlan": 111, "trust": "L3"},
            (
                "switchport",
                "switchport mode access",
                "switchport access vlan 111",
                "qos trust dscp",
            ),
        ),
        (
            {"mode": "trunk", "trust": "L3"},
            {"mode": "routed", "trust": "L3", "native": UNWRITTEN},
            ("switchport mode access", "no switchport", "default qos trust"),
        ),
        (
            {"mode": "access"},
            {"mode": "routed", "native": sources(mode=True)},
            ("switchport mode trunk", "no switchport"),
        ),
        (
            {"mode": "trunk", "trunk_vlans": (10, 20)},
            {"mode": "trunk", "trunk_vlans": (10, 111)},
            ("switchport trunk allowed vlan add 111", "switchport trunk allowed vlan remove 20"),
        ),
        (
            {"mode": "trunk", "trunk_vlans": (10,)},
            {"trunk_vlans": ()},
            ("switchport trunk allowed vlan none",),
        ),
        (
            {"pfc": True, "pfc_priorities": (3,)},
            {"pfc": False, "pfc_priorities": (3, 5)},
            (
                "no priority-flow-control",
                "priority-flow-control priority 3 no-drop",
                "priority-flow-control priority 5 no-drop",
            ),
        ),
        (
            _watched(timer="timeout 1 polling-interval auto recovery-time 2 forced"),
            {"pfc_watchdog": True},
            (WATCHDOG[0], WATCHDOG[2]),
        ),
        (
            _watched(enable="", timer="timeout 1", action="drop") | {"pfc_watchdog": True},
            _watched(timer="timeout 1", action="notify-only"),
            (
                f"no {WATCHDOG[0]}",
                f"{WATCHDOG[0]} port timer timeout 1",
                f"{WATCHDOG[0]} port action notify-only",
            ),
        ),
        (
            {"pfc": True} | _watched(enable="", timer="timeout 1"),
            {"pfc": False} | _watched(timer="timeout 1"),
            (
                "no priority-flow-control",
                f"no {WATCHDOG[0]}",
                f"{WATCHDOG[0]} port timer timeout 1",
            ),
        ),
        (
            _watched(timer="timeout 1", action="drop"),
            {"pfc_watchdog": False},
            (f"no {WATCHDOG[0]} port timer", f"no {WATCHDOG[0]} port action"),
        ),
        (
            {"strict_classes": (7,)},
            {"strict_classes": (6, 7)},
            ("uc-tx-queue 6", "priority strict", "exit"),
        ),
        (
            {"ecn": {3: EcnState(min_kib=1, max_kib=2)}},
            {"ecn": {3: None}},
            ("uc-tx-queue 3", "no random-detect ecn minimum-threshold", "exit"),
        ),
        (
            {"ecn": {3: None}},
            {"ecn": {3: EcnState(min_kib=0, max_kib=0, native="minimum-threshold 9 segments")}},
            ("uc-tx-queue 3", "random-detect ecn minimum-threshold 9 segments", "exit"),
        ),
    ],
)
def test_the_way_from_one_port_state_to_another(
    was: dict[str, object],
    target: dict[str, object],
    lines: tuple[str, ...],
) -> None:
    actual, wanted = (
        SwitchState(ports={"Ethernet1/1": PortState.model_validate(port)}) for port in (was, target)
    )
    block = ("interface Ethernet1/1", *lines, "exit")
    assert EosDriver().plan_changes(actual, wanted) == (Change(block),)
    assert EosDriver().plan_changes(wanted, wanted) == ()


def test_a_port_that_the_switch_does_not_have_is_no_work() -> None:
    wanted = SwitchState(ports={"Ethernet1/1": PortState(admin_up=True)})
    with pytest.raises(Unsettable, match="Ethernet1/1: there is no such port"):
        EosDriver().plan_changes(SwitchState(), wanted)
