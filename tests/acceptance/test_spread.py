"""A link that carried nothing of many connections, and how many connections tell that."""

from __future__ import annotations

import pytest

from components.acceptance.evidence import (
    Hop,
    HopStatus,
    Outcome,
    Probe,
    ProbeEvidence,
    RoutingSeen,
)
from components.acceptance.judge.site import warn_spread
from components.acceptance.probes.probe_plan import flows_for, is_telling


@pytest.mark.parametrize(
    ("links", "flows"), [(0, 1), (1, 1), (2, 16), (4, 32), (8, 64), (16, 128), (32, 1)]
)
def test_a_test_has_as_many_connections_as_it_takes(links: int, flows: int) -> None:
    assert flows_for(links) == flows


def test_eight_connections_tell_of_two_links_and_not_of_four() -> None:
    assert [is_telling(flows, 2) for flows in (1, 7, 8)] == [False, False, True]
    assert not is_telling(8, 4)


def probe(
    *moved: int | None,
    flows: int = 16,
    outcome: Outcome = "completed",
    status: HopStatus = "observed",
    lost: str = "",
) -> ProbeEvidence:
    hops = tuple(
        Hop(
            rail="rail-0",
            direction="gpu01 -> gpu02",
            role="uplink_egress",
            device="leaf-01",
            interface=f"swp{51 + number}",
            total_bytes=count,
            status=status if not number else "observed",
        )
        for number, count in enumerate(moved)
    )
    seen = RoutingSeen(device="leaf-01", where=f"port {lost}", what="it is Idle", fix="show it")
    return ProbeEvidence(
        probe=Probe(name="p", kind="perftest", rails=("rail-0",), nodes=("a", "b"), flows=flows),
        outcome=outcome,
        hops=hops,
        routing=(seen,) if lost else (),
    )


def test_a_link_without_a_share_is_named_with_what_it_should_have() -> None:
    (found,) = warn_spread(probe(8_000_000_000, 70_000))
    assert (found.check, found.verdict) == ("spread", "failed")
    assert found.expected == (
        "rail-0, gpu01 -> gpu02: a share of 16 connections on each of 2 links"
    )
    assert found.actual == "70.0 kB of 8.0 GB at leaf-01 swp52"
    assert found.detail == (
        "leaf-01 swp52 carried none of 16 connections, though its session is up"
    )
    assert found.next_step.startswith("check the hash fields of the switch")


@pytest.mark.parametrize(
    "item",
    [
        probe(6_000_000_000, 2_000_000_000),
        probe(8_000_000_000),
        probe(8_000_000_000, 0, flows=0),
        probe(8_000_000_000, 0, flows=7),
        probe(8_000_000_000, 0, outcome="failed"),
        probe(8_000_000_000, 0, status="unreachable"),
        probe(8_000_000_000, None),
        probe(8_000_000_000, 0, lost="swp52"),
    ],
    ids=["shares", "one-link", "one-flow", "few", "failed", "blind", "uncounted", "no-session"],
)
def test_nothing_is_said_where_nothing_is_proven(item: ProbeEvidence) -> None:
    assert warn_spread(item) == []
