"""What the SONiC driver reads: rows as sonic-buildimage and sonic-utilities have them."""

from __future__ import annotations

import json

import pytest

from components.fabric.parts import sources
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic.driver import CONFIG, SonicDriver
from components.fabric.systems.sonic.read import ConfigDb, parse_config, port_names
from components.fabric.systems.sonic.rows import (
    NO_BRANCH,
    parse_branch,
    read_held,
    read_rows,
    read_settings,
    whole_words,
)

AZURE_WRED = {
    "ecn": "ecn_all",
    "green_drop_probability": "5",
    "green_max_threshold": "2097152",
    "green_min_threshold": "1048576",
    "wred_green_enable": "true",
}
"""sonic-buildimage, files/build_templates/qos_config.j2, the green third."""
TABLES: dict[str, dict[str, object]] = {
    "BUFFER_PG": {
        "Ethernet0|0": {"profile": "ingress_lossy_profile"},
        "Ethernet0|3-4": {"profile": "pg_lossless_400000_300m_profile"},
        "Ethernet8|3": {"profile": "NULL"},
    },
    "BUFFER_POOL": {"ingress_lossless_pool": {"mode": "dynamic", "type": "ingress"}},
    "BUFFER_PROFILE": {
        "ingress_lossy_profile": {"pool": "ingress_lossless_pool", "size": "0", "static_th": "66"},
        "pg_lossless_400000_300m_profile": {
            "pool": "ingress_lossless_pool",
            "xoff": "373888",
            "xon": "2540",
        },
    },
    "DEVICE_METADATA": {"localhost": {"hwsku": "DellEMC-Z9332f-O32"}},
    "CABLE_LENGTH": {"AZURE": {"Ethernet0": "300m", "Ethernet8": "5m"}},
    "DSCP_TO_TC_MAP": {"AZURE": {"3": "3", "26": "1", "48": "6"}, "OURS": {"26": "3"}},
    "FLEX_COUNTER_TABLE": {"PFCWD": {"FLEX_COUNTER_STATUS": "enable"}},
    "PFC_WD": {
        "Ethernet0": {"action": "drop", "detection_time": "400", "restoration_time": "800"},
        "GLOBAL": {"POLL_INTERVAL": "400"},
    },
    "PORT": {
        "Ethernet0": {"admin_status": "up", "lanes": "33,34", "mtu": "9100", "speed": "400000"},
        "Ethernet8": {"lanes": "41,42", "speed": "400000"},
        "Ethernet16": {"admin_status": "down", "mode": "routed", "mtu": "9216"},
    },
    "PORT_QOS_MAP": {
        "Ethernet0": {
            "dscp_to_tc_map": "AZURE",
            "pfc_enable": "3,4",
            "pfc_to_queue_map": "AZURE",
            "pfcwd_sw_enable": "3,4",
            "tc_to_pg_map": "AZURE",
            "tc_to_queue_map": "AZURE",
        },
        "Ethernet8": {"dot1p_to_tc_map": "AZURE", "pfc_enable": "", "tc_to_pg_map": "AZURE"},
        "global": {"dscp_to_tc_map": "OURS"},
    },
    "QUEUE": {
        "Ethernet0|3": {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"},
        "Ethernet0|5-6": {"scheduler": "scheduler.7"},
    },
    "SCHEDULER": {
        "scheduler.1": {"type": "DWRR", "weight": "15"},
        "scheduler.7": {"type": "STRICT"},
    },
    "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {"0": "0", "3": "3", "4": "4", "7": "7"}},
    "TC_TO_QUEUE_MAP": {"AZURE": {"3": "3", "6": "6"}},
    "VLAN": {
        "Vlan10": {"vlanid": "10"},
        "Vlan111": {"dhcp_servers": ["192.0.2.1"], "vlanid": "111"},
    },
    "VLAN_MEMBER": {
        "Vlan10|Ethernet0": {"tagging_mode": "untagged"},
        "Vlan111|Ethernet0": {"tagging_mode": "tagged"},
        "Vlan111|Ethernet8": {"tagging_mode": "tagged"},
    },
    "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|192.0.2.254/24": {}},
    "WRED_PROFILE": {"AZURE_LOSSLESS": AZURE_WRED},
}
TEXT = json.dumps(TABLES, indent=4)


