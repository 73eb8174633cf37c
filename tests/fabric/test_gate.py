"""What is missed after a change, and what is not: tables of literals."""

from __future__ import annotations

from typing import Any

import pytest

from components.fabric.exchange import Outcome
from components.fabric.gate import Health, find_missing
from components.fabric.parts import Session
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState

GPU = Neighbour(system="gpu01", port="enp5s0")
OTHER = Neighbour(system="gpu02", port="enp5s0")


def sessions(**states: str) -> dict[str, Session]:
    return {name: Session(state=state) for name, state in states.items()}


BEFORE = Health(
    links={"swp1": True, "swp2": False, "swp51": True},
    neighbours={"swp1": GPU},
    sessions=sessions(swp51="Established", swp52="Idle"),
)
BGP = BgpState(asn=65101, neighbors={"swp51": "external", "swp52": "external"})
WAS = SwitchState(ports={"swp1": PortState(admin_up=True, mtu_bytes=9216)}, bgp=BGP)


def missing(now: Health, after: SwitchState = WAS, before: Health = BEFORE) -> list[str]:
    return [*find_missing(before, now, Outcome(WAS, after, ("a line",), ()))]


def health(**changed: object) -> Health:
    return BEFORE.model_copy(update=changed)


DOWN, HEARD = "port swp1 was up and is down", "port swp1 heard gpu01 enp5s0 by LLDP and hears"
SAME = GPU.model_copy(update={"description": "new words"})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (BEFORE, []),
        (health(links={"swp1": False, "swp51": True}), [DOWN]),
        (health(links={"swp1": False}, neighbours={}), [DOWN]),
        (health(neighbours={}), [f"{HEARD} nothing"]),
        (health(neighbours={"swp1": OTHER}), [f"{HEARD} gpu02 enp5s0"]),
        (health(neighbours={"swp1": SAME}), []),
        (health(sessions=sessions(swp51="Idle")), ["BGP with swp51 was Established and is Idle"]),
        (health(sessions={}), ["BGP with swp51 was Established and is gone"]),
        (health(sessions=sessions(swp51="established", swp52="Active")), []),
    ],
)
def test_what_was_there_and_is_not(now: Health, words: list[str]) -> None:
    assert missing(now) == words


OFF = health(links={"swp1": False}, neighbours={}, sessions=sessions(swp51="Idle"))


@pytest.mark.parametrize(
    "port", [{"admin_up": False}, {"speed": "400G"}, {"fec": "rs"}, {"mode": "routed"}]
)
@pytest.mark.parametrize(
    "bgp",
    [{"asn": 65199}, {"neighbors": {"swp52": "external"}}, {"neighbors": {"swp51": "65000"}}, None],
)
def test_what_the_change_itself_ends_or_whose_far_end_follows(
    port: dict[str, Any], bgp: dict[str, Any] | None
) -> None:
    changed = PortState.model_validate({"admin_up": True, **port})
    after = BgpState() if bgp is None else BGP.model_copy(update=bgp)
    update = {"ports": {"swp1": changed}, "bgp": after}
    assert missing(OFF, WAS.model_copy(update=update)) == []


def test_an_undo_of_the_one_shot_turns_lldp_off_and_ends() -> None:
    """Seed 49 of tier 2 of the campaign: no destroy of a lossless Onyx came to an end."""
    quiet = health(neighbours={})
    lossless = WAS.model_copy(update={"roce": "lossless"})
    given_back = WAS.model_copy(update={"roce": "none"})
    outcome = Outcome(lossless, given_back, ("no roce",), ())
    assert [*find_missing(BEFORE, quiet, outcome)] == []
    assert [*find_missing(BEFORE, quiet, Outcome(lossless, lossless, ("a line",), ()))] != []


def test_a_system_that_tells_no_links_is_judged_by_the_rest() -> None:
    before = health(links={})
    assert missing(health(links={}), WAS, before) == []
    assert len(missing(health(links={}, neighbours={}), WAS, before)) == 1


def test_a_port_that_is_split_or_whole_again_is_another_port() -> None:
    """Its parts and the whole port have names, links and neighbours of their own."""
    split = WAS.model_copy(update={"splits": {"swp1": ("swp1s0", "swp1s1")}, "ports": {}})
    whole = WAS.model_copy(update={"splits": {"swp1": ("swp1",)}, "ports": {}})
    parts = Health(links={"swp1s0": True}, neighbours={"swp1": GPU, "swp1s0": GPU})
    gone = Health(links={"swp1": False}, neighbours={})
    assert [*find_missing(parts, gone, Outcome(split, whole, ("a line",), ()))] == []
    words = ["port swp1s0 was up and is down"]
    down = Health(links={"swp1s0": False}, neighbours={"swp1": GPU})
    assert [*find_missing(parts, down, Outcome(split, split, ("a line",), ()))] == words
