"""Answers of SONiC in their real form: what we read, and that the emulator prints the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from components.fabric.state import Neighbour
from components.fabric.systems.base import Answer, PauseCounters, Unreadable
from components.fabric.systems.sonic import system as counters
from lab.switches.sonic.config import PLATFORMS, factory_db
from lab.switches.sonic.show import table
from tests.fabric.sonic_lab import make_switch, talk

FORMS = Path(__file__).parent / "forms" / "sonic"


def form(name: str) -> str:
    return (FORMS / name).read_text()


def test_pauses() -> None:
    text = form("show_pfc_counters.txt")
    found = counters.parse_pauses(text, "Ethernet4")
    assert (found[0], found[7]) == (PauseCounters(1400, 1410), PauseCounters(407, 417))
    before_the_first_poll = text.replace("  803", "  N/A")
    assert {*counters.parse_pauses(before_the_first_poll, "Ethernet8")} == {*range(8)} - {3}


def test_storms() -> None:
    text = form("show_pfcwd_stats.txt")
    assert counters.parse_storms(text, "Ethernet8") == dict.fromkeys(range(8), 0) | {4: 3}
    assert counters.parse_storms(text, "Ethernet40")[3] == 0


def test_queues_and_drops() -> None:
    told = answers()
    found = counters.port_counters("Ethernet0", told)
    queues = json.loads(told[counters.QUEUES])["Ethernet0"]
    sent = {tc: (each.rx_bytes, each.tx_bytes) for tc, each in found.by_priority.items()}
    assert sent == {
        n: (None, int(queues[f"UC{n}"]["totalbytes"].replace(",", ""))) for n in range(8)
    }
    assert (found.rx_discards, found.unread) == (sum(range(800, 808)), ())
    marked = json.loads(told[counters.MARKS])["Ethernet0"]
    assert found.ecn_marked == sum(int(marked[f"UC{n}"]["ecnmarkedpacket"]) for n in range(8))


def answers() -> dict[str, str]:
    return {
        counters.QUEUES: form("show_queue_counters.json"),
        counters.DROPS: form("show_priority-group_drop_counters.txt"),
        counters.PAUSES: form("show_pfc_counters.txt"),
        counters.STORMS: form("show_pfcwd_stats.txt"),
        counters.MARKS: form("show_queue_wredcounters.json"),
    }


@pytest.mark.parametrize(
    ("command", "text", "why"),
    [
        (counters.QUEUES, "Port doesn't exist! Ethernet0", "not a table of queues"),
        (counters.QUEUES, "{}", "no unicast queue of Ethernet0"),
        (counters.DROPS, "COUNTERS_PORT_NAME_MAP is empty!", "lacks the row of Ethernet0"),
    ],
)
def test_counters_of_another_form_are_shown_raw(command: str, text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        counters.port_counters("Ethernet0", {**answers(), command: text})
    assert caught.value.text == text


OLDER = (
    'Usage: show queue [OPTIONS] COMMAND [ARGS]...\nTry "show queue -h" for help.\n\n'
    'Error: No such command "wredcounters".\n[status 2]\n'
)


@pytest.mark.parametrize(
    ("command", "text", "ways"),
    [
        (counters.PAUSES, "", ["pauses"]),
        (counters.PAUSES, form("show_pfc_counters.txt").partition("Port Tx")[0], ["pauses"]),
        (counters.STORMS, "Usage: show [OPTIONS]", ["storms"]),
        (counters.MARKS, "{}", ["marked"]),
        (counters.MARKS, form("show_queue_counters.json"), ["marked"]),
        # An older release, and a chip that counts none: no fault.
        (counters.MARKS, OLDER, []),
        (counters.MARKS, '{"Ethernet0": {"UC3": {"ecnmarkedpacket": "N/A"}}}', []),
    ],
)
def test_an_answer_of_another_form_takes_no_other_counter_along(
    command: str, text: str, ways: list[str]
) -> None:
    found = counters.port_counters("Ethernet0", {**answers(), command: text})
    assert [(each.way, each.command) for each in found.unread] == [(way, command) for way in ways]
    assert found.rx_discards == sum(range(800, 808))
    assert (found.ecn_marked is None) is (command == counters.MARKS)
    assert (found.pauses == {}) is (command == counters.PAUSES)
    assert (found.storms == {}) is (command == counters.STORMS)


def test_marks_count_from_their_release_on_once_they_are_polled(tmp_path: Path) -> None:
    switch = make_switch(tmp_path, release="202505")
    switch.add_counters("Ethernet0", 3, tx_bytes=2_000_000, ecn_marked=4)
    exchange = talk(switch)
    before = exchange.read_counters(["Ethernet0"])["Ethernet0"]
    assert (before.ecn_marked, before.unread) == (None, ())
    switch.run_line("sudo counterpoll wredqueue enable")
    assert exchange.read_counters(["Ethernet0"])["Ethernet0"].ecn_marked == 4


@pytest.mark.parametrize("gone", ["  -----------------\nEthernet0", "LocalPort"])
def test_neighbours_of_other_columns_are_shown_raw(gone: str) -> None:
    text = form("show_lldp_table.txt").partition(gone)[0] + "\nEthernet0    leaf-02\n"
    with pytest.raises(Unreadable, match="not a table of neighbours") as caught:
        counters.parse_neighbours(Answer("show lldp table", text))
    assert caught.value.text == text


def test_neighbours() -> None:
    """Two of them on one port: the last one counts."""
    found = counters.parse_neighbours(Answer("show lldp table", form("show_lldp_table.txt")))
    assert found == {
        "Ethernet0": Neighbour(system="dummy", port="00:00:00:00:00:02", description="Second MAC")
    }


def test_the_release() -> None:
    assert counters.parse_release(form("sonic_version.yml")) == 202405


def test_speeds_of_ports() -> None:
    found = counters.parse_offers("dump", form("sonic-db-dump.json"))
    assert found["Ethernet0"] == {
        "supported_fecs": "rs",
        "supported_speeds": "100000,200000,400000",
    }


def cut(text: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table, by the rule below its head."""
    head, rule, *rows = text.splitlines()
    spans = [found.span() for found in re.finditer("-+", rule)]
    ends = [*(end for _, end in spans[:-1]), None]
    cells = [
        [line[start:end].strip() for (start, _), end in zip(spans, ends, strict=True)]
        for line in (head, *rows)
    ]
    return cells[0], cells[1:]


