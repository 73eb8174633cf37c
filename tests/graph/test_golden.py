"""The recorded resource graph of the example, as a golden file."""

from __future__ import annotations

from components.testing import SECRET_KEY, SECRET_MARK, Graph, Recorded
from tests.golden.files import check_golden
from tests.graph.graph_text import render_graph


def test_the_resource_graph_of_the_example_is_as_recorded(dev_graph: Graph) -> None:
    check_golden("dgx-roce/graph.txt", render_graph(dev_graph))


def test_stack_outputs_are_the_verdict_and_the_name(dev_graph: Graph) -> None:
    assert dev_graph.outputs == {"verdict": "acceptance passed", "cluster": "dgx-roce"}


def _resource(name: str, parent: str = "", **inputs: object) -> Recorded:
    return Recorded(
        type="command:local:Command",
        name=name,
        urn=f"urn:{name}",
        parent=parent,
        custom=True,
        inputs=inputs,  # pyright: ignore[reportArgumentType] - values of JSON
        dependencies=("before",),
        options={"deleteBeforeReplace": True, "ignoreChanges": ["*"]},
        secret_outputs=("stdout",),
    )


def test_a_page_shows_edges_options_calls_and_where_secrets_are() -> None:
    sealed = {SECRET_KEY: SECRET_MARK, "value": "opensesame"}
    part = _resource("part", environment={"A": sealed, "B": "b"}, create="run abcdef012345 now")
    page = render_graph(Graph(resources=[part, _resource("inner", "part", create="x\n" * 9)]))
    assert page == (
        "part  command:local:Command  [deleteBeforeReplace; ignoreChanges *]\n"
        "    after before\n"
        "    create run … now\n"
        "    secret environment.A, output stdout\n"
        "  inner  command:local:Command  [deleteBeforeReplace; ignoreChanges *]\n"
        "      after before\n"
        "      secret output stdout\n"
    )
