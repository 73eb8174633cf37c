"""The real engine on the edges of two recorded programs: a worker leaves drained, and in order.

Each step is `true` in place of what it does; names, edges and inputs are those of the dev stack
with a third worker, and without it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.testing import Graph
from tests.engine.runner import EngineRunner
from tests.graph.dev_site import dev_cluster, dev_run, next_run
from tests.graph.engine_order import deletions
from tests.graph.test_one_worker_more import larger
from tests.graph.whole_program import record_main

pytestmark = pytest.mark.engine
PROGRAM = """
import json
import pulumi
from pulumi_command import local

made = {}
for step in json.load(open("steps.json")):
    opts = pulumi.ResourceOptions(depends_on=[made[name] for name in step["after"]])
    if step["gate"]:
        made[step["name"]] = pulumi.Stash(step["name"], input="", opts=opts)
    else:
        made[step["name"]] = local.Command(
            step["name"], create="true", delete="true", stdin=step["stdin"], opts=opts
        )
"""


def steps_of(graph: Graph) -> list[dict[str, Any]]:
    """Its commands and gates, each after those that it waits for."""
    kinds = ("command:", "pulumi:index:Stash")
    found = {item.name: item for item in graph.resources if item.type.startswith(kinds)}
    ordered: dict[str, dict[str, Any]] = {}

    def put(name: str) -> None:
        if name in ordered:
            return
        item = found[name]
        after = [each for each in item.dependencies if each in found]
        for each in after:
            put(each)
        gate = not item.type.startswith("command:")
        stdin = "" if gate else item.text("stdin")
        ordered[name] = {"name": name, "gate": gate, "after": after, "stdin": stdin}

    for name in found:
        put(name)
    return [*ordered.values()]


def play(engine: EngineRunner, folder: Path, graph: Graph) -> tuple[tuple[str, str], ...]:
    (folder / "steps.json").write_text(json.dumps(steps_of(graph)))
    done = engine.up(folder)
    assert done.rc == 0, done.stderr + done.errors
    return done.steps


def test_the_engine_drains_then_frees_the_ports_then_deletes_in_order(
    engine: EngineRunner,
) -> None:
    large = record_main(dev_run(larger()))
    less = record_main(next_run(large, dev_cluster(), observe="never"))
    folder = engine.project("leaving", PROGRAM)
    play(engine, folder, large)
    steps = play(engine, folder, less)
    order = [name for _, name in steps]
    assert order.index("departures-drain") < order.index("leaf-01-apply")
    assert order.index("leaf-01-apply") < order.index("gpu03-k3s")
    gone = [name for operation, name in steps if operation == "delete"]
    assert gone == ["gpu03-k3s", "gpu03-host"]
    assert [{name} for name in gone] == deletions(large, less)
