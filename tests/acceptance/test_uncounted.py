"""A switch system that counts no received bytes per priority, as SONiC."""

from __future__ import annotations

import pytest

from components.acceptance.acceptance_plan import HopPlan
from components.acceptance.collect.counters import Snapshot, flatten_port, measure_hop
from components.acceptance.evidence import Evidence
from components.acceptance.judge.path import Sent, judge_amount, show_size
from components.acceptance.judge.site import judge_evidence
from components.fabric.systems.base import PortCounters, PriorityCounters
from tests.acceptance.test_judge import change_hop
from tests.lab_physics.site import Site, take_evidence


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return take_evidence(Site())


def _port(sent: int) -> Snapshot:
    counted = PortCounters({3: PriorityCounters(None, sent)}, None, 0)
    return Snapshot({("leaf-01", "Ethernet0"): flatten_port(counted)})


def test_what_is_not_counted_is_left_out() -> None:
    counted = PortCounters({3: PriorityCounters(None, 7)}, None, 2)
    assert flatten_port(counted) == {"rx_discards": 2, "tx_tc3_bytes": 7}


def test_the_arrival_is_uncounted_and_the_departure_is_not() -> None:
    before, after = _port(0), _port(900)
    plan = HopPlan("rail-0", "gpu01 -> gpu02", "switch_ingress", "leaf-01", "Ethernet0")
    arrival = measure_hop(plan, before, after)
    assert (arrival.status, arrival.ecn_marked, arrival.discards) == ("uncounted", None, 0)
    assert arrival.total_bytes is None
    plan = HopPlan("rail-0", "gpu01 -> gpu02", "switch_egress", "leaf-01", "Ethernet0")
    departure = measure_hop(plan, before, after)
    assert (departure.status, departure.bytes_by_class) == ("observed", {3: 900})


def test_an_uncounted_arrival_is_judged_by_the_departure(evidence: Evidence) -> None:
    changes: dict[str, object] = {"status": "uncounted", "total_bytes": None, "bytes_by_class": {}}
    blind = change_hop(evidence, "switch_ingress", **changes)
    assert judge_evidence(blind).verdict_of("perftest-rail-0") == "passed"
    wrong = change_hop(blind, "switch_egress", bytes_by_class={0: 10**9}, total_bytes=10**9)
    assert judge_evidence(wrong).verdict_of("perftest-rail-0") == "failed"


def test_small_packets_have_more_headers() -> None:
    """RoCE v2 over IPv4 has 62 bytes beside 1024 of data: 6 %, and an acknowledgement as much."""
    sent = Sent(60 * 10**9, 60 * 10**9, is_certain=True)
    assert [judge_amount(sent, n * 10**9) for n in (62, 66, 100)] == ["passed", "error", "error"]
    sent = Sent(10**9, 10**9, is_certain=True)
    assert [judge_amount(sent, 1_150_000_000, mtu) for mtu in (4096, 1024)] == ["error", "passed"]


def test_bytes_of_others_beside_those_of_the_probe_prove_nothing(evidence: Evidence) -> None:
    """Twice as much arrived as a perftest says that it sent: whose bytes are they?"""
    sent = next(p.perftest.rows for p in evidence.probes if p.perftest)[0]
    seen = sent.size_bytes * sent.iterations * 2
    mixed = change_hop(evidence, "receiver_nic", total_bytes=seen, bytes_by_class={3: seen})
    report = judge_evidence(mixed)
    assert report.verdict_of("perftest-rail-0") == "error"
    (found,) = [
        each for each in report.findings
        if (each.subject, each.check) == ("perftest-rail-0", "traffic class")
    ]  # fmt: skip
    assert found.detail.endswith("cannot be judged because of other traffic")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_500_000, "1.5 MB"),
        (2 * 10**9, "2.0 GB"),
        (3 * 10**12, "3.0 TB"),
    ],
)
def test_amounts_are_shown_in_decimal_units(count: int, text: str) -> None:
    assert show_size(count) == text
