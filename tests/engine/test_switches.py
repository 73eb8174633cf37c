"""`pulumi up`, drift, repair and `destroy` of a switch of every system, with the real engine.

The program has the `Fabric` component and nothing else; the switch is an emulator over real SSH.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from components.model.cluster import ClusterSpec, Disruption
from tests.engine.runner import EngineRunner, Result
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.engine
ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
import pulumi
from components.fabric.edit import asked_of_switch, drift_of_switch
from components.update.refusals import exec_notes
from components.fabric import Fabric
from components.fabric.device import observe_switch
from components.fabric.fabric_plan import plan_fabric
from components.model.cluster import ClusterSpec
from stacks.own_state import read_own_state
from components.remote.component import Remote

config = pulumi.Config("railyard")
plans = plan_fabric(ClusterSpec.model_validate_json(Path("site.json").read_text()))
applied = read_own_state()
secrets = {{"switch_password": config.require("switch_password")}}
drifts = tuple(
    drift_of_switch(
        plan, applied,
        observe_switch(
            plan.endpoint, plan.os, asked_of_switch(plan, applied), secrets
        ),
    )
    for plan in plans
)
notes = {{drift.step: drift.note for drift in drifts if drift.note}}
Fabric("fabric", plans, Remote(config, notes | exec_notes(plans, applied, drifts)))
for drift in drifts:
    for difference in drift.differences:
        pulumi.log.info(f"drift: {{difference}}")
"""
DEVICE: Final = {"create": 4}
"""The component, the baseline, the apply, and the gate."""
EXEC: Final = {"create": 6}
"""The component, the exec, its judge, the save, its judge, and the gate."""


@dataclass
class Stack:
    """A project with one switch."""

    engine: EngineRunner
    room: SwitchRoom
    folder: Path
    spec: ClusterSpec

    def write(self, spec: ClusterSpec) -> None:
        self.spec = spec
        (self.folder / "site.json").write_text(spec.model_dump_json())

    def up(self) -> Result:
        return self.engine.up(self.folder)

    def good_up(self) -> Result:
        done = self.up()
        assert done.rc == 0, done.stderr + done.errors
        return done


def make_stack(engine: EngineRunner, room: SwitchRoom, executor: str) -> Stack:
    """A stack whose site names the running switch."""
    folder = engine.project(f"{room.system}-{executor}-{room.endpoint.port}", PROGRAM)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    secret = ("config", "set", "--secret", "railyard:switch_password", room.lab.password)
    assert engine.call(folder, *secret, "--stack", "dev").returncode == 0
    spec = room.lab.spec
    leaf = spec.switches[0]
    ssh = leaf.ssh.model_copy(
        update={
            "address": room.endpoint.address,
            "port": room.endpoint.port,
            "user": room.endpoint.user,
            "host_key": room.endpoint.host_key,
        }
    )
    update: dict[str, object] = {"ssh": ssh, "executor": executor}
    if executor == "exec":
        update["exec_disruptive"] = "allow-interruptions"
    stack = Stack(engine, room, folder, spec)
    stack.write(spec.model_copy(update={"switches": (leaf.model_copy(update=update),)}))
    return stack


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    """One system: tests/over_ssh/test_switch_life.py plays each, without the engine."""
    with switch_room("eos", tmp_path) as room:
        yield room


@contextmanager
def exec_room(system: str, folder: Path) -> Generator[SwitchRoom]:
    with switch_room(system, folder) as room:
        if system == "onyx":
            room.switch.fault(["exit-status", "0"])  # as its SSH server may or may not send it
        yield room


def test_up_drift_repair_and_destroy(engine: EngineRunner, room: SwitchRoom) -> None:
    stack, first = make_stack(engine, room, "device"), room.switch.snapshot()
    assert stack.good_up().changes == DEVICE
    assert room.drift() == ()
    check_repair(stack, {f"{stack.spec.switches[0].name}-apply"})
    done = engine.destroy(stack.folder)
    assert done.rc == 0, done.errors
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()


