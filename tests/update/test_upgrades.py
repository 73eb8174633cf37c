"""An edit of `kubernetes.version`: which nodes are due, what is refused, what people are told."""

from __future__ import annotations

from typing import Any

import pytest

from components.core.key_values import HostState, parse_state
from components.core.problem import Lines, Spot
from components.disruption.disruption_plan import due
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import drift_exit_code, render_drift
from components.kubernetes.live.look import Asked, ClusterLook
from components.kubernetes.live.read import Live
from components.model.cluster import ClusterSpec, Disruption
from components.model.kubernetes import Alignment
from components.plan.make import ClusterPlan, make_plan
from components.update.decide import judge_drift
from components.update.seen import Seen
from components.update.servers import (
    choose_upgrades,
    describe_upgrades,
    judge_upgrades,
    node_versions,
)
from tests.golden.site import changed_spec, load_example
from tests.update.judged import texts
from tests.update.test_decide import as_applied, decide

OLD, NEW = "v1.36.3+k3s1", "v1.36.4+k3s1"
LINES = Lines("site.yaml", Spot(1, {
    "kubernetes": Spot(40, {"version": Spot(41)}), "disruption": Spot(50, {"reboots": Spot(51)}),
}))  # fmt: skip


def spec_of(version: str, reboots: str = "allow") -> ClusterSpec:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    return changed_spec(
        spec,
        kubernetes=spec.k3s.model_copy(update={"version": version}),
        disruption=Disruption.model_validate({"reboots": reboots, "max_unavailable": 2}),
    )


def plan_of(version: str, reboots: str = "allow") -> ClusterPlan:
    return make_plan(spec_of(version, reboots), "dev")


def plan_with(binary: str, version: str) -> ClusterPlan:
    spec = spec_of(version)
    assert spec.k3s is not None
    own = spec.k3s.source.model_copy(update={"binary_sha256": binary})
    return make_plan(
        changed_spec(spec, kubernetes=spec.k3s.model_copy(update={"source": own})), "dev"
    )


def facts_of(plan: ClusterPlan, node: str) -> HostState:
    """What observe reads of a node that is as a plan wants it."""
    assert plan.kubernetes is not None
    (watched,) = (e for e in plan.kubernetes.watched_nodes if e.device == f"{node} k3s")
    return watched.desired


def live(**versions: str) -> Seen:
    nodes: dict[str, Any] = {
        name: {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}
        for name, version in versions.items()
    }
    asked = Asked(objects=(), releases=(), nodes=(), namespaces=(), tolerations=())
    return Seen(cluster=ClusterLook(asked=asked, live=Live(), releases={}, nodes=nodes, beside=()))


def chosen_names(plan: ClusterPlan) -> list[tuple[str, ...]]:
    return [tuple(step.name for step in group.steps) for group in plan.upgrades]


def test_a_first_install_and_a_quiet_site_have_no_upgrade() -> None:
    assert chosen_names(decide(plan_of(OLD), Applied()).plan) == []
    assert chosen_names(decide(plan_of(OLD), as_applied(plan_of(OLD))).plan) == []


def test_an_edit_of_the_version_takes_the_server_first_and_then_the_workers() -> None:
    found = decide(plan_of(NEW), as_applied(plan_of(OLD))).plan
    assert chosen_names(found) == [("mgmt01-upgrade",), ("gpu01-upgrade", "gpu02-upgrade")]
    requests = [step.request for group in found.upgrades for step in group.steps]
    assert {request.before for request in requests} == {OLD}
    assert parse_state(requests[0].install).values["version"] == NEW


def test_what_a_killed_update_did_is_kept_and_the_rest_is_due() -> None:
    before = as_applied(plan_of(OLD))
    first = decide(plan_of(NEW), before).plan.upgrades[0].steps[0]
    recorded = AppliedStep(first.request.render(), "railyard device upgrade-node", "{}")
    plan = decide(plan_of(NEW), Applied({**before.steps, first.name: recorded})).plan
    assert plan.upgrades[0].steps[0].kept == recorded.stdin
    assert [group.nodes for group in due(plan.upgrades)] == [("gpu01", "gpu02")]


