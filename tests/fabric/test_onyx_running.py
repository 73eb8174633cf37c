"""What the running configuration of an Onyx switch tells, and what it leaves open."""

from __future__ import annotations

import pytest

from components.fabric.guards import Guarded, Look, find_beside
from components.fabric.state import EcnState, OtherPorts, PortState, SwitchState
from components.fabric.systems.onyx import read_status
from components.fabric.systems.onyx.rows import (
    RUNNING,
    STATUS,
    parse_running,
    whole_of,
)
from components.fabric.systems.onyx.system import OnyxDriver

# oxidized's capture of 3.9.2504; what follows is put into its sections.
HEAD = """##
## Running database "initial"
## Generated at 2025/03/31 08:48:03 -0400
## Hostname:
## Product release: 3.9.2504
##

##
## Running-config temporary prefix mode setting
##
no cli default prefix-modes enable

##
## Interface Ethernet buffer configuration
##
"""
RELATIVE = (
    "   interface ethernet 1/1-1/32 traffic-class 3 congestion-control ecn"
    " minimum-relative 75 maximum-relative 95\n"
)
# The collection's fixture onyx_config_config.cfg, and the configuration in Cray's documents.
PORTS = """   interface ethernet 1/1-1/2 mtu 9216 force
   interface ethernet 1/2 shutdown
   interface ethernet 1/1-1/2 switchport mode trunk
   interface ethernet 1/1-1/2 switchport trunk allowed-vlan none
   interface ethernet 1/1-1/2 switchport trunk allowed-vlan add 111
   interface ethernet 1/1-1/2 qos trust L3
   interface ethernet 1/7-1/8 dcb priority-flow-control mode on force
   vlan 101
   vlan 111-112
   vlan 101 name "storage"
"""
# capture C7: the columns, and one row of a public page.
TABLE = (
    "Port             Operational state     Admin              Speed             MTU     Desc\n"
    "Eth1/10          Up                    Enabled            100Gx4            1500      -\n"
    "Eth1/11          Down                  Disabled           Unknown           9216      rack 4\n"
)
# capture C1, SN2700, Onyx 3.10.4006, without its pools.
ONE_SHOT = """RoCE mode      : lossless
LLDP           : enabled
Port trust mode: L3

Application TLV:
  Selector: udp
  Protocol: 4791
  Priority: 3

Port congestion-control:
  Mode    : ecn, absolute
  Min (KB): 150
  Max (KB): 1500

PFC              : enabled
switch-priority 3: enabled

RoCE used TCs:
  ----------------------------------------------
  Switch-Priority   TC     Application   ETS
  ----------------------------------------------
  3                 3      RoCE          WRR 50%
  6                 6      CNP           Strict

Exception list:
N/A
"""
ASKED = PortState(
    admin_up=True, mtu_bytes=9216, mode="trunk", trust="L3", ecn={3: None}, strict_classes=(6,)
)


def _rest(text: str, *names: str) -> list[str]:
    wanted = SwitchState(ports=dict.fromkeys(names, ASKED))
    return [*OnyxDriver().rest_commands({RUNNING: text, STATUS: ""}, wanted)]


def test_a_configuration_with_every_line_of_ours_leaves_nothing_to_ask() -> None:
    assert _rest(HEAD + PORTS, "1/1", "1/2") == []
    reading = OnyxDriver().parse(
        {RUNNING: HEAD + PORTS}, SwitchState(ports={"1/1": ASKED, "1/2": ASKED})
    )
    assert reading.state.vlans == (1, 101, 111, 112)
    first, second = reading.state.ports["1/1"], reading.state.ports["1/2"]
    assert (first.mode, first.trunk_vlans, first.access_vlan) == ("trunk", (111,), None)
    assert (first.mtu_bytes, first.trust, first.strict_classes) == (9216, "L3", ())
    assert (first.admin_up, second.admin_up) == (True, False)
    assert first.wrr_weights == {tc: 12 + tc % 2 for tc in range(8)}
    assert reading.vlan_holders == {1: ("1/7", "1/8")}


def test_marking_by_percent_is_read_as_others_set_it() -> None:
    running = parse_running(HEAD + RELATIVE)
    assert running is not None
    assert len(running.ports) == 32
    assert running.ports["1/32"]["ecn"] == {3: EcnState(min_kib=75, max_kib=95, relative=True)}


def test_what_the_one_shot_set_is_in_its_own_answer() -> None:
    driver, wanted = OnyxDriver(), SwitchState(ports={"1/9": ASKED})
    running = HEAD + "   roce lossless\n   interface ethernet 1/9 mtu 9216 force\n"
    assert driver.whole_command({RUNNING: running}, wanted) == "show roce"
    answers = {RUNNING: running, "show roce": ONE_SHOT}
    assert driver.whole_command(answers, wanted) is None
    assert driver.rest_commands(answers, wanted) == ()
    port = driver.parse(answers, wanted).state.ports["1/9"]
    assert (port.trust, port.strict_classes, port.wrr_weights) == ("L3", (6,), {3: 50})
    assert {tc: ecn for tc, ecn in port.ecn.items() if ecn} == {
        3: EcnState(min_kib=150, max_kib=1500)
    }


