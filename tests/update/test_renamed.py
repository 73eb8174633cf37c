"""A declared rename: the program keeps each resource of the device, and deletes none."""

from __future__ import annotations

from typing import Any

import pytest

from components.disruption.leave_plan import leaving_nodes, renamed_nodes
from components.drift.applied import Applied, applied_from_outputs
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from tests.graph.dev_site import dev_cluster, dev_run, next_run
from tests.graph.whole_program import record_main
from tests.update.judged import written


def rename(cluster: Any, kind: str, old: str, new: str) -> Any:  # noqa: ANN401 - any JSON
    """The same site with one device renamed, as `railyard rename` writes it."""
    for each in cluster[f"{kind}s" if kind == "host" else "switches"]:
        if each["name"] == old:
            each["name"] = new
            if kind == "host":
                each["node_name"] = old
    for switch in cluster["switches"]:
        switch["ports"] = {
            port: to.replace(f"{old}/", f"{new}/") for port, to in switch["ports"].items()
        }
    cluster["renamed"] = {"hosts" if kind == "host" else "switches": {new: old}}
    return cluster


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [("host", "mgmt01", "mgmt02"), ("host", "gpu01", "gpu09"), ("switch", "leaf-01", "spine-07")],
)
def test_renamed(kind: str, old: str, new: str) -> None:
    before = record_main(dev_run())
    run = next_run(before, rename(dev_cluster(), kind, old, new), observe="never")
    after = record_main(run)
    was = {item.name for item in before.resources}
    now = {item.name for item in after.resources}
    kept = {item.name: item.options.get("aliases") for item in after.resources}
    assert was - now == {name for name in was if name.startswith(f"{old}-")}
    moved = now - was
    assert moved == {name.replace(f"{old}-", f"{new}-", 1) for name in was - now}
    assert moved
    for name in moved:
        assert kept[name] == [name.replace(f"{new}-", f"{old}-", 1)]
    assert not any(aliases for name, aliases in kept.items() if name not in moved)


def state_of(cluster: Any) -> tuple[ClusterSpec, Applied]:  # noqa: ANN401 - any JSON
    """A site, and what the state has once it was applied."""
    spec = ClusterSpec.model_validate(cluster)
    steps = make_plan(spec, "dev").steps
    outputs = {f"command:remote:Command::{step.name}": {"stdin": step.desired} for step in steps}
    return spec, applied_from_outputs(outputs)


def renamed_spec(old: str, new: str, *, node: str | None) -> ClusterSpec:
    cluster = rename(dev_cluster(), "host", old, new)
    for host in cluster["hosts"]:
        if host["name"] == new:
            host.update({"node_name": node} if node else {})
            if node is None:
                del host["node_name"]
    return ClusterSpec.model_validate(cluster)


def test_an_interrupted_rename_goes_on_with_what_is_there() -> None:
    _, applied = state_of(dev_cluster())
    spec = renamed_spec("gpu01", "gpu09", node="gpu01")
    half = Applied(
        {
            name.replace("gpu01", "gpu09") if name.endswith("-tools") else name: step
            for name, step in applied.steps.items()
        }
    )
    found = half.follow(spec)
    assert found.steps.keys() == applied.follow(spec).steps.keys()
    assert "gpu09-tools" not in found.former
    assert found.former["gpu09-host"] == "gpu01-host"


def test_the_longest_name_has_the_step() -> None:
    spec = renamed_spec("gpu01", "gpu09", node="gpu01")
    _, applied = state_of(dev_cluster())
    longer = {"gpu01-a-tools": applied.steps["gpu01-tools"]}
    found = Applied({**applied.steps, **longer, "gpu01-a-host": applied.steps["gpu01-host"]})
    assert {"gpu01-a-host", "gpu01-a-tools"} <= found.follow(spec).steps.keys()


def test_an_old_entry_has_no_effect() -> None:
    spec = renamed_spec("gpu01", "gpu09", node="gpu01")
    _, applied = state_of(dev_cluster())
    later = applied.follow(spec)
    again = Applied(later.steps).follow(spec)
    assert (again.steps, again.former) == (later.steps, {})


def test_a_kept_node_stays() -> None:
    _, applied = state_of(dev_cluster())
    kept = renamed_spec("gpu01", "gpu09", node="gpu01")
    plan = make_plan(kept, "dev").kubernetes
    assert leaving_nodes(plan, applied.follow(kept)) == ()
    assert [*renamed_nodes(plan, applied.follow(kept))] == []


@pytest.mark.parametrize("host", ["mgmt01", "gpu01"])
def test_a_node_that_is_there_gets_no_other_name(host: str) -> None:
    cluster: Any = dev_cluster()
    _, applied = state_of(cluster)
    for each in cluster["hosts"]:
        if each["name"] == host:
            each["node_name"] = "other"
    spec = ClusterSpec.model_validate(cluster)
    (said,) = written(renamed_nodes(make_plan(spec, "dev").kubernetes, applied.follow(spec)))
    assert said.startswith(f"node: the node of {host} is {host}, and the file calls it other")


@pytest.mark.parametrize(("old", "new"), [("mgmt01", "mgmt02"), ("gpu01", "gpu09")])
def test_a_host_that_was_renamed_with_its_node_is_refused(old: str, new: str) -> None:
    spec = renamed_spec(old, new, node=None)
    _, applied = state_of(dev_cluster())
    (said,) = written(renamed_nodes(make_plan(spec, "dev").kubernetes, applied.follow(spec)))
    assert f"write `node_name: {old}` for it" in said
