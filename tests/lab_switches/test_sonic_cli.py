"""The emulated SONiC command line: lab/sources.md#sonic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.switches.sonic.cli import Session
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.sonic_lab import make_switch

MERGE = "sudo sonic-cfggen -a '{}' --write-to-db"


def merge(**tables: object) -> str:
    return f"sudo sonic-cfggen -a '{json.dumps(tables)}' --write-to-db"


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def shell(switch: SonicSwitch) -> Session:
    return switch.session()


@pytest.mark.parametrize(
    ("line", "message", "status"),
    [
        ("config vlan add 7", "Root privileges are required for this operation\n", 1),
        ("sudo config vlan add x", "Error: x is not integer\n", 2),
        ("sudo config vlan add 1", "Error: Invalid VLAN ID 1 (2-4094)\n", 2),
        ("sudo config vlan add 4095", "Error: Invalid VLAN ID 4095 (2-4094)\n", 2),
        ("sudo config vlan add 10", "Error: Vlan10 already exists.\n", 2),
        ("sudo config vlan del 99", "Error: Vlan99 does not exist\n", 2),
        (
            "sudo config vlan del 10",
            "Error: VLAN ID 10 can not be removed. First remove all members assigned to this VLAN.",
            2,
        ),
        ("sudo config vlan member add 99 Ethernet0", "Error: Vlan99 does not exist\n", 2),
        ("sudo config vlan member add 10 Ethernet1", "Error: Ethernet1 does not exist\n", 2),
        (
            "sudo config vlan member add 10 Ethernet0",
            "Error: Ethernet0 is already a member of Vlan10\n",
            2,
        ),
        (
            "sudo config vlan member add -u 20 Ethernet0",
            "Error: Ethernet0 is already untagged member!\n",
            2,
        ),
        (
            "sudo config vlan member del 20 Ethernet0",
            "Error: Ethernet0 is not a member of Vlan20\n",
            2,
        ),
        (
            "sudo config interface mtu Ethernet0 9217",
            'Error: Invalid value for "<interface_mtu>": 9217 is not in the valid range of 68 to',
            2,
        ),
        ("sudo config interface mtu Ethernet1 9000", "Invalid port Ethernet1\n", 1),
        (
            "sudo config interface startup Ethernet1",
            "Error: Interface name is invalid. Please enter a valid interface name!!\n",
            2,
        ),
        (
            "sudo config switchport mode routed Ethernet0",
            "Error: Ethernet0 has untagged member. \nRemove it to change mode to routed\n",
            2,
        ),
        ("sudo sonic-db-cli CONFIG_DB NOPE x", "(error) ERR unknown command", 1),
        ("sudo sonic-cfggen -a '{' --write-to-db", "json.decoder.JSONDecodeError", 1),
    ],
)
def test_refusals(
    switch: SonicSwitch, shell: Session, line: str, message: str, status: int
) -> None:
    for before in ("vlan add 10", "vlan add 20", "vlan member add -u 10 Ethernet0"):
        assert switch.run_line(f"sudo config {before}") == ""
    held = json.dumps(switch.stored.running)
    assert message in shell.run(line)
    assert shell.status == status
    assert json.dumps(switch.stored.running) == held
    assert switch.unmodelled == ()


def test_a_refusal_comes_with_its_usage(shell: Session) -> None:
    shell.run("sudo config vlan add 10")
    assert shell.run("sudo config vlan add 10") == (
        'Usage: config vlan add [OPTIONS] <vid>\nTry "config vlan add -h" for help.\n\n'
        "Error: Vlan10 already exists.\n"
    )


def test_only_unknown_lines_are_recorded_as_unmodelled(switch: SonicSwitch, shell: Session) -> None:
    assert shell.run("nv show qos roce") == "-bash: nv: command not found\n"
    assert shell.status == 127
    assert 'No such command "bgp neighbors"' in shell.run("show bgp neighbors")
    assert "No such command" in shell.run("sudo config bgp shutdown all")
    assert switch.unmodelled == (
        "nv show qos roce",
        "show bgp neighbors",
        "config bgp shutdown all",
    )


def test_a_routed_port_wants_its_mode_changed_first(shell: Session) -> None:
    shell.run("sudo config vlan add 10")
    assert shell.run("sudo config switchport mode routed Ethernet0") == (
        "Ethernet0 switched to routed mode\n"
    )
    assert "is in routed mode!\nUse switchport mode command" in shell.run(
        "sudo config vlan member add 10 Ethernet0"
    )
    shell.run("sudo config switchport mode access Ethernet0")
    assert "is in access mode! Tagged Members cannot be added" in shell.run(
        "sudo config vlan member add 10 Ethernet0"
    )
    shell.run("sudo config switchport mode trunk Ethernet0")
    assert shell.run("sudo config vlan member add 10 Ethernet0") == ""
    assert "have tagged member(s)" in shell.run("sudo config switchport mode access Ethernet0")
    assert "already in trunk mode" in shell.run("sudo config switchport mode trunk Ethernet0")


def test_addresses_keep_a_port_and_a_vlan(shell: Session) -> None:
    shell.run("sudo config vlan add 10")
    shell.run(merge(INTERFACE={"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}}))
    shell.run(merge(VLAN_INTERFACE={"Vlan10|192.0.2.1/24": {}}))
    assert "is a router interface!" in shell.run("sudo config vlan member add 10 Ethernet0")
    assert "Remove IP from Ethernet0" in shell.run("sudo config switchport mode trunk Ethernet0")
    assert "First remove IP addresses" in shell.run("sudo config vlan del 10")


def test_running_and_saved(switch: SonicSwitch, shell: Session) -> None:
    shell.run("sudo config interface mtu Ethernet0 9216")
    assert shell.run("sudo config save -y") == (
        "Running command: /usr/local/bin/sonic-cfggen -d --print-data > /etc/sonic/config_db.json\n"
    )
    shell.run("sudo config interface mtu Ethernet8 9216")
    switch.reboot()
    assert [switch.port_view(port).mtu_bytes for port in ("Ethernet0", "Ethernet8")] == [9216, 9100]
    shell.run("sudo config interface mtu Ethernet0 1500")
    assert shell.run("sudo config reload -y").startswith("Acquired lock on /etc/sonic/reload.lock")
    assert switch.port_view("Ethernet0").mtu_bytes == 9216
    assert switch.port_view("Ethernet0").pfc_priorities == {3, 4}, "the groups are there again"


def test_the_state_outlives_the_lab(tmp_path: Path) -> None:
    make_switch(tmp_path).run_line("sudo config interface mtu Ethernet0 9216")
    again = make_switch(tmp_path, qos=False)
    assert again.port_view("Ethernet0").pfc_priorities == {3, 4}
    assert again.port_view("Ethernet0").mtu_bytes == 9216


def test_a_full_disk_cuts_the_saved_file_short(switch: SonicSwitch, shell: Session) -> None:
    switch.fault(["disk-full", "on"])
    assert "[Errno 28] No space left on device" in shell.run("sudo config save -y")
    assert (shell.status, switch.stored.saved) == (1, {})
    switch.fault(["disk-full", "off"])
    shell.run("sudo config save -y /etc/sonic/other.json")
    assert switch.stored.saved == {}
    assert '"PORT"' in shell.run("cat /etc/sonic/other.json")
    assert shell.run("sudo rm /etc/sonic/other.json") == ""
    assert "No such file" in shell.run("cat /etc/sonic/other.json")


def test_files_are_loaded_over_what_is_there(switch: SonicSwitch, shell: Session) -> None:
    shell.run("""echo '{"VLAN": {"Vlan30": {"vlanid": "30"}}}' > /tmp/more.json""")
    assert "--write-to-db" in shell.run("sudo config load -y /tmp/more.json")
    assert "Vlan30" in switch.stored.running["VLAN"]
    assert shell.run("sudo config load -y /tmp/none.json") == (
        "The config_db file /tmp/none.json doesn't exist\n"
    )
    assert shell.status == 0, "as sonic-utilities does it"


def test_the_lock_of_a_reload(switch: SonicSwitch, shell: Session) -> None:
    switch.fault(["lock", "bob"])
    assert shell.run("sudo config reload -y") == (
        "Failed to acquire lock on /etc/sonic/reload.lock\n"
    )
    assert shell.status == 1
    take = "exec 9</etc/sonic/reload.lock && flock -n 9"
    assert "No such file" in shell.run(take)
    shell.run("sudo touch /etc/sonic/reload.lock")
    shell.run(take)
    assert shell.status == 1
    switch.fault(["lock", "off"])
    shell.run(take)
    assert shell.status == 0


def test_redis_answers(switch: SonicSwitch, shell: Session) -> None:
    for line, answer in (
        ("HSET 'PORT|Ethernet0' description rack4 mtu 9000", "1"),
        ("HGET 'PORT|Ethernet0' description", "rack4"),
        ("HGET 'PORT|Ethernet0' nothing", ""),
        ("KEYS 'PORT|Ethernet1*0'", "PORT|Ethernet120\nPORT|Ethernet160"),
        ("KEYS 'VLAN|*'", ""),
        ("EXISTS 'PORT|Ethernet0'", "1"),
        ("HDEL 'PORT|Ethernet0' description", "1"),
        ("HDEL 'PORT|Ethernet0' description", "0"),
        ("DEL 'WRED_PROFILE|AZURE_LOSSLESS'", "1"),
        ("DEL 'WRED_PROFILE|AZURE_LOSSLESS'", "0"),
    ):
        assert shell.run(f"sudo sonic-db-cli CONFIG_DB {line}") == f"{answer}\n"
    assert switch.port_view("Ethernet0").mtu_bytes == 9000
    assert "WRED_PROFILE" not in switch.stored.running, "a table without rows is none"


def test_the_template_pauses_three_and_four_and_knows_no_26(switch: SonicSwitch) -> None:
    view = switch.port_view("Ethernet0")
    assert (view.trust, view.pfc_priorities) == ("L3", {3, 4})
    assert (view.dscp_to_priority[26], view.dscp_to_priority[3], view.dscp_to_priority[48]) == (
        1,
        3,
        6,
    )
    assert view.ecn_kib == {3: (1024, 2048), 4: (1024, 2048)}


def test_without_qos_there_is_nothing(tmp_path: Path) -> None:
    view = make_switch(tmp_path, qos=False).port_view("Ethernet0")
    assert (view.trust, view.ecn_kib, view.pfc_priorities) == ("port", {}, frozenset())
    assert (view.mtu_bytes, view.admin_up, view.allowed_vlans) == (9100, True, frozenset())


def test_pfc_makes_groups_and_forgets_only_what_it_is_told(
    switch: SonicSwitch, shell: Session
) -> None:
    """sonic-swss, cfgmgr/buffermgr.cpp and orchagent/bufferorch.cpp."""
    shell.run("sudo config interface pfc priority Ethernet0 4 off")
    groups = switch.stored.running["BUFFER_PG"]
    assert {"Ethernet0|3", "Ethernet0|3-4"} <= {*groups}
    shell.run("sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|Ethernet0|3'")
    assert switch.port_view("Ethernet0").pfc_priorities == frozenset(), "the chip has none for 3"
    shell.run(merge(BUFFER_PG={"Ethernet0|3-4": {"profile": "pg_lossless_400000_300m_profile"}}))
    assert switch.port_view("Ethernet0").pfc_priorities == {3}
    shell.run("sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|Ethernet0' pfc_enable")
    shell.run("sudo config interface mtu Ethernet0 9000")
    assert "Ethernet0|3" in switch.stored.running["BUFFER_PG"], "the list is remembered"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("pfc priority Ethernet0 3 on", "Priority 3 has already been enabled on Ethernet0\n"),
        ("pfc priority Ethernet0 5 off", "Priority 5 is not enabled on Ethernet0\n"),
        ("pfc priority Ethernet101 3 on", "Cannot find interface Ethernet101\n"),
    ],
)
def test_what_pfc_says_and_exits_with_zero(shell: Session, line: str, answer: str) -> None:
    assert shell.run(f"sudo config interface {line}") == answer
    assert shell.status == 0


def test_tables_that_people_read(switch: SonicSwitch, shell: Session) -> None:
    shell.run("sudo config vlan add 111")
    shell.run("sudo config vlan member add 111 Ethernet0")
    status = shell.run("show interfaces status").splitlines()
    names = "Interface Lanes Speed MTU FEC Alias Vlan Oper Admin Type Asym PFC"
    assert " ".join(status[0].split()) == names
    first = status[2].split()
    assert first[0] == "Ethernet0"
    assert first[2:] == [
        "400G",
        "9100",
        "N/A",
        "fourhundredGigE1/1",
        "trunk",
        "up",
        "up",
        "N/A",
        "N/A",
    ]
    assert status[-1].split()[7:8] == ["down"], "no cable there"
    assert "HwSKU: DellEMC-Z9332f-O32\n" in shell.run("show version")
    lldp = shell.run("show lldp table")
    assert lldp.splitlines()[3].split() == ["Ethernet0", "vm01", "24:8a:07:00:00:01", "O", "ens224"]
    assert lldp.endswith("Total entries displayed:  6\n")
    assert "Port Rx" in shell.run("show pfc counters")
    assert json.loads(shell.run("show runningconfiguration all"))["VLAN"]["Vlan111"]
    assert switch.unmodelled == ()


def test_counters_are_told_per_queue(switch: SonicSwitch, shell: Session) -> None:
    switch.add_counters("Ethernet0", 3, rx_bytes=1, tx_bytes=70)
    switch.add_discards("Ethernet0", 5)
    assert json.loads(shell.run("show queue counters Ethernet0 --json"))["Ethernet0"]["UC3"] == {
        "dropbytes": "0",
        "droppacket": "0",
        "totalbytes": "70",
        "totalpacket": "0",
    }
    drops = shell.run("show priority-group drop counters").splitlines()
    assert drops[3].split()[:3] == ["Ethernet0", "5", "0"]


@pytest.mark.parametrize(
    ("lines", "mode", "access", "allowed"),
    [
        ((), "trunk", 0, set[int]()),
        (("member add -u 10 Ethernet0",), "access", 10, set[int]()),
        (("member add 10 Ethernet0",), "trunk", 0, {10}),
        (("member add 10 Ethernet0", "member add -u 20 Ethernet0"), "hybrid", 20, {10}),
    ],
)
def test_what_a_port_carries(
    switch: SonicSwitch, lines: tuple[str, ...], mode: str, access: int, allowed: set[int]
) -> None:
    for line in ("add 10", "add 20", *lines):
        assert switch.run_line(f"sudo config vlan {line}") == ""
    view = switch.port_view("Ethernet0")
    assert (view.mode, view.access_vlan, view.allowed_vlans) == (mode, access, allowed)


def test_the_view_follows_hand_made_faults(switch: SonicSwitch) -> None:
    assert switch.port_view("Ethernet8").oper_up
    switch.fault(["mtu", "Ethernet8", "1500"])
    switch.fault(["trust", "Ethernet8", "L2"])
    view = switch.port_view("Ethernet8")
    assert (view.mtu_bytes, view.trust) == (1500, "both"), "the switch's own map is left"
    switch.fault(["cli", "sudo", "sonic-db-cli", "CONFIG_DB", "DEL", "'PORT_QOS_MAP|global'"])
    assert switch.port_view("Ethernet8").trust == "L2"
    switch.fault(["link-down", "Ethernet8", "on"])
    assert not switch.port_view("Ethernet8").oper_up
    switch.fault(["link-down", "Ethernet8", "off"])
    assert switch.port_view("Ethernet8").oper_up
    assert not switch.port_view("Ethernet248").oper_up, "no cable there"


@pytest.mark.parametrize(
    "fault",
    [
        ["mtu", "Ethernet8"],
        ["mtu", "Ethernet1", "1500"],
        ["trust", "Ethernet8", "L9"],
        ["trust", "Ethernet1", "L2"],
        ["disk-full", "maybe"],
        ["cli", "sudo config vlan add 1"],
    ],
)
def test_a_wrong_fault_is_told(switch: SonicSwitch, fault: list[str]) -> None:
    with pytest.raises(UsageError):
        switch.fault(fault)
