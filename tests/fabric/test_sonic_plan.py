"""The plan of a site with a SONiC switch, and what it refuses."""

from __future__ import annotations

import pytest

from components.catalogue.switches import find_model
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import flatten
from components.fabric.targets import target_of_apply
from lab.switches.sonic.config import PLATFORMS, factory_db
from tests.fabric.sonic_lab import PORTS, load_spec, sent_rows

ENTER = ("sudo -n true", *system_of("sonic").configure)
SAVE = (
    "sudo config save -y /etc/sonic/railyard.json && sudo rm /etc/sonic/railyard.json && "
    "sudo config save -y"
)


def test_the_desired_state() -> None:
    plan = plan_fabric(load_spec())[0]
    assert (plan.os, plan.desired.vlans, plan.desired.roce) == ("sonic", (111,), "lossless")
    port = plan.desired.ports["Ethernet8"]
    assert (port.mode, port.access_vlan, port.mtu_bytes, port.trust) == ("access", 111, 9216, "L3")
    assert port.ecn == {3: EcnState(min_kib=150, max_kib=1500)}
    assert (port.pfc_priorities, port.lossless_buffers) == ((3,), (3,))
    assert (port.dscp_priorities, port.priority_classes) == ({26: 3, 48: 6}, {3: 3, 6: 6})
    assert (plan.desired.native, port.native, port.pfc) == ({}, {}, None)
    bare = plan.model_copy(
        update={"cables": {}, "guarded": None, "timed_restore_s": None, "waves": ()}
    )
    assert SwitchPlan.model_validate_json(plan.model_dump_json()) == bare


def test_requests_of_other_systems_are_as_they_were() -> None:
    port = PortState(mtu_bytes=9216)
    written = SwitchState(ports={"1/1": port}).model_dump(mode="json")
    assert "native" not in written
    theirs = {"dscp_priorities", "priority_classes", "pfc_priorities", "lossless_buffers", "native"}
    assert not theirs & {*written["ports"]["1/1"]}
    said = PortState(pfc_priorities=(), native={"pfc": "{}"})
    assert {"pfc_priorities", "native"} <= {*said.model_dump(mode="json")}
    assert PortState.model_validate_json(said.model_dump_json()) == said


def test_lossy_says_that_nothing_is_paused() -> None:
    plan = plan_fabric(load_spec(mode="lossy_ecn"))[0]
    port = plan.desired.ports["Ethernet0"]
    assert (plan.desired.roce, port.pfc_priorities, port.lossless_buffers) == (None, (), None)


@pytest.mark.parametrize("mode", ["lossless", "lossy_ecn"])
def test_the_commands_that_a_person_sees(mode: str) -> None:
    lines = plan_fabric(load_spec(mode=mode))[0].commands_from_factory
    assert (lines[:2], lines[-1], len(lines)) == (ENTER, SAVE, 6)
    typed = [part for line in lines[2:] for part in line.splitlines()]
    assert max(map(len, typed)) <= 470, "bash scrolls sideways beyond"
    rows = sent_rows(lines)
    identity, name = {str(n): str(n) for n in range(8)}, "RAILYARD"
    qos = {"dscp_to_tc_map": name, "tc_to_queue_map": name}
    wred = rows.pop("WRED_PROFILE")[name]
    assert (wred["green_min_threshold"], wred["green_max_threshold"]) == ("153600", "1536000")
    assert (wred["ecn"], wred["wred_green_enable"]) == ("ecn_all", "true")
    if mode == "lossless":
        qos |= {"pfc_enable": "3", "pfc_to_queue_map": name, "tc_to_pg_map": name}
        groups = {n: n if n == "3" else "0" for n in identity}
        assert rows.pop("TC_TO_PRIORITY_GROUP_MAP") == {name: groups}
        assert rows.pop("MAP_PFC_PRIORITY_TO_QUEUE") == {name: identity}
    queues = {"3": {"wred_profile": name}, "6": {"scheduler": name}}
    assert rows == {
        "VLAN": {"Vlan111": {"vlanid": "111"}},
        "VLAN_MEMBER": {f"Vlan111|{port}": {"tagging_mode": "untagged"} for port in PORTS},
        "PORT": {port: {"mtu": "9216"} for port in PORTS},
        "DSCP_TO_TC_MAP": {name: {str(n): str(n // 8) for n in range(64)}},
        "TC_TO_QUEUE_MAP": {name: identity},
        "SCHEDULER": {name: {"type": "STRICT"}},
        "QUEUE": {f"{port}|{n}": row for port in PORTS for n, row in queues.items()},
        "PORT_QOS_MAP": dict.fromkeys(PORTS, qos),
    }


def test_a_large_switch_takes_few_commands() -> None:
    """64 ports, 8 rails, watchdog and lengths of cables: one document for each step."""
    one = plan_fabric(load_spec(pfc_watchdog=True))[0].desired.ports["Ethernet0"]
    vlans = tuple(range(111, 119))
    ports = {
        f"Ethernet{8 * number}": one.model_copy(
            update={"access_vlan": vlans[number % 8], "cable_m": 40}
        )
        for number in range(64)
    }
    desired = SwitchState(vlans=vlans, roce="lossless", ports=ports)
    factory = system_of("sonic").factory_state(tuple(ports))
    lines = flatten(system_of("sonic").plan_changes(factory, target_of_apply(factory, desired)))
    assert len(lines) == 3
    assert len(sent_rows(lines)["PFC_WD"]) == 64


def test_another_priority() -> None:
    spec = load_spec(dscp=34, ecn_min_kib=200, ecn_max_kib=900)
    rows = sent_rows(plan_fabric(spec)[0].commands_from_factory)
    assert rows["TC_TO_QUEUE_MAP"]["RAILYARD"]["4"] == "4"
    assert rows["MAP_PFC_PRIORITY_TO_QUEUE"]["RAILYARD"]["4"] == "4"
    assert rows["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "4"
    assert rows["QUEUE"]["Ethernet0|4"] == {"wred_profile": "RAILYARD"}
    assert rows["WRED_PROFILE"]["RAILYARD"]["green_min_threshold"] == str(200 * 1024)


def test_the_model_and_the_lab_have_the_same_ports() -> None:
    model = find_model("Z9332F")
    assert model is not None
    ports = factory_db("leaf-01", PLATFORMS["Z9332F"])["PORT"]
    assert model.ports["sonic"] == tuple(ports)
    assert ports["Ethernet160"]["lanes"] == "225,226,227,228,229,230,231,232"
    assert (ports["Ethernet8"]["alias"], ports["Ethernet8"]["speed"]) == (
        "fourhundredGigE1/2",
        "400000",
    )
