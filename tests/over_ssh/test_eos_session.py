"""What only EOS does over SSH: a commit with a timer, its pager, its exec requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DeviceError, UnreachableError
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("eos", tmp_path) as room:
        yield room


def test_drift_of_the_map_is_seen_and_repaired(room: SwitchRoom) -> None:
    assert len(room.baseline()["ports"]) == 64
    room.apply()
    room.switch.fault(["trust", "Ethernet2/1", "L2"])
    room.switch.fault(["cli", "qos map dscp 26 to traffic-class 1"])
    assert sorted(map(str, room.drift())) == [
        "dscp_26_class of switch is 1, want 3",
        "trust of port Ethernet2/1 is L2, want L3",
    ]
    assert room.apply()["changed"] == [
        "trust of port Ethernet2/1: L2 -> L3",
        "dscp_26_class of switch: 1 -> 3",
    ]


def test_a_rejected_line_leaves_no_candidate(room: SwitchRoom) -> None:
    room.switch.fault(["reject", "priority 3 no-drop"])
    with pytest.raises(DeviceError, match="switch  % Internal error\n"):
        room.apply()
    assert room.switch.config_sessions.held == {}


def test_the_next_run_need_not_wait_for_the_timer(room: SwitchRoom) -> None:
    lines = room.lab.plan.commands_from_factory
    begin, end = lines.index("configure session railyard-1"), lines.index("commit timer 00:05:00")
    configuring = [line for line in lines[begin + 1 : end] if not line.startswith(("exit", "show"))]
    room.switch.fault(["drop", str(len(configuring) + 1)])
    with pytest.raises(
        UnreachableError, match="itself restores the previous configuration within 300 s"
    ):
        room.apply()
    assert room.switch.port_view("Ethernet1/1").pfc_priorities == {3}, "committed, unconfirmed"
    room.apply()
    room.clock.now_s = 301
    assert room.switch.port_view("Ethernet1/1").pfc_priorities == {3}
    assert room.switch.stored.startup == room.switch.stored.running


@pytest.mark.parametrize(
    ("lines", "output"),
    [
        (("enable", "terminal length 0"), "Pagination disabled.\n"),
        (("enable", "show nonsense"), "% Invalid input\n"),
        (("show running-config",), "% Invalid input\n"),
        (("enable", "configure session a-long-name", "interface Ethernet1/1", "exit"), ""),
    ],
)
def test_what_a_line_prints(room: SwitchRoom, lines: tuple[str, ...], output: str) -> None:
    with room.session() as session:
        assert [session.run(line) for line in lines][-1] == output


def test_long_answers_are_whole_although_the_switch_pages(room: SwitchRoom) -> None:
    with room.session() as session:
        session.run("enable")
        text = session.run("show running-config")
        assert text.count("interface Ethernet") == 64
        assert "--More--" not in text
        assert text.endswith("end\n")


def test_a_login_that_nobody_prepared_is_paged(room: SwitchRoom) -> None:
    async def work() -> tuple[str, str]:
        async with room.connect() as connection:
            process = await connection.create_process(term_type="vt100")
            process.stdin.write("enable\nshow running-config\n")
            paged = await process.stdout.readuntil("--More-- ")
            process.stdin.write("q")
            rest = await process.stdout.readuntil("leaf-01#")
            return str(paged), str(rest)

    paged, rest = room.wait(work())
    assert "hostname leaf-01" in paged
    assert "Ethernet64/1" not in rest


def test_an_exec_request(room: SwitchRoom) -> None:
    text, status = room.exec("show vlan | json")
    assert ("1" in json.loads(text)["vlans"], status) == (True, 0)
