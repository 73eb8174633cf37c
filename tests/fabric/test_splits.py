"""Split ports: what a file means, the lines that split a port, and the way back, on each system."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from components.core.errors import DeviceError
from components.core.problem import Json
from components.fabric.edit import preview_switch
from components.fabric.effects import effect_of
from components.fabric.fabric_plan import describe_start, plan_fabric
from components.fabric.ports import splits_of
from components.fabric.state import SwitchState, diff_states
from components.reading.port_ranges import spread_document
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.eos.server import EosSwitch
from tests.fabric.fabric_lab import SPLIT_MODELS, Room, rooms_of, split_of
from tests.fabric.in_process import load_table
from tests.fabric.lives import check_life, live_in
from tests.fabric.whole_intents import split_by_hand, whole_of

TABLE: Final = load_table("models.yaml")


def room_of(system: str, folder: Path, parts: int = 2) -> Room:
    return rooms_of(split_of(system, parts), folder)[0]


@pytest.mark.parametrize(("system", "count", "names"), TABLE["parts"])
def test_parts_are_counted_from_the_file(system: str, count: int, names: str) -> None:
    (split,) = splits_of(split_of(system, count).switches[0]).values()
    assert (split.parts, split.count) == (tuple(names.split()), count)


def test_breakouts_say_more_parts_than_are_used() -> None:
    leaf = split_of("cumulus").switches[0].model_copy(update={"breakouts": {"swp1": "4x200"}})
    (split,) = splits_of(leaf).values()
    assert (split.count, split.speed_gbit_s, split.named) == (4, 200, ("swp1s0", "swp1s1"))


def test_a_port_is_split_before_all_that_its_parts_have() -> None:
    """Profiles, addresses and spreading name parts, which are not there before."""
    plan = plan_fabric(whole_of("cumulus"))[0]
    assert plan.desired.splits == {
        f"swp{number}": (f"swp{number}s0", f"swp{number}s1") for number in (1, 29)
    }
    lines = plan.commands_from_factory
    splits = [lines.index(f"nv set interface swp{n} link breakout 2x") for n in (1, 29)]
    parts = [line for line in lines if "s0" in line or "s1" in line]
    assert max(splits) < min(map(lines.index, parts))
    for tail in (
        "qos congestion-control profile railyard-600-3000-20",
        "qos egress-scheduler profile railyard-0x40-3x60-s6",
    ):
        assert f"nv set interface swp1s0-1,swp29s0-1 {tail}" in parts
    for line in (
        "nv set interface swp29s0-1 router adaptive-routing enable on",
        "nv set interface swp29s0 ip address 10.254.0.2/31",
    ):
        assert line in parts


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("system", ["cumulus", "eos"])
def test_a_port_is_split_and_whole_again(system: str, parts: int, tmp_path: Path) -> None:
    """Its parts carry traffic at their own speed; the second apply is empty, undo is exact."""
    room = room_of(system, tmp_path, parts)

    def check(now: SwitchState) -> None:
        for name in now.ports:
            view = room.switch.port_view(name)
            assert (view.oper_up, view.speed_gbit_s) == (True, 800 // parts)

    assert check_life(room, check=check)


def test_a_part_has_no_link_before_its_port_is_split(tmp_path: Path) -> None:
    eos = room_of("eos", tmp_path).switch
    assert isinstance(eos, EosSwitch)
    assert [eos.port_view(name).oper_up for name in ("Ethernet1/1", "Ethernet1/5")] == [True, False]
    eos.run_line("interface Ethernet1/1;speed 400g-4")
    assert eos.port_view("Ethernet1/5").oper_up


def test_a_split_takes_the_next_port_where_the_model_says_so(tmp_path: Path) -> None:
    switch = room_of("cumulus", tmp_path).switch
    switch.run_line("nv set interface swp3 link breakout 8x")
    assert {"swp3", "swp4", "swp3s7"} & {*switch.ports} == {"swp3s7"}


def test_a_split_stays_while_somebody_uses_a_part(tmp_path: Path) -> None:
    room = room_of("cumulus", tmp_path, 4)
    room.record()
    room.apply()
    room.switch.run_line("nv set interface swp1s2 description lab")
    room.restore()
    switch = room.switch
    assert isinstance(switch, CumulusSwitch)
    assert {name for name in switch.ports if name.startswith("swp1s")} == {
        *("swp1s0", "swp1s1", "swp1s2", "swp1s3")
    }
    assert [*child(switch.stored.applied, "interface")] == ["swp1", "swp1s2"]


def test_an_edit_splits_a_port_that_was_whole_and_back(tmp_path: Path) -> None:
    """In one update each; after the last one nothing is left."""
    room = room_of("cumulus", tmp_path)
    split = room.plan.desired
    whole = {"swp1": split.ports["swp1s0"], "swp2": split.ports["swp1s1"]}
    plain = split.model_copy(update={"splits": None, "ports": whole})
    check_life(room, plain, split)
    room.plan = room.plan.model_copy(update={"desired": plain})
    check_life(room, split, plain)


def test_an_edit_gives_back_what_it_drops_of_a_part_that_stays(tmp_path: Path) -> None:
    """The part was not there when values were recorded: those of before are the factory's."""
    room = room_of("cumulus", tmp_path)
    plain, seen = room.plan.desired, list[object]()
    shared = plan_fabric(split_of("cumulus", schedule={"shares": {0: 40, 3: 60}}))[0].desired
    room.plan = room.plan.model_copy(update={"desired": shared})
    switch = room.switch
    assert isinstance(switch, CumulusSwitch)
    check_life(room, plain, check=lambda _: seen.append({*child(switch.stored.applied, "qos")}))
    assert seen[1] in (set(), {"roce"})


