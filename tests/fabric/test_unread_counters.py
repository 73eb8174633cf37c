"""Counters in a form that no source shows: it is kept as it is, and the rest counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.acceptance.acceptance_plan import HopPlan
from components.acceptance.collect.counters import Snapshot, flatten_port, measure_hop
from components.acceptance.evidence import HopRole
from components.fabric.systems import system_of
from components.fabric.systems.base import PortCounters, Unread
from components.fabric.systems.onyx import system as show
from components.fabric.systems.onyx.rows import CONGESTION

FORMS = Path(__file__).parent / "forms" / "eos"
TOTALS = (
    "Eth1/1:\n  Rx:\n    7  packets\n    5000  bytes\n    2  discard packets\n"
    "  Tx:\n    9000  bytes\n"
)
OTHER_FORM = "Eth1/1 priority 3 | rx octets 4700 | tx octets 8800\n"
ROCE = [{"Eth1/1": [{"Rx": [{"RoCE PG bytes": "4700"}]}, {"Tx": [{"RoCE TC bytes": "8800"}]}]}]


def onyx(received: str = "", sent: str = "", roce: str = "[]") -> PortCounters:
    """What is read of a port whose answers are these; empty for the form that the driver knows."""
    answers = {
        show.TOTALS: TOTALS,
        CONGESTION.format("1/1"): "[]",
        show.ROCE_COUNTERS.format("1/1"): roce,
    }
    for number in range(8):
        count = 4700 if number == 3 else 0
        known = f"Eth1/1:\n  PFC {number}:\n  Rx:\n    {count}  bytes\n  Tx:\n    0  bytes\n"
        answers[show.OF_PRIORITY.format(number)] = received or known
        known = f"Eth1/1:\n  TC {number}:\n    {2 * count}  bytes\n"
        answers[show.OF_CLASS.format(number)] = sent or known
    return system_of("onyx").counters(("1/1",)).parse(answers)["1/1"]


def test_the_class_of_roce_is_the_second_way_of_counting() -> None:
    found = onyx(received=OTHER_FORM, sent=OTHER_FORM, roce=json.dumps(ROCE))
    counted = {number: (c.rx_bytes, c.tx_bytes) for number, c in found.by_priority.items()}
    assert counted == {3: (4700, 8800), 0: (300, 200)}
    assert {each.way for each in found.unread} == {"marked", "pauses"}


@pytest.mark.parametrize("roce", ["[]", "no JSON", "% Unrecognized", '{"RoCE PG bytes": {}}'])
def test_without_a_second_way_the_answer_is_kept(roce: str) -> None:
    found = onyx(received=OTHER_FORM, roce=roce)
    assert found.by_priority[3].rx_bytes is None
    assert found.by_priority[3].tx_bytes == 9400
    assert found.rx_discards == 2
    assert any(each.text == OTHER_FORM for each in found.unread if each.way == "rx")


@pytest.mark.parametrize(
    ("role", "status"), [("switch_ingress", "not_observed"), ("switch_egress", "observed")]
)
def test_only_the_hop_of_the_unread_counters_is_not_proven(role: HopRole, status: str) -> None:
    port = onyx(received=OTHER_FORM)
    later = {**flatten_port(port), "tx_tc3_bytes": 99_400}
    place: tuple[str, str] = ("leaf-01", "1/1")
    unread: dict[tuple[str, str], tuple[Unread, ...]] = {place: port.unread}
    before = Snapshot({place: flatten_port(port)}, unread=unread)
    hop = measure_hop(HopPlan("r", "a -> b", role, *place), before, Snapshot({place: later}))
    assert hop.status == status
    assert ("rx octets 4700" in hop.detail) == (status == "not_observed")


def test_eos_counters_under_another_name_leave_the_totals() -> None:
    driver = system_of("eos")
    totals, discards, errors, sent, marked, pauses, storms = driver.counters(["Ethernet1"]).commands
    queues = {"egressQueueCounters": {"interfaces": {"Ethernet1": {"queued": 4}}}}
    answers = {
        totals: json.dumps({"interfaces": {"Ethernet1": {"inOctets": 4700}}}),
        discards: json.dumps({"interfaces": {"Ethernet1": {"inDiscards": 1}}}),
        errors: (FORMS / "show_interfaces_counters_errors.json").read_text(),
        sent: json.dumps(queues),
        marked: "{}",
        pauses: "% Invalid input",
        storms: json.dumps({"interfaces": {}}),
    }
    found = driver.counters(["Ethernet1"]).parse(answers)["Ethernet1"]
    assert found.rx_bytes == 4700
    assert "tx" in {each.way for each in found.unread}
    assert "queued" in next(each.text for each in found.unread if each.way == "tx")
    assert "pauses" in {each.way for each in found.unread}
    assert (found.pauses, found.storms[3]) == ({}, 0)
    assert found.errors == {"fcsErrors": 3, "symbolErrors": 1}
