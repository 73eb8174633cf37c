"""The emulated Onyx command line: lab/sources.md#onyx."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.switches.onyx.cli import Mode, Session
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.conftest import make_switch

ECN_HEAD = "interface ethernet 1/1-1/2 traffic-class 3 congestion-control ecn"
UNKNOWN = '% Unrecognized command "{}".\nType "?" for help.\n'


@pytest.fixture
def switch(tmp_path: Path) -> OnyxSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def config(switch: OnyxSwitch) -> Session:
    return Session(switch, Mode.CONFIG, paging=False)


def test_modes_and_prompts(switch: OnyxSwitch) -> None:
    session = Session(switch)
    assert session.prompt() == "leaf-01 [standalone: master] > "
    assert session.run("configure terminal") == UNKNOWN.format("configure")
    session.run("enable")
    assert session.prompt() == "leaf-01 [standalone: master] # "
    assert session.run("configure").startswith("% Incomplete command")
    session.run("conf t")
    assert session.prompt() == "leaf-01 [standalone: master] (config) # "
    session.run("interface ethernet 1/1")
    assert session.prompt() == "leaf-01 [standalone: master] (config interface ethernet 1/1) # "
    for _ in range(3):
        assert session.open
        session.run("ex")
    assert not session.open


def test_the_prefix_form_and_the_context_do_the_same(switch: OnyxSwitch, config: Session) -> None:
    config.run("interface ethernet 1/1 qos trust L3")
    for line in ("interface ethernet 1/2", "qos trust L3", "exit"):
        assert config.run(line) == ""
    config.run("no interface ethernet 1/3 shutdown")
    ports = switch.stored.running.ports
    assert (ports["1/1"].trust, ports["1/2"].trust, ports["1/3"].trust) == ("L3", "L3", "L2")


def test_a_global_line_inside_a_context_is_taken(switch: OnyxSwitch, config: Session) -> None:
    config.run("vlan 111")
    assert config.context == "vlan 111"
    config.run("name rail")
    config.run("vlan 112")
    assert switch.stored.running.vlans == {1: "default", 111: "rail", 112: ""}


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("dcb trust dscp", UNKNOWN.format("trust")),
        ("traffic ecn enable", UNKNOWN.format("traffic")),
        ("terminal length 0", "% Please enter an integer between 5 and 999.\n"),
        ("interface ethernet 1/99 shutdown", "% Interface ethernet 1/99 does not exist\n"),
        ("interface ethernet 1/1 switchport access vlan 7", "% VLAN 7 does not exist\n"),
        ("interface ethernet 1/1 mtu 99 force", "% Please enter an integer between 1500 and 9612."),
        ("no vlan 1", "% VLAN 1 cannot be deleted\n"),
    ],
)
def test_refusals(config: Session, line: str, answer: str) -> None:
    assert config.run(line).startswith(answer)


def test_only_unknown_lines_are_recorded_as_unmodelled(switch: OnyxSwitch, config: Session) -> None:
    config.run("interface ethernet 1/99 shutdown")
    config.run("terminal length 0")
    assert switch.unmodelled == ()
    config.run("qos profile roce")
    assert switch.unmodelled == ("qos profile roce",)


def test_a_refused_range_changes_no_port(switch: OnyxSwitch, config: Session) -> None:
    config.run("interface ethernet 1/1 shutdown")
    assert config.run("interface ethernet 1/1-1/2 mtu 9216").startswith("%")
    assert switch.stored.running.ports["1/1"].mtu_bytes == 1500


def test_an_mtu_under_load_flaps_the_port(switch: OnyxSwitch, config: Session) -> None:
    config.run("interface ethernet 1/1 mtu 9216 force")
    config.run("interface ethernet 1/1 mtu 9216 force")
    config.run("interface ethernet 1/2 shutdown")
    config.run("interface ethernet 1/2 mtu 9216")
    counters = switch.stored.counters
    assert (counters["1/1"].flaps, counters["1/2"].flaps) == (1, 1)


def test_filters(config: Session) -> None:
    answer = config.run('show interface ethernet 1/1 | include "Operational state"')
    assert answer == "  Operational state                         : Up\n"
    assert (
        config.run('show interfaces ethernet 1/1 | include "^\\\\s+Last change"').count("\n") == 1
    )
    assert json.loads(config.run("show vlan | json-print"))["1"]["Name"] == "default"
    assert config.run("show roce | json-print").startswith("%")


def test_the_running_config_collapses_ranges(switch: OnyxSwitch, config: Session) -> None:
    config.run("vlan 111")
    config.run("exit")
    config.run("interface ethernet 1/1-1/3 mtu 9216 force")
    config.run("interface ethernet 1/5 mtu 9216 force")
    lines = config.run("show running-config").splitlines()
    assert "   interface ethernet 1/1-1/3 mtu 9216 force" in lines
    assert "   interface ethernet 1/5 mtu 9216 force" in lines
    assert "   vlan 111" in lines
    assert lines[:2] == ["##", '## Running database "initial"']
    assert "force" not in json.dumps(switch.stored.saved.model_dump())


def test_every_running_line_can_be_typed_again(switch: OnyxSwitch, tmp_path: Path) -> None:
    for line in (
        "vlan 10,111",
        "interface ethernet 1/1-1/4 switchport mode trunk",
        "interface ethernet 1/2 switchport trunk allowed-vlan 111",
        "interface ethernet 1/5 switchport mode hybrid",
        "interface ethernet 1/5 switchport hybrid allowed-vlan add 10",
        "interface ethernet 1/6 shutdown",
        "interface ethernet 1/6 description spare",
        "interface ethernet 1/1-1/4 mtu 9216 force",
        f"{ECN_HEAD} minimum-absolute 150 maximum-absolute 1500",
        "interface ethernet 1/1 traffic-class 6 dcb ets strict",
        "interface ethernet 1/2 traffic-class 6 dcb ets wrr 30",
        "interface ethernet 1/1 qos trust both",
        "interface ethernet 1/1 dcb priority-flow-control mode on force",
        "dcb priority-flow-control priority 3 enable",
        "dcb priority-flow-control enable force",
        "lldp",
        "no cli default paging enable",
    ):
        assert switch.run_line(line) == ""
    other = make_switch(tmp_path / "other")
    for line in switch.run_line("show running-config").splitlines():
        assert other.run_line(line) == ""
    assert other.stored.running == switch.stored.running


def test_what_the_one_shot_set_has_no_lines_and_what_differs_has(
    switch: OnyxSwitch, tmp_path: Path
) -> None:
    for line in (
        "roce lossless",
        "interface ethernet 1/2 qos trust L2",
        "interface ethernet 1/3 no traffic-class 3 congestion-control",
        "interface ethernet 1/4 traffic-class 6 dcb ets wrr 12",
        "interface ethernet 1/5 traffic-class 3 dcb ets wrr 20",
    ):
        assert switch.run_line(line) == ""
    text = switch.run_line("show running-config")
    assert [line.strip() for line in text.splitlines() if "ethernet 1/" in line] == [
        "interface ethernet 1/3 no traffic-class 3 congestion-control",
        "interface ethernet 1/4 traffic-class 6 dcb ets wrr 12",
        "interface ethernet 1/5 traffic-class 3 dcb ets wrr 20",
        "interface ethernet 1/2 qos trust L2",
    ]
    other = make_switch(tmp_path / "other")
    for line in text.splitlines():
        assert other.run_line(line) == ""
    assert other.stored.running == switch.stored.running


def test_what_is_not_saved_is_lost_and_what_is_saved_is_not(tmp_path: Path) -> None:
    switch = make_switch(tmp_path)
    switch.run_line("vlan 111")
    switch.run_line("configuration write")
    switch.run_line("vlan 112")
    again = make_switch(tmp_path)
    assert sorted(again.stored.running.vlans) == [1, 111, 112]
    again.reboot()
    assert sorted(again.stored.running.vlans) == [1, 111]


def test_the_one_shot_sets_what_the_manual_says(switch: OnyxSwitch, config: Session) -> None:
    config.run("roce")
    view = switch.port_view("1/1")
    assert (view.trust, view.ecn_kib, view.pfc_priorities) == ("L3", {3: (150, 1500)}, {3})
    assert "RoCE mode      : lossless\n" in config.run("show roce")
    assert config.run("show roce").endswith("Exception list:\nN/A\n")
    config.run("interface ethernet 1/2 qos trust L2")
    assert "Eth1/2: trust mode L2" in config.run("show roce")
    config.run("roce lossy")
    assert switch.port_view("1/1").pfc_priorities == frozenset()


def test_the_view_follows_hand_made_faults(switch: OnyxSwitch) -> None:
    assert switch.port_view("1/2").oper_up
    assert switch.port_view("1/2").dscp_to_priority[26] == 3
    switch.fault(["mtu", "1/2", "9216"])
    switch.fault(["trust", "1/2", "L3"])
    switch.fault(["link-down", "1/2", "on"])
    view = switch.port_view("1/2")
    assert (view.mtu_bytes, view.trust, view.admin_up, view.oper_up) == (9216, "L3", True, False)
    switch.fault(["link-down", "1/2", "off"])
    assert switch.port_view("1/2").oper_up
    assert not switch.port_view("1/20").oper_up, "no cable there"


@pytest.mark.parametrize(
    "fault", [["mtu", "1/2"], ["mtu", "1/99", "1500"], ["link-down", "1/1", "no"]]
)
def test_a_wrong_fault_is_told(switch: OnyxSwitch, fault: list[str]) -> None:
    with pytest.raises(UsageError):
        switch.fault(fault)


def test_a_router_port_is_in_no_vlan_until_it_is_a_switchport_again(
    switch: OnyxSwitch, config: Session
) -> None:
    head = "interface ethernet 1/3"
    config.run("vlan 10")
    config.run(f"{head} switchport access vlan 10")
    assert config.run(f"{head} no switchport force") == ""
    table = json.loads(config.run("show interfaces switchport | json-print"))
    assert ("Eth1/3" in table, "Eth1/4" in table) == (False, True)
    assert "interface ethernet 1/3 no switchport force" in config.run("show running-config")
    assert "configured as a router port" in config.run(f"{head} switchport mode trunk")
    assert config.run(f"{head} switchport force") == ""
    assert config.run(f"{head} switchport mode trunk") == ""
    assert switch.port_view("1/3").mode == "trunk"
    assert switch.unmodelled == ()


def test_lldp_tells_a_host_by_its_device_once_it_is_on(switch: OnyxSwitch, config: Session) -> None:
    switch.fault(["cable", "1/3", "gpu02", "enp5s0"])
    assert config.run("show lldp interfaces ethernet remote") == ""
    config.run("lldp")
    lines = config.run("show lldp interfaces ethernet remote").splitlines()
    assert lines[0] == "Eth1/3"
    assert "  Remote system name          : gpu02" in lines
    assert "  Remote port description     : enp5s0" in lines
    config.run("interface ethernet 1/3 shutdown")
    assert config.run("show lldp interfaces ethernet remote") == ""
