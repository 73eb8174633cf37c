"""The parsers read the public captures and fixtures of docs/explanation/sources.md#onyx."""

from __future__ import annotations

import pytest

from components.fabric.state import EcnState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.onyx.driver import OnyxDriver
from components.fabric.systems.onyx.read import (
    Interface,
    Switchport,
    parse_congestion,
    parse_counter,
    parse_ets,
    parse_interface,
    parse_pfc,
    parse_roce_mode,
    parse_switchports,
    parse_trust,
    parse_vlan_ranges,
    parse_vlans,
)

# captures C5 (newer), C6 (older, no space before the bracket): the same two lines, two layouts.
NEWER = """Eth1/1:
  Admin state                               : Enabled
  Operational state                         : Up
  MTU                                       : 1500 bytes (Maximum packet size 1522 bytes)
"""
OLDER = """Eth1/1
  Admin state: Disabled
  MTU: 9216 bytes(Maximum packet size 9238 bytes)
  Switchport mode: access
"""
# onyx_vlan_show.cfg, with its line break inside a value.
VLANS = (
    '{"1":{"Name":"default","Ports":"Eth1/1, Eth1/2,\\nEth1/6"},"10":{"Name":"test 10","Ports":""}}'
)
# onyx_l2_interface_show.cfg
SWITCHPORTS = (
    '{"Eth1/11":{"Access vlan":"1","Allowed vlans":"","Mode":"access"},'
    '"Eth1/10":{"Access vlan":"1","Allowed vlans":"10","Mode":"hybrid"},'
    '"Mpo17":{"Access vlan":"N/A","Allowed vlans":"1","Mode":"trunk"}}'
)
# The fixture of `show interfaces ethernet 1/1 congestion-control`.
CONGESTION = """[{"Interface ethernet":"1/1","ECN marked packets":"0"},
{"header":"TC-0","Mode":"none"},
{"header":"TC-2","Mode":"RED","Threshold mode":"relative","Minimum threshold":"9%",
 "Maximum threshold":"90%","RED dropped packets":"0"},
{"header":"TC-3","Mode":"ECN","Threshold mode":"absolute","Minimum threshold":"500 KB",
 "Maximum threshold":"1550 KB","RED dropped packets":"0"}]"""
# capture C4, Onyx 3.8.2306
PFC = """[{"PFC":"enabled","Priority Enabled List":"3 4","Priority Disabled List":"0 1 2 5 6 7"},
{"Eth1/11":[{"PFC admin":"Auto","PFC oper":"Disabled"}],
 "Eth1/12":[{"PFC admin":"on","PFC oper":"Disabled"}],
 "Eth1/13":[{"PFC admin":"Auto","PFC oper":"Enabled"}]}]"""
# capture C1, SN2700, Onyx 3.10.4006
ROCE = """RoCE mode      : lossless
LLDP           : enabled
Port trust mode: L3

Application TLV:
  Selector: udp
"""


def test_both_layouts_of_an_interface_are_read() -> None:
    assert parse_interface("c", NEWER) == Interface(admin_up=True, mtu_bytes=1500)
    assert parse_interface("c", OLDER) == Interface(admin_up=False, mtu_bytes=9216)


def test_vlans_are_read_after_noise() -> None:
    assert parse_vlans("c", f"some banner\n{VLANS}\n") == (1, 10)


def test_switchports_are_ethernet_ports_only() -> None:
    assert parse_switchports("c", SWITCHPORTS) == {
        "1/11": Switchport("access", 1, ()),
        "1/10": Switchport("hybrid", 1, (10,)),
    }


@pytest.mark.parametrize(
    ("text", "vlans"), [("", ()), ("N/A", ()), ("1, 111-113", (1, 111, 112, 113)), ("7", (7,))]
)
def test_vlan_ranges(text: str, vlans: tuple[int, ...]) -> None:
    assert parse_vlan_ranges(text) == vlans


def test_congestion_control_of_others_is_read_too() -> None:
    assert parse_congestion("c", CONGESTION) == {
        0: None,
        2: EcnState(min_kib=9, max_kib=90, kind="red", relative=True),
        3: EcnState(min_kib=500, max_kib=1550),
    }


def test_trust_of_the_asked_port() -> None:
    answer = '[{"Eth1/1":[{"Trust mode":"both","DSCP rewrite":"disabled"},{"map":[{}]}]}]'
    assert parse_trust("c", answer, "1/1") == "both"
    with pytest.raises(Unreadable):
        parse_trust("c", answer, "1/2")


def test_ets_is_nested_as_the_ansible_module_reads_it() -> None:
    answer = (
        '[{"Eth1/1":[{"Multicast unaware mapping":"disabled"},{"Flags":[]},{"ETS per TC":[{'
        '"0":[{"S.Mode":"WRR","W":"12","W(%)":"17"}],"6":[{"S.Mode":"Strict","W":"0"}]}]}]}]'
    )
    assert parse_ets("c", answer) == ((6,), {0: 12})


def test_pfc_that_the_one_shot_turned_on_counts_as_on() -> None:
    found = parse_pfc("c", PFC)
    assert (found.enabled, found.priorities) == (True, (3, 4))
    assert found.ports == {"1/11": False, "1/12": True, "1/13": True}


def test_roce_mode() -> None:
    assert parse_roce_mode("c", ROCE) == "lossless"
    assert parse_roce_mode("c", "RoCE mode      : N/A\n") == "none"


def test_counters_are_read_under_their_own_head() -> None:
    text = "Eth1/1:\n  Rx:\n    10  packets\n    99  bytes\n  Tx:\n    7  bytes\n"
    assert parse_counter("c", text, "Rx:", "bytes") == 99
    assert parse_counter("c", text, "Tx:", "bytes") == 7
    with pytest.raises(Unreadable):
        parse_counter("c", text, "Tx:", "packets")


@pytest.mark.parametrize(
    "text", ["", "RoCE is fine\n", "{", "[1, 2]", '{"Eth1/1": 3}', "% Unrecognized command"]
)
def test_what_cannot_be_read_is_never_taken_for_a_value(text: str) -> None:
    for parse in (parse_vlans, parse_switchports, parse_congestion, parse_ets, parse_pfc):
        with pytest.raises(Unreadable):
            parse("show x", text)
    for parse in (parse_interface, parse_roce_mode):
        with pytest.raises(Unreadable):
            parse("show x", text)


@pytest.mark.parametrize(
    ("output", "refusal"),
    [
        ("", None),
        ("MTU : 1500 bytes\n100% used\n", None),
        (
            '% Unrecognized command "ib".\nType "?" for help.\n',
            '% Unrecognized command "ib".\nType "?" for help.',
        ),
        ("one line\n% Incomplete command\n", "% Incomplete command"),
        (
            "\r% Please enter an integer between 5 and 999.",
            "% Please enter an integer between 5 and 999.",
        ),
    ],
)
def test_error_lines_are_found_by_their_percent_sign(output: str, refusal: str | None) -> None:
    assert OnyxDriver().find_refusal(output) == refusal