TABLES: Mapping[str, tuple[str, int]] = {
    "show_interfaces_status.txt": (counters.STATUS, -1),
    "show_priority-group_drop_counters.txt": (counters.DROPS, -1),
    "show_pfcwd_stats.txt": (counters.STORMS, -1),
    "show_pfc_counters.txt": (counters.PAUSES, -1),
    "show_lldp_table.txt": (counters.NEIGHBOURS, 0),
}
"""Form to its command, and to how many of its columns are at the right; all if negative."""


def blocks(text: str) -> list[str]:
    """The tables of an answer, each with its head."""
    found = re.finditer(r"^.*\n-[- ]+-\n(?: *Ethernet.*\n|PortCh.*\n)*", text, re.MULTILINE)
    return [each[0] for each in found]


@pytest.mark.parametrize("name", TABLES)
def test_the_emulator_prints_tables_byte_for_byte_and_what_is_around_them(
    name: str, tmp_path: Path
) -> None:
    switch, (command, right) = make_switch(tmp_path), TABLES[name]
    switch.add_pauses("Ethernet0", 3, rx=1, tx=1, storms=1)
    printed, real = switch.session().run(command), form(name)
    assert blocks(real)
    for one, other in zip(blocks(printed), blocks(real), strict=True):
        head, rows = cut(other)
        assert table(head, rows, right=right) == other
        assert cut(one)[0] == head
        printed, real = printed.replace(one, "#"), real.replace(other, "#")
    assert re.sub(r"\d+", "0", printed) == re.sub(r"\d+", "0", real)


def shape(value: Any) -> object:  # noqa: ANN401 - JSON
    """The keys of a document; of ports and queues, one of each kind."""
    if not isinstance(value, dict):
        return ""
    held = cast("dict[str, Any]", value)
    return {re.sub(r"\d+", "", key): shape(each) for key, each in held.items()}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("show_queue_counters.json", counters.QUEUES),
        ("show_queue_wredcounters.json", counters.MARKS),
        ("sonic-db-dump.json", "sonic-db-dump -n STATE_DB -y -k 'PORT_TABLE|*'"),
    ],
)
def test_the_emulator_prints_the_same_keys(name: str, command: str, tmp_path: Path) -> None:
    switch = make_switch(tmp_path, release="202505")
    printed = switch.session().run(command)
    real, mine = (
        cast("dict[str, dict[str, object]]", shape(json.loads(text)))
        for text in (form(name), printed)
    )
    for port, kinds in real.items():
        for kind, keys in kinds.items():
            assert kind not in mine[port] or mine[port][kind] in (keys, "")
        assert {*kinds} - {*mine[port]} <= {"ALL", "MC"}, "queues that we do not read"
    space = len(printed.splitlines()[1]) - len(printed.splitlines()[1].lstrip())
    assert space == len(form(name).splitlines()[1]) - len(form(name).splitlines()[1].lstrip())


def test_the_factory_has_the_rows_of_the_preset() -> None:
    """`generate_t1_sample_config` of config_samples.py, sonic-buildimage 202405 (cfc766e1)."""
    db = factory_db("sonic", PLATFORMS["Z9332F"], "t1")
    assert {*db["LOOPBACK_INTERFACE"]} == {"Loopback0", "Loopback0|10.1.0.1/32"}
    assert len(db["INTERFACE"]) == 2 * len(db["PORT"]) == 2 * len(db["BGP_NEIGHBOR"])
    last = [*db["PORT"]][-1]
    assert f"{last}|10.0.0.62/31" in db["INTERFACE"]
    first, end = (db["BGP_NEIGHBOR"][f"10.0.0.{number}"] for number in (1, 63))
    assert (first["name"], first["asn"], first["local_addr"]) == ("ARISTA01T2", "65200", "10.0.0.0")
    assert (end["name"], end["asn"], end["holdtime"]) == ("ARISTA16T0", "64016", "180")
    assert db["DEVICE_METADATA"]["localhost"]["bgp_asn"] == "65100"
