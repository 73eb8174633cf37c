"""What the Cumulus driver reads: transcripts of the vendor's page, and shapes of other clients."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from components.fabric.parts import DEFAULT, WHOLE, WRITTEN, read_list
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import PauseCounters, PortCounters, Reading, Unreadable
from components.fabric.systems.cumulus.driver import (
    CONFIG,
    INTERFACES,
    CumulusDriver,
    parse_profile,
)
from components.fabric.systems.cumulus.rows import PORT
from components.fabric.systems.cumulus.tree import ROCE, collapse_ports

DRIVER: Final = CumulusDriver()
ALL_ROWS: Final = PortState.model_validate({row.setting: row.blank for row in PORT})
FORMS: Final = Path(__file__).parent / "forms" / "cumulus"
SINGLE_POOL: Final = (FORMS / "nv_show_qos_roce_single_ipool.txt").read_text()
MULTI_TC: Final = (FORMS / "nv_show_qos_roce_multi_tc.txt").read_text()
WATCHDOG: Final = (FORMS / "nv_show_pfc_watchdog.txt").read_text()


def read(tree: Mapping[str, object], *names: str) -> Reading:
    text = json.dumps([{"header": {"model": "mqm"}}, {"set": tree}])
    wanted = SwitchState(ports=dict.fromkeys(names, ALL_ROWS))
    return DRIVER.parse({CONFIG: text}, wanted)


def port_of(entry: Mapping[str, object], **tree: object) -> PortState:
    return read({"interface": {"swp1": entry}, **tree}, "swp1").state.ports["swp1"]


def words_of(tree: Mapping[str, object]) -> tuple[str, ...]:
    return read_list(read(tree).state.native[WHOLE]) or ()


@pytest.mark.parametrize(
    ("text", "mode", "paused", "strict", "ecn"),
    [
        (SINGLE_POOL, "lossless-single-ipool", (3,), (6,), {0: (146, 1464), 3: (146, 1464)}),
        (MULTI_TC, "lossy-multi-tc", (), (), dict.fromkeys((1, 2, 3), (163, 234))),
    ],
)
def test_the_transcripts_of_two_profiles(
    text: str, mode: str, paused: object, strict: object, ecn: dict[int, tuple[int, int]]
) -> None:
    profile = parse_profile(text)
    port = profile.ports[""]
    assert (profile.roce, profile.pfc_priorities) == (mode, paused)
    assert (port.trust, port.strict_classes) == ("both", strict)
    assert port.ecn == {tc: EcnState(min_kib=low, max_kib=high) for tc, (low, high) in ecn.items()}


def test_a_profile_that_is_on_is_never_read_as_none() -> None:
    with pytest.raises(Unreadable, match="no rule of dashes tells the columns"):
        parse_profile(re.sub(r"(?m)^-+ .*\n", "", SINGLE_POOL))
    tree = {"qos": {"roce": {"enable": "on", "mode": "lossless"}}}
    answers = {CONFIG: json.dumps([{"set": tree}]), ROCE: "Error: nothing here"}
    with pytest.raises(Unreadable, match="the configuration has a RoCE profile"):
        CumulusDriver().parse(answers, SwitchState(roce="lossless"))


def test_ports_of_two_kinds_are_no_run() -> None:
    assert collapse_ports(["bond2", "swp1", "swp3", "swp2s1", "swp2s0"]) == (
        "bond2,swp1,swp2s0-1,swp3"
    )


@pytest.mark.parametrize("text", ["enable   off\n", "state    disabled\nmode   lossless\n"])
def test_what_is_not_on_is_no_profile(text: str) -> None:
    assert parse_profile(text).roce == "none"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" \n", "the answer is blank"),
        (SINGLE_POOL.replace("lossless-single-ipool", "?"), "no RoCE mode"),
        (SINGLE_POOL.replace("146.48 KB", "?"), "no ECN thresholds"),
        (SINGLE_POOL.partition("RoCE SP->TC")[0], "no scheduler"),
    ],
)
def test_a_profile_of_another_form_is_shown_raw(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        parse_profile(text)
    assert caught.value.text == text


@pytest.mark.parametrize(("rx", "tx"), [("enabled", "disabled"), ("disabled", "enabled")])
def test_a_pause_of_one_direction_is_no_lossless_class(rx: str, tx: str) -> None:
    text = SINGLE_POOL.replace("rx-enabled        enabled", f"rx-enabled        {rx}")
    text = text.replace("tx-enabled        enabled", f"tx-enabled        {tx}")
    assert parse_profile(text).pfc_priorities == ()


def test_a_configuration_with_grouped_keys() -> None:
    def member(**words: object) -> dict[str, Any]:
        return {"bridge": {"domain": {"br_default": words}}}

    tree: dict[str, Any] = {
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


def test_a_port_that_stands_nowhere_is_shut_and_has_the_default_mtu() -> None:
    reading = read({}, "swp1")
    port = reading.state.ports["swp1"]
    assert (port.admin_up, port.mtu_bytes, port.mode) == (False, 9216, "routed")
    noted = ("admin_up", "mtu_bytes", "pfc_watchdog", "adaptive_routing", "rest")
    assert port.native == dict.fromkeys(noted, DEFAULT)
    assert words_of({})[:2] == ("bridge domain br_default", "bridge domain br_default rest")


def test_what_is_written_of_one_port_in_two_keys_is_put_together() -> None:
    both: dict[str, object] = {
        "swp1-2": {"link": {"mtu": 9000}, "bridge": {"domain": {"br_default": {}}}},
        "swp1": {"link": {"state": "down"}, "type": "swp"},
    }
    port = read({"interface": both}, "swp1").state.ports["swp1"]
    assert (port.mtu_bytes, port.admin_up, port.native["admin_up"]) == (9000, False, WRITTEN)
    assert (port.mode, port.trunk_vlans) == ("trunk", "all")


@pytest.mark.parametrize(
    ("member", "mode", "access", "trunk"),
    [
        ({"access": 20}, "access", 20, ()),
        ({"vlan": {"10-11": {}}}, "trunk", None, (10, 11)),
        ({"vlan": {"10": {}}, "untagged": 30}, "hybrid", 30, (10,)),
        ({"vlan": {"10": {}}, "untagged": "none"}, "hybrid", 0, (10,)),
        ({}, "trunk", None, "all"),
    ],
)
def test_a_member_of_the_bridge(
    member: dict[str, object], mode: str, access: int | None, trunk: object
) -> None:
    port = port_of({"bridge": {"domain": {"br_default": member}}})
    assert (port.mode, port.access_vlan, port.trunk_vlans) == (mode, access, trunk)


@pytest.mark.parametrize(
    ("state", "watched"),
    [(None, None), ("enable", True), ("enabled", True), ("disable", False), ("off", False)],
)
def test_the_watchdog_of_a_port(state: str | None, watched: bool | None) -> None:  # noqa: FBT001
    written = {} if state is None else {"qos": {"pfc-watchdog": {"state": state}}}
    port = port_of({"type": "swp", **written})
    assert port.pfc_watchdog is bool(watched)
    assert port.native["pfc_watchdog"] == (DEFAULT if watched is None else WRITTEN)


@pytest.mark.parametrize(
    ("said", "trust"),
    [
        ({"trust": "l3"}, "L3"),
        ({"trust": "both"}, "both"),
        ({"trust": "port"}, "port"),
        ({}, "L2"),
        ({"trust": "odd"}, None),
    ],
)
def test_a_port_with_a_mapping_of_its_own_trusts_what_that_says(
    said: dict[str, str], trust: str | None
) -> None:
    own = {"qos": {"mapping": {"profile": "mine"}}}
    assert port_of(own, qos={"mapping": {"mine": said}}).trust == trust
    assert port_of({"type": "swp"}, qos={"mapping": {"mine": said}}).trust is None


@pytest.mark.parametrize(
    ("entry", "others"),
    [
        ({}, False),
        ({"type": "swp", "link": {"mtu": 9000, "state": "up"}}, False),
        ({"bridge": {"domain": {"br_default": {"access": 1, "untagged": 1, "vlan": {}}}}}, False),
        ({"qos": {"pfc-watchdog": {"state": "enable"}}}, False),
        ({"ip": {"address": {"10.1.1.0/31": {}}}}, False),  # `addresses` of the switch has it
        ({"ip": {"vrf": "RED"}}, True),
        ({"link": {"duplex": "full"}}, True),
        ({"bridge": {"domain": {"br_default": {"stp": {"admin-edge": "on"}}}}}, False),
        ({"bridge": {"domain": {"br_default": {"stp": {"network": "on"}}}}}, True),
        ({"bridge": {"domain": {"br_default": {}, "br_other": {}}}}, True),
        ({"bridge": {"domain": {"br_default": {}}, "port": 1}}, True),
        ({"qos": {"mapping": {}}}, True),
    ],
)
def test_what_no_driver_writes_is_noted(entry: dict[str, object], others: bool) -> None:  # noqa: FBT001
    assert (port_of(entry).native["rest"] == WRITTEN) is others


@pytest.mark.parametrize(
    ("tree", "there", "ours"),
    [
        ({}, False, True),
        ({"bridge": {"domain": {"br_other": {}}}}, False, True),
        ({"bridge": {"domain": {"br_default": {}}}}, True, True),
        ({"bridge": {"domain": {"br_default": {"vlan": {"10": {}}}}}}, True, True),
        ({"bridge": {"domain": {"br_default": {"vlan": {}, "type": "vlan-aware"}}}}, True, False),
    ],
)
def test_whether_the_bridge_is_there_and_ours_alone(
    tree: dict[str, object],
    there: bool,  # noqa: FBT001 - a table
    ours: bool,  # noqa: FBT001 - the same
) -> None:
    words = words_of(tree)
    assert ("bridge domain br_default" not in words) is there
    assert ("bridge domain br_default rest" in words) is ours


@pytest.mark.parametrize(("said", "metres"), [(40, 40), ("40", 40), (None, 0)])
def test_the_longest_cable_of_the_profile(said: object, metres: int) -> None:
    tree = {"qos": {"roce": {"enable": "on", "cable-length": said}}}
    assert read(tree).state.roce_cable_m == metres


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nv: no such thing", "the JSON is broken"),
        ("[]", "neither a header"),
        (
            '[{"set": {"bridge": {"domain": {"br_default": {"vlan": {"x": {}}}}}}}]',
            r"the key 'x' names|no number, but 'x'",
        ),
        ('[{"set": {"interface": [1]}}]', r"\[1\] is in place of a table at `interface`"),
        ('[{"set": {"interface": {"swp1": "up"}}}]', "'up' is in place of a table at `swp1`"),
        ('[{"set": [1]}]', "in place of a table at `set`"),
        *(
            (f'[{{"set": {{"interface": {{"swp1": {entry}}}}}}}]', why)
            for entry, why in (
                ('{"link": [1]}', "in place of a table at `link`"),
                ('{"link": {"mtu": "x"}}', "`link mtu` is 'x', not a number from 552 to 9216"),
                ('{"link": {"mtu": 9217}}', "`link mtu` is 9217, not a number"),
                ('{"link": {"mtu": {"9000": {}}}}', "`link mtu` is {'9000': {}}, not a number"),
                ('{"link": {"speed": ["100G"]}}', r"`link speed` is \['100G'\]"),
                ('{"qos": {"pfc-watchdog": {"state": "odd"}}}', "state` is 'odd'"),
                ('{"bridge": {"domain": {"br_default": {"access": 4095}}}}', "`access` is 4095"),
                ('{"bridge": {"domain": {"br_default": {"vlan": {"1-9999": {}}}}}}', "VLAN|range"),
            )
        ),
        ('[{"set": {"qos": {"roce": {"cable-length": "far"}}}}]', "cable-length` is 'far'"),
        ('[{"set": {"router": {"bgp": {"autonomous-system": "x"}}}}]', "system` is 'x'"),
    ],
)
def test_a_configuration_of_another_form_is_shown_raw(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        DRIVER.parse({CONFIG: text}, SwitchState())
    assert caught.value.text == text


def test_ports_are_those_called_swp() -> None:
    table = '{"eth0": {}, "swp10": {}, "swp2": {}, "swp3s1": {}, "lo": {}, "bond1": {}}'
    assert DRIVER.ports.parse({INTERFACES: table}) == ("swp2", "swp3s1", "swp10")
    with pytest.raises(Unreadable, match="no port"):
        DRIVER.ports.parse({INTERFACES: "{}"})


OLDER: Final = "Error: Invalid parameter"
"""The watchdog's answer before 5.6."""


