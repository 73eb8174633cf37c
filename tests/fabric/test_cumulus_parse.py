"""What the Cumulus driver reads: transcripts of the vendor's page, and shapes of other clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from components.fabric.parts import WHOLE, read_list
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import PortCounters, Reading, Unreadable
from components.fabric.systems.cumulus import ROCE, collapse_ports, expand_names
from components.fabric.systems.cumulus.rows import PORT
from components.fabric.systems.cumulus.system import (
    CONFIG,
    INTERFACES,
    NEIGHBOURS,
    parse_profile,
)
from tests.fabric.in_process import load_table

DRIVER: Final = system_of("cumulus")
ALL_ROWS: Final = PortState.model_validate({row.setting: row.blank for row in PORT})
FORMS: Final = Path(__file__).parent / "forms" / "cumulus"
WATCHDOG: Final = (FORMS / "nv_show_pfc_watchdog.txt").read_text()
TABLE: Final[dict[str, Any]] = load_table("cumulus.yaml")
Tree = dict[str, Any]


def read(tree: Tree, *names: str) -> Reading:
    text = json.dumps([{"header": {"model": "mqm"}}, {"set": tree}])
    wanted = SwitchState(ports=dict.fromkeys(names, ALL_ROWS))
    return DRIVER.parse({CONFIG: text}, wanted)


def roce_of(name: str, old: str = "", new: str = "") -> str:
    text = (FORMS / f"nv_show_qos_roce_{name}.txt").read_text()
    return text.replace(old, new) if old else text


@pytest.mark.parametrize(("entry", "tree", "found"), TABLE["ports"], ids=str)
def test_a_port_is_read(entry: Tree | None, tree: Tree, found: Tree) -> None:
    """Each key of a case is a field of the state; of `native`, the entries that a case has."""
    interfaces = {**tree.get("interface", {})} | ({} if entry is None else {"swp1": entry})
    port = read({**tree, "interface": interfaces}, "swp1").state.ports["swp1"]
    wanted = PortState.model_validate(found)
    for key in found:
        held, want = getattr(port, key), getattr(wanted, key)
        if key == "native":
            held = {setting: held.get(setting) for setting in want}
        assert held == want, key


@pytest.mark.parametrize(("tree", "found", "there", "absent"), TABLE["switches"], ids=str)
def test_a_switch_is_read(tree: Tree, found: Tree, there: list[str], absent: list[str]) -> None:
    state = read(tree).state
    words = {*(read_list(state.native[WHOLE]) or ())}
    assert (words >= {*there}, words & {*absent}) == (True, set())
    wanted = SwitchState.model_validate(found)
    assert [getattr(state, key) for key in found] == [getattr(wanted, key) for key in found]


def test_a_configuration_with_grouped_keys() -> None:
    def member(**words: object) -> Tree:
        return {"bridge": {"domain": {"br_default": words}}}

    tree: Tree = {
        "bridge": {"domain": {"br_default": {"vlan": {"10-12,20": {}, "30": {}}}}},
        "interface": {
            "swp1-3,swp7": {"link": {"mtu": 9000, "state": {"up": {}}}, "type": "swp"},
            "swp2": member(access=111),
            "swp4": {"link": {"state": {"down": {}}}},
            "swp5s0-1": member(vlan={"10": {}}),
            "vlan20": {"type": "svi", "vlan": 20},
            "vlan11-12": {"type": "svi", "ip": {"ipv4": {"forward": "on"}}},
            "bond1": member(untagged=30),
        },
    }
    found = read(tree, "swp2", "swp3", "swp4", "swp5s1", "swp7", "bond1").state
    assert found.vlans == (10, 11, 12, 20, 30)
    two, bond = found.ports["swp2"], found.ports["bond1"]
    assert (two.mode, two.access_vlan, two.mtu_bytes, two.admin_up) == ("access", 111, 9000, True)
    assert (found.ports["swp3"].mode, found.ports["swp7"].mtu_bytes) == ("routed", 9000)
    assert not found.ports["swp4"].admin_up
    assert found.ports["swp5s1"].trunk_vlans == (10,)
    assert (bond.mode, bond.trunk_vlans) == ("hybrid", "all")
    holders = {111: ("swp2",), 10: ("swp5s0", "swp5s1"), 30: ("bond1",), 20: ("vlan20",)}
    assert read(tree).vlan_holders == {**holders, 11: ("vlan11",), 12: ("vlan12",)}


@pytest.mark.parametrize(("key", "names"), TABLE["names"])
def test_a_key_is_spelled_out(key: str, names: list[str]) -> None:
    assert [*expand_names(key)] == names


@pytest.mark.parametrize("key", TABLE["odd_names"])
def test_a_key_that_no_switch_can_mean_is_shown_raw(key: str) -> None:
    with pytest.raises(Unreadable, match=r"range that no switch|more than 4096|may mean any name"):
        read({"interface": {key: {}}})


@pytest.mark.parametrize(("names", "text"), TABLE["ports_in_lines"])
def test_names_are_written_short(names: list[str], text: str) -> None:
    assert collapse_ports(names) == text


@pytest.mark.parametrize(("text", "why"), TABLE["unreadable"])
def test_a_configuration_of_another_form_is_shown_raw(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        DRIVER.parse({CONFIG: text}, SwitchState())
    assert caught.value.text == text


@pytest.mark.parametrize(("name", "old", "new", "found"), TABLE["profiles"])
def test_a_profile_is_read(name: str, old: str, new: str, found: list[Any]) -> None:
    mode, paused, marks, strict = found
    profile = parse_profile(roce_of(str(name), old, new))
    port = profile.ports[""]
    assert (profile.roce, profile.pfc_priorities) == (mode, tuple(paused))
    assert (port.trust, port.strict_classes) == ("both", tuple(strict))
    assert port.ecn == {
        tc: EcnState(min_kib=low, max_kib=high) for tc, (low, high) in marks.items()
    }


@pytest.mark.parametrize("text", ["enable   off\n", "state    disabled\nmode   lossless\n"])
def test_what_is_not_on_is_no_profile(text: str) -> None:
    assert parse_profile(text).roce == "none"


@pytest.mark.parametrize(("name", "old", "new", "why"), TABLE["odd_profiles"])
def test_a_profile_of_another_form_is_shown_raw(name: str, old: str, new: str, why: str) -> None:
    text = roce_of(name, old, new)
    with pytest.raises(Unreadable, match=why) as caught:
        parse_profile(text)
    assert caught.value.text == text


def test_a_profile_that_is_on_is_never_read_as_none() -> None:
    tree = {"qos": {"roce": {"enable": "on", "mode": "lossless"}}}
    for said, why in (("Error: nothing here", "the configuration has a"), (" \n", "is blank")):
        answers = {CONFIG: json.dumps([{"set": tree}]), ROCE: said}
        with pytest.raises(Unreadable, match=why) as caught:
            DRIVER.parse(answers, SwitchState(roce="lossless"))
        assert (caught.value.command, caught.value.text) == (ROCE, said)


def test_ports_are_those_called_swp() -> None:
    table = '{"eth0": {}, "swp10": {}, "swp2": {}, "swp3s1": {}, "lo": {}, "bond1": {}}'
    assert DRIVER.ports.parse({INTERFACES: table}) == ("swp2", "swp3s1", "swp10")
    odd = '{"swp1": {"link": [1], "lldp": [1]}}'
    for asked, text, why in (
        (DRIVER.ports, "{}", "no port"),
        (DRIVER.ports, "[]", "in place of a table"),
        (DRIVER.link_states, odd, "in place of a table at `link`"),
        (DRIVER.neighbours, odd, "in place of a table at `lldp`"),
    ):
        with pytest.raises(Unreadable, match=why):
            asked.parse(dict.fromkeys((INTERFACES, NEIGHBOURS), text))


OLDER: Final = "Error: Invalid parameter"
"""The watchdog's answer before 5.6."""


