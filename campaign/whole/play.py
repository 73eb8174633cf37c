"""Tier 3: the whole lab with the real engine: one edit and one fault, and what comes to rest."""

from __future__ import annotations

import copy
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from campaign.device.judge import NEXT
from campaign.history import History
from campaign.whole.lab import standing
from lab.site import secrets_of
from tests.site.playground import PROJECT, Done, Playground

RUNS: Final = 2
"""So many more updates bring a site to rest after one that failed."""
DESTROY_EVERY: Final = 10
"""Every so many seeds the stack is destroyed, and made again by the next seed."""
SHORT: Final = 8
"""Characters of a password that may be a plain word of an output."""
KILL_AFTER_S: Final = (4.0, 60.0)
"""When in an update a signal comes: a first update takes 90 s on an idle machine, a small one 20.
"""
Edit = Callable[[random.Random, dict[str, Any]], str]


@dataclass(slots=True)
class Game:
    """One history under way."""

    history: History
    chance: random.Random
    site: Playground
    config: Path


def play(history: History) -> None:
    """Play one seed on the lab that stands."""
    with standing() as site:
        play_on(site, history)


def play_on(site: Playground, history: History) -> None:
    """Play one seed: the site is at rest before and after."""
    chance = history.chance()
    game = Game(history, chance, site, site.lab / "campaign.yaml")
    game.config.write_text((PROJECT / "Pulumi.dev.yaml").read_text())
    if not site.resources():
        _rest(game, _up(game), "the first update")
    before = site.snapshot()
    history.say(f"edit: {_edit(game)}")
    history.counts["updates"] += 1
    _broken_update(game)
    game.config.write_text((PROJECT / "Pulumi.dev.yaml").read_text())
    _rest(game, _up(game), "the way back")
    if site.snapshot() != before:
        history.say("  the devices differ from those before the edit")
    if history.seed % DESTROY_EVERY == 0:
        _destroy(game)


def _edit(game: Game) -> str:
    document = yaml.safe_load(game.config.read_text())
    site = cast("dict[str, Any]", document["config"]["railyard:cluster"])
    words = game.chance.choice(_EDITS)(game.chance, site)
    game.config.write_text(yaml.safe_dump(document, sort_keys=False))
    return words


def _ecn(chance: random.Random, site: dict[str, Any]) -> str:
    site["rdma"]["ecn_min_kib"] = chance.choice([160, 200, 300])
    return f"rdma.ecn_min_kib {site['rdma']['ecn_min_kib']}"


def _mtu(chance: random.Random, site: dict[str, Any]) -> str:
    site["rdma"]["port_mtu_bytes"] = chance.choice([9100, 9200])
    return f"rdma.port_mtu_bytes {site['rdma']['port_mtu_bytes']}"


def _vfs(chance: random.Random, site: dict[str, Any]) -> str:
    number = chance.choice([4, 6])
    for nic in site["hosts"][2]["nics"]:
        nic["vfs"] = number
    return f"gpu02 has {number} VFs on each card"


def _memlock(_chance: random.Random, site: dict[str, Any]) -> str:
    site["host_defaults"].pop("memlock", None)
    return "no host_defaults.memlock"


def _nothing(_chance: random.Random, _site: dict[str, Any]) -> str:
    return "nothing"


def _rename(_chance: random.Random, site: dict[str, Any]) -> str:
    host = copy.deepcopy(site["hosts"][0])
    site["hosts"][0] = host | {"name": "mgmt02"}
    return "mgmt01 is called mgmt02"


_EDITS: Final[tuple[Edit, ...]] = (_ecn, _mtu, _vfs, _memlock, _nothing, _rename)
_BY_HAND: Final[tuple[tuple[str, ...], ...]] = (
    ("leaf-01", "mtu", "1/1", "1600"),
    ("leaf-01", "drop", "5"),
    ("leaf-01", "slow", "0.1"),
    ("leaf-01", "cli", "vlan", "3001"),
)
"""Faults of devices, as `railyard lab fault` plants them."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def _broken_update(game: Game) -> None:
    """One update with one fault, and what it leads to."""
    if game.chance.random() < 0.5:  # noqa: PLR2004 - a coin
        fault = game.chance.choice(_BY_HAND)
        game.history.say(f"  fault: {' '.join(fault)}")
        game.site.fault(*fault)
        done = _up(game)
        if fault[1] in {"drop", "slow"}:
            game.site.fault(fault[0], fault[1], "off" if fault[1] == "drop" else "0")
    else:
        number = game.chance.choice(_SIGNALS)
        after_s = game.chance.uniform(*KILL_AFTER_S)
        game.history.say(f"  fault: {number.name} after {after_s:.0f} s")
        done = _up(game, number, after_s)
    _rest(game, done, "the update")


def _up(game: Game, number: signal.Signals | None = None, after_s: float = 0.0) -> Done:
    """`pulumi up`, and a signal in the middle of it."""
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
    command += ["--stack", game.site.stack, "--config-file", str(game.config)]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**game.site.environment(), **_marks()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=after_s or None)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, number or signal.SIGKILL)
        text, _ = process.communicate(timeout=300)
    done = Done(process.returncode, text)
    took_s = time.monotonic() - began
    game.history.say(f"  up: {done.code} after {took_s:.0f} s")
    game.history.detail(text)
    for secret in secrets_of(game.site.stack).values():
        if len(secret) > SHORT and secret in text:
            game.history.fail(9, "a secret is in the output of an update")
    return done


def _marks() -> Mapping[str, str]:
    """What tells processes of a test from others."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAILYARD_")}


def _rest(game: Game, done: Done, what: str) -> None:
    """At most two more updates, and then nothing is to do."""
    history = game.history
    if done.code and _is_refused(done):
        history.counts["updates refused"] += 1
        return
    if done.code > 0 and not NEXT.search(done.text):
        history.fail(7, f"{what} fails, and no next command is named")
    for _ in range(RUNS):
        if not done.code:
            break
        game.site.pulumi("cancel", "--yes")
        done = _up(game)
    if done.code:
        words = " ".join(done.text.split())[-300:]
        history.fail(7, f"{what} does not come to rest: {words}")
        return
    preview = game.site.preview(game.config)
    if not preview.quiet:
        history.detail(preview.done.text)
        wrong = sorted(preview.changes)[:4] or " ".join(preview.done.text.split())[-200:]
        history.fail(6, f"after {what} a preview ends with {preview.done.code}: {wrong}")
    if strays := game.site.strays():
        history.fail(10, f"after {what} processes are left: {strays[:3]}")


def _is_refused(done: Done) -> bool:
    return "Nothing was changed on any device" in done.text or "disruption:" in done.text


def _destroy(game: Game) -> None:
    done = game.site.pulumi("destroy", "--yes", "--skip-preview")
    game.history.counts["destroys"] += 1
    if done.code:
        game.history.fail(7, f"destroy fails: {' '.join(done.text.split())[-300:]}")
    elif game.site.snapshot() != game.site.before:
        game.history.fail(3, "destroy does not lead back to the first snapshot")
