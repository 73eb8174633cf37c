"""Spanning-tree edge ports with BPDU guard: lines, undo, drift, preview, and who has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.effect import Effect
from components.fabric.effects import effect_of
from components.fabric.plan import plan_fabric
from components.fabric.preview import preview_switch
from components.fabric.state import diff_states
from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import Room, chain_of, rooms_of

RELEASES = {"cumulus": "5.9.2", "cumulus 5.15": "5.15.0", "eos": "4.32.1F"}
FIRST = {"cumulus": "swp1", "eos": "Ethernet1/1"}
_STP = "nv set interface swp1-2 bridge domain br_default stp"
LINES = {
    "cumulus": {f"{_STP} admin-edge on", f"{_STP} bpdu-guard on"},
    "cumulus 5.15": {f"{_STP} admin-edge enabled", f"{_STP} bpdu-guard enabled"},
    "eos": {"spanning-tree portfast", "spanning-tree bpduguard enable"},
}
BY_HAND = {
    "cumulus": "nv set interface swp1 bridge domain br_default stp {} {}; nv config apply -y",
    "eos": "interface Ethernet1/1;spanning-tree {} {}",
}
EDGE = {"cumulus": ("admin-edge", "off"), "eos": ("portfast", "network")}
GUARD = {"cumulus": ("bpdu-guard", "off"), "eos": ("bpduguard", "disable")}
cases = pytest.mark.parametrize("case", RELEASES)


def edged(case: str, **own: object) -> ClusterSpec:
    """Two leaves of a chain: two ports to hosts, and one to the other leaf."""
    site = chain_of(case.split(maxsplit=1)[0], 2, mode="lossy_ecn").model_dump(mode="json")
    for switch in site["switches"]:
        switch |= {"edge_ports": True, "release": RELEASES[case], **own}
    return ClusterSpec.model_validate(site)


def room_of(case: str, folder: Path) -> Room:
    return rooms_of(edged(case), folder)[0]


def by_hand(room: Room, case: str, part: dict[str, tuple[str, str]]) -> None:
    word, value = part[case.split(maxsplit=1)[0]]
    value = "disabled" if "5.15" in case else value
    said = room.switch.run_line(BY_HAND[case.split(maxsplit=1)[0]].format(word, value))
    assert "rror" not in said


@cases
def test_ports_to_hosts_get_both_lines_and_a_link_gets_neither(case: str) -> None:
    plan = plan_fabric(edged(case))[0]
    assert {*plan.commands_from_factory} >= LINES[case]
    found = [(port.edge_port, port.bpdu_guard) for port in plan.desired.ports.values()]
    assert sorted(found, key=str) == [("on", "on"), ("on", "on"), (None, None)]


@cases
def test_a_file_that_does_not_ask_leaves_them_alone(case: str) -> None:
    ports = plan_fabric(edged(case, edge_ports=False))[0].desired.ports.values()
    assert {(port.edge_port, port.bpdu_guard) for port in ports} == {(None, None)}


@pytest.mark.parametrize("parts", [(), (EDGE, GUARD)], ids=["factory", "by hand"])
@cases
def test_an_undo_leaves_each_port_as_it_was(
    case: str, parts: tuple[dict[str, tuple[str, str]], ...], tmp_path: Path
) -> None:
    room = room_of(case, tmp_path)
    for part in parts:
        by_hand(room, case, part)
    room.save()
    first = room.switch.snapshot()
    room.record()
    assert room.apply()
    assert diff_states(room.read(), room.plan.desired) == ()
    assert room.apply() == ()
    room.restore()
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()


@cases
def test_a_guard_that_is_switched_off_by_hand_is_drift_and_comes_back(
    case: str, tmp_path: Path
) -> None:
    room, system = room_of(case, tmp_path), case.split(maxsplit=1)[0]
    room.record()
    room.apply()
    by_hand(room, case, GUARD)
    (found,) = diff_states(room.read(), room.plan.desired)
    assert (found.where, found.setting) == (f"port {FIRST[system]}", "bpdu_guard")
    assert (found.actual, found.desired) == ("off", "on")
    assert effect_of(system, found) is Effect.LINK
    assert room.apply()
    assert diff_states(room.read(), room.plan.desired) == ()


def test_a_preview_names_both(tmp_path: Path) -> None:
    room = room_of("eos", tmp_path)
    text = preview_switch(room.plan, None, room.read(), "allow") or ""
    assert "edge_port, bpdu_guard: default -> on" in text
    _, interrupts = text.split("INTERRUPTS")
    assert "bpdu_guard: default -> on" in interrupts
