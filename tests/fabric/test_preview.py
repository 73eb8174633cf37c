"""What a preview says about a switch, and what a failed change says about its values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.errors import DeviceError
from components.fabric.edit import preview_switch, render_waves
from components.fabric.effects import collapse, group_settings
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import rooms_of, routed_of
from tests.fabric.in_process import apply
from tests.fabric.switch_labs import LABS

NO_TIMER = (
    "NO TIMED RESTORE: if the session is lost, Onyx keeps the lines that it took, unsaved, until"
    " the next update or a restart; have its console at hand"
)
ORDER = {f"swp{number}": number for number in range(1, 33)}


def plan_of(system: str) -> SwitchPlan:
    return LABS[system].plan


def with_port(state: SwitchState, name: str, **changes: object) -> SwitchState:
    port = state.ports[name].model_copy(update=changes)
    return state.model_copy(update={"ports": {**state.ports, name: port}})


def test_an_edit_says_port_old_new_and_what_it_interrupts() -> None:
    plan = plan_of("onyx")
    seen = plan.desired
    for name in ("1/1", "1/2", "1/3"):
        seen = with_port(seen, name, mtu_bytes=1500)
    assert preview_switch(plan, plan.desired, seen, "allow") == (
        "leaf-01: 3 settings will change\n"
        "  ports 1/1 to 1/3\n"
        "    mtu_bytes: 1500 -> 9216\n"
        "  INTERRUPTS (disruption.ports: allow): ports 1/1 to 1/3: mtu_bytes: 1500 -> 9216\n"
        f"  {NO_TIMER}"
    )


def test_a_change_of_class_is_named_and_no_interruption() -> None:
    plan = plan_of("eos")
    seen = with_port(plan.desired, "Ethernet1/1", trust="L2")
    assert preview_switch(plan, plan.desired, seen, "deny") == (
        "leaf-01: 1 setting will change\n  port Ethernet1/1\n    trust: L2 -> L3\n"
        "  running traffic changes its class: port Ethernet1/1: trust: L2 -> L3"
    )


def test_waves_are_listed_with_what_each_interrupts() -> None:
    plan = plan_of("onyx").model_copy(update={"waves": (("leaf-01",), ("leaf-02", "leaf-05"))})
    flaps = "x: 3 settings will change\n  INTERRUPTS (disruption.ports: allow): port 1/1: flaps"
    quiet = "x: 1 setting will change\n  port 1/1\n    trust: L2 -> L3"
    unread = f"{quiet}\n  interrupts: not known, since the switch was not read"
    assert render_waves([plan], {"leaf-01": unread, "leaf-02": flaps, "leaf-05": flaps}, 1) == (
        "wave 1 of 2 (canary): leaf-01 - its impact is unknown",
        "wave 2 of 2: leaf-[02,05] - port 1/1: flaps",
    )
    assert render_waves([plan], {"leaf-02": flaps, "leaf-05": quiet}, 1) == (
        "wave 2 of 2: leaf-02 - port 1/1: flaps; leaf-05 - interrupts nothing",
    )
    assert render_waves([plan], {}, 1) == ()
    alone = plan.model_copy(update={"waves": (("leaf-01",),)})
    assert render_waves([alone], {"leaf-01": flaps}, 1) == ()


TIMED = [
    ("onyx", "3.10.4006", "auto", None),
    ("mlnxos", "3.10.4006", "auto", None),
    ("sonic", "202405", "auto", None),
    ("eos", "4.32.1F", "auto", 300),
    ("cumulus", "5.9.2", "auto", 300),
    ("cumulus", "5.4.0", "auto", None),
    ("cumulus", "5.9.2", "exec", None),
]


@pytest.mark.parametrize(("system", "release", "executor", "timer_s"), TIMED)
def test_a_switch_that_takes_nothing_back_by_itself_is_named(
    system: str, release: str, executor: str, timer_s: int | None
) -> None:
    spec, update = LABS[system].spec, {"release": release}
    if executor == "exec":
        update["executor"] = executor
    switches = tuple(each.model_copy(update=update) for each in spec.switches)
    plan = plan_fabric(spec.model_copy(update={"switches": switches}))[0]
    assert plan.timed_restore_s == timer_s
    text = preview_switch(plan, None, None, "allow") or ""
    assert executor == "exec" or ("NO TIMED RESTORE" in text) == (timer_s is None)


def test_what_leaves_the_file_is_given_back() -> None:
    plan = plan_of("onyx")
    fewer = {name: port for name, port in plan.desired.ports.items() if name != "1/4"}
    edited = plan.model_copy(update={"desired": plan.desired.model_copy(update={"ports": fewer})})
    text = preview_switch(edited, plan.desired, plan.desired, "allow") or ""
    assert re.search(r"  port 1/4\n    .*mtu_bytes.*: restored", text)
    assert "INTERRUPTS" not in text


def test_what_cannot_be_set_is_said_before() -> None:
    plan = plan_of("cumulus")
    seen = with_port(plan.desired, "swp3", trust="L2")
    text = preview_switch(plan, plan.desired, seen, "allow") or ""
    assert "    trust: L2 -> both\n  will be refused: the RoCE profile lossless is active" in text
    assert "nv unset interface swp3 qos mapping" in text


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_a_first_preview_names_every_setting_and_a_second_none(system: str) -> None:
    plan = plan_of(system)
    factory = system_of(system).factory_state(tuple(plan.desired.ports))
    text = preview_switch(plan, None, factory, "allow") or ""
    wanted, had = plan.desired.settings(), factory.settings()
    moved = [key for key, value in wanted.items() if had.get(key, "absent") != value]
    assert text.startswith(f"{plan.name}: {len(moved)} settings will change\n")
    assert preview_switch(plan, plan.desired, plan.desired, "allow") is None
    assert preview_switch(plan, plan.desired, None, "allow") is None


def test_a_switch_that_nobody_read_has_unknown_interruptions() -> None:
    plan = plan_of("eos")
    was = with_port(plan.desired, "Ethernet1/1", mtu_bytes=1500)
    text = preview_switch(plan, was, None, "allow") or ""
    assert text.endswith("interrupts: not known, since the switch was not read")


def test_ports_and_settings_are_collapsed() -> None:
    assert collapse(["swp9", "swp2", "swp1", "swp3"], ORDER) == "ports swp1 to swp3, swp9"
    assert collapse(["swp1s1"], ORDER) == "port swp1s1"
    assert collapse(["swp2", "swp1"], ORDER) == "ports swp1, swp2"
    words = {("switch", f"vlan_{vlan}"): "absent -> present" for vlan in (111, 112, 113, 200)}
    assert list(group_settings({**words, ("switch", "roce"): "none -> lossy"}, ORDER)) == [
        "switch",
        "  roce: none -> lossy",
        "  vlan_111-113, vlan_200: absent -> present",
    ]


def test_a_failed_change_shows_the_values_that_it_was_about(tmp_path: Path) -> None:
    lab = LABS["onyx"]
    switch = lab.make_switch(tmp_path, Clock())
    switch.fault(["reject", "1/2 mtu"])
    desired = lab.desired
    with pytest.raises(DeviceError) as caught:
        apply(lab.talk(switch), desired)
    text = str(caught.value)
    assert re.search(r"  values\n(.|\n)*mtu_bytes: was 1500, should be 9216, is 1500", text)
    assert "vlan_1:" not in text, "what nobody touches is not told"


GRACEFUL = "BGP graceful shutdown"
DRAINS = {"cumulus": GRACEFUL, "eos": "EOS maintenance mode", "sonic": GRACEFUL}


@pytest.mark.parametrize("system", DRAINS)
def test_a_drain_says_how_traffic_leaves(system: str, tmp_path: Path) -> None:
    room = rooms_of(routed_of(system, mode="lossless"), tmp_path)[0]
    room.apply()
    plan, seen = room.plan, room.read()
    edited = with_port(plan.desired, next(iter(plan.desired.ports)), mtu_bytes=4200)
    plan = plan.model_copy(update={"desired": edited})
    words = f"traffic leaves leaf-01 first ({DRAINS[system]})"
    assert words in str(preview_switch(plan, room.plan.desired, seen, "drain"))
    assert "traffic leaves" not in str(preview_switch(plan, room.plan.desired, seen, "allow"))
    assert edited.bgp is not None
    number = edited.bgp.model_copy(update={"asn": 64999})
    plan = plan.model_copy(update={"desired": edited.model_copy(update={"bgp": number})})
    words = "no traffic is sent away from leaf-01 first: this update ends every BGP session itself"
    assert words in str(preview_switch(plan, room.plan.desired, seen, "drain"))


@pytest.mark.parametrize(
    ("system", "why"), [("onyx", "its driver sets no BGP"), ("eos", "it runs no BGP sessions")]
)
def test_a_drain_says_why_no_traffic_leaves(system: str, why: str) -> None:
    plan = plan_of(system)
    seen = with_port(plan.desired, LABS[system].port, mtu_bytes=1500)
    words = f"no traffic is sent away from leaf-01 first: {why}"
    assert words in str(preview_switch(plan, plan.desired, seen, "drain"))
