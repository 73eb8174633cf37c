"""The job of `watch`: its objects, its rights, and the site that it reads."""

from __future__ import annotations

import re
from json import dumps
from pathlib import Path
from typing import Any, cast

import pytest

from components.acceptance.acceptance_plan import site_files
from components.artefacts.lock import parse_lock
from components.checks.registry import RULES
from components.checks.site import load_checked_site
from components.kubernetes.manifest import Body, Manifest, name_of, pods_in
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.reading.load import parse_site
from components.update.audit import as_planned
from components.update.cluster import asked_of_cluster
from tests.golden.site import EXAMPLES, load_example

WATCH: dict[str, Any] = {
    "schedule": "0 3 * * *",
    "image": "registry.example/railyard:0.1.0",
    "secret": "devices",
}
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/site.yaml"))
WRITES = {"create", "update", "patch", "delete", "deletecollection", "escalate", "bind", "*"}


def watched(name: str = "dgx-roce", **more: object) -> ClusterSpec:
    body = load_example(name).model_dump(mode="json", exclude_unset=True)
    return ClusterSpec.model_validate({**body, "watch": {**WATCH, **more}})


def plan_of(**more: object) -> ClusterPlan:
    return make_plan(watched("dgx-roce", **more), "dev")


def kinds(plan: ClusterPlan) -> dict[str, list[Body]]:
    found: dict[str, list[Body]] = {}
    for each in plan.jobs.watch:
        found.setdefault(each.kind, []).append(each.body)
    return found


def pod(plan: ClusterPlan) -> dict[str, Any]:
    (job,) = kinds(plan)["CronJob"]
    return cast("dict[str, Any]", next(iter(pods_in(job))))


def rules(plan: ClusterPlan) -> list[dict[str, Any]]:
    roles = [*kinds(plan)["ClusterRole"], *kinds(plan)["Role"]]
    return [
        {"namespace": cast("Any", role["metadata"]).get("namespace", ""), **rule}
        for role in roles
        for rule in cast("list[dict[str, Any]]", role["rules"])
    ]


def test_without_the_section_there_is_no_object() -> None:
    assert make_plan(load_example("dgx-roce"), "dev").jobs.watch == ()


def test_one_run_at_a_time_has_a_deadline_and_no_second_try() -> None:
    (job,) = kinds(plan_of(deadline_s=600, keep=2, time_zone="Europe/Berlin"))["CronJob"]
    spec = cast("dict[str, Any]", job["spec"])
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["timeZone"] == "Europe/Berlin"
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (2, 2)
    run = spec["jobTemplate"]["spec"]
    assert (run["activeDeadlineSeconds"], run["backoffLimit"]) == (600, 0)


def test_its_pod_has_no_rights_on_the_node_and_asks_for_no_gpu() -> None:
    found = pod(plan_of())
    (container,) = found["containers"]
    assert found["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {*container["resources"]["requests"]} == {"cpu", "memory"}
    assert not {"hostNetwork", "hostPID"} & {*found}
    assert all("hostPath" not in volume for volume in found["volumes"])


def test_secrets_come_by_reference_only() -> None:
    plan = plan_of()
    (container,) = pod(plan)["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "devices"}}]
    assert "Secret" not in kinds(plan)


def test_outside_of_the_probes_it_may_only_read() -> None:
    spec = watched()
    for rule in rules(make_plan(spec, "dev")):
        if {*rule["verbs"]} & WRITES:
            own = rule["namespace"] == spec.pod_network.namespace
            assert own or rule["resources"] == ["priorityclasses"], rule


def test_an_audit_alone_changes_nothing() -> None:
    for rule in rules(plan_of(accept=False)):
        assert not {*rule["verbs"]} & WRITES, rule


def test_it_reads_secrets_only_in_the_namespaces_of_charts() -> None:
    plan = plan_of()
    charts = {chart.namespace for chart in plan.operators.charts}
    places = {rule["namespace"] for rule in rules(plan) if "secrets" in rule["resources"]}
    assert places <= charts


def test_conditions_need_the_status_of_the_workers_alone() -> None:
    (rule,) = [
        each for each in rules(plan_of(conditions=True)) if "nodes/status" in each["resources"]
    ]
    assert rule["resourceNames"] == ["gpu01", "gpu02"]
    assert rule["verbs"] == ["update"]


def test_a_folder_of_metrics_is_on_the_named_node() -> None:
    found = pod(plan_of(folder="/var/lib/textfile", node="mgmt01"))
    assert found["nodeSelector"] == {"kubernetes.io/hostname": "mgmt01"}
    assert [each["hostPath"] for each in found["volumes"] if "hostPath" in each] == [
        {"path": "/var/lib/textfile", "type": "Directory"}
    ]


def test_a_claim_keeps_evidence_between_runs() -> None:
    (work,) = [each for each in pod(plan_of(claim="proofs"))["volumes"] if each["name"] == "work"]
    assert work["persistentVolumeClaim"] == {"claimName": "proofs"}


def test_a_change_of_the_section_proves_nothing_again() -> None:
    first, other = plan_of(), plan_of(schedule="@daily")
    assert first.digest == other.digest == make_plan(load_example("dgx-roce"), "dev").digest
    assert first.jobs.watch != other.jobs.watch


@pytest.mark.parametrize("name", NAMES)
def test_the_job_reads_a_site_with_the_same_plan(name: str, tmp_path: Path) -> None:
    checked = load_checked_site(EXAMPLES / name / "site.yaml")
    spec = checked.spec_or_raise()
    files = site_files(spec, checked.lock)
    again = parse_site(files["site.yaml"], "site.yaml").spec
    assert again is not None
    lock = checked.lock
    if "site.lock.yaml" in files:
        lock, wrong = parse_lock(files["site.lock.yaml"], tmp_path / "site.lock.yaml")
        assert wrong == ()
    assert make_plan(again, "dev", lock).digest == make_plan(spec, "dev", checked.lock).digest
    assert site_files(again, lock) == files


def test_an_edit_of_the_section_is_no_drift() -> None:
    made, edited = plan_of(), plan_of(schedule="@daily")
    asked = asked_of_cluster(edited, as_planned(made), {})
    assert asked is not None
    assert {dumps(each.body) for each in made.jobs.watch} <= {dumps(each) for each in asked.objects}
    added = asked_of_cluster(edited, as_planned(make_plan(load_example("dgx-roce"), "dev")), {})
    assert added is not None
    assert not any(name_of(each).startswith("railyard-watch") for each in added.objects)


def test_a_site_that_no_config_map_holds_is_refused() -> None:
    spec = watched("dgx-roce")
    env = {f"APP_{number}": "x" * 1000 for number in range(1100)}
    large = spec.model_copy(update={"jobs": spec.jobs.model_copy(update={"env": env})})
    (rule,) = [each for each in RULES if each.name == "watch-cluster"]
    (found,) = rule.check(large)
    assert re.fullmatch(r"the site has 1,1\d\d,\d{3} bytes, and a ConfigMap .*", found.what)
    assert [*rule.check(spec)] == []


def names(manifests: tuple[Manifest, ...]) -> list[str]:
    return [each.kind for each in manifests]


def test_the_namespace_comes_first_and_the_job_last() -> None:
    found = names(plan_of().jobs.watch)
    assert (found[0], found[-1]) == ("Namespace", "CronJob")
