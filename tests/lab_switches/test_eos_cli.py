"""The emulated EOS command line: lab/sources.md#eos."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.switches.eos.cli import Session
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import Clock, make_switch

PORT = "interface Ethernet1/1"
ECN = "random-detect ecn minimum-threshold"
WATCHDOG = "priority-flow-control pause watchdog"
TIMER = "port timer timeout 0.05 polling-interval auto recovery-time"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def switch(tmp_path: Path, clock: Clock) -> EosSwitch:
    return make_switch(tmp_path, clock)


@pytest.fixture
def cli(switch: EosSwitch) -> Session:
    session = switch.session()
    session.run("enable")
    return session


def _typed(cli: Session, *lines: str) -> list[str]:
    return [cli.run(line) for line in lines]


def _section(cli: Session, name: str = "Ethernet1/1") -> str:
    return cli.run(f"show running-config interfaces {name}")


def test_the_prompt_tells_the_mode(switch: EosSwitch) -> None:
    cli = switch.session()
    seen = [cli.prompt()]
    for line in (
        "enable",
        "configure",
        "vlan 111",
        PORT,
        "uc-tx-queue 3",
        "exit",
        "exit",
        "end",
        "configure session railyard-17",
        PORT,
        "disable",
    ):
        cli.run(line)
        seen.append(cli.prompt().removeprefix("leaf-01"))
    assert seen == [
        "leaf-01>",
        "#",
        "(config)#",
        "(config-vlan-111)#",
        "(config-if-Et1/1)#",
        "(config-if-Et1/1-uc-txq-3)#",
        "(config-if-Et1/1)#",
        "(config)#",
        "#",
        "(config-s-railya)#",
        "(config-s-railya-if-Et1/1)#",
        "(config-s-railya-if-Et1/1)#",
    ]


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (("show",), "% Incomplete command\n"),
        (("configure session x", PORT, "s"), "% Ambiguous command\n"),
        (("interface Ethernet1/1",), "% Invalid input\n"),
        (("configure", "interface Ethernet99/1"), "% Invalid input\n"),
        (("configure", "vlan 4095"), "% Invalid input\n"),
        (("configure", "no vlan 1"), "% Default VLAN 1 may not be deleted\n"),
        (("configure", PORT, "l2 mtu 63"), "% Invalid input\n"),
        (("configure", PORT, "uc-tx-queue 8"), "% Invalid input\n"),
        (("configure", PORT, "switchport mode sideways"), "% Invalid input\n"),
        (("configure", PORT, "switchport trunk allowed vlan"), "% Incomplete command\n"),
        (("configure", PORT, "priority-flow-control priority 9 no-drop"), "% Invalid input\n"),
        (
            ("configure", PORT, "uc-tx-queue 3", f"{ECN} 150 maximum-threshold 1500 kbytes"),
            "% Invalid input\n",
        ),
        (
            ("configure", PORT, "uc-tx-queue 3", f"{ECN} 9 kbytes maximum-threshold 5 kbytes"),
            "% Invalid input\n",
        ),
        (("configure", f"{WATCHDOG} default timeout 60.1"), "% Invalid input\n"),
        (("configure", f"{WATCHDOG} default polling-interval 0.004"), "% Invalid input\n"),
        (("configure", f"{WATCHDOG} action no-drop"), "% Invalid input\n"),
        (("configure", PORT, f"{WATCHDOG} port timer timeout 1"), "% Incomplete command\n"),
        (("configure", PORT, f"{WATCHDOG} {TIMER} 0.001"), "% Invalid input\n"),
        (("configure", PORT, f"{WATCHDOG} port action errdisable"), "% Invalid input\n"),
        (("configure", "qos map dscp 64 to traffic-class 3"), "% Invalid input\n"),
        (("commit timer 00:05:00",), "% Invalid input\n"),
        (("configure session gone abort",), "% Session gone does not exist\n"),
    ],
)
def test_refusals(switch: EosSwitch, cli: Session, lines: tuple[str, ...], answer: str) -> None:
    before = switch.stored.running.model_copy(deep=True)
    assert _typed(cli, *lines)[-1] == answer
    assert switch.stored.running == before


def test_only_unknown_lines_are_recorded_as_unmodelled(switch: EosSwitch, cli: Session) -> None:
    _typed(cli, "show", "configure", "vlan 4095", "end")
    assert switch.unmodelled == ()
    assert cli.run("show bgp summary") == "% Invalid input\n"
    assert cli.run("show vlan") == "% Invalid input\n", "its text form is not modelled"
    assert switch.unmodelled == ("show bgp summary", "show vlan")


def test_words_may_be_short(switch: EosSwitch, cli: Session) -> None:
    _typed(cli, "conf", "int et1/1", "switchp mo tr", "switchp tr all vl 111", "desc to gpu01")
    port = switch.stored.running.ports["Ethernet1/1"]
    assert (port.mode, port.allowed, port.description) == ("trunk", [111], "to gpu01")


def test_only_what_is_no_default_stands_in_the_configuration(cli: Session) -> None:
    _typed(cli, "configure", PORT, "switchport mode access", "switchport access vlan 1")
    _typed(cli, "switchport trunk allowed vlan 1-4094", "no shutdown", "no qos trust")
    _typed(cli, "default qos trust", "uc-tx-queue 6", "priority strict", "exit")
    _typed(cli, "switchport access vlan 7", "no switchport access vlan", "end")
    assert _section(cli) == "interface Ethernet1/1\n"


def test_an_interface_as_the_vendor_writes_it(cli: Session) -> None:
    _typed(cli, "configure", PORT, "switchport mode trunk", "switchport trunk allowed vlan none")
    _typed(cli, "switchport trunk allowed vlan add 110-111,210", "l2 mtu 9000", "qos trust dscp")
    _typed(cli, "switchport trunk allowed vlan remove 210", "description rack 4")
    _typed(cli, "priority-flow-control on", "priority-flow-control priority 3 no-drop")
    _typed(cli, "uc-tx-queue 6", "no priority", "uc-tx-queue 3")
    _typed(cli, f"{ECN} 150 kbytes maximum-threshold 1500 kbytes", "end")
    assert _section(cli) == (
        "interface Ethernet1/1\n"
        "   description rack 4\n"
        "   l2 mtu 9000\n"
        "   switchport trunk allowed vlan 110-111\n"
        "   switchport mode trunk\n"
        "   qos trust dscp\n"
        "   priority-flow-control on\n"
        "   priority-flow-control priority 3 no-drop\n"
        "   !\n"
        "   uc-tx-queue 3\n"
        "      random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes "
        "max-mark-probability 100 weight 0\n"
        "   !\n"
        "   uc-tx-queue 6\n"
        "      no priority\n"
    )


def test_the_watchdog_of_a_port_and_its_defaults(switch: EosSwitch, cli: Session) -> None:
    for key, value in (("timeout", 0.05), ("recovery-time", 1.22), ("polling-interval", 10.001)):
        _typed(cli, "configure", f"{WATCHDOG} default {key} {value}", "end")
    _typed(cli, "configure", f"{WATCHDOG} action drop", PORT, WATCHDOG)
    _typed(cli, f"{WATCHDOG} port action drop", f"{WATCHDOG} {TIMER} 1.11 forced", "end")
    assert _section(cli) == (
        "interface Ethernet1/1\n"
        f"   {WATCHDOG}\n"
        f"   {WATCHDOG} {TIMER} 1.11 forced\n"
        f"   {WATCHDOG} port action drop\n"
    )
    assert cli.run(f"show running-config | include ^{WATCHDOG}") == (
        f"{WATCHDOG} default timeout 0.05\n"
        f"{WATCHDOG} default recovery-time 1.22\n"
        f"{WATCHDOG} default polling-interval 10.001\n"
        f"{WATCHDOG} action drop\n"
    )
    _typed(cli, "configure", PORT, f"no {WATCHDOG}", f"no {WATCHDOG} port action")
    _typed(cli, f"{WATCHDOG} port timer timeout 1 polling-interval 0.1 recovery-time 2", "end")
    assert _section(cli).splitlines()[1:] == [
        f"   {WATCHDOG} port timer timeout 1 polling-interval 0.1 recovery-time 2"
    ]
    _typed(cli, "configure", f"no {WATCHDOG} action", PORT, f"no {WATCHDOG} port timer", "end")
    for key in ("timeout", "recovery-time", "polling-interval"):
        _typed(cli, "configure", f"no {WATCHDOG} default {key}", "end")
    assert WATCHDOG not in cli.run("show running-config")
    assert switch.unmodelled == ()


def test_a_watchdog_that_nobody_saved_is_gone_after_a_reload(switch: EosSwitch) -> None:
    cli = switch.session()
    _typed(cli, "enable", "configure", PORT, WATCHDOG, "end", "write memory")
    _typed(cli, "configure", PORT, f"{WATCHDOG} port action drop", "end")
    assert "port action drop" in _section(cli)
    switch.reboot()
    again = switch.session()
    again.run("enable")
    assert _section(again) == f"interface Ethernet1/1\n   {WATCHDOG}\n"


def test_filters_and_maps(cli: Session) -> None:
    _typed(cli, "configure", "qos map dscp 26 48 to traffic-class 1", "vlan 111", "end")
    text = cli.run("show running-config sanitized | include ^qos")
    assert text == "qos map dscp 26 48 to traffic-class 1\n"
    _typed(cli, "configure", "qos map dscp 26 to traffic-class 3", "end")
    assert "dscp 48 to" in cli.run("show running-config | include ^qos")
    assert cli.run("show running-config | section ^vlan") == "vlan 111\n"
    assert cli.run("show running-config | section ^vlan | no-more") == "", "section takes it all"
    assert "hostname leaf-01\n" in cli.run("show startup-config")


def test_a_session_is_in_force_at_its_commit_only(switch: EosSwitch, cli: Session) -> None:
    _typed(cli, "configure session one", "vlan 111", PORT, "switchport access vlan 111")
    diff = cli.run("show session-config diffs")
    assert diff.startswith("--- system:/running-config\n+++ session:/one-session-config\n")
    assert "+   switchport access vlan 111\n" in diff
    assert switch.port_view("Ethernet1/1").access_vlan == 1
    assert cli.run("show running-config | section ^vlan") == ""
    assert cli.run("commit") == ""
    assert cli.prompt() == "leaf-01#"
    assert switch.port_view("Ethernet1/1").access_vlan == 111
    assert switch.stored.startup != switch.stored.running
    assert cli.run("configure session one").startswith("% Cannot enter session one: completed")


def test_a_session_is_left_and_entered_again_or_forgotten(switch: EosSwitch, cli: Session) -> None:
    _typed(cli, "configure session one", "vlan 111", "end", "configure session one")
    assert "+vlan 111" in cli.run("show session-config diffs")
    assert cli.run("abort") == ""
    assert switch.config_sessions.held == {}
    _typed(cli, "configure session one", "end")
    assert cli.run("configure session one abort") == ""


def test_a_commit_replaces_the_whole_configuration(switch: EosSwitch, cli: Session) -> None:
    _typed(cli, "configure session one", "vlan 111", "end")
    switch.run_line("vlan 50")
    _typed(cli, "configure session one", "commit")
    assert sorted(switch.stored.running.vlans) == [1, 111], "as the vendor warns"


def test_a_timer_takes_back_what_nobody_confirms(
    switch: EosSwitch, cli: Session, clock: Clock
) -> None:
    first = switch.snapshot()
    _typed(cli, "configure session one", "vlan 111", "commit timer 00:05:00")
    assert 111 in switch.stored.running.vlans
    assert "pendingCommitTimer" in cli.run("configure session one")
    other = _typed(cli, "configure session two", "vlan 50", "commit", "abort")
    assert other[2] == "% Cannot commit: another session one is pending commit timer\n"
    clock.now_s = 300
    assert switch.snapshot() == first
    _typed(cli, "configure session one", "vlan 111", "commit timer 00:05:00")
    assert cli.run("configure session one commit") == ""
    clock.now_s = 10_000
    assert 111 in switch.stored.running.vlans


def test_an_abort_takes_back_a_commit_at_once(switch: EosSwitch, cli: Session) -> None:
    first = switch.snapshot()
    _typed(cli, "configure session one", "vlan 111", "commit timer 00:05:00")
    assert cli.run("configure session one abort") == ""
    assert switch.snapshot() == first
    assert switch.fault(["commit-timer"]) == "leaf-01: no commit timer is running"


def test_the_sessions_are_listed(cli: Session) -> None:
    _typed(cli, "configure session one", "end", "configure session two", "commit timer 00:05:00")
    shown = json.loads(cli.run("show configuration sessions detail | json"))
    assert {name: each["state"] for name, each in shown["sessions"].items()} == {
        "one": "pending",
        "two": "committed",
    }
    assert shown["commitTimerSessionName"] == "two"
    assert (shown["maxOpenSessions"], shown["maxSavedSessions"]) == (5, 1)
    for number in range(3, 7):
        _typed(cli, f"configure session {number}", "end")
    assert cli.run("configure session 7").startswith("% Maximum number of pending sessions")


def test_a_lock_keeps_others_out_of_the_configuration(switch: EosSwitch, cli: Session) -> None:
    switch.fault(["lock", "operator"])
    for line in ("configure", "configure session one"):
        assert "held by operator" in cli.run(line)
    switch.fault(["lock", "off"])
    assert cli.run("configure session one") == ""


@pytest.mark.parametrize(
    ("lines", "mode", "access", "allowed"),
    [
        ("no shutdown", "access", 1, set[int]()),
        ("switchport access vlan 111", "access", 111, set[int]()),
        ("switchport mode trunk", "hybrid", 1, {7, 111}),
        ("switchport mode trunk;switchport trunk allowed vlan 111,900", "trunk", 0, {111}),
        ("switchport mode trunk;switchport trunk native vlan 7", "hybrid", 7, {1, 111}),
        ("no switchport", "trunk", 0, set[int]()),
    ],
)
def test_what_a_port_carries(
    switch: EosSwitch, lines: str, mode: str, access: int, allowed: set[int]
) -> None:
    switch.run_line(f"vlan 7,111;{PORT};{lines}")
    view = switch.port_view("Ethernet1/1")
    assert (view.mode, view.access_vlan, view.allowed_vlans) == (mode, access, allowed)


def test_what_a_packet_meets(switch: EosSwitch) -> None:
    view = switch.port_view("Ethernet1/1")
    assert (view.dscp_to_priority[0], view.dscp_to_priority[8]) == (1, 0)
    assert (view.dscp_to_priority[26], view.dscp_to_priority[48]) == (3, 6)
    assert (view.trust, view.mtu_bytes, view.oper_up) == ("L2", 9214, True)
    switch.run_line(
        f"{PORT};mtu 1500;l2 mtu 9500;uc-tx-queue 3;{ECN} 1 mbytes maximum-threshold 2 mbytes"
    )
    switch.run_line(f"{PORT};priority-flow-control priority 3 no-drop")
    switch.run_line("qos map traffic-class 3 to tx-queue 5")
    view = switch.port_view("Ethernet1/1")
    assert (view.mtu_bytes, view.ecn_kib, view.priority_to_tc[3]) == (9214, {3: (1024, 2048)}, 5)
    assert view.pfc_priorities == frozenset(), "the priority alone switches nothing on"
    switch.run_line(f"{PORT};priority-flow-control on")
    assert switch.port_view("Ethernet1/1").pfc_priorities == {3}
    switch.run_line("interface Ethernet9/1;no shutdown")
    assert not switch.port_view("Ethernet9/1").oper_up, "no cable there"


def test_neighbours(switch: EosSwitch, cli: Session) -> None:
    command = "show lldp neighbors detail | json"
    detail = json.loads(cli.run(command))["lldpNeighbors"]
    [heard] = detail["Ethernet2/1"]["lldpNeighborInfo"]
    assert heard["neighborInterfaceInfo"]["interfaceDescription"] == "enp5s0"
    switch.fault(["link-down", "Ethernet2/1", "on"])
    assert "gpu02" not in cli.run(command)


def test_what_is_not_saved_is_lost_at_a_reload(tmp_path: Path) -> None:
    switch = make_switch(tmp_path)
    switch.run_line(f"{PORT};l2 mtu 9000")
    cli = switch.session()
    assert _typed(cli, "enable", "write memory")[-1] == "Copy completed successfully.\n"
    switch.run_line("interface Ethernet2/1;l2 mtu 9000")
    again = make_switch(tmp_path)
    assert again.port_view("Ethernet2/1").mtu_bytes == 9000
    again.reboot()
    assert again.port_view("Ethernet1/1").mtu_bytes == 9000
    assert again.port_view("Ethernet2/1").mtu_bytes == 9214


def test_a_commit_that_awaits_confirmation_does_not_outlive_the_switch(tmp_path: Path) -> None:
    switch = make_switch(tmp_path)
    _typed(switch.session(), "enable", "configure session one", "vlan 111", "commit timer 00:05:00")
    again = make_switch(tmp_path)
    assert sorted(again.stored.running.vlans) == [1]


@pytest.mark.parametrize(
    "fault",
    [
        ["mtu", "Ethernet2/1"],
        ["mtu", "Ethernet99/1", "1500"],
        ["trust", "Ethernet1/1", "L9"],
        ["commit-timer", "now"],
    ],
)
def test_a_wrong_fault_is_told(switch: EosSwitch, fault: list[str]) -> None:
    with pytest.raises(UsageError):
        switch.fault(fault)


def test_a_command_takes_its_assumed_time_if_a_pace_is_set(
    switch: EosSwitch, cli: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(cli.wait_for("qos trust dscp"))
    switch.fault(["pace", "0.5"])
    for line in ("qos trust dscp", "commit timer 00:05:00"):
        asyncio.run(cli.wait_for(line))
    assert waited == [0.05, 1.5]