def _read(text: str = TEXT) -> ConfigDb:
    return ConfigDb.of(parse_config(CONFIG, text))


def test_a_port_of_the_platforms_template() -> None:
    port = _read().port("Ethernet0")
    assert (port.mode, port.access_vlan, port.trunk_vlans) == ("hybrid", 10, (111,))
    assert (port.admin_up, port.mtu_bytes, port.trust) == (True, 9100, "L3")
    assert sources(admin_up=True, mtu_bytes=True).items() <= port.native.items()
    assert (port.pfc_priorities, port.lossless_buffers) == ((3, 4), (3, 4))
    assert {26: 1, 48: 6}.items() <= port.dscp_priorities.items()
    assert port.priority_classes == {3: 3, 6: 6}
    assert {tc: ecn for tc, ecn in port.ecn.items() if ecn} == {
        3: EcnState(min_kib=1024, max_kib=2048, percent=5)
    }
    assert port.strict_classes == (5, 6)
    cells = read_settings(port)
    assert cells["pfc"] == {("PORT_QOS_MAP|Ethernet0", "pfc_enable"): "3,4"}
    assert cells["schedule_6"] == {("QUEUE|Ethernet0|5-6", "scheduler"): "scheduler.7"}


def test_the_watchdog_and_the_cable() -> None:
    port = _read().port("Ethernet0")
    assert (port.pfc_watchdog, port.cable_m) == (True, 300)
    cells = read_settings(port)
    assert cells["cable"] == {("CABLE_LENGTH|AZURE", "Ethernet0"): "300m"}
    assert cells["pfc_watchdog"] == {
        ("PORT_QOS_MAP|Ethernet0", "pfcwd_sw_enable"): "3,4",
        ("PFC_WD|Ethernet0", "action"): "drop",
        ("PFC_WD|Ethernet0", "detection_time"): "400",
        ("PFC_WD|Ethernet0", "restoration_time"): "800",
    }
    other = _read().port("Ethernet16")
    assert (other.pfc_watchdog, other.cable_m) == (False, 0)
    assert (other.native["cable"], other.native["pfc_watchdog"]) == ("{}", "{}")


@pytest.mark.parametrize(
    ("table", "row", "fields"),
    [
        ("PFC_WD", "Ethernet0", {"action": "forward"}),
        ("PFC_WD", "Ethernet0", {"detection_time": "399"}),
        ("PFC_WD", "Ethernet0", {"detection_time": "5001"}),
        ("PFC_WD", "Ethernet0", {"restoration_time": ""}),
        ("PFC_WD", "GLOBAL", {"POLL_INTERVAL": "500"}),
        ("PORT_QOS_MAP", "Ethernet0", {"pfcwd_sw_enable": "3"}),
        ("FLEX_COUNTER_TABLE", "PFCWD", {"FLEX_COUNTER_STATUS": "disable"}),
    ],
)
def test_a_watchdog_that_would_not_drop_is_off(
    table: str, row: str, fields: dict[str, str]
) -> None:
    tables = json.loads(TEXT)
    tables[table][row] |= fields
    assert _read(json.dumps(tables)).port("Ethernet0").pfc_watchdog is False


