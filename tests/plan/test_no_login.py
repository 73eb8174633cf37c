"""Nodes that nothing logs in to: no step, no look, no secret of theirs, and each place says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.checks.site import load_checked_site
from components.core.errors import Bug
from components.core.problem import Json
from components.discover.run import compare, render_report
from components.discover.site_file import find_targets, read_site_file
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import ClusterPlan, make_plan
from components.plan.text import render_plan
from components.preflight.artefacts import fetched_here
from components.preflight.report import Preflight, render_html, render_text
from components.preflight.wants import wants_of
from components.preview.from_plans import preview_plans
from components.update.secrets import secret_names
from tests.golden.files import check_golden
from tests.golden.plan import golden_plan
from tests.golden.site import EXAMPLES
from tests.graph.graph_text import render_graph
from tests.graph.test_not_observed import existing_run
from tests.graph.whole_program import record_main

SITE = EXAMPLES / "shared-rdma/without-ssh.yaml"
SAID = "node03, node04: not touched and not read: no login (login: none)"


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return load_checked_site(SITE).spec_or_raise()


@pytest.fixture(scope="module")
def plan(spec: ClusterSpec) -> ClusterPlan:
    return make_plan(spec, "dev")


def test_the_plan_is_as_recorded(plan: ClusterPlan) -> None:
    check_golden("shared-rdma/without-ssh.txt", golden_plan(plan))


def test_nothing_runs_on_them_and_the_plan_says_so(spec: ClusterSpec, plan: ClusterPlan) -> None:
    assert (plan.hosts, plan.reboots, plan.steps, plan.watched) == ((), (), (), ())
    assert f"# left alone: {SAID}" in render_plan(plan)
    assert "ssh_private_key" not in secret_names(spec)
    with pytest.raises(Bug, match="node03 needs a login"):
        _ = spec.workers[0].way


def test_the_whole_program_touches_switches_and_cluster_alone() -> None:
    cluster: Json = yaml.safe_load(SITE.read_text())
    graph = record_main(existing_run("never", cluster))
    assert SAID in graph.messages
    check_golden("shared-rdma/without-ssh-graph.txt", render_graph(graph))


def test_a_card_without_a_login_has_no_vfs_of_ours_by_default() -> None:
    nic = {"rail": "rail-0", "pci": "0000:58:00.0"}
    given: dict[str, Any] = {"name": "a", "role": "worker", "login": "none", "nics": [nic]}
    assert Host.model_validate(given).nics[0].vfs == 0


def test_preflight_asks_none_of_them_and_this_machine_looks_for_images(
    spec: ClusterSpec, plan: ClusterPlan
) -> None:
    assert wants_of(spec, plan, Lock()) == {}
    assert "image" in {each.kind for each in fetched_here(Reach(spec, {}))}
    found = Preflight("shared-rdma", ("leaf-01",), (), (), plan.unreached)
    assert render_text(found) == (
        "not read: node03, node04; nothing logs in to them (login: none).\n"
        "shared-rdma: no problem (1 device read, 2 without a login not read)."
        " Nothing was touched."
    )
    assert "no login: not read" in render_html(found)


def test_a_preview_names_them(spec: ClusterSpec, plan: ClusterPlan) -> None:
    assert SAID in preview_plans(spec, plan, plan, "main").notes


def test_discover_passes_over_them_and_refuses_one_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(SITE.read_text())
    file = read_site_file(path)
    targets, errors = find_targets(file, (), None, "root")
    assert (targets, errors) == ([], [])
    assert SAID in render_report(compare(file, targets, (), errors)[0])
    _, (error,) = find_targets(file, ("node04",), None, "root")
    assert f"{path}:35: node04 has login: none, so it was not read." in str(error)
    assert "kubectl debug node/node04" in str(error)
