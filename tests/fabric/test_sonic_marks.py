"""Packets that SONiC marked: what each release and chip answers, and what is read of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.fabric.systems.base import PortCounters, Unreadable
from components.fabric.systems.sonic.counters import parse_marks, with_marks
from tests.fabric.sonic_lab import make_switch, talk


def _queue(packets: str, octets: str) -> dict[str, str]:
    return {"ecnmarkedbytes": octets, "ecnmarkedpacket": packets}


PUBLISHED = json.dumps(
    {
        "Ethernet0": {
            "ALL20": _queue("N/A", "N/A"),
            "MC10": _queue("74", "9"),
            "UC0": _queue("0", "0"),
            "UC1": _queue("39", "1"),
            "UC2": _queue("1,039", "21"),
            "UC3": _queue("19", "76"),
            "UC4": _queue("12", "94"),
            "UC5": _queue("35", "40"),
            "UC6": _queue("2", "88"),
            "UC7": _queue("94", "74"),
            "UC8": _queue("95", "33"),
            "time": "2025-05-01T10:00:00",
        },
        "Ethernet8": {"UC3": _queue("N/A", "N/A"), "cached_time": "2025-05-01T09:00:00"},
    }
)
"""Keys and forms of sonic-utilities, tests/wred_queue_counter_test.py."""
OLDER = (
    'Usage: show queue [OPTIONS] COMMAND [ARGS]...\nTry "show queue -h" for help.\n\n'
    'Error: No such command "wredcounters".\n[status 2]\n'
)


def test_the_unicast_queues_together() -> None:
    assert parse_marks(PUBLISHED, "Ethernet0") == 1240


@pytest.mark.parametrize(("text", "port"), [(PUBLISHED, "Ethernet8"), (OLDER, "Ethernet0")])
def test_a_chip_or_a_release_that_counts_none_is_no_fault(text: str, port: str) -> None:
    found = with_marks(port, PortCounters({}, None, 7), text)
    assert (found.ecn_marked, found.rx_discards, found.unread) == (None, 7, ())


@pytest.mark.parametrize("text", ["", "{}", PUBLISHED.replace("ecnmarkedpacket", "ecn"), "Error"])
def test_another_form_takes_no_other_counter_along(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_marks(text, "Ethernet0")
    found = with_marks("Ethernet0", PortCounters({}, None, 7), text)
    assert (found.ecn_marked, found.rx_discards) == (None, 7)
    assert [(each.way, each.command) for each in found.unread] == [
        ("marked", "show queue wredcounters --json")
    ]


def test_they_count_from_their_release_on_once_they_are_polled(tmp_path: Path) -> None:
    switch = make_switch(tmp_path, release="202505")
    switch.add_counters("Ethernet0", 3, tx_bytes=2_000_000, ecn_marked=4)
    exchange = talk(switch)
    before = exchange.read_counters(["Ethernet0"])["Ethernet0"]
    assert (before.ecn_marked, before.unread) == (None, ())
    switch.run_line("sudo counterpoll wredqueue enable")
    assert exchange.read_counters(["Ethernet0"])["Ethernet0"].ecn_marked == 4
    assert switch.unmodelled == ()
