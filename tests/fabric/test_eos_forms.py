"""EOS' answers in their real form: our parsers read them, and the emulator prints the same keys.

The interfaces and maps are lines as aristanetworks/avd's `eos_cli_config_gen` renders them in its
own tests, in Arista's order; names and numbers are ours. JSON that is in no form has the keys that
napalm, ANTA and amd/node-scraper read (lab/sources.md#eos).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic import TypeAdapter

from components.fabric.parts import DEFAULT, read_fields
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Answer, Occupied, Unreadable
from components.fabric.systems.eos import system as show
from components.fabric.systems.eos.routing import ROUTER, ROUTING, parse_routing
from components.fabric.systems.eos.system import INTERFACES, MAPS, NEIGHBOURS, VLANS
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import make_switch
from tests.fabric.in_process import load_table

FORMS = Path(__file__).parent / "forms" / "eos"
TABLE: Final[dict[str, Any]] = load_table("eos.yaml")
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
    return system_of("eos").parse(known | renamed, wanted).state


def port_of(name: str, **answers: str) -> PortState | None:
    return read(SwitchState(ports={name: PortState()}), **answers).ports.get(name)


@pytest.mark.parametrize(("name", "wanted"), TABLE["ports"])
def test_a_port_as_it_stands_in_the_configuration(name: str, wanted: dict[str, Any]) -> None:
    port, said = port_of(name), PortState.model_validate(wanted)
    assert [getattr(port, key) for key in wanted] == [getattr(said, key) for key in wanted]


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
    factory = system_of("eos").factory_state(["Ethernet6/1"]).ports["Ethernet6/1"]
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
    reading = system_of("eos").parse(answers, wanted)
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


@pytest.mark.parametrize(("place", "text", "why"), TABLE["unreadable"])
def test_another_text_is_never_taken_for_nothing(place: str, text: str, why: str) -> None:
    command = {"interfaces": INTERFACES, "maps": MAPS, "router": ROUTER}[place]
    answers = {INTERFACES: form("running_config_interface.txt"), VLANS: form("show_vlan.json")}
    answers |= {MAPS: "", ROUTING: "", ROUTER: "", command: text}
    with pytest.raises(Unreadable, match=why) as caught:
        system_of("eos").parse(answers, SwitchState(ports={PORT: PortState()}))
    assert (caught.value.command, caught.value.text) == (command, text)


def test_a_kind_of_interface_holds_for_the_numbers_after_it() -> None:
    line = "neighbor interface Et1/1,3/1-2,Vl10,20,Port-Channel7 peer-group G"
    ports = parse_routing({}, "", f"router bgp 1\n   {line} remote-as 2\n")["bgp"].neighbors
    assert [*ports] == [
        *("Ethernet1/1", "Ethernet3/1", "Ethernet3/2", "Vlan10", "Vlan20", "Port-Channel7")
    ]


def _sessions(answer: Answer) -> object:
    answers = {
        show.SUMMARY: answer.text,
        show.ROUTES: form("show_ip_route.json"),
        show.BFD: form("show_bfd_peers.json"),
    }
    found = show.parse_sessions(answers)
    states = {name: (each.state, each.networks, each.bfd) for name, each in found.neighbors.items()}
    return states, found.routes


def _sent(answer: Answer) -> object:
    found = show.parse_sent(answer)
    assert [*found] == [*range(8)]
    classes = {tc: (each.tx_bytes, each.tx_drops) for tc, each in found.items()}
    return {tc: each for tc, each in classes.items() if each != (0, None)}


def _nested(*path: str, value: object) -> object:
    return {path[0]: _nested(*path[1:], value=value)} if path else value


READERS: Final[dict[str, Callable[[Answer], object]]] = {
    "sessions": _sessions,
    "sent": _sent,
    "stale": lambda answer: show.find_stale(answer.text),
    "names": lambda answer: [*show.parse_ports(answer)],
    **{each: getattr(show, f"parse_{each}") for each in (
        "vlans", "neighbours", "marked", "pauses", "storms")},
}  # fmt: skip
ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)


@pytest.mark.parametrize(("reader", "answer", "wanted"), TABLE["answers"])
def test_an_answer_is_read(reader: str, answer: object, wanted: object) -> None:
    reads, is_form = READERS[reader], isinstance(answer, str)
    port = "Ethernet1" if is_form else PORT
    text = form(str(answer)) if is_form else json.dumps(answer)
    assert ANY.dump_json(reads(Answer("c", text, port))) == ANY.dump_json(wanted)
    with pytest.raises(Unreadable):
        reads(Answer("c", "% Invalid input", port))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"interfaces": {}}', "% Invalid input"])
def test_other_shapes_are_told_with_their_text(text: str) -> None:
    lost = json.dumps(_nested("interfaces", PORT, value={"inDiscards": 4, "outDiscards": 0}))
    commands = system_of("eos").counters([PORT]).commands
    answers = dict(zip(commands, (text, lost, *[""] * 5), strict=True))
    found = show.port_counters(PORT, answers)
    unread = next(each for each in found.unread if each.way == "rx")
    assert (unread.command, unread.text) == ("show interfaces Ethernet1/1 counters | json", text)
    assert (found.rx_bytes, found.rx_discards) == (None, 4)
    answers[commands[0]] = json.dumps(_nested("interfaces", PORT, "inOctets", value=9))
    assert show.port_counters(PORT, answers).rx_bytes == 9


@pytest.mark.parametrize("answer", TABLE["in_the_way"])
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
    (show.COUNTERS["errors"], "show_interfaces_counters_errors.json", ""),
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
