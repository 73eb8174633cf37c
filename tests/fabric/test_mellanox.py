"""Answers of Onyx and MLNX-OS in their real form: readers get the values, emulators print them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import TypeAdapter

from components.fabric.edit import every_key, preview_switch
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import EcnState, OtherPorts, PortState, SwitchState
from components.fabric.switch_guards import Guarded, Look, find_foreign_settings
from components.fabric.systems import mellanox_cli, system_of
from components.fabric.systems.base import Answer, PauseCounters, Unreadable
from components.fabric.systems.mlnxos import system as mlnxos
from components.fabric.systems.onyx import rows
from components.fabric.systems.onyx import system as show
from components.fabric.systems.onyx.rows import PORT_ROWS, ROCE, RUNNING, STATUS, parse_running
from components.fabric.systems.ranges import collapse_ports, collapse_vlans, parse_vlan_ranges
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.stored import PortCounters
from tests.fabric import ib_lab
from tests.fabric.conftest import make_switch, talk

FOLDER: Final = Path(__file__).parent / "forms"
TABLE: Final[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("mellanox.yaml").read_text(), Loader=yaml.CSafeLoader
)
FORMS: Final[dict[str, tuple[str, dict[str, object]]]] = TABLE["forms"]
COUNTED: Final = PortCounters(
    rx_bytes={3: 4174000}, tx_bytes={3: 8348000}, rx_pauses={3: 5}, tx_pauses={3: 6}, rx_discards=7
)


def _counters(answer: Answer) -> object:
    """Everything that this answer alone tells of port 1/1."""
    read = show.read_counters({answer.command: answer.text}, "1/1")
    by_number = {n: (c.rx_bytes, c.tx_bytes) for n, c in read.by_priority.items() if c.rx_bytes}
    return by_number, read.ecn_marked, read.rx_discards


_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)
Read = Callable[[Answer], object]
READERS: Final[dict[str, Read]] = {
    **{r.name: r.read for r in (*PORT_ROWS, *mlnxos.manager_rows("ib-leaf-01")) if r.read},
    "vlans": show.read_vlans,
    "members": rows.read_members,
    "eighths": lambda answer: rows.read_dscp_map(answer) == {dscp: dscp // 8 for dscp in range(64)},
    "pfc": show.read_pfc,
    "roce": show.read_roce_mode,
    "counters": _counters,
    "partitions": mlnxos.read_partitions,
    "vlan ranges": lambda answer: parse_vlan_ranges(answer.text),
    "to vlan ranges": lambda answer: collapse_vlans(map(int, answer.text.split())),
    "to port ranges": lambda answer: collapse_ports(answer.text.split()),
    "guid": lambda answer: mlnxos.show_guid(answer.text),
}


def read(name: str, answer: Answer) -> object:
    """What a reader finds, as plain values; what a state does not say is left out."""
    head, _, counter = name.partition(": ")
    found = show.read_counter(answer, head, counter) if counter else READERS[name](answer)
    return plain(found)


def plain(value: object) -> object:
    return json.loads(_ANY.dump_json(value, exclude_unset=True))


def answer_of(name: str, command: str) -> Answer:
    return Answer(command, (FOLDER / name).read_text(), "1/1")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read(name: str) -> None:
    command, values = FORMS[name]
    for reader, value in values.items():
        assert read(reader, answer_of(name, command)) == plain(value)


@pytest.mark.parametrize(("reader", "text", "value"), TABLE["texts"])
def test_another_layout_is_read(reader: str, text: str, value: object) -> None:
    assert read(reader, Answer("show", text, "1/1")) == plain(value)


@pytest.mark.parametrize(("name", "old", "new", "why"), TABLE["words"])
def test_another_word_in_a_form_is_unreadable(name: str, old: str, new: str, why: str) -> None:
    command, values = FORMS[name]
    answer = answer_of(name, command)
    other = Answer(command, answer.text.replace(old, new), "1/1")
    assert other.text != answer.text
    with pytest.raises(Unreadable, match=why):
        read(next(iter(values)), other)


@pytest.mark.parametrize(("reader", "text"), TABLE["unreadable"])
def test_another_answer_is_no_value(reader: str, text: str) -> None:
    with pytest.raises(Unreadable):
        read(reader, Answer("show", text, "1/1"))


@pytest.mark.parametrize("text", TABLE["shapes"])
def test_another_form_is_never_taken_for_a_value(text: str) -> None:
    forms = (values for name, (_, values) in FORMS.items() if name.startswith("onyx"))
    for reader in {name for values in forms for name in values} - {"counters"}:
        with pytest.raises(Unreadable) as error:
            read(reader, Answer("show x", text, "1/1"))
        assert (error.value.command, error.value.text) == ("show x", text)
    assert parse_running(text) is rows.read_one_shot(text) is None


def prepared(folder: Path) -> OnyxSwitch:
    switch = make_switch(folder)
    running = switch.stored.running
    running.ports = {name: running.ports[name] for name in ("1/1", "1/2", "1/3")}
    assert {switch.run_line(line) for line in TABLE["typed"]["onyx"]} == {""}
    switch.stored.counters = {"1/1": COUNTED.model_copy(update={"ecn_marked": {3: 9}})}
    return switch


def test_the_emulators_print_every_form(tmp_path: Path) -> None:
    untouched, switch = (ib_lab.make_switch(tmp_path / name) for name in ("untouched", "typed"))
    assert {switch.run_line(line) for line in TABLE["typed"]["mlnxos"]} == {""}
    sessions = {"onyx": prepared(tmp_path).session(), "mlnxos": switch.session()}
    for name, (command, _) in FORMS.items():
        is_new = name.endswith("_default.txt")
        session = untouched.session() if is_new else sessions[name.partition("/")[0]]
        session.run("enable")
        assert session.run(command) == (FOLDER / name).read_text(), name


def test_counters_of_one_port_among_all(tmp_path: Path) -> None:
    session, driver = prepared(tmp_path).session(), system_of("onyx")
    session.run("enable")
    asked = driver.counters(("1/1", "1/2"))
    assert len(asked.commands) == 17 + 2 * 2
    found = asked.parse({each: session.run(each) for each in asked.commands})
    assert (found["1/1"].by_priority[3].rx_bytes, found["1/1"].ecn_marked) == (4174000, 9)
    assert found["1/1"].pauses[3] == PauseCounters(5, 6)
    assert found["1/2"].by_priority[3].tx_bytes == 0
    assert not found["1/1"].unread


HEAD, LINES, ONE_SHOT = TABLE["head"], TABLE["lines"], TABLE["one_shot"]
ASKED = PortState(
    admin_up=True, mtu_bytes=9216, mode="trunk", trust="L3", ecn={3: None}, strict_classes=(6,)
)


def wish(*names: str) -> SwitchState:
    return SwitchState(ports=dict.fromkeys(names, ASKED))


def _rest(answers: dict[str, str], *names: str) -> list[str]:
    rest = system_of("onyx").rest_commands
    return [*rest(answers, wish(*names))] if rest else []


@pytest.mark.parametrize(("line", "rest"), TABLE["rest"])
def test_a_line_in_another_form_is_no_value(line: str, rest: list[str]) -> None:
    assert _rest({RUNNING: f"{HEAD}{LINES}   {line}\n", STATUS: ""}, "1/1") == rest


@pytest.mark.parametrize(("line", "old", "new", "rest"), TABLE["one shots"])
def test_a_one_shot_with_exceptions_is_asked_port_by_port(
    line: str, old: str, new: str | None, rest: list[str]
) -> None:
    told = "" if new is None else ONE_SHOT.replace(old, new)
    assert _rest({RUNNING: f"{HEAD}   {line}\n{LINES}", ROCE: told}, "1/1") == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "% Unrecognized command\n",
        LINES,
        HEAD.replace("no cli default", "cli default") + LINES,
        HEAD + LINES + "   interface ethernet 1/1/3-1/2/2 shutdown\n",
        HEAD + LINES + "   interface ethernet 1/3-1/1 shutdown\n",
        HEAD + LINES + "   vlan 112-111\n",
    ],
)
def test_an_answer_of_another_form_tells_nothing(text: str) -> None:
    assert parse_running(text) is None
    rest = _rest({RUNNING: text, STATUS: ""}, "1/1")
    assert (rest[:2], len(rest)) == (TABLE["rest"][1][1], 6)


def test_a_configuration_with_every_line_of_ours_leaves_nothing_to_ask() -> None:
    answers = {RUNNING: HEAD + LINES}
    assert _rest(answers, "1/1", "1/2") == []
    reading = system_of("onyx").parse(answers, wish("1/1", "1/2"))
    assert reading.state.vlans == (1, 101, 111, 112)
    first, second = reading.state.ports["1/1"], reading.state.ports["1/2"]
    assert (first.mode, first.trunk_vlans, first.access_vlan) == ("trunk", (111,), None)
    assert (first.mtu_bytes, first.trust, first.strict_classes) == (9216, "L3", ())
    assert (first.admin_up, second.admin_up) == (True, False)
    assert first.wrr_weights == {tc: 12 + tc % 2 for tc in range(8)}
    assert reading.vlan_holders == {1: ("1/7", "1/8")}


def test_marking_by_percent_is_read_as_others_set_it() -> None:
    ends = "congestion-control ecn minimum-relative 75 maximum-relative 95"
    running = parse_running(f"{HEAD}   interface ethernet 1/1-1/32 traffic-class 3 {ends}\n")
    assert running is not None
    assert len(running.ports) == 32
    assert running.ports["1/32"]["ecn"] == {3: EcnState(min_kib=75, max_kib=95, relative=True)}


def test_what_the_one_shot_set_is_in_its_own_answer() -> None:
    driver, wanted = system_of("onyx"), wish("1/9")
    answers = {RUNNING: HEAD + "   roce lossless\n   interface ethernet 1/9 mtu 9216 force\n"}
    assert driver.whole_command(answers, wanted) == ROCE
    answers[ROCE] = ONE_SHOT
    assert driver.whole_command(answers, wanted) is None
    assert _rest(answers, "1/9") == []
    port = driver.parse(answers, wanted).state.ports["1/9"]
    assert (port.trust, port.strict_classes, port.wrr_weights) == ("L3", (6,), {3: 50})
    marked = {tc: ecn for tc, ecn in port.ecn.items() if ecn}
    assert marked == {3: EcnState(min_kib=150, max_kib=1500)}


def test_the_table_of_ports_has_what_the_factory_set() -> None:
    assert rows.read_status(TABLE["status"]) == {
        "1/10": {"admin_up": True, "mtu_bytes": 1500, "link": True},
        "1/11": {"admin_up": False, "mtu_bytes": 9216, "link": False},
    }
    driver, wanted, answers = system_of("onyx"), wish("1/10"), dict[str, str]()
    for command, text in ((RUNNING, HEAD), (STATUS, TABLE["status"])):
        assert driver.whole_command(answers, wanted) == command
        answers[command] = text
    assert driver.whole_command(answers, wanted) is None
    port = driver.parse(answers, wanted).state.ports["1/10"]
    assert (port.mtu_bytes, port.admin_up, port.mode, port.access_vlan) == (1500, True, "access", 1)
    asked = [*TABLE["rest"][1][1], "show interfaces ethernet 1/40"]
    assert _rest({**answers, RUNNING: HEAD + LINES}, "1/40") == asked


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
    assert (
        len([each for each in find_foreign_settings(classes, look) if "share" in str(each)])
        == starved
    )


def test_the_factory_state_is_what_an_untouched_switch_shows(switch: OnyxSwitch) -> None:
    exchange = talk(switch)
    factory = exchange.driver.factory_state(("1/1",))
    read = exchange.record(every_key(("1/1",), factory))
    port, found = factory.ports["1/1"], read.ports["1/1"]
    said = {name for name in type(port).model_fields if getattr(port, name) not in (None, {})}
    assert said == {
        *("admin_up", "mtu_bytes", "mode", "access_vlan", "trunk_vlans", "trust"),
        *("rewrite_dscp", "pfc", "strict_classes", "wrr_weights"),
    }
    assert [name for name in said if getattr(port, name) != getattr(found, name)] == []
    assert (read.vlans, read.pfc_enabled, read.pfc_priorities) == ((1,), False, ())


def test_a_preview_names_what_has_no_source_of_the_vendor() -> None:
    text = preview_switch(plan_fabric(ib_lab.load_spec())[0], None, None, "deny") or ""
    line = next(line for line in text.splitlines() if "UNPROVEN" in line)
    assert "ipoib" in line
    assert "public driver of an SB7800" in line
    assert "mtu 4K" not in text


@pytest.mark.parametrize("said", ["{}", '"{}"', '\\"{}\\"'])
def test_a_serial_number_may_be_in_quotes(said: str) -> None:
    """3.6.1102 prints quotes; the fixture onyx_command_show_version.txt (3.6.5000) escapes them."""
    text = f"Product model:     x86onie\nSystem serial num: {said.format('MT1632X00205')}\n"
    read = mellanox_cli.IDENTITY.parse_unique({"show version": text})
    assert read.serial == "MT1632X00205"