def test_a_denied_interruption_ends_the_update(engine: EngineRunner, tmp_path: Path) -> None:
    """The step itself holds the policy: this program has no preview that could refuse."""
    with switch_room("onyx", tmp_path) as room:
        stack, first = make_stack(engine, room, "device"), room.switch.snapshot()
        allowed = stack.spec
        stack.write(allowed.model_copy(update={"disruption": Disruption(ports="deny")}))
        failed = stack.up()
        assert failed.rc != 0
        assert "would interrupt traffic" in failed.errors
        assert room.switch.snapshot() == first
        stack.write(allowed)
        stack.good_up()
        assert room.drift() == ()


def check_repair(stack: Stack, touched: set[str]) -> None:
    """A hand on the switch is seen and nothing else, shown, repaired, and then all is quiet."""
    room = stack.room
    hand = room.lab.carried.hand(room.desired)
    room.switch.fault(hand.fault)
    looked = stack.engine.preview(stack.folder)
    assert {name for _operation, name in looked.steps} == touched
    assert hand.drift in " ".join(text for _severity, text in looked.diagnostics)
    assert {name for _operation, name in stack.good_up().steps} == touched
    assert room.drift() == ()
    assert stack.good_up().changes == {}
    state = json.dumps(stack.engine.export(stack.folder))
    assert hand.drift in state
    if room.lab.password != room.lab.user:
        assert room.lab.password not in state


def test_an_exec_up_drift_repair_and_destroy(engine: EngineRunner, tmp_path: Path) -> None:
    with exec_room("onyx", tmp_path) as room:
        up_drift_repair_and_destroy(make_stack(engine, room, "exec"))


def up_drift_repair_and_destroy(stack: Stack) -> None:
    room = stack.room
    views = [room.switch.port_view(port) for port in room.desired.ports]
    assert stack.good_up().changes == EXEC
    assert room.drift() == ()
    assert room.lab.saved_part(room.switch) == next(iter(room.switch.snapshot().values()))
    steps = {"leaf-01-exec", "leaf-01-apply", "leaf-01-save", "leaf-01-saved"}
    check_repair(stack, steps)
    done = stack.engine.destroy(stack.folder)
    assert done.rc == 0, done.errors
    assert [room.switch.port_view(port) for port in room.desired.ports] == views
    assert room.switch.unmodelled == ()


@pytest.mark.parametrize(
    ("system", "fault", "words"),
    [
        ("onyx", ("reject", "mtu"), "refused a line of the exec"),
        ("cumulus", ("reject", "mtu"), "Failure during apply"),
        ("sonic", ("reject", "mtu"), "Error: refused: mtu"),
        ("sonic", ("disk-full", "on"), "No space left"),
    ],
)
def test_an_exec_that_was_refused_is_sent_again(
    engine: EngineRunner, tmp_path: Path, system: str, fault: tuple[str, str], words: str
) -> None:
    with exec_room(system, tmp_path) as room:
        refused_and_sent_again(make_stack(engine, room, "exec"), fault, words)


def refused_and_sent_again(stack: Stack, fault: tuple[str, str], words: str) -> None:
    room = stack.room
    saved = room.lab.saved_part(room.switch)
    room.switch.fault(list(fault))
    failed = stack.up()
    assert failed.rc != 0
    assert words in failed.errors
    assert room.lab.saved_part(room.switch) == saved, "never saved half"
    once = room.system != "onyx"  # tests/fabric/test_exec_plan.py undoes the exec of each system
    assert once or stack.up().rc != 0, "it is sent again, and refused again"
    room.switch.fault([fault[0], "off"])
    stack.good_up()
    assert room.drift() == ()
    assert room.lab.saved_part(room.switch) == next(iter(room.switch.snapshot().values()))
    if not once:
        assert stack.good_up().changes == {}
        assert stack.engine.destroy(stack.folder).rc == 0


def test_an_onyx_without_an_exit_status_fails_in_words(
    engine: EngineRunner, tmp_path: Path
) -> None:
    with switch_room("onyx", tmp_path) as room:
        stack = make_stack(engine, room, "exec")
        saved = room.lab.saved_part(room.switch)
        failed = stack.up()
        assert failed.rc != 0
        assert "without exit status" in failed.errors
        assert room.lab.saved_part(room.switch) == saved
