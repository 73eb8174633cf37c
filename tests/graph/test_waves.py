"""Waves as the engine sees them: edges where a switch was changed before, none on a new site."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from components.drift.applied import Applied, AppliedStep
from components.fabric import Fabric
from components.fabric.edit import ordered
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.model.cluster import ClusterSpec
from components.remote.component import Remote
from components.testing import Graph, Run, record_program
from tests.graph.example_sites import example_run
from tests.graph.vault import Vault
from tests.graph.whole_program import record_main

ROOT = Path(__file__).parents[2]


def site(example: str) -> ClusterSpec:
    return load_checked_site(ROOT / f"examples/{example}/site.yaml").spec_or_raise()


def graph_of(plans: tuple[SwitchPlan, ...]) -> Graph:
    return record_program(
        Run(config={}), lambda: Fabric("fabric", plans, Remote(Vault(), {})) and None
    )


def waits_for(graph: Graph, step: str) -> set[str]:
    return {name for name in graph.named(step).dependencies if name.endswith("-apply")}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_wave_waits_for_the_one_before() -> None:
    graph = graph_of(plan_fabric(site("spine-leaf")))
    assert waits_for(graph, "leaf-01-apply") == set()
    assert waits_for(graph, "leaf-02-apply") == {"leaf-01-apply"}
    assert waits_for(graph, "leaf-03-apply") == {"leaf-02-apply", "leaf-05-apply"}
    assert waits_for(graph, "spine-01-apply") == {"leaf-08-apply"}
    assert waits_for(graph, "spine-02-apply") == {"spine-01-apply"}


def test_a_baseline_waits_for_nobody() -> None:
    graph = graph_of(plan_fabric(site("spine-leaf")))
    assert waits_for(graph, "spine-02-baseline") == set()


def test_a_new_site_has_no_order_and_the_same_inputs() -> None:
    plans = plan_fabric(site("spine-leaf"))
    new = graph_of(ordered(plans, Applied()))
    known = graph_of(ordered(plans, Applied({"leaf-03-apply": AppliedStep(stdin="x")})))
    for plan in plans:
        assert waits_for(new, plan.step) == set()
        assert new.named(plan.step).inputs == known.named(plan.step).inputs
    assert waits_for(known, "spine-02-apply") == {"spine-01-apply"}


def test_a_plain_exec_begins_when_the_wave_before_it_is_saved() -> None:
    spec = site("mixed-fabric")
    update = {"executor": "exec", "exec_disruptive": "allow-interruptions"}
    switches = [
        each.model_copy(update=update) if each.os == "onyx" else each for each in spec.switches
    ]
    plans = plan_fabric(spec.model_copy(update={"switches": tuple(switches)}))
    execs = {plan.name for plan in plans if plan.exec}
    assert "leaf-01" in execs
    graph = graph_of(plans)
    assert "leaf-01-saved" in graph.named("leaf-02-apply").dependencies


def test_the_whole_program_has_no_order_at_first_and_one_from_then_on() -> None:
    first = record_main(example_run("mixed-fabric"))
    again = record_main(replace(example_run("mixed-fabric"), state=first.state()))
    for earlier, later in pairwise(("leaf-01", "leaf-02", "leaf-03", "leaf-04")):
        assert waits_for(first, f"{later}-apply") == set()
        assert waits_for(again, f"{later}-apply") == {f"{earlier}-apply"}
        inputs = (graph.named(f"{later}-apply").inputs for graph in (first, again))
        assert next(inputs) == next(inputs)
