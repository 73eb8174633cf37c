"""Read, compare, change, verify, save on SONiC: against an emulator in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems.base import PauseCounters
from lab.switches.sonic.config import Db
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.sonic_lab import PORTS, load_spec, make_switch, sent_rows, talk

LOSSLESS = plan_fabric(load_spec())[0].desired
LOSSY = plan_fabric(load_spec(mode="lossy_ecn"))[0].desired


def _as_trunks(desired: SwitchState) -> SwitchState:
    ports = {
        name: port.model_copy(
            update={"mode": "trunk", "access_vlan": None, "trunk_vlans": (111 + number % 2,)}
        )
        for number, (name, port) in enumerate(desired.ports.items())
    }
    return desired.model_copy(update={"vlans": (111, 112), "ports": ports})


INTENTS = (LOSSLESS, LOSSY, _as_trunks(LOSSLESS), _as_trunks(LOSSY))


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"dscp_priorities": {26: 3}}, {"dscp_priorities": {27: 3}}),
        ({"strict_classes": (6,)}, {"strict_classes": (5,), "class_shares": {6: 20}}),
        ({"strict_classes": (5,), "class_shares": {6: 20}}, {"strict_classes": (5, 6)}),
    ],
)
def test_an_edit_within_a_setting_sets_it_and_does_not_restore_it(
    switch: SonicSwitch, before: dict[str, object], after: dict[str, object]
) -> None:
    """The recorded rows of a setting come back only when no part of it is wanted."""
    untouched, exchange = switch.snapshot(), talk(switch)
    was, now = (
        LOSSLESS.model_copy(
            update={"ports": {n: p.model_copy(update=own) for n, p in LOSSLESS.ports.items()}}
        )
        for own in (before, after)
    )
    baseline = baseline_of(exchange, was)
    apply(exchange, was)
    edit(exchange, was, now, baseline)
    assert diff_states(exchange.read(now).state, now) == ()
    restore(exchange, now, baseline)
    assert switch.snapshot() == untouched


def foreign(db: Db) -> Db:
    """What is neither a row of our ports nor one that bears our name."""
    kept: Db = {}
    for table, rows in db.items():
        for key, fields in rows.items():
            parts = {key, *key.split("|")}
            made = key == "RAILYARD" or key.startswith("pg_lossless_")
            if not made and not parts & {*PORTS} and key not in {"Vlan111", "Vlan112"}:
                kept.setdefault(table, {})[key] = fields
    return kept


def merge(text: str) -> str:
    return f"sudo sonic-cfggen -a '{text}' --write-to-db"


def _port_line(port: str) -> st.SearchStrategy[str]:
    delete = "sudo sonic-db-cli CONFIG_DB HDEL"
    return st.sampled_from(
        [
            f"sudo config interface mtu {port} 9216",
            f"sudo config interface mtu {port} 1500",
            f"sudo config interface shutdown {port}",
            f"sudo config interface fec {port} rs",
            f"sudo config interface autoneg {port} enabled",
            f"sudo config interface advertised-speeds {port} 100000,200000",
            merge(f'{{"PORT":{{"{port}":{{"adv_speeds":["100000","400000"]}}}}}}'),
            f"{delete} 'PORT|{port}' mtu",
            f"{delete} 'PORT|{port}' admin_status",
            f"sudo config vlan member add 10 {port}",
            f"sudo config vlan member add 111 {port}",
            f"sudo config vlan member add -u 10 {port}",
            f"sudo config vlan member add -u 20 {port}",
            f"sudo config switchport mode access {port}",
            f"sudo config switchport mode routed {port}",
            f"sudo config interface pfc priority {port} 4 off",
            f"sudo config interface pfc priority {port} 3 off",
            f"{delete} 'PORT_QOS_MAP|{port}' pfc_enable",
            f"{delete} 'QUEUE|{port}|6' scheduler",
            f"sudo sonic-db-cli CONFIG_DB DEL 'PORT_QOS_MAP|{port}'",
            merge(f'{{"PORT_QOS_MAP":{{"{port}":{{"dscp_to_tc_map":"OURS","pfc_enable":"5"}}}}}}'),
            merge(f'{{"PORT_QOS_MAP":{{"{port}":{{"dot1p_to_tc_map":"TAGS"}}}}}}'),
            merge(f'{{"QUEUE":{{"{port}|6":{{"scheduler":"high"}}}}}}'),
        ]
    )


LINES = st.one_of(
    st.sampled_from([*PORTS, "Ethernet32", "Ethernet40"]).flatmap(_port_line),
    st.sampled_from(
        [
            "sudo config vlan add 10",
            "sudo config vlan add 20",
            "sudo config vlan add 111",
            "sudo config qos clear",
            merge('{"PORT_QOS_MAP":{"Ethernet8":{"tc_to_queue_map":"RAILYARD"}}}'),
            merge('{"SCHEDULER":{"high":{"type":"STRICT"}}}'),
            merge('{"TC_TO_QUEUE_MAP":{"RAILYARD":{"3":"1","9":"9"}}}'),
            merge('{"DSCP_TO_TC_MAP":{"OURS":{"26":"3","48":"6"}}}'),
            merge('{"CABLE_LENGTH":{"AZURE":{"Ethernet8":"1m"}}}'),
            merge('{"DEVICE_METADATA":{"localhost":{"buffer_model":"dynamic"}}}'),
        ]
    ),
)
HISTORIES = st.lists(LINES, max_size=14)


def test_ports_outside_the_file_keep_what_they_have(switch: SonicSwitch) -> None:
    before = switch.port_view("Ethernet32")
    apply(talk(switch), LOSSLESS)
    assert switch.port_view("Ethernet32") == before
    assert before.pfc_priorities == {3, 4}
    assert switch.port_view("Ethernet0").pfc_priorities == {3}


def test_what_somebody_adds_after_us_stays(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    baseline = baseline_of(exchange, LOSSY)
    apply(exchange, LOSSY)
    for line in (
        "sudo config vlan member add -u 111 Ethernet32",
        merge('{"PORT_QOS_MAP":{"Ethernet40":{"dscp_to_tc_map":"RAILYARD"}}}'),
        merge('{"QUEUE":{"Ethernet0|6":{"wred_profile":"AZURE_LOSSLESS"}}}'),
        merge('{"PORT":{"Ethernet0":{"description":"rack 4"}}}'),
    ):
        switch.run_line(line)
    restore(exchange, LOSSY, baseline)
    db = switch.stored.running
    assert [*db["VLAN"]] == ["Vlan111"]
    assert [*db["VLAN_MEMBER"]] == ["Vlan111|Ethernet32"]
    assert "RAILYARD" in db["DSCP_TO_TC_MAP"]
    assert "RAILYARD" not in db["TC_TO_QUEUE_MAP"]
    assert db["QUEUE"]["Ethernet0|6"] == {
        "scheduler": "scheduler.0",
        "wred_profile": "AZURE_LOSSLESS",
    }
    assert db["PORT"]["Ethernet0"]["description"] == "rack 4"


def test_undo_makes_the_switch_forget_pfc_before_the_list_goes(tmp_path: Path) -> None:
    """Buffermgrd remembers a list that just vanishes, and would make the groups again."""
    switch = make_switch(tmp_path)
    switch.run_line("sudo sonic-db-cli CONFIG_DB DEL 'PORT_QOS_MAP|Ethernet0'")
    switch.run_line("sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|Ethernet0|3-4'")
    switch.run_line(merge('{"PORT_QOS_MAP":{"Ethernet0":{"pfc_enable":""}}}'))
    switch.run_line("sudo sonic-db-cli CONFIG_DB DEL 'PORT_QOS_MAP|Ethernet0'")
    switch.run_line("sudo config save -y")
    first = switch.snapshot()
    exchange = talk(switch)
    baseline = baseline_of(exchange, LOSSLESS)
    apply(exchange, LOSSLESS)
    assert "Ethernet0|3" in switch.stored.running["BUFFER_PG"]
    restore(exchange, LOSSLESS, baseline)
    assert switch.snapshot() == first
    switch.run_line("sudo config interface mtu Ethernet0 9000")
    assert "Ethernet0|3" not in switch.stored.running["BUFFER_PG"]


def test_a_group_that_the_switch_owes_to_a_list_is_left_to_it(switch: SonicSwitch) -> None:
    """A second reload leaves PFC without groups: the list is the same, so nobody makes them."""
    switch.run_line("sudo config qos reload")
    assert "Ethernet0|3-4" not in switch.stored.running["BUFFER_PG"]
    exchange = talk(switch)
    baseline = baseline_of(exchange, LOSSLESS)
    apply(exchange, LOSSLESS)
    restore(exchange, LOSSLESS, baseline)
    groups = switch.stored.running["BUFFER_PG"]
    assert ("Ethernet0|3-4" in groups, "Ethernet0|3" in groups) == (True, False)
    assert switch.port_view("Ethernet0").pfc_priorities == {3, 4}


def test_in_the_dynamic_model_the_buffer_is_asked_for(switch: SonicSwitch) -> None:
    dynamic = '{"DEVICE_METADATA":{"localhost":{"buffer_model":"dynamic"}}}'
    switch.run_line(merge(dynamic))
    for port in PORTS:
        switch.run_line(f"sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|{port}|3-4'")
    lines = apply(talk(switch), LOSSLESS)
    assert sent_rows(lines)["BUFFER_PG"]["Ethernet0|3"] == {"profile": "NULL"}


def test_with_spanning_tree_vlans_and_members_come_by_command(switch: SonicSwitch) -> None:
    """From 202411 on these also write the rows of spanning tree (config/vlan.py)."""
    switch.run_line(merge('{"STP":{"GLOBAL":{"mode":"pvst"}}}'))
    switch.run_line("sudo config vlan add 10")
    switch.run_line("sudo config vlan member add -u 10 Ethernet0")
    switch.run_line("sudo config save -y")
    first, exchange = switch.snapshot(), talk(switch)
    baseline = baseline_of(exchange, LOSSLESS)
    lines = apply(exchange, LOSSLESS)
    assert lines[0] == "sudo config vlan member del 10 Ethernet0"
    assert {"sudo config vlan add 111", "sudo config vlan member add -u 111 Ethernet8"} <= {*lines}
    assert not {"VLAN", "VLAN_MEMBER"} & {*sent_rows(lines)}
    restore(exchange, LOSSLESS, baseline)
    assert switch.snapshot() == first


def test_drift_is_told_in_words_and_repaired(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSLESS)
    for fault in (
        ["mtu", "Ethernet8", "1500"],
        ["trust", "Ethernet16", "L2"],
        ["cli", "sudo config interface pfc priority Ethernet0 4 on"],
        ["cli", merge('{"WRED_PROFILE":{"RAILYARD":{"green_min_threshold":"1048576"}}}')],
        ["cli", "sudo sonic-db-cli CONFIG_DB HDEL 'QUEUE|Ethernet24|6' scheduler"],
    ):
        switch.fault(fault)
    found = [str(each) for each in diff_states(exchange.read(LOSSLESS).state, LOSSLESS)]
    for text in (
        "mtu_bytes of port Ethernet8 is 1500, want 9216",
        "trust of port Ethernet16 is both, want L3",
        "pfc_priorities of port Ethernet0 is 3,4, want 3",
        "tc3_ecn_kib of port Ethernet0 is 1024-1500, want 150-1500",
        "tc6_schedule of port Ethernet24 is absent, want strict",
    ):
        assert text in found
    lines = apply(exchange, LOSSLESS)
    assert (
        "sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|Ethernet16' dot1p_to_tc_map"
        in "\n".join(lines)
    )
    assert "DSCP_TO_TC_MAP" not in sent_rows(lines), "the maps are as they were"
    assert diff_states(exchange.read(LOSSLESS).state, LOSSLESS) == ()


def test_a_map_that_was_edited_under_our_name_is_written_again(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSY)
    switch.run_line(merge('{"DSCP_TO_TC_MAP":{"RAILYARD":{"26":"1","0":"5"}}}'))
    lines = apply(exchange, LOSSY)
    assert all("DSCP_TO_TC_MAP" in line for line in lines)
    assert switch.stored.running["DSCP_TO_TC_MAP"]["RAILYARD"]["0"] == "0"


def test_names_of_others_that_mean_the_same_are_kept(switch: SonicSwitch) -> None:
    same = {str(n): str(n // 8) for n in range(64)}
    switch.database.put("DSCP_TO_TC_MAP", "THEIRS", same)
    for port in PORTS:
        switch.database.merge("PORT_QOS_MAP", port, {"dscp_to_tc_map": "THEIRS"})
    apply(talk(switch), LOSSY)
    maps = switch.stored.running["PORT_QOS_MAP"]
    assert {maps[port]["dscp_to_tc_map"] for port in PORTS} == {"THEIRS"}
    assert "RAILYARD" not in switch.stored.running["DSCP_TO_TC_MAP"]


def test_a_lost_answer_is_no_success(switch: SonicSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = talk(switch)
    run: Callable[[str], str] = exchange.session.run

    def deaf(line: str) -> str:
        return "\n[status unknown]\n" if '"VLAN"' in line else run(line)

    monkeypatch.setattr(exchange.session, "run", deaf)
    with pytest.raises(DeviceError, match="status unknown"):
        apply(exchange, LOSSY)


def test_counters_tell_the_class_that_bytes_leave_in(switch: SonicSwitch) -> None:
    switch.add_counters("Ethernet0", 0, tx_bytes=6)
    switch.add_counters("Ethernet0", 3, rx_bytes=1000, tx_bytes=2_000_000, ecn_marked=4)
    switch.add_discards("Ethernet0", 7)
    switch.add_pauses("Ethernet0", 3, rx=8000, tx=9, storms=2)
    found = talk(switch).read_counters(["Ethernet0", "Ethernet8"])["Ethernet0"]
    sent = {tc: (c.rx_bytes, c.tx_bytes) for tc, c in found.by_priority.items() if c.tx_bytes}
    assert sent == {0: (None, 6), 3: (None, 2_000_000)}
    assert (found.ecn_marked, found.rx_discards, found.unread) == (None, 7, ())
    assert (found.pauses[3], found.pauses[4]) == (PauseCounters(8000, 9), PauseCounters(0, 0))
    assert (found.storms[3], found.storms[4]) == (2, 0)
