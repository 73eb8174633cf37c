"""Tier 3: the whole lab with the real engine: one edit and one fault, and what comes to rest."""

from __future__ import annotations

import json
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

from campaign.device.judge import NEXT, difference
from campaign.history import History
from campaign.intent.edits import replace_name
from campaign.whole.lab import standing
from components.checks.site import check_config_value
from components.core.problem import Json
from components.core.record import record
from lab.engine.recover import Pulumi, recover
from lab.site import secrets_of
from lab.up import NAME
from tests.site.playground import PROJECT, Done, Playground

RUNS: Final = 2
"""So many more updates bring a site to rest after one that failed."""
DESTROY_EVERY: Final = 10
"""Every so many seeds the stack is destroyed, and made again by the next seed."""
TRIES: Final = 4
"""How many edits a person makes until the rules let one pass."""
SHORT: Final = 8
"""Characters of a password that may be a plain word of an output."""
EVENTS: Final = 450
"""So many events an engine writes in an update of a few settings. A signal comes at one of them,
which is the same one on a slow machine; a moment in seconds would not be."""
LATER_S: Final = 6.0
"""Half of the signals come up to so much later: a step that is at work writes no event."""
EVENT_LOG: Final = {"PULUMI_DEBUG_COMMANDS": "true"}
"""Without it the engine knows no `--event-log`."""
POLL_S: Final = 0.05
OURS: Final = "var/lib/railyard/"
"""The folder of recorded values on a host, which grows with what a file asked for."""
UPDATE_DEADLINE_S: Final = 600.0
Edit = Callable[[random.Random, dict[str, Any]], str]


@record
class Cut:
    """A signal in the middle of an update."""

    number: signal.Signals
    event: int
    """It comes after so many events of the engine."""
    whole: bool
    """To the engine and all that it started, as a terminal sends it; else to the engine alone."""
    later_s: float = 0.0

    def __str__(self) -> str:
        """For people."""
        to = "the engine and all below it" if self.whole else "the engine alone"
        later = f" and {self.later_s:.1f} s" if self.later_s else ""
        return f"{self.number.name} to {to} at event {self.event}{later}"

    def send(self, pid: int) -> None:
        """Send it to an engine that leads a session of its own."""
        (os.killpg if self.whole else os.kill)(pid, self.number)


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
    before = _devices(site)
    history.say(f"edit: {_edit(game)}")
    history.counts["updates"] += 1
    _broken_update(game)
    game.config.write_text((PROJECT / "Pulumi.dev.yaml").read_text())
    _rest(game, _up(game), "the way back")
    if where := difference(before, _devices(site)):
        history.fail(2, f"after the way back a device is not as it was: {where}")
    if history.seed % DESTROY_EVERY == 0:
        _destroy(game)


def _devices(site: Playground) -> Json:
    """All devices, without the notes of our own that are gone after `destroy` alone.

    The kernel numbers the RDMA devices of VFs in the order in which they are made: no setting.
    """
    devices: Any = site.settings()
    for host in devices["hosts"].values():
        host["files"] = {path: held for path, held in host["files"].items() if OURS not in path}
        for vf in (vf for nic in host["nics"].values() for vf in nic["vfs"]):
            vf.pop("rdma", None)
    return cast("Json", devices)


def _edit(game: Game) -> str:
    """An edit that the rules of the file let pass."""
    for _ in range(TRIES):
        document = yaml.safe_load(game.config.read_text())
        site = cast("dict[str, Any]", document["config"]["railyard:cluster"])
        words = game.chance.choice(_EDITS)(game.chance, site)
        if check_config_value(site, None).spec is None:
            game.history.say(f"a rule refuses: {words}")
            continue
        game.config.write_text(yaml.safe_dump(document, sort_keys=False))
        return words
    return "nothing"


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


def _vlan(_chance: random.Random, site: dict[str, Any]) -> str:
    site["rails"][0]["vlan"] = 211
    return "VLAN of rail-0 is 211"


def _lossless(_chance: random.Random, site: dict[str, Any]) -> str:
    site["rdma"] |= {"mode": "lossless", "priority": 3}
    return "rdma.mode lossless"


def _rail_denied(_chance: random.Random, site: dict[str, Any]) -> str:
    site["disruption"] |= {"ports": "deny", "reboots": "deny"}
    site["rails"][1]["vlan"] = 212
    return "VLAN of rail-1 is 212, and interruptions are denied"


def _rename(chance: random.Random, site: dict[str, Any]) -> str:
    old = chance.choice(["mgmt01", "gpu01", "leaf-01"])
    changed = replace_name(site, old, f"{old}-new")
    site.clear()
    site.update(changed)
    return f"{old} is called {old}-new"


def _swap(_chance: random.Random, site: dict[str, Any]) -> str:
    one, other = site["hosts"][1:3]
    one["ssh"], other["ssh"] = other["ssh"], one["ssh"]
    return "the ssh blocks of gpu01 and gpu02 are exchanged"