def test_what_people_split_is_required_by_name_and_then_taken(tmp_path: Path) -> None:
    for system, whole, line in (
        ("onyx", "1/1", "`interface ethernet 1/1 module-type qsfp-split-2 force`"),
        ("sonic", "Ethernet0", "`sudo config interface breakout Ethernet0"),
    ):
        room = room_of(system, tmp_path / system)
        untouched = room.switch.snapshot()
        text = preview_switch(room.plan, None, room.read(), "allow")
        assert text is not None
        assert f"will be refused: port {whole} is whole, and the file wants it split in 2" in text
        with pytest.raises(DeviceError, match="No update splits it") as told:
            room.record()
        assert line in str(told.value)
        assert "Nothing was changed" in str(told.value)
        with pytest.raises(DeviceError, match=f"port {whole} is whole"):
            room.apply()
        assert room.switch.snapshot() == untouched
        split_by_hand(room)
        live_in(room, split_of(system), [])
        assert {*room.plan.desired.ports} <= {*room.switch.ports}, "what people split stays so"


def test_an_onyx_port_is_whole_again_without_what_its_parts_had(tmp_path: Path) -> None:
    room = room_of("onyx", tmp_path)
    switch, first = room.switch, room.switch.snapshot()
    split_by_hand(room)
    switch.run_line("interface ethernet 1/1/1-1/1/2 shutdown")
    switch.run_line("interface ethernet 1/1/2 module-type qsfp force")
    assert switch.snapshot() == first


def test_the_plan_never_begins_at_a_factory_that_has_no_such_port() -> None:
    starts = {s: describe_start(plan_fabric(split_of(s))[0]) for s in ("cumulus", "onyx", "sonic")}
    assert starts["cumulus"].startswith("From factory settings these")
    assert starts["onyx"].startswith("Not from factory settings: people split 1/1 before")
    assert "module-type qsfp-split-2 force" in starts["onyx"]
    assert starts["sonic"].startswith("Not from factory settings: people split Ethernet0 before")


@pytest.mark.parametrize(("system", "written", "names"), TABLE["ranges"])
def test_ranges_go_over_parts(system: str, written: str, names: str) -> None:
    hosts = ",".join(map(str, range(1, len(names.split()) + 1)))
    ports: dict[str, Json] = {written: f"gpu[{hosts}]/rail-0"}
    model = SPLIT_MODELS[system]
    switch: Json = {"name": "leaf-01", "os": system, "model": model, "ports": ports}
    spread: Any = spread_document({"switches": [switch]})
    assert [*spread["switches"][0]["ports"]] == names.split()


def test_a_preview_says_what_stops_and_a_denial_stops_it(tmp_path: Path) -> None:
    for system, word in (("cumulus", "breakout"), ("eos", "speed")):
        desired = plan_fabric(split_of(system))[0].desired
        found = [each for each in diff_states(SwitchState(), desired) if each.setting == word]
        assert found
        assert all(effect_of(system, each).interrupts for each in found)
        room = room_of(system, tmp_path / system)
        text = preview_switch(room.plan, None, room.read(), "deny")
        assert text is not None
        assert "INTERRUPTS (disruption.ports: deny)" in text
        assert word in text
        with pytest.raises(DeviceError, match="would interrupt traffic"):
            room.talk().converge(
                room.plan.desired,
                lambda r, plan=room.plan: r.state.model_copy(
                    update={"splits": plan.desired.splits, "ports": plan.desired.ports}
                ),
                may_interrupt=False,
            )
