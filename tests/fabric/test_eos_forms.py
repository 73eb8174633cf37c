"""EOS' answers in their real form: our parsers read them, and the emulator prints the same keys.

The interfaces and maps are lines as aristanetworks/avd's `eos_cli_config_gen` renders them in its
own tests, in Arista's order; names and numbers are ours. JSON that is in no form has the keys that
napalm, ANTA and amd/node-scraper read (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.fabric.parts import DEFAULT, read_fields, sources
from components.fabric.state import EcnState, Neighbour, PortState, SwitchState
from components.fabric.systems import eos as show
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import Occupied, PauseCounters, PriorityCounters, Unreadable
from components.fabric.systems.eos.driver import INTERFACES, MAPS, NEIGHBOURS, VLANS, EosDriver
from components.fabric.systems.eos.routing import ROUTER, ROUTING, parse_routing
from components.fabric.systems.eos.rows import parse_sections
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import make_switch

FORMS = Path(__file__).parent / "forms" / "eos"
PORT: Final = "Ethernet1/1"
WATCHDOG: Final = {
    "enable": "",
    "timer": "timeout 0.05 polling-interval auto recovery-time 1.11 forced",
    "action": "drop",
}


def form(name: str) -> str:
    return (FORMS / name).read_text()


def read(wanted: SwitchState, **answers: str) -> SwitchState:
    files = {INTERFACES: "running_config_interface.txt", VLANS: "show_vlan.json"}
    known = {command: form(name) for command, name in files.items()} | {MAPS: ""}
    renamed = {{"interfaces": INTERFACES, "maps": MAPS}[key]: text for key, text in answers.items()}
    return EosDriver().parse(known | renamed, wanted).state


def port_of(name: str, **answers: str) -> PortState | None:
    return read(SwitchState(ports={name: PortState()}), **answers).ports.get(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "Ethernet2/1",
            {
                "mode": "trunk",
                "trunk_vlans": (110, 111, 210, 211),
                "access_vlan": 1,
                "trust": "L3",
                "pfc": True,
                "pfc_priorities": (3,),
                "strict_classes": (0, 2, 3, 4, 5, 6, 7),
                "mtu_bytes": 9214,
                "admin_up": True,
                "pfc_watchdog": True,
            },
        ),
        (
            "Ethernet1/1",  # a routed port trusts DSCP until it is none
            {"mode": "routed", "trust": "L3", "mtu_bytes": 8000, "pfc_priorities": ()}
            | {"native": sources(mtu_bytes=True, trust=False, mode=False)},
        ),
        (
            "Ethernet4/1",  # what others wrote
            {"admin_up": False, "access_vlan": 200, "trust": "port", "pfc": False}
            | {"pfc_watchdog": False},
        ),
    ],
)
def test_a_port_as_it_stands_in_the_configuration(name: str, wanted: dict[str, object]) -> None:
    port = port_of(name)
    assert {key: getattr(port, key) for key in wanted} == wanted


def test_marking_and_the_watchdog_as_they_stand() -> None:
    two, four, six = (port_of(f"Ethernet{number}/1") for number in (2, 4, 6))
    assert two
    assert four
    assert six
    assert two.ecn[3] == EcnState(min_kib=150, max_kib=1500)
    assert two.ecn[1] is None
    assert str(two.ecn[4]) == (
        "minimum-threshold 2000 segments maximum-threshold 10000 segments "
        "max-mark-probability 20 weight 0"
    )
    assert four.ecn[3] == EcnState(min_kib=512, max_kib=768), "`weight` may be left out"
    assert two.native["mtu_bytes"] == DEFAULT
    words = [read_fields(port.native.get("pfc_watchdog")) for port in (two, four, six)]
    assert words == [WATCHDOG, {"enable": "", "action": "notify-only"}, {}]
    factory = EosDriver().factory_state(["Ethernet6/1"]).ports["Ethernet6/1"]
    assert six == factory.model_copy(update={"ecn": dict.fromkeys(range(8))}), "no line says it"


@pytest.mark.parametrize("missing", ["enable", "timer", "action"])
def test_a_watchdog_that_lacks_a_line_is_off(missing: str) -> None:
    head = "   priority-flow-control pause watchdog"
    lines = {
        "enable": head,
        "timer": f"{head} port timer timeout 1 polling-interval 0.1 recovery-time 1",
        "action": f"{head} port action drop",
    }
    for gone, is_on in (("", True), (missing, False)):
        rest = {key: line for key, line in lines.items() if key != gone}
        port = port_of(PORT, interfaces="\n".join([f"interface {PORT}", *rest.values()]))
        assert port
        assert port.pfc_watchdog is is_on
        assert [*read_fields(port.native["pfc_watchdog"])] == [*rest]


def test_a_member_of_a_bundle_and_a_tunnel_are_no_plain_ports() -> None:
    assert port_of("Ethernet3/1") is port_of("Ethernet5/1") is None


def test_vlans_that_others_use() -> None:
    answers = {INTERFACES: form("running_config_interface.txt"), VLANS: form("show_vlan.json")}
    wanted = SwitchState(ports={"Ethernet2/1": PortState()})
    reading = EosDriver().parse(answers, wanted)
    assert reading.state.vlans == (1, 111), "1006 is EOS' own"
    assert reading.vlan_holders[111] == ("Port-Channel3", "Vlan111")
    assert reading.vlan_holders[200] == ("Port-Channel3", "Ethernet4/1")
    assert reading.vlan_holders.get(1) is None


def test_the_maps() -> None:
    maps = form("running_config_qos.txt")
    dscps = (0, 8, 15, 24, 26, 28, 30, 48)
    found = read(SwitchState(dscp_classes=dict.fromkeys(dscps, 0)), maps=maps).dscp_classes
    assert found == dict(zip(dscps, (1, 1, 0, 1, 4, 1, 3, 6), strict=True))
    wanted = SwitchState(ports={"Ethernet6/1": PortState(strict_classes=(6,))})
    with pytest.raises(Unreadable, match="traffic class 6 is mapped to queue 2"):
        read(wanted, maps=maps)


ODD: Final = (
    (INTERFACES, f"interface {PORT}\n   switchport trunk allowed vlan 10-5", "'10-5' is no range"),
    (INTERFACES, f"interface {PORT}\n   switchport trunk allowed vlan 10,,5", "'' is no range"),
    (INTERFACES, f"interface {PORT}\n   switchport trunk allowed vlan 1-9999", "'1-9999' is no"),
    (MAPS, "qos map dscp 0--7 to traffic-class 1", "'0--7' is no range"),
    (ROUTER, "router bgp 1\n   neighbor interface Et1/1-1/0 peer-group G", "'1/1-1/0' is no range"),
    (ROUTER, "router bgp 1\n   neighbor interface Et1-,3 peer-group G", "'1-' is no range"),
    (ROUTER, "router bgp 1\n   neighbor interface Tu1 peer-group G", "of an unknown kind"),
)


@pytest.mark.parametrize(("command", "text", "why"), ODD)
def test_an_odd_range_is_never_taken_for_nothing(command: str, text: str, why: str) -> None:
    answers = {INTERFACES: form("running_config_interface.txt"), VLANS: form("show_vlan.json")}
    answers |= {MAPS: "", ROUTING: "", ROUTER: "", command: text}
    with pytest.raises(Unreadable, match=why) as caught:
        EosDriver().parse(answers, SwitchState(ports={PORT: PortState()}))
    assert caught.value.command == command


def test_a_kind_of_interface_holds_for_the_numbers_after_it() -> None:
    line = "neighbor interface Et1/1,3/1-2,Vl10,20,Port-Channel7 peer-group G"
    ports = parse_routing({}, "", f"router bgp 1\n   {line} remote-as 2\n")["bgp"].neighbors
    assert [*ports] == [
        *("Ethernet1/1", "Ethernet3/1", "Ethernet3/2", "Vlan10", "Vlan20", "Port-Channel7")
    ]


@pytest.mark.parametrize("text", ["", "!\n", "vlan 5\n"])
def test_a_configuration_without_interfaces_is_no_answer(text: str) -> None:
    with pytest.raises(Unreadable, match="no interface"):
        parse_sections(INTERFACES, text)


def _sessions(answer: Answer) -> object:
    answers = {
        show.SUMMARY: answer.text,
        show.ROUTES: form("show_ip_route.json"),
        show.BFD: form("show_bfd_peers.json"),
    }
    found = show.parse_sessions(answers)
    states = {name: (each.state, each.networks, each.bfd) for name, each in found.neighbors.items()}
    return states, found.routes


def _stale(answer: Answer) -> object:
    return show.find_stale(answer.text)


def _names(answer: Answer) -> object:
    return [*show.parse_ports(answer)]


def _nested(*path: str, value: object) -> object:
    """A tree with a value at the end of a path."""
    return {path[0]: _nested(*path[1:], value=value)} if path else value


def _marked(**counts: object) -> object:
    return _nested("intfQueueCounters", PORT, "queueCounters", value=counts)


def _queued(**classes: object) -> object:
    kinds: dict[str, object] = {
        name: {"dropPrecedences": precedences} for name, precedences in classes.items()
    }
    path = ("egressQueueCounters", "interfaces", PORT, "ucastQueues", "trafficClasses")
    return _nested(*path, value=kinds)


def _open(waiting: str = "", **states: str) -> object:
    table = {name.replace("_", "-"): {"state": state} for name, state in states.items()}
    newer = {"commitTimerSessionName": waiting, "commitTimerExpireTime": 1.0} if waiting else {}
    return {"sessions": table, "maxOpenSessions": 5} | newer


UNSENT: Final = dict.fromkeys(range(8), PriorityCounters(None, 0))
PAUSED: Final = {"3": {"rxFrames": 12, "txFrames": 4}, "0": {"rxFrames": 0, "txFrames": 0}}
STUCK: Final = {"3": {"stuckCount": 2, "recoveryCount": 1}}
Reads = Callable[[Answer], object]
ANSWERS: Final[list[tuple[Reads, object, object]]] = [
    (show.parse_vlans, "show_vlan.json", (1, 111)),
    (
        show.parse_neighbours,
        "show_lldp_neighbors_detail.json",
        {"Ethernet22": Neighbour(system="gpu01", port="000c.297b.d2a8", description="eth0")},
    ),
    (
        _sessions,
        "show_ip_bgp_summary.json",
        (
            {"Ethernet3": ("Established", 3, "down"), "192.0.2.9": ("Idle", 0, "up")},
            {"192.0.2.1/32": ("Ethernet1",)},
        ),
    ),
    (
        show.parse_sent,
        "show_interfaces_counters_queue_detail.json",
        UNSENT
        | dict.fromkeys(range(3), PriorityCounters(None, None))
        | {3: PriorityCounters(None, None, 5)},
    ),
    (_stale, "show_configuration_sessions_4.31.json", ("railyard-2",)),
    (_stale, "show_configuration_sessions_4.32.json", ("railyard-2",)),
    (_stale, _open(), ()),
    (_stale, _open(railyard_1="completed", theirs="pending"), ()),
    (
        _stale,
        _open(railyard_1="pending", railyard_2="pendingCommitTimer"),
        ("railyard-1", "railyard-2"),
    ),
    (_stale, _open("railyard-2", railyard_2="committed"), ("railyard-2",)),
    (
        _names,
        {"interfaceStatuses": {"Management1": {}, "Ethernet10/1": {}, "Ethernet2/1": {}}},
        ["Ethernet2/1", "Ethernet10/1"],
    ),
    (
        show.parse_sent,
        _queued(
            TC3={
                "DP0": {"enqueuedBytes": 40, "droppedPackets": 0},
                "DP1": {"enqueuedBytes": 2, "droppedPackets": 5},
            },
            TC6={"DP0": {"enqueuedBytes": 7}},
        ),
        UNSENT | {3: PriorityCounters(None, 42, 5), 6: PriorityCounters(None, 7)},
    ),
    # Names as in aristanetworks/anta, its unit tests of VerifyInterfacesEgressQueueDrops.
    (
        show.parse_sent,
        _queued(**{"TC0-2": {"DP0-2": {"droppedPackets": 3}}}),
        UNSENT | dict.fromkeys(range(3), PriorityCounters(None, None)),
    ),
    (show.parse_marked, _marked(**{"1": "-", "3": "12", "4": 3}), 15),
    (show.parse_marked, _marked(**{"1": "-", "3": "-"}), None),
    (show.parse_marked, {"intfQueueCounters": {}}, None),
    # Keys: facebook/DNE-TaaC, its two health checks of EOS.
    (
        show.parse_pauses,
        _nested("interfaces", PORT, "priorities", value=PAUSED),
        {3: PauseCounters(12, 4), 0: PauseCounters(0, 0)},
    ),
    (show.parse_pauses, _nested("interfaces", "Ethernet2/1", "priorities", value=PAUSED), {}),
    (
        show.parse_storms,
        _nested("interfaces", PORT, "txQueues", value=STUCK),
        dict.fromkeys(range(8), 0) | {3: 2},
    ),
    (show.parse_storms, {"interfaces": {}}, dict.fromkeys(range(8), 0)),
]


@pytest.mark.parametrize(("reads", "answer", "wanted"), ANSWERS)
def test_an_answer_is_read(reads: Reads, answer: object, wanted: object) -> None:
    is_form = isinstance(answer, str)
    port = "Ethernet1" if is_form else PORT
    text = form(str(answer)) if is_form else json.dumps(answer)
    assert reads(Answer("c", text, port)) == wanted
    with pytest.raises(Unreadable):
        reads(Answer("c", "% Invalid input", port))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"interfaces": {}}', "% Invalid input"])
def test_other_shapes_are_told_with_their_text(text: str) -> None:
    lost = json.dumps(_nested("interfaces", PORT, value={"inDiscards": 4, "outDiscards": 0}))
    commands = EosDriver().counters([PORT]).commands
    answers = dict(zip(commands, (text, lost, *[""] * 4), strict=True))
    found = show.port_counters(PORT, answers)
    unread = next(each for each in found.unread if each.way == "rx")
    assert (unread.command, unread.text) == ("show interfaces Ethernet1/1 counters | json", text)
    assert (found.rx_bytes, found.rx_discards) == (None, 4)
    answers[commands[0]] = json.dumps(_nested("interfaces", PORT, "inOctets", value=9))
    assert show.port_counters(PORT, answers).rx_bytes == 9


@pytest.mark.parametrize(
    "answer",
    [
        _open(theirs="pendingCommitTimer"),
        _open("theirs", theirs="committed"),
        {"sessions": {"railyard-1": {"state": "pending", "instances": {"40": {}}}}},
    ],
)
def test_what_is_in_the_way(answer: object) -> None:
    with pytest.raises(Occupied, match="end it with `configure session"):
        show.find_stale(json.dumps(answer))


@pytest.fixture
def switch(tmp_path: Path, request: pytest.FixtureRequest) -> EosSwitch:
    return make_switch(tmp_path, release=getattr(request, "param", ""))


def printed(switch: EosSwitch, command: str) -> str:
    login = switch.session()
    login.run("enable")
    return login.run(command)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("show maintenance | json", "show_maintenance_disabled.json"),
        ("show version", "show_version.txt"),
    ],
)
def test_the_emulator_prints_it_byte_for_byte(switch: EosSwitch, command: str, name: str) -> None:
    assert printed(switch, command).strip() == form(name).strip()


_NAME = re.compile(r"(Ethernet|TC|DP|railyard|fe80|\d)|$")


def keys(tree: object, path: str = "") -> Iterator[str]:
    """The paths of a JSON tree; an entry that is named by a number, an address or a port is `*`."""
    inner = cast("list[object]", tree) if isinstance(tree, list) else []
    for each in inner:
        yield from keys(each, path)
    for key, each in (cast("dict[str, object]", tree) if isinstance(tree, dict) else {}).items():
        here = f"{path}.{'*' if _NAME.match(key) else key}"
        yield here
        yield from keys(each, here)


UNPROVEN = {
    "interfaceId_v2",
    "enqueuedBytes",
    "droppedBytes",
    "enqueuedPackets",
    "user",
    "terminal",
}
"""Keys that the emulator prints and no recording has, or another release than the recorded one."""
PRINTED: Final[list[tuple[str, str, Any]]] = [
    (VLANS, "show_vlan.json", ""),
    (NEIGHBOURS, "show_lldp_neighbors_detail.json", ""),
    (show.SUMMARY, "show_ip_bgp_summary.json", ""),
    (show.BFD, "show_bfd_peers.json", ""),
    (show.COUNTERS["discards"], "show_interfaces_counters_discards.json", ""),
    (show.COUNTERS["tx"], "show_interfaces_counters_queue_detail.json", ""),
    (show.SESSIONS, "show_configuration_sessions_4.31.json", "4.31.2F"),
    (show.SESSIONS, "show_configuration_sessions_4.32.json", "4.32.1F"),
]


@pytest.mark.parametrize(("command", "name", "switch"), PRINTED, indirect=["switch"])
def test_the_emulator_prints_no_other_keys(switch: EosSwitch, command: str, name: str) -> None:
    other = switch.session()
    for line in ("enable", "configure session railyard-7", "vlan 9", "commit timer 00:05:00"):
        other.run(line)
    answers = (printed(switch, command.format(port=PORT)), form(name))
    ours, real = ({*keys(json.loads(text))} for text in answers)
    assert {each for each in ours - real if each.rpartition(".")[2] not in UNPROVEN} == set()
    assert ours, "the emulator answers"
