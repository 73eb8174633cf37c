"""Whatever a file asks for, wherever it breaks: the next apply converges, and undo is exact."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.checks.registry import RULES
from components.core.errors import DeviceError, RailyardError, UnreachableError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems.cumulus import PATCH
from lab.switches.sonic.config import Db
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.fabric_lab import Room
from tests.fabric.histories import HISTORIES, as_line
from tests.fabric.in_process import answer, apply, edit, restore
from tests.fabric.lives import check_life, disturb
from tests.fabric.switch_labs import put_back
from tests.fabric.whole_intents import EVERYTHING, PIECES, Pieces, whole_of, whole_rooms

QUICK: Final = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A life is found in a second and shrunk in minutes: no shrinking."""
Way = Callable[[Exchange], object]
REFUSALS: Final = {
    "cumulus": "Error: Failure during apply\n[status 1]\n",
    "eos": "% Invalid input\n",
    "onyx": "% Internal error: the command failed\n",
    "sonic": "Error: it failed\n[status 1]\n",
}


@dataclass(frozen=True)
class Fault:
    """What happens at one line of a run."""

    kind: Literal["lost before", "lost after", "refused"]
    at: int
    """Which line: the number is taken modulo that of all lines."""
    reboot: bool = False
    """The switch boots before the next run."""


FAULTS: Final = st.builds(
    Fault,
    kind=st.sampled_from(["lost before", "lost after", "refused"]),
    at=st.integers(0, 10_000),
    reboot=st.booleans(),
)


def lines_of(room: Room, way: Way) -> int:
    """How many lines a run sends."""
    exchange = room.talk()
    sent = answer(exchange)
    way(exchange)
    return len(sent)


def live_broken(room: Room, applying: Fault, undoing: Fault) -> None:
    """A life without a fault, and then one with a fault in the apply and one in the undo.

    What others have may be in the way: that is refused, and nothing is changed. A refused apply
    must leave the switch as it was before: nothing holds what to give back then. After a refused
    undo our settings are as applied, and no more is asked of the rest: the engine keeps a resource
    whose delete failed, with its baseline, and the next undo begins at what it finds. That one is
    exact.
    """
    desired, system = room.plan.desired, room.plan.os
    first = room.switch.snapshot()
    try:
        room.record()
        room.apply()
    except DeviceError:
        assert room.switch.snapshot() == first
        return
    assert diff_states(room.read(), desired) == ()
    assert room.apply() == ()
    room.restore()
    assert room.switch.snapshot() == first
    baseline = room.baseline
    assert baseline is not None
    ways: list[Way] = [
        lambda exchange: edit(exchange, SwitchState(), desired, baseline),
        lambda exchange: restore(exchange, desired, baseline),
    ]
    counts = [lines_of(room, way) for way in ways]
    text = run_broken(room, ways[0], applying, counts[0])
    if applying.kind == "refused" and text:
        # Refused before a change, or put back: one line that is refused stops nothing.
        assert "result" not in text or put_back(system) in text
        assert room.switch.snapshot() == first
    end_it(room, ways[0], applying)
    assert diff_states(room.read(), desired) == ()
    assert room.apply() == ()
    text = run_broken(room, ways[1], undoing, counts[1])
    if undoing.kind == "refused" and "the previous values were put back" in text:
        assert diff_states(room.read(), desired) == ()
    end_it(room, ways[1], undoing)
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()


def run_broken(room: Room, way: Way, fault: Fault, count: int) -> str:
    """A run with a fault: what its error says; blank where the fault was of no matter."""
    exchange, system = room.talk(), room.plan.os
    run = exchange.session.run

    def breaks(command: str, number: int) -> str | None:
        if number != fault.at % count + 1:
            return None
        if fault.kind == "refused":
            return REFUSALS[system]
        if fault.kind == "lost after":
            run(command)
        raise UnreachableError(f"leaf-01: the session ended while `{command}` ran")

    answer(exchange, breaks)
    kind = DeviceError if fault.kind == "refused" else UnreachableError
    try:
        way(exchange)
    except kind as error:
        return str(error)
    return ""


def end_it(room: Room, way: Way, fault: Fault) -> None:
    """The same run again, after a boot where the fault says so."""
    if fault.reboot:
        room.switch.reload()
    way(room.talk())


def _fits(line: str, *, routed: bool) -> bool:
    """Lines of BGP are of a switch that routes, and no port holds a map of ours before it is there.

    After a broken undo such a port keeps the map.
    """
    return (routed or "{asn}" not in line) and '"tc_to_queue_map":"RAILYARD"' not in line


