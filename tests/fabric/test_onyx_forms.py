"""Answers of Onyx in their real form: the reader gets the values, the emulator prints the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from components.fabric.state import EcnState, PortState
from components.fabric.systems import mellanox_cli, onyx
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import PauseCounters, Unreadable
from components.fabric.systems.onyx import system as show
from components.fabric.systems.onyx.rows import PORT_ROWS, parse_running
from components.fabric.systems.onyx.system import OnyxDriver
from components.fabric.systems.ranges import parse_vlan_ranges
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.stored import PortCounters
from tests.fabric.conftest import make_switch

FOLDER: Final = Path(__file__).parent / "forms" / "onyx"
CONTROL: Final = "interface ethernet 1/1 traffic-class {} congestion-control"
LINES: Final = (
    "vlan 10",
    "vlan 10 name storage",
    "vlan 111-112",
    "interface ethernet 1/2 switchport mode trunk",
    "interface ethernet 1/2 switchport trunk allowed-vlan none",
    "interface ethernet 1/2 switchport trunk allowed-vlan add 111-112",
    "interface ethernet 1/3 switchport mode hybrid",
    "interface ethernet 1/3 switchport hybrid allowed-vlan 10",
    "interface ethernet 1/1 qos trust both",
    "interface ethernet 1/1 qos rewrite pcp",
    f"{CONTROL.format(2)} red minimum-relative 9 maximum-relative 90",
    f"{CONTROL.format(3)} ecn minimum-absolute 500 maximum-absolute 1550",
    "interface ethernet 1/1 traffic-class 2 dcb ets strict",
    "interface ethernet 1/1 traffic-class 3 dcb ets strict",
    "interface ethernet 1/2 dcb priority-flow-control mode on force",
    "dcb priority-flow-control enable force",
    "dcb priority-flow-control priority 3 enable",
    "dcb priority-flow-control priority 4 enable",
    "interface ethernet 1/3 mtu 9216 force",
    "interface ethernet 1/3 shutdown",
    "lldp",
)
"""What somebody typed on the switch whose answers the forms are."""
COUNTED: Final = PortCounters(
    rx_bytes={3: 4174000}, tx_bytes={3: 8348000}, rx_pauses={3: 5}, tx_pauses={3: 6}, rx_discards=7
)


def prepared(folder: Path) -> OnyxSwitch:
    switch = make_switch(folder)
    running = switch.stored.running
    running.ports = {name: running.ports[name] for name in ("1/1", "1/2", "1/3")}
    for line in LINES:
        assert switch.run_line(line) == ""
    switch.stored.counters = {"1/1": COUNTED.model_copy(update={"ecn_marked": {3: 9}})}
    return switch


def _port(name: str) -> Callable[[Answer], object]:
    row = next(row for row in PORT_ROWS if row.name == name)
    assert row.read is not None
    return row.read


def _counters(answer: Answer) -> object:
    """Everything that this answer alone tells of port 1/1."""
    read = show.read_counters({answer.command: answer.text}, "1/1")
    by_number = {n: (c.rx_bytes, c.tx_bytes) for n, c in read.by_priority.items() if c.rx_bytes}
    return by_number, read.ecn_marked, read.rx_discards


def _count(head: str, name: str) -> Callable[[Answer], object]:
    return lambda answer: show.read_counter(answer, head, name)


Form = tuple[str, tuple[tuple[Callable[[Answer], object], object], ...]]
FORMS: Final[dict[str, Form]] = {
    "show_vlan.json": ("show vlan | json-print", ((show.read_vlans, (1, 10, 111, 112)),)),
    "show_interfaces_switchport.json": (
        onyx.SWITCHPORTS,
        (
            (
                onyx.read_members,
                {
                    "1/1": PortState(mode="access", access_vlan=1, trunk_vlans=()),
                    "1/2": PortState(mode="trunk", trunk_vlans=(111, 112)),
                    "1/3": PortState(mode="hybrid", access_vlan=1, trunk_vlans=(10,)),
                },
            ),
        ),
    ),
    "show_interfaces_ethernet.txt": (
        onyx.INTERFACE.format("1/3"),
        ((_port("mtu_bytes"), 9216), (_port("admin_up"), False)),
    ),
    "show_qos_interface_ethernet.json": (
        onyx.QOS.format("1/1"),
        (
            (_port("trust"), "both"),
            (_port("rewrite_dscp"), False),
            (_port("dscp_priorities"), {dscp: dscp // 8 for dscp in range(64)}),
        ),
    ),
    "show_congestion_control.json": (
        onyx.CONGESTION.format("1/1"),
        (
            (
                _port("ecn"),
                dict.fromkeys(range(8))
                | {
                    2: EcnState(min_kib=9, max_kib=90, kind="red", relative=True),
                    3: EcnState(min_kib=500, max_kib=1550),
                },
            ),
            (_counters, ({}, 9, None)),
        ),
    ),
    "show_dcb_ets_interface.json": (
        onyx.ETS.format("1/1"),
        ((_port("schedule"), {0: 12, 1: 13, 2: None, 3: None, 4: 12, 5: 13, 6: 12, 7: 13}),),
    ),
    "show_dcb_priority_flow_control.json": (
        "show dcb priority-flow-control | json-print",
        (
            (
                show.read_pfc,
                (
                    {"pfc_enabled": True, "pfc_priorities": (3, 4)},
                    {"1/1": False, "1/2": True, "1/3": False},
                ),
            ),
        ),
    ),
    "show_roce_off.txt": ("show roce", ((show.read_roce_mode, "none"),)),
    "show_counters.txt": (
        show.TOTALS,
        ((_count("Rx", "bytes"), 4174000), (_count("Rx", "discard packets"), 7)),
    ),
    "show_counters_pfc_prio.txt": (
        show.OF_PRIORITY.format(3),
        (
            (_count("Rx", "bytes"), 4174000),
            (_count("Rx", "pause packets"), 5),
            (_count("Tx", "pause packets"), 6),
        ),
    ),
    "show_counters_tc.txt": (show.OF_CLASS.format(3), ((_count("TC 3", "bytes"), 8348000),)),
}
"""File to the command, and what each reader makes of it. forms/README.md has the sources."""


def answer_of(name: str) -> Answer:
    return Answer(FORMS[name][0], (FOLDER / name).read_text(), "1/1")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read(name: str) -> None:
    for read, value in FORMS[name][1]:
        assert read(answer_of(name)) == value


def test_the_emulator_prints_every_form(tmp_path: Path) -> None:
    session = prepared(tmp_path).session()
    session.run("enable")
    for name, (command, _) in FORMS.items():
        assert session.run(command) == (FOLDER / name).read_text(), name


SHAPES: Final = (
    "",
    "RoCE is fine\n",
    "{",
    "[1, 2]",
    '{"Eth1/1": 3}',
    "[]",
    "% Unrecognized command",
    '[{"header": "Vlan 1002", "Admin state": "Enabled"}]',  # fixture onyx_l3_vlan_…
)


@pytest.mark.parametrize("text", SHAPES)
def test_another_form_is_never_taken_for_a_value(text: str) -> None:
    readers = {read for _, reads in FORMS.values() for read, _ in reads} - {_counters}
    for read in readers:
        with pytest.raises(Unreadable) as error:
            read(Answer("show x", text, "1/1"))
        assert (error.value.command, error.value.text) == ("show x", text)
    assert parse_running(text) is onyx.read_one_shot(text) is None


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("show_interfaces_switchport.json", '"hybrid"', '"access-dcb"'),
        ("show_interfaces_switchport.json", '"Mode"', '"Port mode"'),
        ("show_congestion_control.json", '"RED"', '"WRED"'),
        ("show_congestion_control.json", '"500 KB"', '"half"'),
        ("show_dcb_ets_interface.json", '"WRR"', '"DWRR"'),
        ("show_dcb_priority_flow_control.json", '"PFC oper"', '"PFC state"'),
        ("show_qos_interface_ethernet.json", '"both"', '"all"'),
        ("show_counters.txt", "Rx:", "Received:"),
        ("show_roce_off.txt", "N/A", "adaptive"),
    ],
)
def test_another_word_in_a_form_is_unreadable(name: str, old: str, new: str) -> None:
    answer = answer_of(name)
    other = Answer(answer.command, answer.text.replace(old, new), "1/1")
    assert other.text != answer.text
    with pytest.raises(Unreadable):
        FORMS[name][1][0][0](other)


def test_an_answer_about_another_port_is_unreadable() -> None:
    for name in ("show_qos_interface_ethernet.json", "show_counters_tc.txt"):
        answer = answer_of(name)
        with pytest.raises(Unreadable):
            FORMS[name][1][0][0](Answer(answer.command, answer.text, "1/9"))


OLDER = "Eth1/1\n  Admin state: Disabled\n  MTU: 9216 bytes(Maximum packet size 9238 bytes)\n"
"""Capture C6: no colon after the port, no blank before the bracket."""


def test_older_layouts_are_read() -> None:
    older = Answer("show interfaces ethernet 1/1", OLDER, "1/1")
    assert (_port("mtu_bytes")(older), _port("admin_up")(older)) == (9216, False)
    vlans = 'some banner\n{"1":{"Name":"default","Ports":"Eth1/1,\\nEth1/6"}}\n'
    assert show.read_vlans(Answer("show vlan", vlans)) == (1,)
    counted = "Eth1/1\n  Rx\n    10 packets\n    99 bytes\n  Tx\n    7 bytes\n"
    assert show.read_counter(Answer("c", counted, "1/1"), "Tx", "bytes") == 7
    with pytest.raises(Unreadable):
        show.read_counter(Answer("c", counted, "1/1"), "Tx", "packets")


def test_pfc_of_the_one_shot_and_bundles() -> None:
    text = """[{"PFC":"enabled","Priority Enabled List":"3 4","Priority Disabled List":"0 1"},
    {"Eth1/13":[{"PFC admin":"Auto","PFC oper":"Enabled"}],
     "Po1":[{"PFC admin":"Auto","PFC oper":"Disabled"}]}]"""  # capture C4, Onyx 3.8.2306
    assert show.read_pfc(Answer("c", text))[1] == {"1/13": True, "Po1": False}
    members = '{"Mpo17":{"Access vlan":"N/A","Allowed vlans":"all","Mode":"trunk"}}'
    assert onyx.read_members(Answer("c", members)) == {
        "Mpo17": PortState(mode="trunk", trunk_vlans="all")
    }


@pytest.mark.parametrize("said", ["{}", '"{}"', '\\"{}\\"'])
def test_a_serial_number_may_be_in_quotes(said: str) -> None:
    """3.6.1102 prints quotes; the fixture onyx_command_show_version.txt (3.6.5000) escapes them."""
    questions = mellanox_cli.IDENTITY
    text = f"Product model:     x86onie\nSystem serial num: {said.format('MT1632X00205')}\n"
    assert questions.parse_unique({"show version": text}).serial == "MT1632X00205"


@pytest.mark.parametrize(
    ("text", "vlans"), [("", ()), ("N/A", ()), ("1, 111-113", (1, 111, 112, 113)), ("7", (7,))]
)
def test_vlan_ranges(text: str, vlans: tuple[int, ...]) -> None:
    assert parse_vlan_ranges(text) == vlans


def test_counters_of_one_port_among_all(tmp_path: Path) -> None:
    session, driver = prepared(tmp_path).session(), OnyxDriver()
    session.run("enable")
    commands = driver.counter_commands(("1/1", "1/2"))
    assert len(commands) == 17 + 2 * 2
    found = driver.parse_counters({each: session.run(each) for each in commands}, ("1/1", "1/2"))
    assert (found["1/1"].by_priority[3].rx_bytes, found["1/1"].ecn_marked) == (4174000, 9)
    assert found["1/1"].pauses[3] == PauseCounters(5, 6)
    assert found["1/2"].by_priority[3].tx_bytes == 0
    assert not found["1/1"].unread
