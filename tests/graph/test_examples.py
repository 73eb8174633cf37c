"""The other examples: their recorded graphs, and what must hold in each of them."""

from __future__ import annotations

import json

import pytest

from components.core.problem import Json
from components.remote.sending import split_parts
from components.testing import SECRET_KEY, Graph
from tests.golden.files import check_golden
from tests.graph.example_sites import NAMES, example_graph, example_plan, example_preview
from tests.graph.graph_text import render_graph
from tests.graph.whole_program import record_main


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(name: str) -> Graph:
    return example_graph(name)


def test_the_resource_graph_is_as_recorded(name: str, graph: Graph) -> None:
    check_golden(f"{name}/graph.txt", render_graph(graph))


def test_the_verdict_is_the_stacks_output(name: str, graph: Graph) -> None:
    assert graph.outputs == {"verdict": "acceptance passed", "cluster": name}


def test_a_preview_of_a_new_stack_shows_the_same_resources(name: str, graph: Graph) -> None:
    preview = record_main(example_preview(name))
    assert {item.urn for item in preview.resources} == {item.urn for item in graph.resources}


def test_every_step_of_the_plan_is_in_a_resource(name: str, graph: Graph) -> None:
    made = {item.name for item in graph.resources}
    parts = [split_parts(item.text("stdin")) for item in graph.of_type("command:")]
    made |= {part.step for each in parts for part in each}
    assert {step.name for step in example_plan(name).steps} <= made


def test_every_object_of_kubernetes_is_read_for_drift(name: str, graph: Graph) -> None:
    """An object that a component made beside its plan would be made, and never looked at."""
    plan = example_plan(name)
    made = {item.name for item in graph.of_type("kubernetes:")}
    read = {each.resource_name for each in plan.manifests}
    assert made == read | {chart.release for chart in plan.operators.charts}


def test_no_secret_stands_in_clear(graph: Graph) -> None:
    for item in graph.resources:
        assert "value-of-" not in json.dumps(_open(dict(item.inputs))), item.name


def _open(value: Json) -> Json:
    """What is left of a value without all that is sealed in it."""
    if isinstance(value, dict):
        return {k: _open(v) for k, v in value.items()} if SECRET_KEY not in value else None
    return [_open(each) for each in value] if isinstance(value, list) else value


def test_no_hole_is_left_in_what_is_sent(graph: Graph) -> None:
    for item in graph.of_type("command:"):
        assert "@{" not in json.dumps(dict(item.inputs)), item.name
