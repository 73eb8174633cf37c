"""Tier 2: a switch is applied to, edited, renamed and undone, with a fault in an exchange."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from campaign.device.judge import (
    check_end,
    check_named,
    check_others,
    check_rest,
    check_time,
    drift_of,
    secret_found,
)
from campaign.device.rename import rename_refused
from campaign.device.site import (
    Place,
    Seen,
    carried_now,
    lost_between,
    make_place,
    other_pieces,
)
from campaign.device.ssh import EVERY, listening
from campaign.device.step import Ended, Runner
from campaign.device.wire import Fault, Time, Wire
from campaign.history import History
from components.fabric.device import BASELINE_VARIABLE, PREVIOUS_OUTPUT
from components.fabric.edit import pack_baseline
from components.fabric.state import SwitchState
from components.remote.step import env_name, render_request
from tests.fabric.test_any_fault import REFUSALS

SECRET: Final = "marker-of-the-switch"  # noqa: S105 - a marker that is easy to find
EXCHANGES: Final = {"onyx": 150, "cumulus": 60, "eos": 180, "sonic": 60}
"""So many an apply of everything has at most: where in it a fault is."""
FAULTY: Final = 0.65
"""Share of the steps with a fault in them; where it comes after the last exchange there is none."""
OPERATIONS: Final = ("edit", "deny", "again", "hand", "undo", "rename", "other")


@dataclass(slots=True)
class Stack:
    """What the engine's state has of the switch, under its name in the file."""

    name: str
    baseline: str = ""
    stdin: str = ""
    evidence: str = ""
    desired: SwitchState = field(default_factory=SwitchState)


@dataclass(slots=True)
class Game:
    """One history under way."""

    history: History
    chance: random.Random
    place: Place
    runner: Runner
    stack: Stack
    touched: bool = False
    """Another admin changed something after the recorded values were read."""
    forgot: bool = False
    """The switch booted after that: whether it was saved by then is not ours to say."""

    @property
    def environ(self) -> dict[str, str]:
        """Of a step: secrets, recorded values, what the last run printed."""
        names = self.place.plan.endpoint.secret_names
        found = {env_name(name): SECRET for name in names}
        if self.stack.baseline:
            found[BASELINE_VARIABLE] = pack_baseline(self.stack.baseline)
        if self.stack.evidence:
            found[PREVIOUS_OUTPUT] = self.stack.evidence
        return found

    def request(self, *, deny: bool) -> str:
        """The stdin of an apply."""
        plan = self.place.plan
        endpoint = replace(plan.endpoint, device=self.stack.name)
        policy = {"ports": "deny"} if deny else {}
        desired = plan.desired.model_dump(mode="json")
        return render_request(endpoint, os=plan.os, desired=desired, **policy)


def play(history: History) -> None:
    """Play one history of a switch."""
    chance = history.chance()
    # Steps keep what they miss below the folder of the program, and locks in the cache of their
    # user: each history has its own.
    with (
        TemporaryDirectory(prefix="campaign-") as folder,
        chdir(folder),
        patch.dict(os.environ, {"XDG_CACHE_HOME": folder}),
    ):
        place = make_place(chance, Path(folder))
        lines = place.before_us(chance)
        history.say(f"{place.system}, {place.plan.name}: {place.pieces}")
        history.say(f"  others' lines before: {'; '.join(lines) or 'none'}")
        wire = Wire(place.room.switch.session, Time(), REFUSALS[place.system])
        history.counts["histories"] += 1
        if history.seed % EVERY:
            _live(Game(history, chance, place, Runner(wire), Stack(place.plan.name)))
        else:
            history.say("  over SSH")
            history.counts["histories over SSH"] += 1
            with listening(place, wire, SECRET) as runner:
                _live(Game(history, chance, place, runner, Stack(place.plan.name)))
        check_rest(history)


def _live(game: Game) -> None:
    if not _apply(game, first=True):
        game.history.counts["histories that the product refused"] += 1
        return
    for _ in range(game.chance.randint(1, 3)):
        operation = game.chance.choice(OPERATIONS)
        game.history.counts[operation] += 1
        if not _PLAYED[operation](game):
            return
    if game.stack.stdin and _undo(game):
        _check_end(game)


def _check_end(game: Game) -> None:
    if not game.forgot:
        check_end(game.history, game.place, touched=game.touched)


def _fault(game: Game) -> Fault | None:
    if game.chance.random() > FAULTY:
        return None
    kind = game.chance.choice(game.runner.kinds)
    at = game.chance.randrange(EXCHANGES[game.place.system])
    return Fault(kind, at, random.Random(game.chance.random()), _hook(game, kind))  # noqa: S311 - replays


def _hook(game: Game, kind: str) -> Callable[[], None]:
    def admin() -> None:
        if game.place.has_open_candidate:
            return  # what EOS does then is a guess of the emulator: no verdict may follow from it
        game.touched = True
        game.history.say(f"    meanwhile: {game.place.another_admin(game.chance)}")

    def boot() -> None:
        game.forgot = game.forgot or game.touched
        game.place.room.switch.reload()

    hooks: dict[str, Callable[[], None]] = {
        "another admin": admin,
        "boot": boot,
        "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
        "SIGTERM": lambda: signal.raise_signal(signal.SIGTERM),
    }
    return hooks.get(kind, lambda: None)


