"""What the EOS driver reads: lines and answers of public configurations, captures and clients.

`AVD` are lines as aristanetworks/avd's `eos_cli_config_gen` renders them in its own tests, in
Arista's order; names and numbers are ours. The shapes of the JSON are those that napalm, ANTA and
amd/node-scraper read (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import JsonValue

from components.fabric.parts import DEFAULT, read_fields, sources
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import (
    Occupied,
    PauseCounters,
    PortCounters,
    PriorityCounters,
    Unreadable,
)
from components.fabric.systems.eos.driver import (
    INTERFACES,
    MAPS,
    VLANS,
    EosDriver,
    parse_maps,
    parse_sections,
)
from components.fabric.systems.eos.read import (
    find_stale,
    parse_marked,
    parse_pauses,
    parse_port_names,
    parse_sent,
    parse_storms,
    parse_vlans,
    port_counters,
)

FORMS = Path(__file__).parent / "forms" / "eos"
AVD, MAP_LINES, VLAN_JSON = (
    (FORMS / name).read_text()
    for name in ("running_config_interface.txt", "running_config_qos.txt", "show_vlan.json")
)
QUEUED: dict[str, JsonValue] = {
    "egressQueueCounters": {
        "interfaces": {
            "Ethernet1/1": {
                "ucastQueues": {
                    "trafficClasses": {
                        "TC3": {
                            "dropPrecedences": {
                                "DP0": {"enqueuedBytes": 40, "droppedPackets": 0},
                                "DP1": {"enqueuedBytes": 2, "droppedPackets": 5},
                            }
                        },
                        "TC6": {"dropPrecedences": {"DP0": {"enqueuedBytes": 7}}},
                    }
                },
                "mcastQueues": {"trafficClasses": {}},
            }
        }
    }
}


def _read(wanted: SwitchState) -> SwitchState:
    answers = {INTERFACES: AVD, MAPS: "", VLANS: VLAN_JSON}
    return EosDriver().parse(answers, wanted).state


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"   {line}\n" for line in lines)


def _all_of(*names: str) -> SwitchState:
    return SwitchState(ports=dict.fromkeys(names, PortState()))


def test_a_port_as_it_stands_in_the_configuration() -> None:
    port = _read(_all_of("Ethernet2/1")).ports["Ethernet2/1"]
    assert (port.mode, port.trunk_vlans, port.access_vlan) == ("trunk", (110, 111, 210, 211), 1)
    assert (port.trust, port.pfc, port.pfc_priorities) == ("L3", True, (3,))
    assert port.ecn[3] == EcnState(min_kib=150, max_kib=1500)
    assert str(port.ecn[4]) == (
        "minimum-threshold 2000 segments maximum-threshold 10000 segments "
        "max-mark-probability 20 weight 0"
    )
    assert (port.ecn[1], port.strict_classes) == (None, (0, 2, 3, 4, 5, 6, 7))
    assert (port.mtu_bytes, port.admin_up, port.native["mtu_bytes"]) == (9214, True, DEFAULT)


def test_what_stands_nowhere_is_the_default() -> None:
    port = _read(_all_of("Ethernet6/1")).ports["Ethernet6/1"]
    factory = EosDriver().factory_state(["Ethernet6/1"]).ports["Ethernet6/1"]
    assert port == factory.model_copy(update={"ecn": dict.fromkeys(range(8))})


def test_a_routed_port_trusts_dscp_until_it_is_none() -> None:
    port = _read(_all_of("Ethernet1/1")).ports["Ethernet1/1"]
    assert (port.mode, port.trust, port.mtu_bytes, port.pfc_priorities) == (
        "routed",
        "L3",
        8000,
        (),
    )
    assert port.native == sources(mtu_bytes=True, trust=False, mode=False)


def test_what_others_wrote_is_read_too() -> None:
    port = _read(_all_of("Ethernet4/1")).ports["Ethernet4/1"]
    assert (port.admin_up, port.access_vlan, port.trust, port.pfc) == (False, 200, "port", False)
    assert port.ecn[3] == EcnState(min_kib=512, max_kib=768), "`weight` may be left out"


def test_the_watchdog_is_on_where_the_port_itself_says_all_of_it() -> None:
    ports = _read(_all_of("Ethernet2/1", "Ethernet4/1", "Ethernet6/1")).ports
    assert [port.pfc_watchdog for port in ports.values()] == [True, False, False]
    found = {name: read_fields(port.native.get("pfc_watchdog")) for name, port in ports.items()}
    assert found == {
        "Ethernet2/1": {
            "enable": "",
            "timer": "timeout 0.05 polling-interval auto recovery-time 1.11 forced",
            "action": "drop",
        },
        "Ethernet4/1": {"enable": "", "action": "notify-only"},
        "Ethernet6/1": {},
    }


@pytest.mark.parametrize("missing", ["enable", "timer", "action"])
def test_a_watchdog_that_lacks_a_line_is_off(missing: str) -> None:
    head = "priority-flow-control pause watchdog"
    lines = {
        "enable": head,
        "timer": f"{head} port timer timeout 1 polling-interval 0.1 recovery-time 1",
        "action": f"{head} port action drop",
    }
    whole = parse_sections("c", "interface Ethernet1/1\n" + _indented(lines.values()))
    assert [*whole["Ethernet1/1"].values["pfc_watchdog"]] == [*lines]
    del lines[missing]
    text = "interface Ethernet1/1\n" + _indented(lines.values())
    answers = {INTERFACES: text, MAPS: "", VLANS: VLAN_JSON}
    port = EosDriver().parse(answers, _all_of("Ethernet1/1")).state.ports["Ethernet1/1"]
    assert port.pfc_watchdog is False
    assert [*read_fields(port.native["pfc_watchdog"])] == [*lines]


def test_a_member_of_a_bundle_and_a_tunnel_are_no_plain_ports() -> None:
    assert [*_read(_all_of("Ethernet3/1", "Ethernet5/1", "Ethernet6/1")).ports] == ["Ethernet6/1"]


def test_vlans_that_others_use() -> None:
    answers = {INTERFACES: AVD, MAPS: "", VLANS: VLAN_JSON}
    reading = EosDriver().parse(answers, _all_of("Ethernet2/1"))
    assert reading.state.vlans == (1, 111), "1006 is EOS' own"
    assert reading.vlan_holders[111] == ("Port-Channel3", "Vlan111")
    assert reading.vlan_holders[200] == ("Port-Channel3", "Ethernet4/1")
    assert reading.vlan_holders.get(1) is None


def test_the_maps() -> None:
    classes, queues = parse_maps(MAP_LINES)
    assert [classes[dscp] for dscp in (0, 8, 15, 24, 26, 28, 30, 48)] == [
        1,
        1,
        0,
        1,
        4,
        1,
        3,
        6,
    ]
    assert queues == {6: 2}
    wanted = SwitchState(dscp_classes={26: 3, 48: 6})
    state = EosDriver().parse({INTERFACES: AVD, MAPS: MAP_LINES, VLANS: VLAN_JSON}, wanted).state
    assert state.dscp_classes == {26: 4, 48: 6}


def test_a_class_in_another_queue_is_named() -> None:
    wanted = SwitchState(ports={"Ethernet6/1": PortState(strict_classes=(6,))})
    with pytest.raises(Unreadable, match="traffic class 6 is mapped to queue 2"):
        EosDriver().parse({INTERFACES: AVD, MAPS: MAP_LINES, VLANS: VLAN_JSON}, wanted)


@pytest.mark.parametrize("text", ["", "!\n", "vlan 5\n"])
def test_a_configuration_without_interfaces_is_no_answer(text: str) -> None:
    with pytest.raises(Unreadable, match="no interface"):
        parse_sections(INTERFACES, text)


def test_json_of_other_clients() -> None:
    names = ("Management1", "Ethernet10/1", "Ethernet2/1")
    statuses = {"interfaceStatuses": {key: {"linkStatus": "connected"} for key in names}}
    assert parse_port_names("c", json.dumps(statuses)) == ("Ethernet2/1", "Ethernet10/1")
    assert parse_vlans("c", VLAN_JSON) == (1, 111)
    port = "Ethernet1/1"
    lost = {"interfaces": {port: {"inDiscards": 4, "outDiscards": 0}}, "inDiscardsTotal": 4}
    totals = {"interfaces": {port: {"inOctets": 9}}}
    found = _count(port, totals=json.dumps(totals), discards=json.dumps(lost))
    assert (found.rx_bytes, found.rx_discards) == (9, 4)
    assert parse_sent("c", json.dumps(QUEUED), port) == {
        **dict.fromkeys(range(8), PriorityCounters(None, 0)),
        3: PriorityCounters(None, 42, 5),
        6: PriorityCounters(None, 7),
    }
    # Names as in aristanetworks/anta, its unit tests of VerifyInterfacesEgressQueueDrops.
    together = {"TC0-2": {"dropPrecedences": {"DP0-2": {"droppedPackets": 3}}}}
    unicast = {"ucastQueues": {"trafficClasses": together}}
    tree = {"egressQueueCounters": {"interfaces": {port: unicast}}}
    sent = parse_sent("c", json.dumps(tree), port)
    assert (sent[1], sent[3]) == (PriorityCounters(None, None), PriorityCounters(None, 0))
    marked = {"intfQueueCounters": {port: {"queueCounters": {"1": "-", "3": "12", "4": 3}}}}
    assert parse_marked("c", json.dumps(marked), port) == 15
    dashes = {"intfQueueCounters": {port: {"queueCounters": {"1": "-", "3": "-"}}}}
    for silent in (json.dumps(dashes), '{"intfQueueCounters": {}}'):
        assert parse_marked("c", silent, port) is None, "no queue counts"


def _count(port: str, *, totals: str, discards: str = "") -> PortCounters:
    commands = EosDriver().counter_commands([port])
    return port_counters(port, dict(zip(commands, (totals, discards, *[""] * 4), strict=True)))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"interfaces": {}}', "% Invalid input"])
def test_other_shapes_are_told_with_their_text(text: str) -> None:
    found = _count("Ethernet1/1", totals=text)
    unread = next(each for each in found.unread if each.way == "rx")
    assert (unread.command, unread.text) == ("show interfaces Ethernet1/1 counters | json", text)
    assert found.rx_bytes is None


def _sessions(waiting: str = "", **states: str) -> str:
    table = {name.replace("_", "-"): {"state": state} for name, state in states.items()}
    newer = {"commitTimerSessionName": waiting, "commitTimerExpireTime": 1.0} if waiting else {}
    return json.dumps({"sessions": table, "maxOpenSessions": 5} | newer)


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        (_sessions(), ()),
        (_sessions(railyard_1="completed", theirs="pending"), ()),
        (
            _sessions(railyard_1="pending", railyard_2="pendingCommitTimer"),
            ("railyard-1", "railyard-2"),
        ),
        (_sessions(waiting="railyard-2", railyard_2="committed"), ("railyard-2",)),
    ],
)
def test_what_a_killed_run_left(text: str, stale: tuple[str, ...]) -> None:
    assert find_stale(text) == stale


@pytest.mark.parametrize(
    "text",
    [
        _sessions(theirs="pendingCommitTimer"),
        _sessions(waiting="theirs", theirs="committed"),
        json.dumps({"sessions": {"railyard-1": {"state": "pending", "instances": {"40": {}}}}}),
    ],
)
def test_what_is_in_the_way(text: str) -> None:
    with pytest.raises(Occupied, match="end it with `configure session"):
        find_stale(text)


@pytest.mark.parametrize(
    ("output", "refusal"),
    [
        ("", None),
        ("Copy completed successfully.\n", None),
        ("--- system:/running-config\n+++ session:/x-session-config\n@@ -1 +1 @@\n", None),
        ("! Interface does not exist. The configuration will not take effect\n", None),
        ("   description 50 % done\n", None),
        ("% Invalid input\n", "% Invalid input"),
        (
            "> frob\n% Invalid input (at token 0: 'frob') at line 4\n",
            "% Invalid input (at token 0: 'frob') at line 4",
        ),
        (
            "% Internal error\n% To see the details of this error, run 'show error 0'\n",
            "% Internal error",
        ),
        (
            "% Unavailable command (not supported on this hardware platform)\n",
            "% Unavailable command (not supported on this hardware platform)",
        ),
    ],
)
def test_refusals_start_with_a_percent_sign(output: str, refusal: str | None) -> None:
    assert EosDriver().find_refusal(output) == refusal


def test_pauses_and_stuck_queues_of_all_ports() -> None:
    # Keys: facebook/DNE-TaaC, its two health checks of EOS.
    rows = {"3": {"rxFrames": 12, "txFrames": 4}, "0": {"rxFrames": 0, "txFrames": 0}}
    paused = json.dumps({"interfaces": {"Ethernet1/1": {"priorities": rows}}})
    assert parse_pauses("c", paused, "Ethernet1/1") == {
        3: PauseCounters(12, 4),
        0: PauseCounters(0, 0),
    }
    assert parse_pauses("c", paused, "Ethernet2/1") == {}
    queues = {"3": {"stuckCount": 2, "recoveryCount": 1}}
    stuck = json.dumps({"interfaces": {"Ethernet1/1": {"txQueues": queues}}})
    assert parse_storms("c", stuck, "Ethernet1/1") == {
        **dict.fromkeys(range(8), 0),
        3: 2,
    }
    none = json.dumps({"interfaces": {}})
    assert parse_storms("c", none, "Ethernet1/1")[3] == 0
    with pytest.raises(Unreadable):
        parse_storms("c", "% Invalid input", "Ethernet1/1")