@pytest.mark.parametrize("system", EVERYTHING)
def test_wherever_a_run_breaks_the_next_one_ends_it(system: str) -> None:
    @QUICK
    @given(
        pieces=PIECES,
        history=HISTORIES[system],
        spine=st.booleans(),
        applying=FAULTS,
        undoing=FAULTS,
    )
    def play(
        pieces: Pieces,
        history: list[str],
        spine: bool,  # noqa: FBT001 - drawn
        applying: Fault,
        undoing: Fault,
    ) -> None:
        with TemporaryDirectory() as folder:
            room = whole_rooms(whole_of(system, pieces), Path(folder))[-1 if spine else 0]
            routed = room.plan.desired.bgp is not None
            disturb(room, [line for line in history if _fits(line, routed=routed)])
            live_broken(room, applying, undoing)

    play()


NEIGHBOR: Final = (
    'sudo sonic-cfggen -a \'{"BGP_NEIGHBOR":{"default|Ethernet232":%s}}\' --write-to-db'
)
UNNUMBERED: Final = Pieces(
    split=False, routed="unnumbered", bfd=True, queues=False, mode="lossy_ecn", spreading=True,
    links="",
)  # fmt: skip


@pytest.mark.parametrize("row", ['{"asn":"65001","bfd":"true"}', '{"peer_type":"internal"}'])
def test_a_neighbor_of_before_comes_back_wherever_an_undo_of_sonic_breaks(
    tmp_path: Path, row: str
) -> None:
    room = whole_rooms(whole_of("sonic", UNNUMBERED), tmp_path)[0]
    disturb(room, [NEIGHBOR % row])
    first = room.switch.snapshot()
    room.record()
    room.apply()

    assert room.baseline is not None
    before = room.baseline

    def undo(exchange: Exchange) -> None:
        restore(exchange, room.plan.desired, before)

    lines = lines_of(room, undo)
    for number in range(lines):
        room.apply()
        run_broken(room, undo, Fault("lost after", number), lines)
        undo(room.talk())
        assert room.switch.snapshot() == first, f"the session was lost after line {number}"


RENUMBERED: Final[Db] = {
    "BGP_GLOBALS": {"default": {"local_asn": "64999"}},
    "BGP_NEIGHBOR": {"default|10.1.1.1": {"asn": "65009"}},
}
FAMILIES: Final[Db] = {
    "BGP_GLOBALS": {
        "default": {"local_asn": "64999", "graceful_shutdown": "false"},
        "Vrf1": {"local_asn": "64998"},
    },
    "BGP_GLOBALS_AF": {"default|ipv4_unicast": {"max_ebgp_paths": "4"}},
    "BGP_GLOBALS_AF_NETWORK": {"default|ipv4_unicast|10.77.0.0/24": {}},
    "BGP_NEIGHBOR": {
        "default|10.1.1.1": {"asn": "65009"},
        "default|Ethernet232": {"peer_type": "internal"},
        "Vrf1|10.2.2.2": {"asn": "65008"},
    },
    "BGP_NEIGHBOR_AF": {"default|10.1.1.1|ipv4_unicast": {"admin_status": "true"}},
}


def bgp_tables(room: Room) -> Db:
    assert isinstance(room.switch, SonicSwitch)
    running = copy.deepcopy(room.switch.stored.running)
    return {table: rows for table, rows in running.items() if table.startswith("BGP_")}


def test_a_site_without_bgp_brings_none_back_to_an_owner_with_a_set_of_our_name(
    tmp_path: Path,
) -> None:
    """Such a set is no mark of a change of ours that stopped half-way."""
    room = whole_rooms(whole_of("sonic", UNNUMBERED), tmp_path)[0]
    disturb(room, [as_line({**RENUMBERED, "ROUTE_MAP_SET": {"RAILYARD": {}}})])
    room.record()
    assert room.baseline is not None
    desired = room.plan.desired.model_copy(update={"bgp": None, "addresses": None})
    edit(room.talk(), SwitchState(), desired, room.baseline)
    disturb(room, ["sonic-db-cli CONFIG_DB DEL 'BGP_NEIGHBOR|default|10.1.1.1'"])
    assert "BGP_NEIGHBOR" not in bgp_tables(room)
    edit(room.talk(), desired, desired, room.baseline)
    assert "BGP_NEIGHBOR" not in bgp_tables(room)