@pytest.mark.parametrize(("said", "found"), [("300m", 300), ("40m", 0), ("far", 0), ("0m", 0)])
def test_a_length_counts_where_the_buffers_have_it(said: str, found: int) -> None:
    tables = json.loads(TEXT)
    tables["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = said
    assert _read(json.dumps(tables)).port("Ethernet0").cable_m == found


def test_a_port_with_little_written() -> None:
    port = _read().port("Ethernet8")
    assert (port.admin_up, port.mtu_bytes) == (False, 9100)
    assert sources(admin_up=False, mtu_bytes=False).items() <= port.native.items()
    assert (port.mode, port.trunk_vlans, port.trust) == ("trunk", (111,), "both")
    assert port.dscp_priorities == {26: 3}, "the map of the whole switch"
    assert (port.pfc_priorities, port.lossless_buffers) == ((), ()), "NULL means nothing here"
    recorded = read_settings(_read().port("Ethernet16"))["mode"]
    assert recorded == {("PORT|Ethernet16", "mode"): "routed"}


@pytest.mark.parametrize(
    ("members", "mode", "access", "trunk"),
    [
        ({}, "routed", None, ()),
        ({"Vlan10|Ethernet16": {"tagging_mode": "untagged"}}, "access", 10, ()),
        ({"Vlan10|Ethernet16": {"tagging_mode": "tagged"}}, "trunk", None, (10,)),
    ],
)
def test_a_member_of_vlans(
    members: dict[str, object], mode: str, access: int | None, trunk: object
) -> None:
    port = _read(json.dumps({**TABLES, "VLAN_MEMBER": members})).port("Ethernet16")
    assert (port.mode, port.access_vlan, port.trunk_vlans) == (mode, access, trunk)


@pytest.mark.parametrize(
    ("maps", "trust"),
    [
        ({}, "port"),
        ({"dot1p_to_tc_map": "AZURE"}, "L2"),
        ({"dscp_to_tc_map": "AZURE"}, "L3"),
        ({"dscp_to_tc_map": "AZURE", "dot1p_to_tc_map": "AZURE"}, "both"),
    ],
)
def test_trust_is_in_what_a_port_has_a_map_for(maps: dict[str, str], trust: str) -> None:
    tables = {**TABLES, "PORT_QOS_MAP": {"Ethernet0": maps}}
    assert _read(json.dumps(tables)).port("Ethernet0").trust == trust


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, EcnState(min_kib=1024, max_kib=2048, percent=5)),
        ({"ecn": "ecn_none"}, EcnState(min_kib=1024, max_kib=2048, percent=5, kind="red")),
        ({"ecn": "ecn_yellow"}, EcnState(min_kib=1024, max_kib=2048, percent=5, kind="red")),
        ({"green_min_threshold": ""}, None),
        ({"green_max_threshold": "much"}, None),
    ],
)
def test_a_profile_that_marks_drops_or_is_not_whole(
    fields: dict[str, str], found: EcnState | None
) -> None:
    tables = {**TABLES, "WRED_PROFILE": {"AZURE_LOSSLESS": {**AZURE_WRED, **fields}}}
    assert _read(json.dumps(tables)).port("Ethernet0").ecn[3] == found


@pytest.mark.parametrize("first", ["Ethernet0|3", "Ethernet0|3-4"])
def test_the_own_row_of_a_queue_wins_over_one_of_several(first: str) -> None:
    rows = {"Ethernet0|3": {"scheduler": "scheduler.7"}, "Ethernet0|3-4": {"scheduler": "x"}}
    queue = {first: rows[first], **rows}
    tables = {**TABLES, "QUEUE": queue, "SCHEDULER": {"scheduler.7": {"type": "STRICT"}, "x": {}}}
    assert _read(json.dumps(tables)).port("Ethernet0").strict_classes == (3,)


def test_a_row_that_is_no_table_has_no_fields() -> None:
    tables = {**TABLES, "PORT_QOS_MAP": {"Ethernet0": "odd"}}
    port = _read(json.dumps(tables)).port("Ethernet0")
    assert (port.trust, port.pfc_priorities) == ("port", ())