def test_an_upgrade_that_is_done_stays_as_it_is_recorded() -> None:
    edited = decide(plan_of(NEW), as_applied(plan_of(OLD))).plan
    done = {
        step.name: AppliedStep(step.request.render(), "railyard device upgrade-node", "{}")
        for group in edited.upgrades
        for step in group.steps
    }
    applied = as_applied(plan_of(NEW))
    plan = decide(plan_of(NEW), Applied({**applied.steps, **done})).plan
    kept = {step.name: step.kept for group in plan.upgrades for step in group.steps}
    assert kept == {name: step.stdin for name, step in done.items()}
    assert due(plan.upgrades) == ()


def test_a_new_worker_is_installed_and_not_upgraded() -> None:
    applied = as_applied(plan_of(OLD))
    steps = {name: step for name, step in applied.steps.items() if name != "gpu02-k3s"}
    plan = decide(plan_of(NEW), Applied(steps)).plan
    assert chosen_names(plan) == [("mgmt01-upgrade",), ("gpu01-upgrade",)]


def test_a_node_that_a_killed_run_left_cordoned_is_due_though_it_runs_the_release() -> None:
    plan, applied = plan_of(NEW), as_applied(plan_of(OLD))
    seen = live(mgmt01=OLD, gpu01=NEW)
    assert node_versions(plan, applied, seen) == {"mgmt01": OLD, "gpu01": NEW, "gpu02": OLD}
    found = choose_upgrades(plan, applied, seen, ())
    assert chosen_names(found) == [("mgmt01-upgrade",), ("gpu01-upgrade", "gpu02-upgrade")]


def refused(version: str, seen: Seen | None = None, reboots: str = "allow") -> tuple[str, ...]:
    spec, plan = spec_of(version, reboots), plan_of(version, reboots)
    return texts(judge_upgrades, plan, as_applied(plan_of(OLD)), seen, LINES, spec=spec)


def test_a_way_back_is_refused_with_versions_and_line() -> None:
    (words,) = refused("v1.36.2+k3s1")
    assert words == (
        "kubernetes-version: mgmt01, gpu01, gpu02 run K3s v1.36.3+k3s1, and kubernetes.version is"
        " v1.36.2+k3s1: neither K3s nor etcd goes back to an earlier release.\n"
        "  where  site.yaml:41  kubernetes.version = v1.36.2+k3s1\n"
        "  fix    write version: v1.36.3+k3s1; K3s cannot go back to an earlier one"
        " (docs/howto/upgrade-k3s.md)."
    )


def test_a_node_that_was_upgraded_by_hand_is_not_taken_back() -> None:
    (words,) = refused(OLD, live(mgmt01=OLD, gpu01=NEW, gpu02=OLD))
    assert "gpu01 runs K3s v1.36.4+k3s1, and kubernetes.version is v1.36.3+k3s1" in words


def test_two_minors_at_once_are_refused() -> None:
    (words,) = refused("v1.38.0+k3s1")
    assert "one minor release at a time" in words
    assert "write a release of 1.37 first" in words


def test_an_upgrade_is_refused_where_the_file_denies_it() -> None:
    (words,) = refused(NEW, reboots="deny")
    assert words == (
        "disruption: mgmt01, gpu01, gpu02 would be upgraded to K3s v1.36.4+k3s1, each out"
        " of service meanwhile\n"
        "  where  site.yaml:51  disruption.reboots = deny\n"
        "         site.yaml:41  kubernetes.version = v1.36.4+k3s1\n"
        "  fix    plan a maintenance window and set disruption.reboots to allow, or undo the"
        " edit of kubernetes.version"
    )


@pytest.mark.parametrize("version", [OLD, NEW])
def test_nothing_is_refused_where_it_is_allowed(version: str) -> None:
    assert refused(version) == ()


def test_a_site_without_a_record_refuses_nothing() -> None:
    spec, plan = spec_of(NEW, "deny"), plan_of(NEW, "deny")
    assert texts(judge_upgrades, plan, Applied(), lines=LINES, spec=spec) == ()


def test_people_are_told_what_is_interrupted_and_when() -> None:
    plan, applied = plan_of(NEW), as_applied(plan_of(OLD))
    chosen = choose_upgrades(plan, applied, Seen(), ())
    way = "K3s v1.36.3+k3s1 -> v1.36.4+k3s1"
    begins, drained = "WILL BE UPGRADED (group", "it is drained first, and its jobs end or move"
    only = "it is the only server: the API is away while K3s starts again; jobs go on"
    assert describe_upgrades(chosen, node_versions(plan, applied, Seen())) == (
        f"{begins} 1 of 2): mgmt01: {way}; {only}",
        f"{begins} 2 of 2): gpu01: {way}; {drained}",
        f"{begins} 2 of 2): gpu02: {way}; {drained}",
    )


