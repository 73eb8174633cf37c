"""The emulated Cumulus command line: lab/sources.md#cumulus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.switches.cumulus.cli import Session
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric.cumulus_lab import make_switch
from tests.fabric.eos_lab import Clock

MEMBER = "interface swp1 bridge domain br_default"


@pytest.fixture
def switch(tmp_path: Path) -> CumulusSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def shell(switch: CumulusSwitch) -> Session:
    return switch.session()


def test_a_prompt_of_bash(shell: Session) -> None:
    assert shell.prompt() == "cumulus@leaf-01:mgmt:~$ "
    assert shell.run('echo one; echo "[status $?]"') == "one\n[status 0]\n"
    shell.run("exit")
    assert not shell.open


def test_nothing_is_in_force_before_the_apply(switch: CumulusSwitch, shell: Session) -> None:
    shell.run("nv set interface swp1 link mtu 1500")
    assert switch.port_view("swp1").mtu_bytes == 9216
    assert shell.run("nv config diff") == (
        "- set:\n    interface:\n      swp1:\n        link:\n          mtu: 1500\n"
        "        type: swp\n"
    )
    assert shell.run("nv config apply -y") == "applied_and_saved [rev_id: 2]\n"
    assert (switch.port_view("swp1").mtu_bytes, switch.port_view("swp1").admin_up) == (1500, True)
    assert shell.run("nv config diff") == ""
    shell.run("nv unset interface swp1")
    assert shell.run("nv config diff").startswith("- unset:\n")
    assert shell.run("nv config detach").startswith("detached [rev_id: ")
    assert switch.port_view("swp1").mtu_bytes == 1500
    assert shell.run("nv config save") == "saved [rev_id: applied]\n"
    assert switch.stored.startup == switch.stored.applied


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("nv set bridge domain br_default vlann 7", "Error: Invalid parameter\n  'vlann'"),
        ("nv set interface swp1 link mtu 99", "Error: Invalid parameter\n  '99' is not in the"),
        ("nv set interface swp1", ""),
        ("nv set interface", "Error: Invalid parameter\n  '<cr>'"),
        ("nv set interface swp99 link state up", "Error: swp99 is not a physical interface on"),
        (f"nv set {MEMBER} access 4095", "Error: Invalid parameter\n  '4095' is not in the range"),
        ("nv set qos roce mode best", "Error: Invalid parameter\n  'best' is not one of"),
        ("nv set interface swp1 link state sideways", "Error: Invalid parameter"),
    ],
)
def test_refusals(switch: CumulusSwitch, shell: Session, line: str, answer: str) -> None:
    assert shell.run(line).startswith(answer)
    assert shell.status == (1 if answer else 0)
    assert (switch.stored.pending is None) == bool(answer)
    assert switch.unmodelled == ()


def test_only_unknown_lines_are_recorded_as_unmodelled(
    switch: CumulusSwitch, shell: Session
) -> None:
    assert shell.run("net add vlan 111") == "-bash: net: command not found\n"
    assert shell.status == 127
    assert shell.run("nv show platform").startswith("Error: Invalid parameter")
    assert switch.unmodelled == ("net add vlan 111", "nv show platform")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([f"nv set {MEMBER} access 10", f"nv set {MEMBER} vlan 111"], "excludes"),
        ([f"nv set {MEMBER}", "nv set interface swp1 ip address 10.0.0.1/31"], "no IP address"),
    ],
)
def test_a_contradiction_is_found_at_the_apply(
    switch: CumulusSwitch, shell: Session, lines: list[str], why: str
) -> None:
    assert [shell.run(line) for line in lines] == ["created [rev_id: 2]\n", ""]
    answer = shell.run("nv config apply -y")
    assert answer.startswith("Invalid config [rev_id: 2]")
    assert why in answer
    assert switch.stored.applied == {}


def test_ranges_are_spelled_out_and_shown_grouped(switch: CumulusSwitch, shell: Session) -> None:
    shell.run("nv set interface swp1-3,swp7 bridge domain br_default vlan 10,111-112")
    shell.run("nv set interface swp2 link state down; nv config apply -y")
    tree = json.loads(shell.run("nv config show -o json"))[1]["set"]["interface"]
    assert [*tree] == ["swp1,3,7", "swp2"]
    vlans = tree["swp2"]["bridge"]["domain"]["br_default"]["vlan"]
    assert vlans == {"10,111-112": {}}
    assert (switch.port_view("swp2").admin_up, switch.port_view("swp3").admin_up) == (False, True)


def test_an_unset_takes_only_what_it_names(switch: CumulusSwitch, shell: Session) -> None:
    shell.run(f"nv set {MEMBER} vlan 10,111; nv set interface swp1 link mtu 9000")
    shell.run(f"nv unset {MEMBER} vlan 111; nv unset interface swp1 link mtu 9000")
    shell.run("nv config apply -y")
    assert switch.stored.applied == {
        "interface": {
            "swp1": {"bridge": {"domain": {"br_default": {"vlan": {"10": {}}}}}, "type": "swp"}
        }
    }
    shell.run("nv unset interface swp1 bridge; nv config apply -y")
    assert switch.stored.applied == {"interface": {"swp1": {"type": "swp"}}}
    shell.run("nv unset interface swp1; nv config apply -y")
    assert switch.stored.applied == {}


def test_the_roce_profile_is_printed_as_the_vendor_does(
    switch: CumulusSwitch, shell: Session
) -> None:
    assert "enable                           off" in shell.run("nv show qos roce")
    shell.run("nv set qos roce; nv config apply -y")
    lossless = shell.run("nv show qos roce")
    assert "mode                lossless     lossless\n" in lossless
    assert "    6  6            6              strict-priority\n" in lossless
    assert "    3  3    24,25,26,27,28,29,30,31  3\n" in lossless
    assert switch.port_view("swp1").pfc_priorities == {3}
    shell.run("nv set qos roce mode lossy; nv config apply -y")
    shell.run("nv set qos roce; nv config apply -y")
    assert "  pfc-priority      -\n" in shell.run("nv show qos roce"), "the mode stays"
    view = switch.port_view("swp1")
    assert (view.pfc_priorities, view.ecn_kib[3]) == (frozenset(), (146, 1464))
    assert view.priority_to_tc == (0, 0, 0, 3, 0, 0, 6, 0)


@pytest.mark.parametrize(
    ("lines", "mode", "access", "allowed"),
    [
        ("", "trunk", 0, set[int]()),
        (f"nv set {MEMBER} access 111", "access", 111, set[int]()),
        (f"nv set {MEMBER} vlan 111", "hybrid", 1, {111}),
        (f"nv set {MEMBER} untagged 5; nv set {MEMBER} vlan 111", "hybrid", 5, {111}),
        (f"nv set {MEMBER} untagged none; nv set {MEMBER} vlan 111", "trunk", 0, {111}),
        (f"nv set bridge domain br_default vlan 7-8; nv set {MEMBER}", "hybrid", 1, {7, 8}),
    ],
)
def test_what_a_port_carries(
    switch: CumulusSwitch, lines: str, mode: str, access: int, allowed: set[int]
) -> None:
    switch.run_line(lines)
    view = switch.port_view("swp1")
    assert (view.mode, view.access_vlan, view.allowed_vlans) == (mode, access, allowed)


@pytest.mark.parametrize(
    ("release", "more", "kept"),
    [
        ("5.8.0", "", False),
        ("5.8.0", "nv set system config auto-save enable on; nv config apply -y", True),
        ("5.9.2", "", True),
        ("5.9.2", "nv set system config auto-save enable off; nv config apply -y", False),
        ("5.15.0", "nv set system config auto-save state disabled; nv config apply -y", False),
    ],
)
def test_what_is_not_saved_is_lost_at_a_reboot(
    release: str,
    more: str,
    kept: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    switch = make_switch(tmp_path, release=release)
    switch.session().run(more)
    switch.run_line("nv set interface swp1 link mtu 9000")
    switch.session().run("nv config save")
    switch.run_line("nv set interface swp2 link mtu 9000")
    again = make_switch(tmp_path, release=release)
    assert again.port_view("swp2").mtu_bytes == 9000
    again.reboot()
    found = (again.port_view("swp1").mtu_bytes, again.port_view("swp2").mtu_bytes)
    assert found == (9000, 9000 if kept else 9216)


def test_the_view_follows_hand_made_faults(switch: CumulusSwitch) -> None:
    assert not switch.port_view("swp2").oper_up, "shut until somebody names it"
    switch.fault(["mtu", "swp2", "1500"])
    switch.fault(["trust", "swp2", "L3"])
    view = switch.port_view("swp2")
    assert (view.mtu_bytes, view.trust, view.oper_up) == (1500, "L3", True)
    switch.fault(["link-down", "swp2", "on"])
    assert not switch.port_view("swp2").oper_up
    switch.fault(["link-down", "swp2", "off"])
    assert switch.port_view("swp2").oper_up
    switch.run_line("nv set interface swp20 link state up")
    assert not switch.port_view("swp20").oper_up, "no cable there"


@pytest.mark.parametrize(
    "fault",
    [["mtu", "swp2"], ["mtu", "swp99", "1500"], ["trust", "swp1", "L9"]],
)
def test_a_wrong_fault_is_told(switch: CumulusSwitch, fault: list[str]) -> None:
    with pytest.raises(UsageError):
        switch.fault(fault)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("nv set qos roce cable-length 100001", "Error: Invalid parameter\n  '100001' is not in"),
        ("nv set interface swp1 qos pfc-watchdog state on", "Error: Invalid parameter"),
        ("nv set interface lo ip address 10.0.0.1/33", "Error: Invalid parameter"),
        ("nv set interface br0 ip address 10.0.0.1/32", "Error: br0 is not a physical interface"),
        ("nv set router bgp autonomous-system leaf", "Error: Invalid parameter"),
    ],
)
def test_refusals_of_routing(switch: CumulusSwitch, shell: Session, line: str, answer: str) -> None:
    assert shell.run(line).startswith(answer)
    assert (shell.status, switch.stored.pending, switch.unmodelled) == (1, None, ())


def test_routing_is_stored_as_in_the_vendors_file(switch: CumulusSwitch, shell: Session) -> None:
    for line in (
        "nv set interface lo ip address 10.10.10.1/32",
        "nv set interface vlan10 ip address 10.1.10.2/24",
        "nv set router bgp autonomous-system 65101",
        "nv set router bgp router-id 10.10.10.1",
        "nv set vrf default router bgp neighbor swp31 remote-as external",
        "nv set vrf default router bgp neighbor swp32 remote-as external",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.10.10.1/32",
    ):
        assert "rror" not in shell.run(line)
    shell.run("nv config apply -y")
    tree = json.loads(shell.run("nv config show -o json"))[1]["set"]
    address: object = {"ip": {"address": {"10.10.10.1/32": {}}}, "type": "loopback"}
    assert tree["interface"]["lo"] == address
    assert tree["interface"]["vlan10"]["type"] == "svi"
    assert tree["router"]["bgp"] == {
        "autonomous-system": 65101,
        "enable": "on",
        "router-id": "10.10.10.1",
    }
    bgp = tree["vrf"]["default"]["router"]["bgp"]
    assert bgp["neighbor"] == {"swp31-32": {"remote-as": "external", "type": "unnumbered"}}
    assert bgp["address-family"]["ipv4-unicast"]["enable"] == "on"
    shell.run("nv unset vrf default router bgp; nv unset router bgp")
    shell.run("nv unset interface lo; nv unset interface vlan10; nv config apply -y")
    assert switch.stored.applied == {}


def test_only_a_port_with_link_hears_somebody(switch: CumulusSwitch, shell: Session) -> None:
    assert [*json.loads(shell.run("nv show interface lldp -o json"))] == ["eth0"]
    switch.run_line("nv set interface swp1 link state up")
    switch.fault(["cable", "swp1", "vm01", "ens224"])
    heard = json.loads(shell.run("nv show interface lldp -o json"))["swp1"]["lldp"]["neighbor"]
    assert heard["vm01"]["chassis"] == {"system-name": "vm01"}
    assert heard["vm01"]["port"]["description"] == "ens224"


SHUT = "nv set interface swp1 link mtu 1500"


@pytest.mark.parametrize(
    ("time", "seconds"), [("", 600), ("60", 3600), ("90s", 90), ("5m", 300), ("1h", 3600)]
)
def test_what_nobody_confirms_is_taken_back(tmp_path: Path, time: str, seconds: int) -> None:
    clock = Clock()
    switch = make_switch(tmp_path, clock)
    shell = switch.session()
    assert shell.run(f"{SHUT}; nv config apply --confirm {time} -y").endswith(
        "applied [rev_id: 2]\n"
    )
    assert shell.run("nv config apply --confirm-status") == f"{seconds} s\n"
    clock.now_s = seconds - 1
    assert switch.port_view("swp1").mtu_bytes == 1500
    clock.now_s = seconds
    assert switch.port_view("swp1").mtu_bytes == 9216
    rows = json.loads(shell.run("nv config revision -o json"))
    assert rows["2"]["state"] == "confirm_fail"
    assert shell.run("nv config apply 2 --confirm-yes") == "Error: Unknown state: 'applied'\n"


@pytest.mark.parametrize(("number", "answer", "mtu_bytes"), [("2 ", "yes", 1500), ("", "no", 9216)])
def test_an_answer_ends_the_wait(
    switch: CumulusSwitch, shell: Session, number: str, answer: str, mtu_bytes: int
) -> None:
    shell.run(f"{SHUT}; nv config apply --confirm 5m -y -m 'a change'")
    row = json.loads(shell.run("nv config revision -o json"))["2"]
    assert row == {"state": "confirm", "message": "a change"}
    shell.run("nv set interface swp2 link mtu 1500")
    assert "waiting for confirmation" in shell.run("nv config apply -y")
    shell.run(f"nv config apply {number}--confirm-{answer}")
    assert shell.status == 0
    assert switch.fault(["commit-timer"]).endswith("no confirm timer is running")
    assert switch.port_view("swp1").mtu_bytes == mtu_bytes


def test_a_lab_that_was_stopped_keeps_no_timer(switch: CumulusSwitch, tmp_path: Path) -> None:
    switch.session().run(f"{SHUT}; nv config apply --confirm -y")
    again = make_switch(tmp_path)
    assert again.port_view("swp1").mtu_bytes == 9216
    assert again.stored.unconfirmed is None


def test_a_reboot_forgets_what_was_not_confirmed(switch: CumulusSwitch, shell: Session) -> None:
    shell.run(f"{SHUT}; nv config apply --confirm -y")
    switch.reload()
    assert switch.port_view("swp1").mtu_bytes == 9216
    assert switch.stored.unconfirmed is None


def test_an_apply_that_nobody_answers_is_not_done(switch: CumulusSwitch, shell: Session) -> None:
    assert "Are you sure?" in shell.run(f"{SHUT}; nv config apply")
    assert switch.port_view("swp1").mtu_bytes == 9216
    assert "is no option of apply" in shell.run("nv config apply --soon")
