"""One worker more in the file of a stack: what the engine would make, change and leave."""

from __future__ import annotations

import copy
from typing import Any, cast

from components.testing import Graph
from tests.graph.dev_site import changed_inputs, dev_cluster, dev_run
from tests.graph.engine_order import custom
from tests.graph.whole_program import record_main


def larger() -> dict[str, Any]:
    """The dev site with a third worker on two more ports of its leaf."""
    cluster = cast("dict[str, Any]", dev_cluster())
    gpu03 = copy.deepcopy(cluster["hosts"][-1])
    gpu03["name"] = "gpu03"
    gpu03["ssh"]["address"] = gpu03["ssh"]["address"].rpartition(".")[0] + ".13"
    cluster["hosts"].append(gpu03)
    cluster["switches"][0]["ports"] |= {"1/5": "gpu03/rail-0", "1/6": "gpu03/rail-1"}
    return cluster


def test_only_the_worker_its_ports_and_the_proof_are_touched(dev_graph: Graph) -> None:
    after = record_main(dev_run(larger()))
    new = {"gpu03-host", "gpu03-k3s"}
    assert custom(after) - custom(dev_graph) == new
    assert custom(dev_graph) - custom(after) == set()
    changed = changed_inputs(dev_graph, after) - new
    visited = {"leaf-01-apply", "reboots-1", "acceptance-evidence", "acceptance-gate"}
    assert changed & custom(after) == visited
    # Components run nothing: how many hosts and groups there are, and all names.
    assert changed - custom(after) == {"hosts", "reboots"}
