"""A worker taken out of the file of a stack: in which order it leaves its jobs, ports and host."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import pytest

from components.remote.lines import parse_lines
from components.remote.sending import split_parts
from components.testing import Graph
from tests.graph.dev_site import changed_inputs, dev_cluster, dev_run, next_run
from tests.graph.engine_order import custom, deletions, waits_for
from tests.graph.test_one_worker_more import larger
from tests.graph.whole_program import record_main, record_refusal

DRAIN = "departures-drain"


@pytest.fixture(scope="module")
def large_graph() -> Graph:
    return record_main(dev_run(larger()))


@pytest.fixture(scope="module")
def less(large_graph: Graph) -> Graph:
    return record_main(next_run(large_graph, dev_cluster(), observe="never"))


def test_it_is_drained_before_its_switch_ports_lose_their_settings(
    large_graph: Graph, less: Graph
) -> None:
    """The engine updates before it deletes, so its own steps come after those of its switch."""
    changed = changed_inputs(large_graph, less) & custom(large_graph) & custom(less)
    assert changed == {"leaf-01-apply", "reboots-1", "acceptance-evidence", "acceptance-gate"}
    assert custom(less) - custom(large_graph) == {DRAIN}
    assert waits_for(less, "leaf-01-apply", DRAIN)
    asked = less.named(DRAIN)
    assert asked.text("create").endswith("railyard device drain-nodes")
    request = parse_lines(asked.text("stdin"))
    assert (request["nodes"], request["drain_deadline_s"]) == (["gpu03"], 600)
    said = [text for text in less.messages if "gpu03" in text]
    assert said == [
        (
            "WILL LEAVE THE CLUSTER: gpu03: it is drained first, and only then its switch ports"
            " and its host lose their settings; its jobs end or move"
        )
    ]


def test_its_node_goes_first_then_k3s_then_the_settings_of_its_host(
    large_graph: Graph, less: Graph
) -> None:
    assert deletions(large_graph, less) == [{"gpu03-k3s"}, {"gpu03-host"}]
    parts = split_parts(large_graph.named("gpu03-k3s").text("stdin"))
    undone = [part.step for part in reversed(parts) if part.delete]
    assert undone == ["gpu03-node", "gpu03-k3s", "gpu03-k3s-token"]


def test_the_next_run_is_quiet_and_one_more_worker_is_not_drained(less: Graph) -> None:
    again = record_main(next_run(less, dev_cluster(), observe="never"))
    assert changed_inputs(less, again) == set()
    assert not any("gpu03" in text for text in again.messages)
    back = record_main(next_run(again, larger(), observe="never"))
    assert parse_lines(back.named(DRAIN).text("stdin"))["nodes"] == []
    quiet = record_main(next_run(back, larger(), observe="never"))
    assert changed_inputs(back, quiet) == set()


def test_a_removal_that_did_not_end_drains_again(large_graph: Graph, less: Graph) -> None:
    """Pods may have come back meanwhile: a drain that was recorded is not trusted."""
    run = next_run(less, dev_cluster(), observe="never")
    again = record_main(replace(run, state={**large_graph.state(), **less.state()}))
    assert parse_lines(again.named(DRAIN).text("stdin"))["run"] == 2


def test_a_file_that_denies_drains_takes_no_worker_out(large_graph: Graph) -> None:
    cluster = copy.deepcopy(cast("dict[str, Any]", dev_cluster()))
    cluster["disruption"]["reboots"] = "deny"
    words, graph = record_refusal(next_run(large_graph, cluster, observe="never"))
    assert "disruption: gpu03 would be drained: it leaves the cluster" in words
    assert graph.resources == []
