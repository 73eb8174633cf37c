"""A declared rename: the program keeps each resource of the device, and deletes none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.dev_site import dev_cluster, dev_run, next_run
from tests.graph.whole_program import record_main


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