def counted(roce: object, queues: object, storms: str = OLDER) -> PortCounters:
    asked = DRIVER.counters(["swp1"])
    answers = (json.dumps(roce), json.dumps(queues), storms)
    return asked.parse(dict(zip(asked.commands, answers, strict=True)))["swp1"]


@pytest.mark.parametrize(("roce", "queues", "found", "lost"), TABLE["counters"])
def test_what_can_be_read_of_counters_is_kept(
    roce: Tree, queues: Tree, found: list[Any], lost: str | None
) -> None:
    read = counted(roce, queues)
    ways = {tc: [each.rx_bytes, each.tx_bytes] for tc, each in read.by_priority.items()}
    pauses = {tc: [each.received, each.sent] for tc, each in read.pauses.items()}
    assert [ways, read.ecn_marked, read.rx_discards, pauses] == found
    assert any((lost or "") in each.why for each in read.unread) is (lost is not None)
    assert {each.text for each in read.unread} <= {json.dumps(roce), json.dumps(queues)}


def test_the_deadlocks_of_each_class() -> None:
    def storms(text: str) -> PortCounters:
        return counted({}, {}, text)

    found = storms(WATCHDOG).storms
    assert found == {0: 0, 1: 3, 2: 2, 3: 0, 4: 0, 5: 0, 6: 0, 7: 3}
    assert storms(WATCHDOG.partition("\n\n")[0].replace("enabled", "disabled")).storms == {}
    other = WATCHDOG.replace("deadlock-count", "storms").replace("state ", "mode  ")
    lost = [each for each in storms(other).unread if each.way == "storms"]
    assert [(each.text, each.why) for each in lost] == [
        (other, "it is not a table of the watchdog")
    ]
    assert not [each for each in storms(OLDER).unread if each.way == "storms"]
