"""Tier 4: a host is converged, edited and undone, with its script killed at one of its commands."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from campaign.device.judge import difference
from campaign.history import History
from campaign.host.machine import FRAGILE, OTHERS, Machine, make_machine, some_lines

COMMANDS: Final = 2800
"""So many commands a run of everything has at most: where in it a fault is."""
FAULTY: Final = 0.65
RUNS: Final = 2
"""So many more runs bring a host to rest."""
_TICK: Final = """[ "${{BASH_VERSION-}}" ] || exec bash --posix "$0"
campaign_n=0
trap '(( ++campaign_n != {at} )) || kill -{signal} $$' DEBUG
set -T
"""
"""The shell counts its commands, so that a kill hits the same one in each replay. Only bash can,
which is also the `sh` of Red Hat's systems; runs without a kill are by this machine's `sh`."""
_FULL: Final = "trap '' XFSZ\nulimit -f 0\n"
"""No file can grow: POSIX, XCU ulimit."""
OPERATIONS: Final = ("edit", "again", "hand", "other", "undo")
Done = subprocess.CompletedProcess[str]


@dataclass(slots=True)
class Game:
    """One history under way."""

    history: History
    chance: random.Random
    machine: Machine
    lines: tuple[str, ...]
    """What the file asks for now."""
    held: bool = False
    """The host is ours: something was applied and not undone."""


def play(history: History) -> None:
    """Play one history of a host."""
    chance = history.chance()
    with TemporaryDirectory(prefix="campaign-") as folder:
        machine, theirs = make_machine(chance, Path(folder))
        game = Game(history, chance, machine, some_lines(chance))
        history.say(f"others' files: {', '.join(theirs) or 'none'}")
        history.counts["histories"] += 1
        if not _apply(game):
            return
        for _ in range(chance.randint(1, 3)):
            operation = chance.choice(OPERATIONS)
            history.counts[operation] += 1
            if not _PLAYED[operation](game):
                return
        if game.held:
            _undo(game)


def _faulty(game: Game) -> tuple[str, str]:
    """What comes before the script, and the fault in words."""
    chance = game.chance
    if chance.random() > FAULTY:
        return "", ""
    kind = chance.choice(["KILL", "KILL", "TERM", "full", "tool"])
    if kind == "full":
        return _FULL, "the disk is full"
    if kind == "tool":
        tool = chance.choice(FRAGILE)
        game.machine.breaks(tool)
        return "", f"{tool} fails"
    at = chance.randrange(1, COMMANDS)
    return _TICK.format(at=at, signal=kind), f"SIG{kind} at command {at}"


def _until(game: Game, verb: Literal["converge", "undo"]) -> bool:
    """Run a script, and after a failure again: at most two more runs converge."""
    history, lines = game.history, game.lines
    first, fault = _faulty(game)
    done = game.machine.host.run(verb, *lines, first=first)
    history.counts["runs"] += 1
    history.say(f"  {verb} of {', '.join(lines)}{f', {fault}' if fault else ''}: {done.returncode}")
    history.counts[f"fault: {fault.partition(' ')[0]}"] += bool(fault and done.returncode)
    if done.returncode > 0 and "railyard: " not in done.stderr and not first:
        history.fail(7, f"after `{fault}` {verb} fails without a word")
    game.machine.breaks("")
    left = game.machine.scratch()
    if left and "SIGKILL" not in fault:
        history.fail(10, f"{verb} leaves a temporary folder")
    for _ in range(RUNS):
        if not done.returncode:
            return True
        history.detail(done.stderr)
        done = game.machine.host.run(verb, *lines)
        history.say(f"  {verb} again: {done.returncode} {' '.join(done.stderr.split())[:200]}")
    if done.returncode:
        history.fail(7, f"{verb} does not converge: {' '.join(done.stderr.split())[:300]}")
    return not done.returncode


def _apply(game: Game) -> bool:
    if not _until(game, "converge"):
        return False
    game.held = True
    found = _observed(game)
    for line in game.lines:
        key, _, value = line.partition("=")
        if found.get(key) != value:
            game.history.fail(6, f"success, and {key} is {found.get(key)}, not {value}")
    _others_stay(game)
    return True


def _observed(game: Game) -> Mapping[str, str]:
    done = game.machine.host.run("observe", *game.lines)
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {key: value for key, _, value in pairs}


def _others_stay(game: Game) -> None:
    """Invariant 2: a file that is only others' is as they left it."""
    now = game.machine.tree()
    for name, held in game.machine.before.items():
        if "theirs" in name and now.get(name) != held:
            game.history.fail(2, f"{name} of others is changed")


def _undo(game: Game) -> bool:
    if not _until(game, "undo"):
        return False
    game.held = False
    if where := difference(game.machine.tree(), game.machine.before):
        game.history.fail(3, f"the undo does not lead back: {where}")
    return True


def _edit(game: Game) -> bool:
    game.lines = some_lines(game.chance)
    return _apply(game)


def _by_hand(game: Game) -> bool:
    """Somebody takes a file of ours away; the next run brings it back."""
    now = game.machine.tree()
    ours = [
        name
        for name, (kind, _) in now.items()
        if kind.startswith("file") and name not in game.machine.before and "railyard/" not in name
    ]
    if ours:
        name = game.chance.choice(ours)
        (game.machine.host.root / name).unlink()
        game.history.say(f"  by hand: {name} is removed")
    return _apply(game)


def _other(game: Game) -> bool:
    name = game.chance.choice([each for each in OTHERS if "theirs" in each])
    game.machine.write(name, game.chance.choice(OTHERS[name]))
    game.history.say(f"  another admin: {name}")
    return True


def _undo_and_apply(game: Game) -> bool:
    return _undo(game) and _apply(game)


_PLAYED: Final[Mapping[str, Callable[[Game], bool]]] = {
    "edit": _edit,
    "again": _apply,
    "hand": _by_hand,
    "other": _other,
    "undo": _undo_and_apply,
}
