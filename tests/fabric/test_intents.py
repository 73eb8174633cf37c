"""What a file may ask of a switch: each row of intents.yaml is one intent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeGuard

import pytest

from components.checks.site import check_site
from components.core.errors import DeviceError
from components.fabric.edit import preview_switch
from components.fabric.effects import effect_of
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import diff_states
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import Room, chain_of, rooms_of, split_of
from tests.fabric.in_process import load_table
from tests.fabric.lives import check_life, live_in
from tests.fabric.switch_labs import put_back

ROWS: Final[list[dict[str, Any]]] = load_table("intents.yaml")
REFUSALS: Final = {
    "cumulus": "Error: Failure during apply",
    "eos": "% Invalid input",
    "onyx": "% Internal error: the command failed",
}
FABRICS: Final[dict[str, Callable[..., ClusterSpec]]] = {
    "leaf": partial(chain_of, leaves=1),
    "two leaves": partial(chain_of, leaves=2),
    "split": split_of,
}


@dataclass(frozen=True)
class Intent:
    """What a file asks for, and what follows from it on the first switch."""

    name: str
    system: str
    fabric: str = "leaf"
    asks: dict[str, Any] = field(default_factory=dict[str, Any])
    """Changes of the site: `rdma`, `switch` for every switch, and `ports` of the first one."""
    wants: dict[str, Any] = field(default_factory=dict[str, Any])
    """Part of the wanted state."""
    sends: tuple[str, ...] = ()
    """Lines to a new switch, in this order; other lines may be between them."""
    problem: str = ""
    """Words of the problem that refuses the file."""
    found: tuple[tuple[str, ...], ...] = ()
    """What somebody typed before the first apply, in one case after the other."""
    edits: tuple[dict[str, Any], ...] = ()
    """What the file asks for later, in place of `asks`."""
    drift: tuple[tuple[str, ...], ...] = ()
    """A line that somebody types, the difference that it makes, the effect of its repair, and
    all lines of the repair if they are said."""
    preview: tuple[str, ...] = ()
    interrupts: tuple[str, ...] = ()
    """What the preview says before and after the word INTERRUPTS."""
    quiet: tuple[str, ...] = ()
    """What the preview does not count as an interruption."""
    emulator_refuses: dict[str, str] = field(default_factory=dict[str, str])
    """A line to words of the answer."""
    stopped_by: dict[str, str] = field(default_factory=dict[str, str])
    """What somebody typed to the words of an apply that stops before it changes anything."""
    taken_back_at: tuple[str, ...] = ()
    """Lines of the apply: if the switch refuses one, all before it is taken back."""

    def spec(self, asked: dict[str, Any] | None = None) -> ClusterSpec:
        asks = self.asks if asked is None else asked
        site = FABRICS[self.fabric](self.system, **asks.get("rdma", {})).model_dump(mode="json")
        for switch in site["switches"]:
            switch.update(asks.get("switch", {}))
        for name, changes in asks.get("ports", {}).items():
            site["switches"][0]["ports"][name] |= changes
        return ClusterSpec.model_validate(site)

    def room(self, folder: Path, asked: dict[str, Any] | None = None) -> Room:
        return rooms_of(self.spec(asked), folder)[0]


MAPS: Final = {"emulator_refuses", "stopped_by"}
INTENTS: Final = tuple(Intent(**row) for row in ROWS)


def rows(*keys: str) -> pytest.MarkDecorator:
    """The intents that say any of these keys."""
    return pytest.mark.parametrize(
        "intent", [pytest.param(i, id=i.name) for i in INTENTS if any(getattr(i, k) for k in keys)]
    )


def entries(key: str) -> pytest.MarkDecorator:
    """Each entry that an intent has under a key."""

    def cases() -> Iterator[Any]:
        for intent in INTENTS:
            held: Any = getattr(intent, key)
            for number, entry in enumerate(held.items() if key in MAPS else held, 1):
                yield pytest.param(intent, entry, id=f"{intent.name} {number}")

    return pytest.mark.parametrize(("intent", "entry"), cases())


def part_of(state: Any, wanted: Any) -> Any:  # noqa: ANN401 - a state, a value or a map of them
    """What a state has under the keys that are wanted."""
    if not is_map(wanted):
        return [*state] if isinstance(wanted, list) else state
    found: dict[str, Any] = dict(state)
    return {key: part_of(found[key], inner) for key, inner in wanted.items()}


def is_map(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def typed(room: Room, line: str) -> None:
    """Somebody types a line, which the switch takes."""
    assert system_of(room.plan.os).find_refusal(room.switch.run_line(line)) is None, line


@rows("wants", "sends", "problem")
def test_what_an_intent_is_planned_as(intent: Intent) -> None:
    problems = [problem.what for problem in check_site(intent.spec())]
    assert any(intent.problem in what for what in problems) or not intent.problem
    if intent.problem:
        return
    plan = plan_fabric(intent.spec())[0]
    assert part_of(plan.desired, intent.wants) == intent.wants
    lines = iter("\n".join(plan.commands_from_factory).splitlines())
    sent = [wanted for wanted in intent.sends if any(wanted == line.rstrip(",") for line in lines)]
    assert sent == [*intent.sends]


@entries("found")
def test_what_was_there_comes_back(intent: Intent, entry: list[str], tmp_path: Path) -> None:
    """After each of the intents, and after one edit to the next."""
    room = intent.room(tmp_path)
    wishes = [plan_fabric(intent.spec(asked))[0].desired for asked in (intent.asks, *intent.edits)]
    for line in entry:
        typed(room, line)
    for wish in wishes:
        room.plan = room.plan.model_copy(update={"desired": wish})
        live_in(room, intent.spec(), [])
    room.plan = room.plan.model_copy(update={"desired": wishes[0]})
    assert check_life(room, *wishes[1:])


@entries("drift")
def test_a_change_by_hand_is_found_and_mended(
    intent: Intent, entry: list[str], tmp_path: Path
) -> None:
    line, difference, effect, *repair = entry
    room = intent.room(tmp_path)
    room.apply()
    typed(room, line)
    (found,) = diff_states(room.read(), room.plan.desired)
    assert (str(found), str(effect_of(intent.system, found))) == (difference, effect)
    sent = [*room.apply()]
    assert sent
    assert sent == (repair or sent)
    assert diff_states(room.read(), room.plan.desired) == ()


@rows("preview", "interrupts")
def test_a_first_preview_says_what_changes(intent: Intent, tmp_path: Path) -> None:
    room = intent.room(tmp_path)
    text = preview_switch(room.plan, None, room.read(), "allow") or ""
    changes, _, interrupts = text.partition("INTERRUPTS (disruption.ports: allow)")
    assert [words for words in intent.preview if words not in changes] == []
    assert [words for words in intent.interrupts if words not in interrupts] == []
    assert [words for words in intent.quiet if words in interrupts] == []


@entries("emulator_refuses")
def test_an_emulator_refuses(intent: Intent, entry: tuple[str, str], tmp_path: Path) -> None:
    line, words = entry
    assert words in intent.room(tmp_path).switch.run_line(line)


@entries("stopped_by")
def test_an_apply_stops_before_it_changes_anything(
    intent: Intent, entry: tuple[str, str], tmp_path: Path
) -> None:
    room = intent.room(tmp_path)
    typed(room, entry[0])
    room.save()
    first = room.switch.snapshot()
    room.record()
    with pytest.raises(DeviceError, match=entry[1]):
        room.apply()
    assert room.switch.snapshot() == first


@entries("taken_back_at")
def test_a_refused_line_takes_all_back(intent: Intent, entry: str, tmp_path: Path) -> None:
    room = intent.room(tmp_path)
    first = room.switch.snapshot()
    room.record()
    room.switch.refuse = lambda line: REFUSALS[intent.system] if line == entry else None
    with pytest.raises(DeviceError, match="refused a line") as told:
        room.apply()
    assert REFUSALS[intent.system] in str(told.value)
    assert put_back(intent.system) in str(told.value)
    # A document names each part by itself; people see both of them in one line.
    assert entry.rpartition("swp1s0 ")[2] in str(told.value)
    assert room.switch.snapshot() == first
