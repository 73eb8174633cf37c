"""Next hops of each network: what is expected of each switch, which are missing."""

from __future__ import annotations

import pytest

from components.fabric.cabling import (
    FarEnd,
    RoutedLinks,
    Way,
    applied_networks,
    find_lost,
    plan_links,
)
from components.fabric.parts import Session, Sessions
from components.fabric.state import BgpState
from tests.fabric.fabric_lab import units_of


def test_ways_are_those_that_bgp_takes_together() -> None:
    """To the own unit's spine by both links; of two spines above it, each by itself."""
    ways = {name: each.ways for name, each in plan_links(units_of("cumulus", supers=2)).items()}
    assert ways["leaf-01"] == (
        Way(
            to=("spine-01", "leaf-02", "spine-02", "super-01", "super-02"),
            ports=("swp29", "swp30"),
        ),
    )
    assert {each.to: each.ports for each in ways["spine-01"]} == {
        ("leaf-01",): ("swp1", "swp2"),
        ("leaf-02", "spine-02"): ("swp5", "swp6"),
        ("super-01",): ("swp5",),
        ("super-02",): ("swp6",),
    }


TWO = RoutedLinks(
    os="eos",
    ends={
        f"10.254.0.{number}": FarEnd(port=f"Ethernet{number}/1", to=f"spine-0{number}:Ethernet1/1")
        for number in (1, 2)
    },
    ways=(Way(to=("leaf-02", "leaf-03"), ports=("Ethernet1/1", "Ethernet2/1")),),
    networks={"leaf-02": ("10.0.2.0/24",)},
)
"""Of leaf-03 nothing is known yet: it is in the file, and nothing has set it up."""
UP = {f"10.254.0.{number}": Session(state="Established") for number in (1, 2)}


@pytest.mark.parametrize(
    ("routes", "what"),
    [
        ({"10.0.2.0/24": ("Ethernet1/1", "Ethernet2/1")}, []),
        ({"10.0.2.0/24": ("Ethernet1/1", "Ethernet2/1", "Vlan1")}, []),
        (
            {"10.0.2.0/24": ("Ethernet1/1",)},
            ["spine-02:Ethernet1/1 is no next hop to 10.0.2.0/24, which goes over 1 of 2 links"],
        ),
        (
            {},
            [
                f"there is no route to 10.0.2.0/24, over spine-0{each}:Ethernet1/1 or another link"
                for each in (1, 2)
            ],
        ),
        (None, []),
    ],
)
def test_next_hops_are_judged(routes: dict[str, tuple[str, ...]] | None, what: list[str]) -> None:
    found = find_lost(TWO, Sessions(neighbors=UP, routes=routes))
    assert [each.what for each in found] == what


def test_a_link_without_a_session_is_named_once() -> None:
    half = UP | {"10.254.0.2": Session(state="Idle")}
    (found,) = find_lost(TWO, Sessions(neighbors=half, routes={"10.0.2.0/24": ("Ethernet1/1",)}))
    assert found.what == "BGP with spine-02:Ethernet1/1 is Idle, not Established"


def test_next_hops_that_may_not_be_asked_are_said_and_are_no_fault() -> None:
    (found,) = find_lost(TWO, Sessions(neighbors=UP, routes_unread="% Invalid input"))
    assert (found.kind, found.fix) == ("unsaid", "show ip route bgp")
    assert found.what == "which next hops are in use is not known: % Invalid input"


def test_only_what_was_applied_to_both_ends_is_looked_for() -> None:
    planned = BgpState(networks=("10.0.2.0/24", "10.0.3.0/24"))
    given = BgpState(networks=("10.0.2.0/24", "10.0.9.0/24"))
    found = applied_networks({"leaf-02": planned, "leaf-03": planned}, {"leaf-02": given})
    assert found == {"leaf-02": ("10.0.2.0/24",)}
