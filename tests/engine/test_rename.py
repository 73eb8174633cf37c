"""A switch gets another name and its first one back: the engine keeps it, and so does the switch.

The switch is an emulator over real SSH; what `destroy` puts back was recorded under its first name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from components.model.cluster import ClusterSpec, Renamed
from tests.engine.runner import EngineRunner
from tests.engine.test_switches import PROGRAM, Stack, make_stack
from tests.over_ssh.switch_room import switch_room

pytestmark = pytest.mark.engine


def renamed(spec: ClusterSpec, old: str, new: str) -> ClusterSpec:
    """The same site, as `railyard rename switch` writes it."""
    leaf = spec.switches[0].model_copy(update={"name": new})
    assert spec.switches[0].name == old
    return spec.model_copy(update={"switches": (leaf,), "renamed": Renamed(switches={new: old})})


def baselines(stack: Stack) -> dict[str, str]:
    """Step to what it recorded of the switch before the first update."""
    resources = stack.engine.export(stack.folder)["deployment"]["resources"]
    return {
        each["urn"].rsplit("::", 1)[-1]: each["outputs"]["stdout"]
        for each in resources
        if each["urn"].endswith("-baseline")
    }


@pytest.mark.parametrize(("system", "executor"), [("onyx", "device"), ("cumulus", "exec")])
def test_a_switch_is_renamed_and_back(
    engine: EngineRunner, tmp_path: Path, system: str, executor: str
) -> None:
    with switch_room(system, tmp_path) as room:
        stack = make_stack(engine, room, executor)
        program = PROGRAM.replace("plan_fabric(Cluster", "plan_fabric(spec := Cluster")
        program = program.replace("read_own_state()", "read_own_state(spec)")
        (stack.folder / "__main__.py").write_text(program)
        first = room.switch.snapshot()
        stack.good_up()
        set_up, name = room.switch.snapshot(), stack.spec.switches[0].name
        recorded = baselines(stack)
        for old, new in ((name, "other-07"), ("other-07", name)):
            stack.write(renamed(stack.spec, old, new))
            done = stack.good_up()
            assert {operation for operation, _ in done.steps} == {"update"}, done.steps
            assert room.switch.snapshot() == set_up
            assert room.drift() == ()
            assert baselines(stack) == {
                step.replace(name, new): values for step, values in recorded.items()
            }
        assert stack.good_up().changes == {}, "the entry may stay in the file"
        done = engine.destroy(stack.folder)
        assert done.rc == 0, done.errors
        if executor == "device":
            assert recorded
            assert room.switch.snapshot() == first
        assert room.drift() != ()
        assert room.switch.unmodelled == ()


def test_without_an_entry_the_engine_would_undo_it(engine: EngineRunner, tmp_path: Path) -> None:
    """What `renamed` keeps from happening: the same switch made under one name, undone as another.

    The program here has no look that refuses it.
    """
    with switch_room("onyx", tmp_path) as room:
        stack = make_stack(engine, room, "device")
        stack.good_up()
        spec = renamed(stack.spec, stack.spec.switches[0].name, "other-07")
        stack.write(spec.model_copy(update={"renamed": Renamed()}))
        looked = stack.engine.preview(stack.folder)
        assert {"create", "delete"} <= {operation for operation, _ in looked.steps}