def _step(game: Game, verb: str, stdin: str, *, deny: bool = False) -> tuple[Ended, str]:
    """Run a step, with a fault or without, and judge what each run of it must hold."""
    wire, history = game.runner.wire, game.history
    wire.fault, wire.exchanges = _fault(game), 0
    names = (*{**game.stack.desired.ports, **game.place.plan.desired.ports},)
    before = carried_now(game.place.room, names)
    wire.after = _watch(game, before, names) if deny else lambda: None
    owned = game.stack.desired
    unowned = game.place.unowned(owned)
    ended = game.runner.run(verb, stdin, game.environ)
    fault, wire.fault, wire.after = wire.fault, None, lambda: None
    met = fault.kind if fault and fault.met else ""
    history.counts["steps"] += 1
    history.counts[f"fault: {met}"] += 1 if met else 0
    at = f", {met} at {fault.at}" if fault and met else ""
    last = ended.stderr.strip().splitlines()[:1]
    history.say(f"  {verb} of {game.stack.name}{at}: {ended.exit_code} {last[0] if last else ''}")
    if ended.stderr and not ended.overrun:
        history.detail(ended.stderr)
    check_time(history, ended, met)
    secret_found(history, ended, SECRET)
    if met not in {"another admin", "boot"}:
        check_others(history, f"{game.place.system}: {verb}", unowned, game.place.unowned(owned))
    if ended.exit_code and not ended.killed and not ended.overrun:
        check_named(history, game.place, ended, met, game.stack.name)
    return ended, met


def _watch(game: Game, before: Seen, names: tuple[str, ...]) -> Callable[[], None]:
    """With deny no port carries less, at no moment."""

    def look() -> None:
        lost = lost_between(before, carried_now(game.place.room, names))
        hard = [each for each in lost if each.kind != "class"]
        if hard:
            game.history.fail(4, f"{game.place.system}: with deny, {hard[0].kind} is lost")
            game.runner.wire.after = lambda: None
            game.history.say(f"    {hard[0]}")

    return look


def _until(game: Game, verb: str, stdin: str, *, deny: bool = False) -> Ended | None:
    """Run a step, and after a failure again: at most two more runs converge.

    Without a fault, what the product does not want to do is refused, and nothing is changed.
    """
    ended, met = _step(game, verb, stdin, deny=deny)
    for number in range(2):
        if not ended.exit_code:
            return ended
        if (number or not met) and _is_refusal(ended):
            return None
        game.runner.wire.exchanges = 0
        ended = game.runner.run(verb, stdin, game.environ)
        last = ended.stderr.strip().splitlines()[:1]
        game.history.say(f"  {verb} again: {ended.exit_code} {last[0] if last else ''}")
    if not ended.exit_code:
        return ended
    if not _is_refusal(ended):
        words = " ".join(ended.stderr.split())[:300]
        game.history.fail(7, f"{game.place.system}: {verb} does not converge: {words}")
    return None


def _is_refusal(ended: Ended) -> bool:
    """The product does not want to: what the file denies, and what the switch cannot have."""
    if "refused a line" in ended.stderr:
        return "the previous values were put back" in ended.stderr
    words = ("disruption.ports", "would interrupt", "Nothing was changed", "Railyard cannot change")
    return any(each in ended.stderr for each in words)


def _apply(game: Game, *, first: bool = False, deny: bool = False) -> bool:
    """Recorded values once, then an apply; whether the switch is as the file says."""
    if not game.stack.baseline:
        ended = _until(game, "baseline", game.request(deny=False))
        if ended is None:
            return False
        game.stack.baseline = ended.stdout
    stdin = game.request(deny=deny)
    ended = _until(game, "apply", stdin, deny=deny and not first)
    if ended is None:
        return False
    game.stack.stdin, game.stack.evidence = stdin, ended.stdout
    game.stack.desired = game.place.plan.desired
    _no_drift(game)
    return True


def _no_drift(game: Game) -> None:
    if text := drift_of(game.place):
        game.history.fail(6, f"{game.place.system}: success, and {text}")


def _edit(game: Game, *, deny: bool = False) -> bool:
    before = game.place.pieces
    game.place.asks(other_pieces(game.chance, game.place))
    game.history.say(f"  the file asks {game.place.pieces}{', ports deny' if deny else ''}")
    if _apply(game, deny=deny):
        return True
    game.place.asks(before)  # the person takes it back
    return bool(game.stack.stdin) and _apply(game)


def _undo(game: Game) -> bool:
    ended = _until(game, "restore", game.stack.stdin)
    if ended is None:
        return False
    game.stack = Stack(game.stack.name)
    return True


def _undo_and_apply(game: Game) -> bool:
    if not _undo(game):
        return False
    _check_end(game)
    return _apply(game)


def _rename(game: Game) -> bool:
    """The engine makes the new name first, and deletes the old one at the end."""
    old, new = game.stack, f"{game.stack.name}-new"
    refused = rename_refused(game.place.spec, old.name, new, old.baseline, old.stdin, old.evidence)
    game.history.say(f"  rename {old.name} to {new}: {refused or 'not refused'}")
    if refused:
        return True
    game.stack = Stack(new)
    if not _apply(game):
        return False
    made, game.stack = game.stack, old
    if _until(game, "restore", old.stdin) is None:
        return False
    game.stack = made
    _no_drift(game)
    return _apply(game)


def _by_hand(game: Game) -> bool:
    game.history.say(f"  by hand: {game.place.by_hand(game.chance)}")
    return _apply(game)


def _other(game: Game) -> bool:
    game.touched = True
    game.history.say(f"  another admin: {game.place.another_admin(game.chance)}")
    return True


_PLAYED: Final[dict[str, Callable[[Game], bool]]] = {
    "edit": _edit,
    "deny": lambda game: _edit(game, deny=True),
    "again": _apply,
    "hand": _by_hand,
    "undo": _undo_and_apply,
    "rename": _rename,
    "other": _other,
}