_EDITS: Final[tuple[Edit, ...]] = (
    *(_ecn, _mtu, _vfs, _memlock, _nothing),
    *(_vlan, _lossless, _rail_denied, _rename, _swap),
)
_BY_HAND: Final[tuple[tuple[str, ...], ...]] = (
    ("leaf-01", "mtu", "1/1", "1600"),
    ("leaf-01", "trust", "1/2", "L2"),
    ("leaf-01", "drop", "5"),
    ("leaf-01", "slow", "0.1"),
    ("leaf-01", "read-only", "on"),
    ("gpu01", "mtu", "enp5s0", "1500"),
    ("gpu01", "qos-lost"),
    ("gpu02", "vfs-lost"),
    ("gpu02", "module-lost", "nvidia_peermem"),
    ("gpu02", "ssh-refused", "on"),
)
"""Faults of devices, as `railyard lab fault` plants them."""
_OVER: Final[Mapping[str, str]] = {
    "drop": "off",
    "slow": "0",
    "read-only": "off",
    "ssh-refused": "off",
}
"""What ends a fault that a device does not get over by itself."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def _broken_update(game: Game) -> None:
    """One update with one fault, and what it leads to."""
    if game.chance.random() < 0.5:  # noqa: PLR2004 - a coin
        fault = game.chance.choice(_BY_HAND)
        game.history.say(f"  fault: {' '.join(fault)}")
        game.site.fault(*fault)
        done = _up(game)
        if fault[1] in _OVER:
            game.site.fault(fault[0], fault[1], _OVER[fault[1]])
    else:
        cut = Cut(
            game.chance.choice(_SIGNALS),
            game.chance.randint(1, EVENTS),
            whole=game.chance.random() < 0.5,  # noqa: PLR2004 - a coin
            later_s=game.chance.choice([0.0, game.chance.uniform(0, LATER_S)]),
        )
        game.history.say(f"  fault: {cut}")
        done = _up(game, cut)
    _rest(game, done, "the update")


def _up(game: Game, cut: Cut | None = None) -> Done:
    """`pulumi up`, and a signal in the middle of it."""
    events = game.site.lab / "campaign.jsonl"
    events.unlink(missing_ok=True)
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
    command += ["--stack", game.site.stack, "--config-file", str(game.config)]
    command += ["--event-log", str(events)]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**game.site.environment(), **_marks(), **EVENT_LOG},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    met = cut is not None and _wait_for(cut, process, events)
    if cut is not None and met:
        cut.send(process.pid)
        game.history.counts["updates cut by a signal"] += 1
    text, _ = process.communicate(timeout=UPDATE_DEADLINE_S)
    done = Done(process.returncode, text)
    took_s = time.monotonic() - began
    cut_words = "" if cut is None else ", cut" if met else ", which ended before the signal"
    game.history.say(f"  up: {done.code} after {took_s:.0f} s{cut_words}")
    game.history.detail(text)
    for secret in secrets_of(game.site.stack).values():
        if len(secret) > SHORT and secret in text:
            game.history.fail(9, "a secret is in the output of an update")
    return done


def _wait_for(cut: Cut, process: subprocess.Popen[str], events: Path) -> bool:
    """Wait until it is time for the signal; False: the engine ended before."""
    ends_at_s, seen = time.monotonic() + UPDATE_DEADLINE_S, 0
    while process.poll() is None and time.monotonic() < ends_at_s:
        if events.exists():
            seen = events.read_bytes().count(b"\n")
        if seen >= cut.event:
            return _runs_on(process, cut.later_s)
        time.sleep(POLL_S)
    return False


def _runs_on(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _marks() -> Mapping[str, str]:
    """What tells processes of a test from others."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAILYARD_")}


def _rest(game: Game, done: Done, what: str) -> None:
    """At most two more updates, and then nothing is to do."""
    history = game.history
    if done.code and _is_refused(done):
        history.counts["updates refused"] += 1
        return
    canceled = "received; cancelling" in done.text  # who sent the signal knows how to go on
    if done.code > 0 and not canceled and not NEXT.search(done.text):
        history.fail(7, f"{what} fails, and no next command is named")
    for _ in range(RUNS):
        if not done.code:
            break
        recover(_engine(game.site))
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


def _engine(site: Playground) -> Pulumi:
    """How `make up` reaches the engine, to lift the lock of one that was killed."""
    return Pulumi(
        PROJECT, NAME, site.stack, PROJECT / ".pulumi" / "backend", site.environment(), site.config
    )


def _is_refused(done: Done) -> bool:
    return "Nothing was changed on any device" in done.text or "disruption:" in done.text


def _destroy(game: Game) -> None:
    done = game.site.pulumi("destroy", "--yes", "--skip-preview")
    game.history.counts["destroys"] += 1
    if done.code:
        game.history.fail(7, f"destroy fails: {' '.join(done.text.split())[-300:]}")
    elif where := difference(json.loads(game.site.before), json.loads(game.site.snapshot())):
        game.history.fail(3, f"destroy does not lead back to the first snapshot: {where}")
