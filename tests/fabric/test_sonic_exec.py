"""What only SONiC's exec does: refuse before it changes, and leave to others what is theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.fabric.targets import LONGEST, plan_exec, why_no_exec
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.fabric_lab import routed_of
from tests.fabric.sonic_lab import PORTS, make_switch, talk
from tests.fabric.test_exec_plan import StatusError, plan_of, send, texts_of
from tests.fabric.test_sonic_exchange import foreign, merge


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


def type_lines(switch: SonicSwitch, *lines: str) -> None:
    session = switch.session()
    for line in lines:
        session.run(line)
        assert session.status == 0, line


def apply(switch: SonicSwitch) -> str:
    return send("sonic", switch, texts_of("sonic").apply)


def undo(switch: SonicSwitch) -> str:
    return send("sonic", switch, texts_of("sonic").undo)


RANGE = merge('{"QUEUE":{"Ethernet0|3-4":{"wred_profile":"AZURE_LOSSLESS"}}}')
SEVERAL = merge('{"PORT_QOS_MAP":{"Ethernet0,Ethernet8":{"pfc_enable":"3"}}}')
ROUTED = merge('{"INTERFACE":{"Ethernet8":{},"Ethernet8|10.0.0.0/31":{}}}')
DYNAMIC = merge('{"DEVICE_METADATA":{"localhost":{"buffer_model":"dynamic"}}}')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (RANGE, r"^QUEUE\|Ethernet0\|3-4\nError: these rows are one for several queues"),
        (SEVERAL, r"^PORT_QOS_MAP\|Ethernet0,Ethernet8\nError: these rows are one for several"),
        (ROUTED, r"INTERFACE\|Ethernet8\|10.0.0.0/31\nError: these rows"),
        (DYNAMIC, "^Error: the buffer model is dynamic"),
        ("sudo config qos clear", "^Error: no ingress_lossless_pool - run sudo config qos reload"),
        ("sudo sonic-db-cli CONFIG_DB DEL 'PORT|Ethernet16'", "Error: a port of the file is not"),
        (["lock", "bob"], "^a config reload or another update is running\n$"),
        (["sudo-password", "on"], "^sudo: a password is required\n$"),
    ],
)
def test_what_it_cannot_mend_is_refused_before_it_changes(
    switch: SonicSwitch, line: str | list[str], words: str
) -> None:
    if isinstance(line, str):
        type_lines(switch, line)
    else:
        switch.fault(line)
    first = switch.snapshot()
    with pytest.raises(StatusError, match=words):
        apply(switch)
    assert switch.snapshot() == first
    assert switch.unmodelled == ()


def test_vlans_that_a_port_of_the_file_was_in_are_left(switch: SonicSwitch) -> None:
    type_lines(
        switch,
        "sudo config vlan add 10",
        "sudo config vlan add 111",
        "sudo config vlan member add -u 10 Ethernet0",
        "sudo config vlan member add 10 Ethernet8",
        "sudo config vlan member add 111 Ethernet16",
        "sudo config vlan member add -u 10 Ethernet40",
    )
    apply(switch)
    members = switch.stored.running["VLAN_MEMBER"]
    assert {*members} == {"Vlan10|Ethernet40", *(f"Vlan111|{port}" for port in PORTS)}
    assert {members[f"Vlan111|{port}"]["tagging_mode"] for port in PORTS} == {"untagged"}


def test_a_second_exec_moves_no_member(switch: SonicSwitch) -> None:
    apply(switch)
    switch.fault(["reject", "DEL VLAN_MEMBER"])
    assert {*apply(switch).splitlines()} == {"0", "applied"}


def test_pfc_is_on_the_priority_of_the_dscp_and_on_no_other(switch: SonicSwitch) -> None:
    apply(switch)
    for port in PORTS:
        view = switch.port_view(port)
        assert view.pfc_priorities == {view.dscp_to_priority[26]} == {3}
    assert switch.port_view("Ethernet32").pfc_priorities == {3, 4}


def test_undo_without_a_template_leaves_no_qos(tmp_path: Path) -> None:
    switch, texts = make_switch(tmp_path, qos=False), texts_of("sonic", "lossy_ecn")
    before = switch.snapshot()
    for text in (texts.apply, texts.undo):
        send("sonic", switch, text)
    assert switch.snapshot() == before


@pytest.mark.parametrize(
    "extra",
    [
        ["sudo config vlan member add -u 111 Ethernet40"],
        [merge('{"VLAN_INTERFACE":{"Vlan111":{},"Vlan111|10.0.0.1/24":{}}}')],
    ],
)
def test_undo_leaves_what_others_use_by_now(switch: SonicSwitch, extra: list[str]) -> None:
    """`config vlan del` refuses a VLAN with members or addresses (sonic-utilities 202205)."""
    apply(switch)
    type_lines(
        switch, *extra, merge('{"PORT_QOS_MAP":{"Ethernet40":{"dscp_to_tc_map":"RAILYARD"}}}')
    )
    theirs = foreign(switch.stored.running)
    undo(switch)
    db = switch.stored.running
    assert {*db.get("VLAN_MEMBER", {})} <= {"Vlan111|Ethernet40"}
    assert "Vlan111" in db["VLAN"]
    assert "RAILYARD" in db["DSCP_TO_TC_MAP"]
    assert foreign(db) == theirs


def test_undo_ends_if_a_vlan_cannot_be_deleted_for_another_reason(switch: SonicSwitch) -> None:
    """Members and addresses are the reasons that `config vlan del` is known to give."""
    apply(switch)
    saved = switch.stored.saved
    switch.fault(["reject", "config vlan del 111"])
    with pytest.raises(StatusError, match="config vlan del 111"):
        undo(switch)
    assert switch.stored.saved == saved


def test_a_buffer_that_the_switch_never_made_is_seen_by_the_next_look_only(
    switch: SonicSwitch,
) -> None:
    """The limit of decision 13: nothing is read after an exec."""
    type_lines(
        switch,
        merge('{"CABLE_LENGTH":{"AZURE":{"Ethernet8":"7m"}}}'),
        "sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|Ethernet8|3-4'",
    )
    assert apply(switch).endswith("applied\n")
    desired = plan_of("sonic").desired
    (left,) = diff_states(talk(switch).read(desired).state, desired)
    assert str(left) == "priority_3_buffer of port Ethernet8 is absent, want lossless"


@pytest.mark.parametrize("mode", ["lossless", "lossy_ecn"])
def test_bash_can_read_it(mode: str) -> None:
    texts = texts_of("sonic", mode)
    for text in (texts.apply, texts.save, texts.undo):
        done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_all_parts_of_a_large_switch_fit_into_one_argument() -> None:
    desired = plan_of("sonic").desired
    port = desired.ports["Ethernet8"]
    ports = {f"Ethernet{number}": port for number in range(0, 256, 2)}
    texts = plan_exec("sonic", desired.model_copy(update={"ports": ports}))
    assert texts is not None
    assert max(len(texts.apply), len(texts.undo)) <= LONGEST


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        (plan_of("sonic", pfc_watchdog=True).desired, "put back PFC watchdogs"),
        (plan_fabric(routed_of("sonic"))[0].desired, "put back addresses and BGP"),
    ],
)
def test_what_it_could_not_put_back_has_no_exec(desired: SwitchState, words: str) -> None:
    assert words in (why_no_exec("sonic", desired) or "")
    assert plan_exec("sonic", desired) is None