def test_in_the_dynamic_model_null_is_a_buffer() -> None:
    tables = {**TABLES, "DEVICE_METADATA": {"localhost": {"buffer_model": "dynamic"}}}
    config = _read(json.dumps(tables))
    assert config.port("Ethernet8").lossless_buffers == (3,)


def test_the_switch_and_who_else_uses_it() -> None:
    wanted = SwitchState(ports={"Ethernet0": PortState()})
    tables = json.loads(TEXT)
    tables["DSCP_TO_TC_MAP"]["RAILYARD"] = {"26": "3"}
    tables["TC_TO_QUEUE_MAP"]["RAILYARD"] = {"3": "3"}
    tables["PORT_QOS_MAP"]["Ethernet8"]["dscp_to_tc_map"] = "RAILYARD"
    reading = SonicDriver().parse({CONFIG: json.dumps(tables)}, wanted)
    state = reading.state
    assert (state.vlans, state.roce, whole_words(state)) == (
        (10, 111),
        "lossless",
        ("watchdog polled each 400 ms",),
    )
    assert read_held(state) == ("DSCP_TO_TC_MAP|RAILYARD",)
    assert {*(read_rows(state) or {})} == {
        "BUFFER_PROFILE|pg_lossless_400000_300m_profile",
        "DSCP_TO_TC_MAP|RAILYARD",
        "TC_TO_QUEUE_MAP|RAILYARD",
    }
    assert reading.vlan_holders == {111: ("Ethernet8",), 10: ("Vlan10",)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Traceback (most recent call last):", "no table of tables"),
        ('["PORT"]', "no table of tables"),
        ('{"VLAN": {}}', "no port in it"),
    ],
)
def test_another_form_is_named_and_hidden(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        parse_config(CONFIG, text)
    assert "secrets" in caught.value.text
    assert "Traceback" not in caught.value.text


def test_a_part_of_a_port_that_was_not_split() -> None:
    wanted = SwitchState(ports={"Ethernet2": PortState()})
    with pytest.raises(Unreadable, match="config interface breakout"):
        SonicDriver().parse({CONFIG: TEXT}, wanted)


def test_ports_are_in_the_order_of_the_panel() -> None:
    tables = parse_config(CONFIG, json.dumps({"PORT": {"Ethernet16": {}, "Ethernet8": {}}}))
    assert port_names(tables) == ("Ethernet8", "Ethernet16")
    rest = parse_config(CONFIG, json.dumps({"PORT": {"Ethernet-Rec0": {}, "Ethernet0": {}}}))
    assert port_names(rest) == ("Ethernet0",)


CLICK = """\
Usage: config vlan add [OPTIONS] <vid>
Try "config vlan add -h" for help.

Error: Vlan111 already exists.
[status 2]
"""


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("", None),
        ("1\n", None),
        ("Running command: /usr/local/bin/sonic-cfggen -d --print-data > x\n", None),
        (CLICK, "Vlan111 already exists."),
        ("sudo: a password is required\n[status 1]\n", "sudo: a password is required"),
        ("Cannot find interface Ethernet101\n", "Cannot find interface Ethernet101"),
        ("The config_db file x doesn't exist\n", "The config_db file x doesn't exist"),
        ("(error) ERR unknown command\n", "(error) ERR unknown command"),
        ("[status 1]\n", "[status 1]"),
        ("\n[status unknown]\n", "[status unknown]"),
    ],
)
def test_refusals_are_found_by_status_and_by_text(output: str, refused: str | None) -> None:
    assert SonicDriver().find_refusal(output) == refused


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        ("202405", 202405),
        ("202311.1", 202311),
        ("SONiC.202205.3-0f1e2d3c4", 202205),
        ("20230531.12", 202305),
        ("master.1234-abcdef", NO_BRANCH),
        ("4.1.1-Enterprise_Base", 0),
        ("3.9.2504", 0),
        ("", 0),
    ],
)
def test_releases(text: str, branch: int) -> None:
    assert parse_branch(text) == branch