OF_PORT = [
    "show qos interface ethernet 1/1 | json-print",
    "show interfaces ethernet 1/1 congestion-control | json-print",
    "show dcb ets interface ethernet 1/1 | json-print",
]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "RoCE mode      : N/A\n",
        ONE_SHOT.replace("N/A", "  Eth1/2: trust mode L2"),
        ONE_SHOT.replace("ecn, absolute", "ecn, relative"),
        ONE_SHOT.replace("RoCE          WRR", "iSCSI         WRR"),
        ONE_SHOT.replace("Port trust mode: L3\n", ""),
    ],
)
def test_a_one_shot_with_exceptions_is_asked_port_by_port(answer: str) -> None:
    answers = {RUNNING: HEAD + "   roce lossy\n" + PORTS, "show roce": answer}
    rest = OnyxDriver().rest_commands(answers, SwitchState(ports={"1/1": ASKED}))
    assert [*rest] == OF_PORT


def test_a_weight_beside_the_one_shot_is_asked_for() -> None:
    line = "   interface ethernet 1/1 traffic-class 5 dcb ets wrr 40\n"
    answers = {RUNNING: HEAD + "   roce lossy\n" + PORTS + line, "show roce": ONE_SHOT}
    rest = OnyxDriver().rest_commands(answers, SwitchState(ports={"1/1": ASKED}))
    assert [*rest] == OF_PORT[2:]


TABLES = ["show vlan | json-print", "show interfaces switchport | json-print"]


OWN = "interface ethernet 1/1 "


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (f"{OWN}switchport trunk native vlan 1", TABLES),
        (f"{OWN}switchport mode access-dcb", TABLES),
        (f"{OWN}mlag-channel-group 10 mode active", TABLES),
        (f"{OWN}no switchport force", TABLES),
        (f"{OWN}mtu 9k", ["show interfaces ethernet 1/1"]),
        (f"{OWN}qos map dscp 26 to switch-priority 3", OF_PORT[:1]),
        (f"{OWN}traffic-class 3 dcb ets wrr 50 bandwidth", OF_PORT[1:]),
        (f"{OWN}spanning-tree port type edge", []),
        (f'{OWN}description "mtu and qos of rack 4"', []),
        # A line about no single port may be about all.
        ("qos map dscp 26 to switch-priority 3", OF_PORT[:1]),
        ("dcb ets enable", OF_PORT[2:]),
        ("no vlan switchport default", TABLES),
        ("dcb priority-flow-control enable force", []),
        ("## qos configuration", []),
        ("interface vlan 101 mtu 9216", []),
        ("interface ethernet 1/9 switchport mode trunk", TABLES),  # a trunk without its list
    ],
)
def test_a_line_in_another_form_is_no_value(line: str, rest: list[str]) -> None:
    assert _rest(HEAD + PORTS + f"   {line}\n", "1/1") == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "% Unrecognized command\n",
        PORTS,
        HEAD.replace("no cli default", "cli default") + PORTS,
        HEAD + PORTS + "   interface ethernet 1/1/3-1/2/2 shutdown\n",
    ],
)
def test_an_answer_of_another_form_tells_nothing(text: str) -> None:
    assert whole_of({RUNNING: text}) is None
    assert _rest(text, "1/1")[:2] == TABLES
    assert len(_rest(text, "1/1")) == 6


def test_the_table_of_ports_has_what_the_factory_set() -> None:
    assert read_status(TABLE) == {
        "1/10": {"admin_up": True, "mtu_bytes": 1500, "link": True},
        "1/11": {"admin_up": False, "mtu_bytes": 9216, "link": False},
    }
    driver, wanted = OnyxDriver(), SwitchState(ports={"1/10": ASKED})
    assert driver.whole_command({}, wanted) == RUNNING
    assert driver.whole_command({RUNNING: HEAD}, wanted) == STATUS
    assert driver.whole_command({RUNNING: HEAD, STATUS: TABLE}, wanted) is None
    port = driver.parse({RUNNING: HEAD, STATUS: TABLE}, wanted).state.ports["1/10"]
    assert (port.mtu_bytes, port.admin_up, port.mode, port.access_vlan) == (1500, True, "access", 1)


def test_a_port_that_neither_answer_names_is_asked_for() -> None:
    answers = {RUNNING: HEAD + PORTS, STATUS: TABLE}
    rest = OnyxDriver().rest_commands(answers, SwitchState(ports={"1/40": ASKED}))
    assert [*rest] == [*TABLES, "show interfaces ethernet 1/40"]


@pytest.mark.parametrize(("lowest", "starved"), [(12, 0), (1, 1)])
def test_factory_weights_starve_no_class(lowest: int, starved: int) -> None:
    """They are 12 and 13 in turn: a class of RoCE with 12 is not refused for that."""
    weights = {tc: 12 + tc % 2 for tc in range(8) if tc != 6} | {4: lowest}
    port = PortState(strict_classes=(6,), wrr_weights=weights)
    found = SwitchState(ports={"1/1": port}, others=OtherPorts())
    wanted = SwitchState(ports={"1/1": PortState(trust="L3")})
    look = Look("onyx", found, wanted, wanted, {})
    classes = Guarded(
        mode="lossy_ecn", priority=4, traffic_class=4, dscp=32, cnp_priority=6, cnp_dscp=48
    )
    assert len([each for each in find_beside(classes, look) if "share" in str(each)]) == starved
