"""Waves on the real engine: several emulated switches, and a port of wave two that stays down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.fabric.fabric_plan import plan_fabric
from components.fabric.links import plan_waves
from components.model.cluster import ClusterSpec, Disruption, SwitchWaves
from lab.site import lab_file, load_document, overlay, secrets_of
from lab.switches.emulators import make_switch
from tests.engine.runner import EngineRunner
from tests.engine.test_switches import PROGRAM, ROOT
from tests.fabric.switch_labs import K3S, LABS
from tests.over_ssh.switch_room import running_loop

pytestmark = pytest.mark.engine
ORDERED: Final = PROGRAM.replace(
    "applied = read_own_state()",
    "from components.fabric.edit import ordered\n"
    "applied = read_own_state()\n"
    "plans = ordered(plans, applied)",
)


@dataclass
class Room:
    """The switches of an example, running, and a stack with them."""

    switches: dict[str, Any]
    spec: ClusterSpec
    folder: Path

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        return plan_waves(self.spec)

    def snapshots(self) -> dict[str, Any]:
        return {name: each.snapshot() for name, each in self.switches.items()}

    def moved(self, before: dict[str, Any]) -> set[str]:
        """The switches that are not as they were."""
        return {name for name, now in self.snapshots().items() if now != before[name]}

    def write(self, mtu_bytes: int) -> None:
        rdma = self.spec.rdma.model_copy(update={"port_mtu_bytes": mtu_bytes})
        spec = self.spec.model_copy(update={"rdma": rdma})
        (self.folder / "site.json").write_text(spec.model_dump_json())


@pytest.fixture
def room(engine: EngineRunner, tmp_path: Path) -> Iterator[Room]:
    stack = "waves-mixed-fabric"
    document = load_document(ROOT / "examples/mixed-fabric/site.yaml")
    spec = ClusterSpec.model_validate(cast("dict[str, Any]", overlay(document, stack, K3S)))
    limits = SwitchWaves(max_unavailable=2, settle_s=2)
    spec = spec.model_copy(update={"disruption": Disruption(ports="allow", switches=limits)})
    folder = engine.project(stack, ORDERED)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    password = secrets_of(stack)["switch_password"]
    secret = ("config", "set", "--secret", "railyard:switch_password", password)
    assert engine.call(folder, *secret, "--stack", "dev").returncode == 0
    switches = {
        config.name: make_switch(config, tmp_path / f"{config.name}.json")
        for config in lab_file(spec, stack, (tmp_path, tmp_path, tmp_path)).switches
    }
    with running_loop() as loop:
        for plan in plan_fabric(spec):
            LABS[plan.os].prepare(switches[plan.name])
            asyncio.run_coroutine_threadsafe(switches[plan.name].start(), loop).result(timeout=30)
        try:
            yield Room(switches, spec, folder)
        finally:
            for switch in switches.values():
                asyncio.run_coroutine_threadsafe(switch.stop(), loop).result(timeout=30)


def test_a_fault_in_wave_two_stops_the_later_waves(engine: EngineRunner, room: Room) -> None:
    first = room.snapshots()
    room.write(9200)
    done = engine.up(room.folder)
    assert done.rc == 0, done.stderr + done.errors
    assert room.moved(first) == {*room.switches}
    as_applied = room.snapshots()

    bad = room.waves[1][0]
    plan = next(plan for plan in plan_fabric(room.spec) if plan.name == bad)
    port = next(iter(plan.desired.ports))
    room.switches[bad].fault(["lose-link", port, "mtu"])
    room.write(9000)
    failed = engine.up(room.folder)
    assert failed.rc != 0
    assert f"port {port} was up and is down" in failed.errors
    assert f"wave    2 of {len(room.waves)}" in failed.errors
    assert f"done    {room.waves[0][0]}" in failed.errors
    assert room.moved(as_applied) == {name for wave in room.waves[:2] for name in wave}

    still = engine.up(room.folder)
    assert still.rc != 0, "the port is still down, and the next run says so"
    assert room.moved(as_applied) == {name for wave in room.waves[:2] for name in wave}

    room.switches[bad].fault(["lose-link", "off"])
    room.switches[bad].fault(["link-down", port, "off"])
    mended = engine.up(room.folder)
    assert mended.rc == 0, mended.errors
    assert room.moved(as_applied) == {*room.switches}
    assert engine.up(room.folder).changes == {}

    ended = engine.destroy(room.folder)
    assert ended.rc == 0, ended.errors
    assert room.moved(first) == set()
    assert destroyed_in_waves([name for _, name in ended.steps], room.waves)


def destroyed_in_waves(steps: list[str], waves: tuple[tuple[str, ...], ...]) -> bool:
    """Whether no switch of an earlier wave was restored before one of a later wave."""
    at = {name: steps.index(f"{name}-apply") for wave in waves for name in wave}
    pairs = pairwise(waves)
    return all(max(at[n] for n in later) < min(at[n] for n in early) for early, later in pairs)