def counted(roce: object, queues: object, storms: str = OLDER) -> PortCounters:
    asked = DRIVER.counters(["swp1"])
    answers = (json.dumps(roce), json.dumps(queues), storms)
    return asked.parse(dict(zip(asked.commands, answers, strict=True)))["swp1"]


def bytes_of(found: PortCounters) -> dict[int, tuple[int | None, int | None]]:
    return {tc: (each.rx_bytes, each.tx_bytes) for tc, each in found.by_priority.items()}


def test_counters_as_numbers_or_as_the_text_form_prints_them() -> None:
    roce = {
        "rx-stats": {
            "rx-roce-stats": {"roce-bytes": "1.50 KB", "no-buffer-discard": 1},
            "rx-non-roce-stats": {"non-roce-bytes": 7, "no-buffer-discard": "2"},
        },
        "tx-stats": {"tx-ecn-stats": {"ecn-marked-packets": 5}},
    }
    queues = {
        "egress-queue-stats": {"0": {"tx-bytes": "0 Bytes"}, "3": {"tx-bytes": 9}},
        # Keys: a public tool's own tests (aliaydemir/lldpq-src-edt).
        "pfc-stats": {"3": {"rx-pause-frames": 200, "tx-pause-frames": 300}},
    }
    found = counted(roce, queues)
    assert bytes_of(found) == {0: (7, 0), 3: (1536, 9)}
    assert (found.ecn_marked, found.rx_discards) == (5, 3)
    assert (found.pauses, found.unread) == ({3: PauseCounters(200, 300)}, ())


