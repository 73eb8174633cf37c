"""PFC watchdog and cable length of SONiC ports: over what others wrote, and back to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import PortState, SwitchState, diff_states
from components.fabric.targets import target_of_apply
from lab.switches.sonic.config import Db
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.histories import without
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.sonic_lab import PORTS, load_spec, make_switch, rows_of, sent_rows, talk
from tests.fabric.test_sonic_exchange import HISTORIES, INTENTS, LOSSLESS, foreign, merge

WATCHED = plan_fabric(load_spec(pfc_watchdog=True))[0].desired


def with_cables(desired: SwitchState, lengths: Mapping[str, int]) -> SwitchState:
    ports = {
        name: port.model_copy(update={"cable_m": lengths[name]}) if name in lengths else port
        for name, port in desired.ports.items()
    }
    return desired.model_copy(update={"ports": ports})


def _length_line(port: str, length: str) -> str:
    """A person who sets a length makes the switch look at it."""
    lengths = merge(f'{{"CABLE_LENGTH":{{"AZURE":{{"{port}":"{length}"}}}}}}')
    return f"{lengths} && sudo config interface mtu {port} 9100"


def line_of(port: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            _length_line(port, "5m"),
            _length_line(port, "40m"),
            merge(f'{{"CABLE_LENGTH":{{"AZURE":{{"{port}":"40m"}}}}}}'),
            f"sudo pfcwd start --action drop {port} 400",
            f"sudo pfcwd start --action forward --restoration-time 600 {port} 300",
            f"sudo pfcwd stop {port}",
            merge(f'{{"PORT_QOS_MAP":{{"{port}":{{"pfcwd_sw_enable":"4"}}}}}}'),
            merge(f'{{"PFC_WD":{{"{port}":{{"detection_time":"150"}}}}}}'),
            f"sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|{port}' pfcwd_sw_enable",
            f"sudo sonic-db-cli CONFIG_DB HDEL 'PORT|{port}' mtu",
        ]
    )


LINES = st.one_of(
    st.sampled_from([*PORTS, "Ethernet32"]).flatmap(line_of),
    st.sampled_from(
        [
            # A port in two rows has the one that is told last: Ethernet32 would change with ours.
            merge('{"CABLE_LENGTH":{"RACK":{"Ethernet8":"40m"}}}'),
            "sudo pfcwd interval 100",
            "sudo pfcwd interval 300",
            merge('{"PFC_WD":{"GLOBAL":{"POLL_INTERVAL":"600","BIG_RED_SWITCH":"disable"}}}'),
            "sudo pfcwd start --action drop all 200 --restoration-time 200",
        ]
    ),
)
LENGTHS = st.dictionaries(st.sampled_from(PORTS), st.sampled_from([5, 40, 300]))
CABLED = st.builds(with_cables, st.sampled_from([LOSSLESS, WATCHED]), LENGTHS)
DESIRED = st.one_of(st.sampled_from(INTENTS), CABLED)


def refusal_of(exchange: Exchange, desired: SwitchState) -> str | None:
    try:
        apply(exchange, desired)
    except DeviceError as error:
        return str(error)
    return None


def _theirs(db: Db) -> Db:
    """What is not of our ports, fields of shared rows included."""
    kept = foreign(db)
    for key, fields in kept.get("CABLE_LENGTH", {}).items():
        kept["CABLE_LENGTH"][key] = {p: v for p, v in fields.items() if p not in PORTS}
    return kept


def _holds(switch: SonicSwitch, desired: SwitchState) -> None:
    """What the chip does, whatever the rows say."""
    poll = int(switch.stored.running.get("PFC_WD", {}).get("GLOBAL", {}).get("POLL_INTERVAL", 100))
    for name, port in desired.ports.items():
        view, qos = switch.port_view(name), switch.stored.running["PORT_QOS_MAP"][name]
        assert [view.dscp_to_priority[dscp] for dscp in (26, 48)] == [3, 6]
        assert [view.priority_to_tc[priority] for priority in (3, 6)] == [3, 6]
        assert (view.ecn_kib[3], port.mtu_bytes or 9100) == ((150, 1500), view.mtu_bytes)
        # In the dynamic model the buffer is the switch's own, which the lab does not compute.
        if "dynamic" not in str(switch.stored.running["DEVICE_METADATA"]):
            assert view.pfc_priorities == ({3} if desired.roce == "lossless" else set())
        if port.cable_m is not None:
            profile = f"pg_lossless_400000_{port.cable_m}m_profile"
            assert switch.stored.groups[name][3] == profile
        if port.pfc_watchdog:
            assert switch.stored.watchdogs[name][3] == "drop"
            assert "3" in qos["pfcwd_sw_enable"].split(",")
            row = switch.stored.running["PFC_WD"][name]
            assert min(int(row["detection_time"]), int(row["restoration_time"])) >= poll


@settings(max_examples=30, deadline=None)
@given(
    others=HISTORIES,
    history=st.one_of(st.just(list[str]()), st.lists(LINES, max_size=10)),
    desired=DESIRED,
    qos=st.booleans(),
    newer=st.booleans(),
    boots=st.booleans(),
)
def test_whatever_was_there_apply_settles_and_undo_is_exact(
    *,
    others: list[str],
    history: list[str],
    desired: SwitchState,
    qos: bool,
    newer: bool,
    boots: bool,
) -> None:
    takes = ("qos clear", "buffer_model", '"1m"')
    if any(port.cable_m or port.pfc_watchdog for port in desired.ports.values()):
        others, qos = without(others, *takes), True
    else:  # an older switch takes a length that came before us when PFC of the port is written
        history = without(history, "CABLE_LENGTH")
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder), qos=qos)
        switch.database.acts_on_length = newer
        vlans = ["sudo config vlan add 10", "sudo config vlan add 20"]
        for line in (*vlans, *others, *history, "sudo config save -y"):
            switch.run_line(line)
        first, before = switch.snapshot(), copy.deepcopy(switch.stored.running)
        views = [switch.port_view(port) for port in before["PORT"]]
        exchange = talk(switch)
        baseline = baseline_of(exchange, desired)
        refusal = refusal_of(exchange, desired)
        if refusal is not None:
            # The one thing that no line of ours can give: room for lossless buffers.
            assert (desired.roce, "buffer" in refusal) == ("lossless", True)
            assert not qos or without(others, *takes) != others
            assert switch.snapshot() == first
            return
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        assert _theirs(switch.stored.running) == _theirs(before)
        _holds(switch, desired)
        if boots:
            switch.reload()
            _holds(switch, desired)
            exchange = talk(switch)
            assert apply(exchange, desired) == (), "the same after a boot"
        restore(exchange, desired, baseline)
        assert switch.snapshot() == first
        if not (boots or history):
            assert [switch.port_view(port) for port in before["PORT"]] == views
        assert switch.unmodelled == ()


@settings(max_examples=10, deadline=None)
@given(
    history=st.lists(LINES, max_size=6),
    before=DESIRED,
    after=DESIRED,
    keep=st.integers(1, 4),
    newer=st.booleans(),
)
def test_an_edit_gives_back_what_it_drops(
    *, history: list[str], before: SwitchState, after: SwitchState, keep: int, newer: bool
) -> None:
    after = after.model_copy(update={"ports": {name: after.ports[name] for name in PORTS[:keep]}})
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        switch.database.acts_on_length = newer
        # A length that nobody made the switch look at comes into force with the next PFC (WHY.md).
        looked_at = [line for line in history if "CABLE_LENGTH" not in line or "&&" in line]
        for line in (*looked_at, "sudo config save -y"):
            switch.run_line(line)
        first, rows = switch.snapshot(), copy.deepcopy(switch.stored.running)
        exchange = talk(switch)
        baseline = baseline_of(exchange, before)
        apply(exchange, before)
        edit(exchange, before, after, baseline)
        assert diff_states(exchange.read(after).state, after) == ()
        now = switch.stored.running
        for name in PORTS:
            port = after.ports.get(name, PortState())
            lengths = (db["CABLE_LENGTH"]["AZURE"].get(name) for db in (now, rows))
            assert port.cable_m is not None or len({*lengths}) == 1
            watchdogs = [db.get("PFC_WD", {}).get(name) for db in (now, rows)]
            assert port.pfc_watchdog is not None or watchdogs[0] == watchdogs[1]
            if name not in after.ports:
                assert now["PORT_QOS_MAP"][name] == rows["PORT_QOS_MAP"][name]
                assert f"{name}|3" not in now["BUFFER_PG"]
        restore(exchange, after, baseline)
        assert switch.snapshot() == first


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


def test_the_lines_and_their_order(switch: SonicSwitch) -> None:
    desired = with_cables(WATCHED, {"Ethernet0": 40})
    lines = apply(talk(switch), desired)
    first, second, third, *rest = [rows_of(line) for line in lines[:3]]
    assert (len(lines) <= 6, rest) == (True, [])
    assert first["CABLE_LENGTH"] == {"AZURE": {"Ethernet0": "40m"}}
    assert not {"PORT", "PORT_QOS_MAP", "PFC_WD"} & {*first}, "buffers are made by what comes after"
    assert second["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "3"
    assert "PFC_WD" not in second, "a watchdog takes the list that is there"
    times = {"action": "drop", "detection_time": "200", "restoration_time": "200"}
    assert third["PFC_WD"] == dict.fromkeys(PORTS, times)
    assert third["PORT"] == {port: {"mtu": "9216"} for port in PORTS}


def test_a_new_length_alone_touches_the_port(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSLESS)
    desired = with_cables(LOSSLESS, {"Ethernet0": 40, "Ethernet8": 5})
    lines = apply(exchange, desired)
    ports = ("Ethernet0", "Ethernet8")
    assert rows_of(lines[0]) == {"CABLE_LENGTH": {"AZURE": {"Ethernet0": "40m", "Ethernet8": "5m"}}}
    assert rows_of(lines[1]) == {"PORT": {port: {"mtu": "9216"} for port in ports}}
    assert "Ethernet0|3-4" in rows_of(lines[2])["BUFFER_PG"], "the template's row covers 3 as well"
    _holds(switch, desired)


def test_a_port_without_a_field_to_touch_gets_pfc_anew(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    bare = LOSSLESS.model_copy(
        update={
            "ports": {
                name: port.model_copy(update={"mtu_bytes": None, "admin_up": None})
                for name, port in LOSSLESS.ports.items()
            }
        }
    )
    apply(exchange, bare)
    for field in ("mtu", "admin_status"):
        switch.run_line(f"sudo sonic-db-cli CONFIG_DB HDEL 'PORT|Ethernet0' {field}")
    desired = with_cables(bare, {"Ethernet0": 40})
    done = exchange.converge(desired, lambda r: target_of_apply(r.state, desired))
    assert {"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": ""}}} in map(rows_of, done.lines)
    assert done.interrupts == (), "a port without admin_status is down"
    _holds(switch, desired)


def test_a_length_that_the_platform_does_not_know_is_taken_back(switch: SonicSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSLESS)
    first = switch.snapshot()
    with pytest.raises(DeviceError, match="still differs") as caught:
        apply(exchange, with_cables(LOSSLESS, {"Ethernet8": 7}))
    assert "cable_m: was 300, should be 7, is 300" in str(caught.value)
    assert "the previous values were put back" in str(caught.value)
    assert switch.snapshot() == first


def test_where_nothing_said_a_length_nothing_is_made_of_it_afterwards(switch: SonicSwitch) -> None:
    for line in (
        "sudo sonic-db-cli CONFIG_DB DEL 'CABLE_LENGTH|AZURE'",
        merge('{"CABLE_LENGTH":{"AZURE":{"Ethernet0":"0m"}}}'),
        *(f"sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|{port}|3-4'" for port in PORTS),
        "sudo sonic-db-cli CONFIG_DB DEL 'CABLE_LENGTH|AZURE'",
        "sudo config save -y",
    ):
        switch.run_line(line)
    first, exchange = switch.snapshot(), talk(switch)
    desired = with_cables(LOSSLESS, dict.fromkeys(PORTS, 40))
    baseline = baseline_of(exchange, desired)
    apply(exchange, desired)
    _holds(switch, desired)
    restore(exchange, desired, baseline)
    assert switch.snapshot() == first
    switch.run_line("sudo config interface mtu Ethernet0 9000")
    assert "Ethernet0|3-4" not in switch.stored.running["BUFFER_PG"]


def test_a_watchdog_that_forwards_ends_and_starts_anew(switch: SonicSwitch) -> None:
    switch.run_line("sudo pfcwd start --action forward --restoration-time 600 Ethernet8 300")
    lines = apply(talk(switch), WATCHED)
    assert lines.count("sudo sonic-db-cli CONFIG_DB DEL 'PFC_WD|Ethernet8'") == 1
    assert not any("'PFC_WD|Ethernet0'" in line for line in lines)
    assert switch.stored.running["PFC_WD"]["Ethernet8"] == {
        "action": "drop",
        "detection_time": "300",
        "restoration_time": "600",
        "pfc_stat_history": "disable",
    }
    assert switch.stored.watchdogs["Ethernet8"] == {3: "drop", 4: "drop"}


def test_a_list_without_the_priority_is_made_ours(switch: SonicSwitch) -> None:
    desired = plan_fabric(load_spec(pfc_watchdog=True, dscp=40))[0].desired
    exchange = talk(switch)
    apply(exchange, WATCHED)
    apply(exchange, desired)
    assert switch.stored.running["PORT_QOS_MAP"]["Ethernet0"]["pfcwd_sw_enable"] == "5"
    assert switch.stored.watchdogs["Ethernet0"] == {5: "drop"}


def test_a_file_with_both(switch: SonicSwitch) -> None:
    spec = load_spec(pfc_watchdog=True)
    ports = dict(spec.switches[0].ports)
    for name, update in (
        ("Ethernet0", {"cable_length_m": 6}),
        ("Ethernet8", {"cable_length_m": 300, "pfc_watchdog": False}),
    ):
        ports[name] = ports[name].model_copy(update=update)
    leaf = spec.switches[0].model_copy(update={"ports": ports})
    plan = plan_fabric(spec.model_copy(update={"switches": (leaf,)}))[0]
    found = [(port.cable_m, port.pfc_watchdog) for port in plan.desired.ports.values()]
    assert found == [(40, True), (300, None), (None, True), (None, True)]
    assert plan.desired.roce_cable_m is None
    lines = plan.commands_from_factory
    lengths = {"AZURE": {"Ethernet0": "40m", "Ethernet8": "300m"}}
    assert sent_rows(lines)["CABLE_LENGTH"] == lengths
    apply(talk(switch), plan.desired)
    assert {*switch.stored.watchdogs} == {"Ethernet0", "Ethernet16", "Ethernet24"}
    _holds(switch, plan.desired)


def test_drift_is_told_in_words(switch: SonicSwitch) -> None:
    exchange, desired = talk(switch), with_cables(WATCHED, {"Ethernet0": 40})
    apply(exchange, desired)
    switch.run_line("sudo pfcwd stop Ethernet8")
    switch.run_line(_length_line("Ethernet0", "5m"))
    found = [str(each) for each in diff_states(exchange.read(desired).state, desired)]
    assert "pfc_watchdog of port Ethernet8 is off, want on" in found
    assert "cable_m of port Ethernet0 is absent, want 40" in found
