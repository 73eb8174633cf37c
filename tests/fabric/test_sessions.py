"""BGP sessions and next hops of routed links: expected, read of each system, and lost."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from components.core.difference import RoutingFault
from components.drift.applied import Applied, AppliedStep
from components.fabric.cabling import (
    RoutedLinks,
    Way,
    find_routing_faults,
    plan_links,
    planned_bgp,
)
from components.fabric.edit import networks_of
from components.fabric.fabric_plan import plan_fabric
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Unreadable
from lab.physics.sessions import join
from lab.site import lab_file
from tests.fabric.fabric_lab import Room, applied_rooms, port_name, routed_of, units_of
from tests.fabric.in_process import load_table

FORMS: Final = Path(__file__).parent / "forms"
TABLE: Final[dict[str, Any]] = load_table("sessions.yaml")
WORDS: Final[dict[str, dict[str, Any]]] = TABLE["systems"]
SYSTEMS = tuple(WORDS)
SPECS = {system: routed_of(system, mode="lossless") for system in SYSTEMS}


def joined(system: str, folder: Path, *, bfd: bool = False, numbered: bool = False) -> list[Room]:
    """Two leaves and a spine with all applied, that hear each other."""
    spec = routed_of(system, mode="lossless", bfd=bfd, numbered=numbered)
    rooms = applied_rooms(spec, folder)
    file = lab_file(spec, "fabric", (folder, folder, folder))
    links = {(s.name, port): far for s in file.switches for port, far in s.links.items()}
    join({room.plan.name: room.switch for room in rooms}, links)
    return rooms


def lost(room: Room) -> tuple[RoutingFault, ...]:
    assert room.plan.links is not None
    networks = {name: bgp.networks for name, bgp in planned_bgp(SPECS[room.plan.os]).items()}
    links = room.plan.links.model_copy(update={"networks": networks})
    return find_routing_faults(links, room.talk().look(room.plan.desired).sessions)


def parts_of(found: Sequence[RoutingFault], wanted: list[dict[str, str]]) -> list[dict[str, str]]:
    """What is lost, each under the keys that are wanted of it."""
    return [
        {key: getattr(each, key) for key in keys} for each, keys in zip(found, wanted, strict=True)
    ]


def case_of(system: str, case: dict[str, Any]) -> dict[str, Any]:
    """A case with the words and ports of a system."""
    text = re.sub(r'"\$(\w+)"', lambda word: json.dumps(WORDS[system][word[1]]), json.dumps(case))
    return json.loads(re.sub(r"\{(\d+)\}", lambda port: port_name(system, int(port[1])), text))


@pytest.mark.parametrize(
    ("system", "case"),
    [
        pytest.param(system, case_of(system, case), id=f"{case['name']} {system}")
        for case in TABLE["faults"]
        for system in case.get("systems", SYSTEMS)
    ],
)
def test_what_a_leaf_says_after_a_fault(system: str, case: dict[str, Any], tmp_path: Path) -> None:
    asked = {key: case.get(key, False) for key in ("bfd", "numbered")}
    rooms = {room.plan.name: room for room in joined(system, tmp_path, **asked)}
    assert [lost(room) for room in rooms.values()] == [()] * 3
    switch = rooms[case["at"]].switch
    for step in case["do"]:
        if isinstance(step, str):
            switch.run_line(step)
        else:
            switch.fault(step)
    assert parts_of(lost(rooms["leaf-01"]), case["said"]) == case["said"]
    if "spine" in case:
        assert [each.where for each in lost(rooms["spine-01"])] == case["spine"]
    assert all(room.switch.unmodelled == () for room in rooms.values())


def test_two_commands_more_and_none_where_nothing_is_routed(tmp_path: Path) -> None:
    for system, words in WORDS.items():
        asked = system_of(system).sessions
        assert asked is not None
        assert asked[0].commands == tuple(words["commands"])
    assert system_of("onyx").sessions is None
    leaf, *_ = joined("cumulus", tmp_path)
    assert leaf.talk().read_sessions(bgp=False, bfd=False) is None


def test_what_a_neighbour_must_bring_counts_shortest_ways_only() -> None:
    """Two units below a super-spine: the own unit's spine is on the way to everything."""
    links = plan_links(units_of("cumulus"))
    brings = {
        name: {end.to: end.networks for end in each.ends.values()} for name, each in links.items()
    }
    # The other leaf: a loopback and two rails; both spines and the super-spine: a loopback each.
    assert brings["leaf-01"] == {"spine-01:swp1": 6, "spine-01:swp2": 6}
    assert brings["spine-01"] == {"leaf-01:swp29": 3, "leaf-01:swp30": 3, "super-01:swp1": 5}
    assert brings["super-01"] == {"spine-01:swp5": 4, "spine-02:swp5": 4}