ARRIVED: Final = {
    "rx-stats": {"rx-roce-stats": {"roce-bytes": 8}, "rx-non-roce-stats": {"non-roce-bytes": 1}}
}
SENT: Final = {"egress-queue-stats": {"3": {"tx-bytes": 9}, "5": {"tx-bytes": 2}, "all": {}}}


@pytest.mark.parametrize(
    ("roce", "queues", "lost", "kept"),
    [
        ({}, SENT, "no roce-bytes", {3: (None, 9), 5: (None, 2)}),
        (ARRIVED, {}, "no egress queue", {0: (1, None), 3: (8, None)}),
        # A class that only sends has received no bytes.
        (ARRIVED, SENT, "no ecn-marked-packets", {0: (1, None), 3: (8, 9), 5: (0, 2)}),
    ],
)
def test_counters_of_an_unknown_form_leave_the_others(
    roce: object, queues: object, lost: str, kept: object
) -> None:
    found = counted(roce, queues)
    assert bytes_of(found) == kept
    assert any(lost in each.why for each in found.unread)
    assert {each.text for each in found.unread} <= {json.dumps(roce), json.dumps(queues)}


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("", None),
        ("applied [rev_id: 5]\n", None),
        ("Invalid config [rev_id: 6]\n  why\n", "Invalid config [rev_id: 6] why"),
        ("-bash: nv: command not found\n[status 127]\n", "-bash: nv: command not found"),
        ("something else\n[status 2]\n", "something else"),
        (
            "reloadingError: Could not connect to nvued.\n",
            "reloadingError: Could not connect to nvued.",
        ),
        ("Error: Failed to parse YAML\n", "Error: Failed to parse YAML"),
        ("[status 2]\n", "[status 2]"),
        ("\n[status unknown]\n", "[status unknown]"),
    ],
)
def test_refusals_are_found_by_status_and_by_text(output: str, refused: str | None) -> None:
    assert DRIVER.find_refusal(output) == refused


def test_the_deadlocks_of_each_class() -> None:
    def storms(text: str) -> PortCounters:
        return counted(ARRIVED, SENT, text)

    found = storms(WATCHDOG).storms
    assert found == {0: 0, 1: 3, 2: 2, 3: 0, 4: 0, 5: 0, 6: 0, 7: 3}
    assert storms(WATCHDOG.partition("\n\n")[0].replace("enabled", "disabled")).storms == {}
    other = WATCHDOG.replace("deadlock-count", "storms").replace("state ", "mode  ")
    lost = [each for each in storms(other).unread if each.way == "storms"]
    assert [(each.text, each.why) for each in lost] == [(other, "it is no table of the watchdog")]
    assert bytes_of(storms(other)) == bytes_of(storms(WATCHDOG)), "the rest counts"
    assert not [each for each in storms(OLDER).unread if each.way == "storms"]
