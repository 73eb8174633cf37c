"""Marking, shares, watchdog times and spreading: planned, set, read, and put back exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.fabric.fabric_plan import plan_fabric
from components.fabric.ports import marking_of
from components.fabric.state import PortState, SwitchState, diff_states
from components.fabric.systems import system_of
from components.model.fabric import Rdma
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import Room
from tests.fabric.histories import as_line
from tests.fabric.in_process import load_table
from tests.fabric.lives import check_life
from tests.fabric.switch_labs import LABS
from tests.fabric.whole_intents import EVERYTHING


def desired_of(system: str, **rdma: Any) -> SwitchState:  # noqa: ANN401 - any key of it
    return plan_fabric(LABS[system].load_spec(**{"mode": "lossless", **rdma}))[0].desired


def room_of(system: str, folder: Path, history: Sequence[str] = (), **rdma: Any) -> Room:  # noqa: ANN401
    """A switch after a history, and a plan with some `rdma`."""
    lab = LABS[system]
    plan = plan_fabric(lab.load_spec(**{"mode": "lossless", **rdma}))[0]
    room = Room(plan, lab.make_switch(folder, Clock()))
    for line in history:
        room.switch.run_line(line)
    room.save()
    return room


@pytest.mark.parametrize("system", EVERYTHING)
def test_the_laws_hold_with_every_setting_of_queues(system: str, tmp_path: Path) -> None:
    room = room_of(system, tmp_path, **EVERYTHING[system])
    plain, fewer = desired_of(system), LABS[system].carried.fewer(room.plan.desired)
    for edits in ((), (fewer,), (plain,)):
        check_life(room, *edits)


def _marking(low: int, high: int, percent: int) -> dict[str, Any]:
    return {"ecn_min_kib": low, "ecn_max_kib": low + high, "ecn_mark_percent": percent}


def _shares(best_effort: int, strict: tuple[int, ...]) -> dict[str, Any]:
    return {"shares": {0: best_effort, 3: 100 - best_effort}, "strict": strict}


MARKINGS: Final = st.builds(
    _marking, st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([1, 20, 100])
)
SCHEDULES: Final = st.one_of(
    st.none(), st.builds(_shares, st.integers(1, 99), st.sampled_from([(), (5,), (5, 7)]))
)
TYPED: Final = load_table("histories.yaml")
BY_HAND: Final[dict[str, list[str]]] = {
    system: [*map(as_line, typed)] for system, typed in TYPED["queues"].items()
}


@settings(max_examples=10, deadline=None)
@given(
    system=st.sampled_from(sorted(BY_HAND)),
    data=st.data(),
    marking=MARKINGS,
    schedule=SCHEDULES,
    other=SCHEDULES,
)
def test_whatever_was_there_second_apply_is_empty_and_undo_is_exact(
    system: str,
    data: st.DataObject,
    marking: dict[str, Any],
    schedule: dict[str, Any] | None,
    other: dict[str, Any] | None,
) -> None:
    if system == "onyx":  # its thresholds have no share of packets
        marking = {key: value for key, value in marking.items() if key != "ecn_mark_percent"}
    history = data.draw(st.lists(st.sampled_from(BY_HAND[system]), max_size=4))
    with TemporaryDirectory() as folder:
        room = room_of(system, Path(folder), history, **marking, schedule=schedule)
        check_life(room, desired_of(system, **marking, schedule=other))


def test_shares_of_a_profile_take_the_place_of_the_scheduler_of_somebody_else(
    tmp_path: Path,
) -> None:
    history = [BY_HAND["cumulus"][1], "nv config apply -y"]
    room = room_of("cumulus", tmp_path, history, **_marking(1, 1, 1), schedule=None)
    check_life(room, desired_of("cumulus", **_marking(1, 1, 1), schedule=_shares(50, ())))


def test_a_class_that_loses_its_share_gets_the_strict_scheduler_of_before(tmp_path: Path) -> None:
    schedule = {"shares": {0: 99, 3: 1}}
    room = room_of("sonic", tmp_path, [BY_HAND["sonic"][2]], schedule=schedule)
    switch, seen = room.switch, list[str]()
    assert isinstance(switch, SonicSwitch)

    def check(_now: SwitchState) -> None:
        seen.append(switch.stored.running["QUEUE"]["Ethernet8|3"]["scheduler"])

    check_life(room, desired_of("sonic"), check=check)
    assert seen[1:] == ["high"]


@pytest.mark.parametrize(
    ("system", "speed", "said", "marks"),
    [
        ("onyx", 100, {}, "150-1500"),
        ("cumulus", 400, {}, "146-1464"),
        ("eos", 100, {}, "150-1500"),
        ("eos", 400, {}, "496-2480 at 20 %"),
        ("sonic", 100, {}, "150-1500"),
        ("sonic", 400, {}, "2048-12480 at 15 %"),
        ("eos", 400, {"ecn_min_kib": 300, "ecn_max_kib": 900}, "300-900"),
        ("eos", 400, {"ecn_mark_percent": 30}, "496-2480 at 30 %"),
        ("eos", 400, {"ecn_by_speed": {400: {"min_kib": 1, "max_kib": 2}}}, "1-2"),
        ("eos", 200, {"ecn_by_speed": {400: {"min_kib": 1, "max_kib": 2}}}, "496-2480 at 20 %"),
    ],
)
def test_a_port_marks_as_its_vendor_recommends_unless_the_file_says_more(
    system: str, speed: int, said: dict[str, Any], marks: str
) -> None:
    rdma = Rdma.model_validate({"ecn_min_kib": None, "ecn_max_kib": None, **said})
    assert str(marking_of(rdma, system, speed)) == marks


def test_every_speed_has_its_own_marking_on_one_switch() -> None:
    speeds = {100: {"min_kib": 200, "max_kib": 900, "mark_percent": 40}}
    spec = LABS["cumulus"].load_spec(ecn_by_speed=speeds)
    ports = plan_fabric(spec)[0].desired.ports
    assert {str(port.ecn[3]) for port in ports.values()} == {"200-900 at 40 %"}


def test_a_cumulus_switch_spreads_and_stops_as_it_was(tmp_path: Path) -> None:
    room = room_of(
        "cumulus", tmp_path, ["nv set interface swp2 router adaptive-routing enable off"]
    )
    spreading = PortState(admin_up=True, adaptive_routing=True)
    desired = SwitchState(adaptive_routing=True, ports={"swp1": spreading, "swp2": spreading})
    room.plan = room.plan.model_copy(update={"desired": desired})
    check_life(room)
    assert room.apply() == (
        "nv set router adaptive-routing enable on",
        "nv set interface swp1 link state up",
        "nv set interface swp1-2 router adaptive-routing enable on",
    )
    room.switch.run_line("nv set interface swp1 router adaptive-routing enable off")
    assert [d.setting for d in diff_states(room.read(), desired)] == ["adaptive_routing"]


def test_the_page_has_every_recommendation() -> None:
    page = Path("docs/reference/marking.md").read_text(encoding="utf-8")
    rows = [
        (system, row)
        for system in ("onyx", "cumulus", "eos", "sonic")
        for row in system_of(system).recommended
    ]
    assert page.count("\n| onyx | ") + page.count("\n| cumulus | ") == 2
    assert page.count("\n| eos | ") + page.count("\n| sonic | ") == 4
    for system, row in rows:
        speed = f"{row.from_gbit_s} Gbit/s" if row.from_gbit_s else "any speed"
        numbers = f"{row.min_kib} KiB | {row.max_kib} KiB | {row.mark_percent} %"
        assert f"| {system} | {speed} | {numbers} |" in page


@pytest.mark.parametrize(("mode", "line"), TYPED["one shot"])
def test_what_the_one_shot_took_along_comes_back_on_every_port(
    mode: str, line: str, tmp_path: Path
) -> None:
    sent = check_life(room_of("onyx", tmp_path, [line], mode=mode))
    assert line in sent
    assert sent.index("no roce") < sent.index(line)