def test_switches_of_one_tier_with_numbers_of_their_own_are_not_counted() -> None:
    """BGP takes one of two ways whose numbers differ, so that either may bring nothing."""
    site = routed_of("cumulus", mode="lossless").model_dump(mode="json")
    spine = site["switches"][2]
    twin: dict[str, Any] = {**spine, "name": "spine-02", "ports": {}}
    twin["routing"] = {**spine["routing"], "asn": 65002, "router_id": "10.255.0.8"}
    twin["ssh"] = {**spine["ssh"], "address": "192.168.1.21"}
    for number, leaf in enumerate(site["switches"][:2], start=1):
        twin["ports"][f"swp{number}"] = {"to": f"{leaf['name']}:swp30", "mode": "routed"}
        del spine["ports"][f"swp{2 * number + 1}"]
        leaf["ports"]["swp30"]["to"] = f"spine-02:swp{number}"
    site["switches"].append(twin)
    links = plan_links(type(routed_of("cumulus")).model_validate(site))
    assert {end.to: end.networks for end in links["leaf-01"].ends.values()} == {
        "spine-01:swp2": 1,
        "spine-02:swp1": 1,
    }


@pytest.mark.parametrize("case", TABLE["judged"], ids=lambda case: case["name"])
def test_what_is_lost(case: dict[str, Any]) -> None:
    sessions = None if case["sessions"] is None else Sessions.model_validate(case["sessions"])
    applied = BgpState.model_validate(case["applied"]) if "applied" in case else None
    found = find_routing_faults(RoutedLinks.model_validate(case["links"]), sessions, applied)
    wanted: list[dict[str, str]] = case["lost"]
    assert parts_of(found, wanted) == wanted


def parsed(system: str, *texts: str) -> Sessions:
    questions = system_of(system).sessions
    assert questions is not None
    _, asked = questions
    return asked.parse(dict(zip(asked.commands, texts, strict=True)))


def text_of(answer: str) -> str:
    """A form by the name of its file, or the answer itself."""
    path = FORMS / answer
    return path.read_text(encoding="utf-8") if path.suffix in {".txt", ".json"} else answer


@pytest.mark.parametrize(("system", "answers", "wanted"), TABLE["read"])
def test_the_answers_of_each_system_are_read(
    system: str, answers: list[str], wanted: dict[str, Any]
) -> None:
    assert parsed(system, *map(text_of, answers)) == Sessions.model_validate(wanted)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("text", ["", "no such table", "[1]", '{"vrfs": 1, "peers": 2, "swp1": 3}'])
def test_an_answer_of_another_form_is_unreadable(system: str, text: str) -> None:
    (_, answers, _) = next(row for row in TABLE["read"] if row[0] == system)
    routes_and_bfd = [text_of(answers[1]), "{}"][: len(answers) - 1]
    with pytest.raises(Unreadable):
        parsed(system, text, *routes_and_bfd)


def test_ways_are_those_that_bgp_takes_together() -> None:
    """To the own unit's spine by both links; of two spines above it, each by itself."""
    ways = {name: each.ways for name, each in plan_links(units_of("cumulus", supers=2)).items()}
    assert ways["leaf-01"] == (
        Way(
            to=("spine-01", "leaf-02", "spine-02", "super-01", "super-02"), ports=("swp29", "swp30")
        ),
    )
    assert {each.to: each.ports for each in ways["spine-01"]} == {
        ("leaf-01",): ("swp1", "swp2"),
        ("leaf-02", "spine-02"): ("swp5", "swp6"),
        ("super-01",): ("swp5",),
        ("super-02",): ("swp6",),
    }


def test_only_what_was_applied_to_both_ends_is_looked_for() -> None:
    planned = SwitchState(bgp=BgpState(networks=("10.0.2.0/24", "10.0.3.0/24")))
    given = SwitchState(bgp=BgpState(networks=("10.0.2.0/24", "10.0.9.0/24")))
    one, other = (
        plan.model_copy(update={"desired": planned}) for plan in plan_fabric(SPECS["eos"])[:2]
    )
    stdin = json.dumps({"desired": given.model_dump(mode="json")})
    found = networks_of((one, other), Applied({one.step: AppliedStep(stdin=stdin)}))
    assert found == {one.name: ("10.0.2.0/24",)}