def test_another_number_is_refused_if_it_would_lose_a_password(tmp_path: Path) -> None:
    """Secrets are not read, so they could not be written again."""
    room = whole_rooms(whole_of("sonic", UNNUMBERED), tmp_path)[0]
    session = {"asn": "65009", "auth_password": "hunter2"}
    disturb(room, [as_line({**RENUMBERED, "BGP_NEIGHBOR": {"default|10.1.1.1": session}})])
    first = room.switch.snapshot()
    room.record()
    with pytest.raises(RailyardError, match=r"BGP_NEIGHBOR\|default\|10\.1\.1\.1") as refused:
        room.apply()
    assert "hunter2" not in f"{refused.value} {room.baseline}"
    assert room.switch.snapshot() == first


@pytest.mark.parametrize(
    ("tables", "kind"),
    [(RENUMBERED, "lost after"), (FAMILIES, "lost after"), (FAMILIES, "refused")],
    ids=["neighbor", "families", "refused"],
)
def test_bgp_of_others_comes_back_wherever_another_number_of_sonic_breaks(
    tmp_path: Path, tables: Db, kind: Literal["lost after", "refused"]
) -> None:
    """BGP is deleted and written again, in an apply and in an undo."""
    room = whole_rooms(whole_of("sonic", UNNUMBERED), tmp_path)[0]
    desired = room.plan.desired
    disturb(room, [as_line(tables)])
    first = room.switch.snapshot()
    room.record()
    assert room.baseline is not None
    before = room.baseline
    ways: dict[str, Way] = {
        "apply": lambda exchange: edit(exchange, SwitchState(), desired, before),
        "undo": lambda exchange: restore(exchange, desired, before),
    }
    lines, after = dict[str, list[str]](), dict[str, Db]()
    for name, way in ways.items():
        exchange = room.talk()
        lines[name] = answer(exchange)
        way(exchange)
        after[name] = bgp_tables(room)
    assert room.switch.snapshot() == first

    for name, again in (("apply", "apply"), ("apply", "undo"), ("undo", "undo"), ("undo", "apply")):
        for at in (n for n, line in enumerate(lines[name]) if re.search("BGP|ROUTE_MAP", line)):
            if name == "undo":
                ways["apply"](room.talk())
            assert run_broken(room, ways[name], Fault(kind, at), len(lines[name]))
            ways[again](room.talk())
            if again == "apply":
                assert bgp_tables(room) == after["apply"], (name, lines[name][at])
                ways["undo"](room.talk())
            assert room.switch.snapshot() == first, (name, again, lines[name][at])


@pytest.mark.parametrize("system", EVERYTHING)
def test_an_edit_to_anything_else_settles_and_undo_is_exact(system: str) -> None:
    @settings(QUICK, max_examples=3)
    @given(before=PIECES, after=PIECES)
    def play(before: Pieces, after: Pieces) -> None:
        if system != "cumulus":  # parts are there before: people make them, or the model's lanes
            after = replace(after, split=before.split)
        there = replace(before, routed=before.routed or "numbered")
        with TemporaryDirectory() as folder:
            room = whole_rooms(whole_of(system, there), Path(folder))[0]
            room.plan = plan_fabric(whole_of(system, before))[0]
            check_life(room, plan_fabric(whole_of(system, after))[0].desired)

    play()


@pytest.mark.parametrize("system", EVERYTHING)
def test_no_rule_refuses_what_these_sites_ask_for(system: str) -> None:
    spec = whole_of(system)
    found = [p for rule in RULES for p in rule.problems(spec) if p.severity == "error"]
    assert found == []


@pytest.mark.parametrize("system", EVERYTHING)
def test_what_fails_after_the_last_change_takes_all_of_it_back(system: str, tmp_path: Path) -> None:
    """A look that is refused, and the save: routing and splits go as they came."""
    room = whole_rooms(whole_of(system), tmp_path)[0]
    desired, exchange, first = room.plan.desired, room.talk(), room.switch.snapshot()
    room.record()
    sent = answer(exchange)
    last = apply(exchange, desired)[-1]
    room.restore()
    assert room.switch.snapshot() == first
    carrier = PATCH if system == "cumulus" else last
    start, end = len(sent) - sent[::-1].index(carrier), len(sent) - 1
    refused = 0
    for at in sorted({start, (start + end) // 2, end}):
        text = run_broken(room, lambda each: apply(each, desired), Fault("refused", at), len(sent))
        if text:
            refused += 1
            assert put_back(system) in text, sent[at]
        else:  # a question that may stay open
            room.restore()
        assert room.switch.snapshot() == first, sent[at]
    assert refused