def test_a_node_that_a_killed_upgrade_reached_is_told_so_and_is_no_drift() -> None:
    """Its install step recorded the release before, and the host has the binary of the file."""
    old, new = plan_with("1" * 64, OLD), plan_with("2" * 64, NEW)
    seen = Seen({"gpu01 k3s": facts_of(new, "gpu01"), "gpu02 k3s": facts_of(old, "gpu02")})
    found = {each.device: each for each in judge_drift(new, as_applied(old), seen)}
    words = (
        "it has K3s v1.36.4+k3s1, and v1.36.3+k3s1 was last recorded: `pulumi up` ends the upgrade"
    )
    assert (found["gpu01 k3s"].ahead, found["gpu01 k3s"].differences) == (words, ())
    assert (found["gpu02 k3s"].ahead, found["gpu02 k3s"].differences) == ("", ())
    assert render_drift((found["gpu01 k3s"],)).splitlines() == [
        "gpu01 k3s    in the middle of an upgrade",
        f"               {words}",
    ]
    assert drift_exit_code((found["gpu01 k3s"],)) == 3


def test_a_binary_of_neither_release_is_drift_in_the_middle_of_an_upgrade_too() -> None:
    old, new = plan_with("1" * 64, OLD), plan_with("2" * 64, NEW)
    seen = Seen({"gpu01 k3s": facts_of(plan_with("3" * 64, NEW), "gpu01")})
    (drift,) = (e for e in judge_drift(new, as_applied(old), seen) if e.device == "gpu01 k3s")
    assert drift.ahead == ""
    assert [each.setting for each in drift.differences] == ["binary_sha256"]


def test_without_an_edit_of_the_release_another_binary_is_drift() -> None:
    old = plan_with("1" * 64, OLD)
    seen = Seen({"gpu01 k3s": facts_of(plan_with("2" * 64, NEW), "gpu01")})
    (drift,) = (e for e in judge_drift(old, as_applied(old), seen) if e.device == "gpu01 k3s")
    assert (drift.ahead, len(drift.differences)) == ("", 1)


def aligned(reboots: str = "allow") -> ClusterSpec:
    spec = spec_of(OLD, reboots)
    assert spec.k3s is not None
    own = Alignment(reserved_cpus="0-1", job_cpus=32, job_memory_gib=256)
    return changed_spec(spec, kubernetes=spec.k3s.model_copy(update={"alignment": own}))


def test_another_alignment_restarts_the_workers_alone_and_drains_them() -> None:
    plan, applied = make_plan(aligned(), "dev"), as_applied(plan_of(OLD))
    chosen = choose_upgrades(plan, applied, Seen(), ())
    assert chosen_names(chosen) == [("gpu01-upgrade", "gpu02-upgrade")]
    first = describe_upgrades(chosen, node_versions(plan, applied, Seen()))[0]
    assert first == (
        "WILL BE RESTARTED (group 1 of 1): gpu01: K3s starts again with its kubelet's"
        " cpu-manager-policy=static reserved-cpus=0-1 topology-manager-policy=best-effort"
        " topology-manager-scope=container; it is drained first, and its jobs end or move"
    )
    done = as_applied(plan)
    assert chosen_names(choose_upgrades(plan, done, Seen(), ())) == []
    back = choose_upgrades(plan_of(OLD), done, Seen(), ())
    (request, _) = (step.request for group in back.upgrades for step in group.steps)
    assert (request.kubelet, request.leaves[:26]) == ("", "cpu-manager-policy=static ")


def test_another_alignment_is_refused_where_the_file_denies_it() -> None:
    spec = aligned("deny")
    plan, applied = make_plan(spec, "dev"), as_applied(plan_of(OLD))
    (words,) = texts(judge_upgrades, plan, applied, lines=LINES, spec=spec)
    assert words.startswith(
        "disruption: gpu01, gpu02 would be restarted with another alignment, each out of"
    )
    assert "undo the edit of kubernetes.alignment" in words
