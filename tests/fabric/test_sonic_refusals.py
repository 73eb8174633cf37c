"""What a SONiC switch refuses, drops or has no room for: nothing is left behind."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from components.core.errors import DeviceError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic.routing import held_interfaces
from components.fabric.systems.sonic.rows import Rows, Tables, delete_rows
from components.fabric.systems.sonic.system import CONFIG
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.in_process import DirectSession, apply
from tests.fabric.sonic_lab import load_spec, make_switch, talk
from tests.fabric.test_sonic_exchange import LOSSLESS, LOSSY, merge

WATCHED = plan_fabric(load_spec(pfc_watchdog=True))[0].desired


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


@pytest.mark.parametrize(
    "rejected", ["Vlan111", "Vlan111|Ethernet16", "DSCP_TO", "PORT_QOS_MAP", "mtu"]
)
def test_a_rejected_line_leaves_nothing(switch: SonicSwitch, rejected: str) -> None:
    first = switch.snapshot()
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError) as caught:
        apply(talk(switch), LOSSLESS)
    text = str(caught.value)
    assert f"refused: {rejected}" in text
    assert "not saved" in text
    switch.fault(["reject", "off"])
    if rejected != "PORT_QOS_MAP":  # with it refused, putting back a port is refused as well
        assert "the previous values were put back" in text
    assert switch.snapshot() == first


@pytest.mark.parametrize("ignored", ["Vlan111|Ethernet8", "WRED_PROFILE", '"mtu"'])
def test_a_line_that_does_nothing_is_found_by_reading_again(
    switch: SonicSwitch, ignored: str
) -> None:
    first = switch.snapshot()
    switch.fault(["ignore", ignored])
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        apply(talk(switch), LOSSY)
    assert ignored in str(caught.value)
    assert switch.snapshot() == first


def test_ports_of_the_factory_are_named_before_a_line_is_sent(tmp_path: Path) -> None:
    """The preset t1 routes every port (config_samples.py of sonic-buildimage, 202405)."""
    switch = make_switch(tmp_path, qos=False, preset="t1")
    first, exchange = switch.snapshot(), talk(switch)
    free = [f"sudo config interface ip remove Ethernet{8 * n} 10.0.0.{2 * n}/31" for n in range(4)]
    with pytest.raises(DeviceError, match="are routed or in a bundle") as caught:
        apply(exchange, LOSSY)
    assert "\n    ".join(free) in str(caught.value)
    assert "Ethernet32" not in str(caught.value), "no port of the file"
    assert switch.snapshot() == first
    for line in free:
        switch.run_line(line)
    apply(exchange, LOSSY)
    assert "Ethernet0" not in switch.stored.running["INTERFACE"]


def test_rows_of_several_ports_are_split_by_a_person(switch: SonicSwitch) -> None:
    """As the template of DellEMC-Z9332f-C32 writes them (its qos.json.j2, 202405)."""
    both = {"dscp_to_tc_map": "AZURE", "pfc_enable": "3,4"}
    for port in ("Ethernet0", "Ethernet40"):
        switch.run_line(f"sudo sonic-db-cli CONFIG_DB DEL 'PORT_QOS_MAP|{port}'")
    switch.run_line(merge(json.dumps({"PORT_QOS_MAP": {"Ethernet0,Ethernet40": both}})))
    with pytest.raises(DeviceError, match="HwSKU DellEMC-Z9332f-O32 writes one row") as caught:
        apply(talk(switch), LOSSY)
    _, _, lines = str(caught.value).partition("and save:\n    ")
    for line in re.findall(r"sudo [^']*'[^']*'", lines):
        switch.run_line(line)
    rows = switch.stored.running["PORT_QOS_MAP"]
    assert rows["Ethernet0"] == rows["Ethernet40"] == both
    apply(talk(switch), LOSSY)
    assert switch.stored.running["PORT_QOS_MAP"]["Ethernet40"] == both


def test_the_reload_lock_is_held_while_we_write(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    other = switch.session()
    assert "Failed to acquire lock" in other.run("sudo config reload -y")
    with pytest.raises(DeviceError, match="another update is running"):
        Exchange(DirectSession(other), system_of("sonic")).configure()
    exchange.session.run("exit")
    assert "Acquired lock" in other.run("sudo config reload -y")


@pytest.mark.parametrize(
    ("fault", "off", "words"),
    [
        (["lock", "bob"], ["lock", "off"], "a config reload or another update is running"),
        (["sudo-password", "on"], ["sudo-password", "off"], "sudo: a password is required"),
    ],
)
def test_who_may_not_write_now_is_told(
    switch: SonicSwitch, fault: list[str], off: list[str], words: str
) -> None:
    switch.fault(fault)
    with pytest.raises(DeviceError, match=words):
        talk(switch)
    switch.fault(off)
    talk(switch)


def test_an_unreadable_configuration_is_not_shown(
    switch: SonicSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(switch)

    def broken(_line: str) -> str:
        return '{"SNMP_COMMUNITY": {"hush": '

    monkeypatch.setattr(exchange.session, "run", broken)
    with pytest.raises(DeviceError, match="not a table of tables") as caught:
        exchange.read(LOSSY)
    assert "hush" not in str(caught.value)


DELETE = "sudo sonic-db-cli CONFIG_DB DEL"
FAR = merge('{"CABLE_LENGTH":{"AZURE":{"Ethernet8":"7m"}}}')
RANGE = merge('{"QUEUE":{"Ethernet0|3-4":{"wred_profile":"AZURE_LOSSLESS"}}}')
BUNDLE = merge('{"PORTCHANNEL_MEMBER":{"PortChannel1|Ethernet8":{}}}')


@pytest.mark.parametrize(
    ("lines", "desired", "words"),
    [
        (["sudo config qos clear"], LOSSLESS, "sudo config qos reload(.|\n)*put back; not saved"),
        (
            [FAR, f"{DELETE} 'BUFFER_PG|Ethernet8|3-4'"],
            LOSSLESS,
            "no lossless buffer for priority 3. Look at CABLE_LENGTH",
        ),
        (
            [f"{DELETE} 'QUEUE|Ethernet0|3'", RANGE],
            LOSSY,
            r"QUEUE\|Ethernet0\|3-4 is one row for several queues",
        ),
        ([BUNDLE], LOSSY, "sudo config portchannel member del PortChannel1 Ethernet8"),
        (["sudo pfcwd counter_poll disable"], WATCHED, "sudo pfcwd counter_poll enable"),
    ],
)
def test_what_no_line_of_ours_can_give_is_said_and_nothing_stays(
    switch: SonicSwitch, lines: list[str], desired: SwitchState, words: str
) -> None:
    for line in (*lines, "sudo config save -y"):
        switch.run_line(line)
    first = switch.snapshot()
    with pytest.raises(DeviceError, match=words):
        apply(talk(switch), desired)
    assert switch.snapshot() == first


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"PORT": {"Ethernet0": {"mtu": "x"}}}, "'x' of PORT|Ethernet0 mtu is not a number"),
        (
            {"VLAN_MEMBER": {"Vlanx|Ethernet0": {}}},
            "'x' of VLAN_MEMBER|Vlanx|Ethernet0 is not a number",
        ),
        ({"VLAN": {"Vlan": {}}}, "'' of VLAN|Vlan is not a number"),
        *(
            (
                {table: {f"Ethernet0|{span}": {}}},
                f"{table}|'Ethernet0|{span}' names neither a queue",
            )
            for table in ("QUEUE", "BUFFER_PG")
            for span in ("a-b", "3-x", "4-3", "3-", "-3", "3,4", "")
        ),
        *(
            ({"QUEUE": {f"leaf-01|asic0|{name}|0-2": {}}}, "virtual output queue of a chassis")
            for name in ("Ethernet0", "Ethernet0|x")
        ),
        *(
            ({"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": text}}}, f"'{text}' is not a list of")
            for text in ("3,x", "3-4", "3,,4", "34")
        ),
    ],
)
def test_a_text_in_place_of_a_number_is_refused_with_its_row(
    tables: dict[str, dict[str, dict[str, str]]], why: str
) -> None:
    text = json.dumps({"PORT": {"Ethernet0": {}}, "SNMP_COMMUNITY": {"hush": {}}} | tables)
    wanted = SwitchState(vlans=(7,), ports={"Ethernet0": PortState(mtu_bytes=9100)})
    with pytest.raises(Unreadable, match=re.escape(why)) as caught:
        system_of("sonic").parse({CONFIG: text}, wanted)
    assert "hush" not in caught.value.text


def test_rows_of_ports_that_are_not_ours_may_say_anything() -> None:
    odd: Rows = {"Ethernet8|a-b": {}, "leaf-02|asic0|Ethernet8|0-2": {}}
    text = json.dumps({"PORT": {"Ethernet0": {}, "Ethernet8": {}}, "QUEUE": odd})
    wanted = SwitchState(ports={"Ethernet0": PortState()})
    assert system_of("sonic").parse({CONFIG: text}, wanted).state.ports["Ethernet0"].ecn[3] is None


BOGUS: Final = "10.0.0.1/31; reboot 'now'"


def test_what_a_row_says_never_becomes_a_command_of_its_own() -> None:
    rows: Tables = {"INTERFACE": {"Ethernet0": {}, f"Ethernet0|{BOGUS}": {}}}
    rows["PORTCHANNEL_MEMBER"] = {"$(reboot)|Ethernet8": {}, "half": {}}
    ports: Rows = {"Ethernet0": {}, "Ethernet8": {}}
    wanted = SwitchState(ports=dict.fromkeys(ports, PortState(mode="access", access_vlan=7)))
    state = system_of("sonic").parse({CONFIG: json.dumps({"PORT": ports} | rows)}, wanted).state
    words = [shlex.split(line) for _, line in held_interfaces(state)]
    assert words == [
        ["sudo", "config", "interface", "ip", "remove", "Ethernet0", BOGUS],
        ["sudo", "config", "portchannel", "member", "del", "$(reboot)", "Ethernet8"],
    ]
    assert [*delete_rows([f"QUEUE|{BOGUS}"])] == [
        f"sudo sonic-db-cli CONFIG_DB DEL {shlex.quote(f'QUEUE|{BOGUS}')}"
    ]
