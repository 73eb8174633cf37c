"""What cannot be taken back: refused, unless the file or a typed name allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from components import testing
from components.drift.applied import Applied, applied_from_outputs
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.testing import Graph
from components.update.refusals import find_losses, judge_losses
from components.update.seen import Situation
from tests.graph.dev_site import dev_cluster, dev_run, next_run
from tests.graph.whole_program import record_main
from tests.update.judged import NO_SPEC, texts
from tests.update.test_identity import main, rename_server

Site = dict[str, Any]


def site_of(*, reset: str = "deny", policy: str = "deny") -> Site:
    site: Site = dev_cluster()
    site["kubernetes"]["reset"] = reset
    site["disruption"] = {"ports": policy, "reboots": policy}
    return site


@cache
def first_run(reset: str) -> Graph:
    return record_main(dev_run(site_of(reset=reset, policy="allow")))


def losses(before: Graph, site: Site) -> list[tuple[str, bool, tuple[str, ...]]]:
    spec = ClusterSpec.model_validate(site)
    found = find_losses(
        Situation(spec, make_plan(spec, "dev"), applied_from_outputs(before.state()))
    )
    return [(loss.found.what, loss.allowed, loss.names) for loss in found]


def without_switches(site: Site) -> Site:
    site["switches"] = []
    return site


def existing_cluster(site: Site) -> None:
    site["kubernetes"] = {"plane": "existing", "version": "v1.36.3"}
    site["hosts"] = site["hosts"][1:]


def only_a_worker(site: Site) -> None:
    site["hosts"][0]["role"] = "login"
    existing_cluster(site)


@pytest.mark.parametrize("reset", ["deny", "allow"])
@pytest.mark.parametrize("edit", [existing_cluster, only_a_worker])
def test_the_last_server_goes_only_if_it_was_told_so_before(
    edit: Callable[[Site], None], reset: str
) -> None:
    site = site_of(reset="allow")
    edit(site)
    ((what, allowed, names),) = losses(first_run(reset), site)
    assert "mgmt01 would lose K3s: the only server of the cluster, with etcd" in what
    assert (allowed, names) == (reset == "allow", ())


@pytest.mark.parametrize(("had", "lost"), [(2, False), (3, True)])
def test_a_majority_of_the_servers_stays(had: int, *, lost: bool) -> None:
    """One server is left in the file."""
    applied = applied_from_outputs(first_run("deny").state())
    first = applied.steps["mgmt01-k3s"]
    others = {f"mgmt0{number}-k3s": first for number in range(2, had + 1)}
    applied = replace(applied, steps={**applied.steps, **others})
    spec = ClusterSpec.model_validate(site_of())
    found = find_losses(Situation(spec, make_plan(spec, "dev"), applied))
    assert [loss.found.what.partition(":")[0] for loss in found if not loss.allowed] == (
        ["mgmt02, mgmt03 would lose K3s"] if lost else []
    )


def test_one_worker_may_leave_and_not_all_of_them() -> None:
    site = site_of()
    del site["hosts"][2]
    assert losses(first_run("deny"), site) == []
    del site["hosts"][1]
    ((what, allowed, names),) = losses(first_run("deny"), site)
    assert "all 2 workers of the cluster dgx-roce would leave it at once" in what
    assert (allowed, names) == (False, ("dgx-roce",))
    site["kubernetes"]["reset"] = "allow"
    assert [allowed for _, allowed, _ in losses(first_run("deny"), site)] == [True]


def test_another_name_of_the_cluster_is_a_loss() -> None:
    site = site_of() | {"name": "other"}
    ((what, allowed, names),) = losses(first_run("deny"), site)
    assert "the cluster dgx-roce would become other" in what
    assert (allowed, names) == (False, ("dgx-roce",))


def test_a_switch_may_go_if_its_hosts_are_plugged_into_one_that_is_only_named() -> None:
    site = without_switches(site_of())
    ends = [f"{host['name']}/rail-{rail}" for host in site["hosts"][1:] for rail in (0, 1)]
    ports = {f"swp{number}": end for number, end in enumerate(ends, 1)}
    site["other_switches"] = [{"name": "sw-old", "network": "storage", "ports": ports}]
    assert losses(first_run("deny"), site) == []
    del ports["swp4"]
    assert [names for _, _, names in losses(first_run("deny"), site)] == [("leaf-01",)]


def _program(site: Site) -> tuple[str, Graph]:
    return testing.record_refusal(next_run(first_run("deny"), site, observe="never"), main)


def test_a_switch_that_hosts_use_is_refused_or_said_at_the_top() -> None:
    site = without_switches(site_of())
    words = "leaf-01 leaves the file while gpu01, gpu02 are cabled to it: its 4 ports go back"
    text, graph = _program(site)
    assert words in text
    assert "`disruption: {ports: allow}`" in text
    assert "RAILYARD_CONFIRM=leaf-01" in text
    assert graph.resources == []
    allowed = without_switches(site_of(policy="allow"))
    told = testing.record_program(next_run(first_run("deny"), allowed, observe="never"), main)
    assert any(line.startswith(f"WILL BE LOST: {words}") for line in told.messages)


def test_a_typed_name_allows_it_for_one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_CONFIRM", "leaf-01")
    site = without_switches(site_of())
    lost = testing.record_program(next_run(first_run("deny"), site, observe="never"), main)
    assert not any(item.name.startswith("leaf-01") for item in lost.resources)
    text, _ = _program(site_of())
    assert "confirm: leaf-01 would not be lost in this update" in text
    monkeypatch.setenv("RAILYARD_CONFIRM", "leaf-01, leaf-09")
    text, _ = _program(site)
    assert "confirm: leaf-09 would not be lost in this update; it would lose leaf-01" in text


def test_a_renamed_server_has_one_message() -> None:
    site = site_of()
    rename_server(site)
    text, _ = _program(site)
    assert "mgmt02 is the machine formerly named mgmt01" in text
    assert "protected" not in text
    assert "disruption" not in text


def test_nothing_is_refused_that_is_not_lost() -> None:
    assert texts(judge_losses, make_plan(NO_SPEC, "dev"), Applied()) == ()
    assert losses(first_run("deny"), site_of()) == []
