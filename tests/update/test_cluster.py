"""What is asked of the cluster, and what an update does about what was found there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from components.acceptance.handover import EVIDENCE_STEP, UNASKED
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import Unreachable
from components.fabric.state import PortState
from components.kubernetes.live.compare import FieldDrift
from components.kubernetes.live.look import Asked, ClusterLook, ReleaseLook
from components.kubernetes.live.read import Key, Live, Release, ReleaseRef
from components.kubernetes.manifest import AGAIN, HELD, Body, repaired
from components.kubernetes.planes.base import ClusterRef
from components.model.kubernetes import ExistingPlane
from components.model.sources import Registry
from components.operators.restore import RestoreRequest
from components.plan.make import ClusterPlan, make_plan
from components.remote.lines import parse_lines, render_lines
from components.update.cluster import asked_of_cluster
from components.update.decide import Intentions, intend
from components.update.proof import repairs_of
from components.update.seen import Seen
from tests.golden.site import changed_spec
from tests.update.test_decide import PLAN, SPEC, as_applied, clean

CONFIG: Body = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c"},
    "data": {"a": "b"},
}
KEY = Key("v1", "ConfigMap", "default", "c")
POLICY = Key("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy")
RELEASE = ReleaseRef("gpu-operator", "gpu-operator")
STEP = "gpu-operator-restore"


def with_objects(applied: Applied, **objects: Body) -> Applied:
    return replace(applied, objects=objects or {"some-object": CONFIG})


def decided(look: ClusterLook | Unreachable | None, applied: Applied | None = None) -> Intentions:
    seen = Seen(clean(), cluster=look)
    return intend(PLAN, with_objects(as_applied()) if applied is None else applied, seen, "changed")


def look(
    live: Live | None = None,
    release: ReleaseLook | None = None,
    nodes: Mapping[str, Body] | None = None,
) -> ClusterLook:
    asked = Asked(nodes=("gpu01", "gpu02")) if nodes else Asked()
    return ClusterLook(asked, live or Live(), {RELEASE: release} if release else {}, nodes or {})


def test_a_new_stack_asks_nothing_of_a_cluster() -> None:
    assert asked_of_cluster(PLAN, Applied(), {}) is None


def test_the_plan_is_what_was_applied_where_the_last_proof_is_of_it() -> None:
    """So a refresh that took a deleted object out of the state hides nothing."""
    asked = asked_of_cluster(PLAN, with_objects(as_applied()), {})
    assert asked is not None
    assert asked.objects == tuple(each.body for each in PLAN.manifests)
    assert len(asked.objects) > 25
    assert asked.releases == (RELEASE,)
    assert asked.nodes == ("mgmt01", "gpu01", "gpu02")
    assert asked.namespaces == ("default", "gpu-operator", "mpi-operator")


def test_an_edited_file_is_no_drift() -> None:
    edited = make_plan(changed_spec(SPEC, name="another"), "dev")
    applied = replace(
        with_objects(as_applied(), kept=CONFIG, half={}),
        releases={"gpu-operator": {"name": "gpu-operator", "namespace": "elsewhere"}},
    )
    asked = asked_of_cluster(edited, applied, {})
    assert asked is not None
    assert asked.objects == (CONFIG,)
    assert asked.releases == (ReleaseRef("gpu-operator", "elsewhere"),)


def test_a_cluster_as_it_was_applied_asks_for_no_proof() -> None:
    quiet = decided(look(live=Live(((KEY, CONFIG, CONFIG),))))
    assert (quiet.run, dict(quiet.notes)) == (4, {EVIDENCE_STEP: UNASKED})


def test_a_changed_object_is_proven_again_whole() -> None:
    found = decided(look(live=Live(((KEY, CONFIG, {**CONFIG, "data": {"a": "c"}}),))))
    assert (found.run, dict(found.notes), found.changed) == (5, {}, None)
    assert found.cluster.lines == ('ConfigMap default/c: data.a is "c", want "b"',)


def test_what_another_put_beside_ours_is_named_and_proves_nothing_again() -> None:
    more: Body = {**CONFIG, "data": {"a": "b", "more": "x"}}
    found = decided(look(live=Live(((KEY, CONFIG, more),))))
    assert found.run == 4
    assert found.cluster.exit_code == 3


def test_an_object_within_a_release_gets_a_note_that_stays_when_it_is_repaired() -> None:
    gone = ReleaseLook(Release("deployed", 1), Live(((POLICY, CONFIG, None),)))
    first = decided(look(release=gone))
    words = "ClusterPolicy cluster-policy of Helm release gpu-operator is absent, want there"
    assert first.notes[STEP] == f"1: {words}"
    assert first.run == 5

    stdin = RestoreRequest(ClusterRef("c"), "gpu-operator", "gpu-operator", f"1: {words}").render()
    applied = with_objects(as_applied())
    applied = replace(applied, steps={**applied.steps, STEP: AppliedStep(stdin)})
    intact = ReleaseLook(Release("deployed", 1))
    assert decided(look(release=intact), applied).run == 5, "the repair is not proven yet"
    applied = proven(applied, first.notes)
    assert decided(look(release=intact), applied).notes[STEP] == f"1: {words}"
    assert decided(look(release=intact), applied).run == 4
    assert decided(look(release=gone), applied).notes[STEP] == f"2: {words}"


def test_a_release_that_failed_is_upgraded_by_its_description() -> None:
    failed = look(release=ReleaseLook(Release("failed", 2)))
    assert decided(failed).notes["gpu-operator"] == "1: the release was failed"
    recorded = {
        "gpu-operator": {"name": "gpu-operator", "description": "1: the release was failed"}
    }
    applied = replace(with_objects(as_applied()), releases=cast("Any", recorded))
    assert decided(look(), applied).notes["gpu-operator"] == "1: the release was failed"
    assert decided(failed, applied).notes["gpu-operator"] == "2: the release was failed"


def test_a_deleted_node_joins_again_and_the_path_is_proven() -> None:
    ready: Body = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    found = decided(look(nodes={"gpu01": ready}))
    assert dict(found.notes) == {"gpu02-k3s": "1: node gpu02 is not in the cluster"}
    assert found.run == 5


def installed(plan: ClusterPlan = PLAN) -> Applied:
    """The state of a stack with all objects and charts of a plan."""
    objects = {each.resource_name: each.body for each in plan.manifests}
    charts: Any = {each.release: {"name": each.release} for each in plan.operators.charts}
    return replace(with_objects(as_applied(plan), **objects), releases=charts)


def proven(applied: Applied, notes: Mapping[str, str]) -> Applied:
    """The state after a proof that came after these repairs."""
    proof = applied.steps[EVIDENCE_STEP]
    lines = {**parse_lines(proof.stdin), "repairs": repairs_of(notes)}
    done = replace(proof, stdin=render_lines(lines))
    return replace(applied, steps={**applied.steps, EVIDENCE_STEP: done})


def test_a_dead_api_holds_all_objects_and_asks_for_no_proof() -> None:
    found = decided(Unreachable("the cluster did not answer"), installed())
    assert found.run == 4
    assert found.cluster.unreachable == "the cluster did not answer"
    assert found.cluster.lines == ()
    assert set(found.notes) == {EVIDENCE_STEP, HELD}
    assert found.plan.operators == PLAN.operators
    assert found.plan.manifests == PLAN.manifests


def test_what_is_not_in_the_cluster_yet_waits_for_its_api() -> None:
    applied = installed()
    (gone, *_) = [name for name in applied.objects if "multus" in name]
    objects = {name: body for name, body in applied.objects.items() if name != gone}
    found = decided(Unreachable("no"), replace(applied, objects=objects, releases={}))
    names = {each.resource_name for each in found.plan.manifests}
    assert names == objects.keys()
    assert found.plan.operators.charts == ()
    assert found.plan.digest != PLAN.digest, "the next update is another one, and proves the path"


def test_a_drifting_switch_is_repaired_and_proven_while_the_api_is_dead() -> None:
    leaf = PLAN.switches[0]
    (port, *_) = leaf.desired.ports
    ports = {**leaf.desired.ports, port: replace_mtu(leaf.desired.ports[port])}
    facts = {**clean(), leaf.name: leaf.desired.model_copy(update={"ports": ports})}
    seen = Seen(facts, cluster=Unreachable("no"))
    found = intend(PLAN, installed(), seen, "changed")
    assert leaf.step in found.notes
    assert HELD in found.notes
    assert found.run == 5


def replace_mtu(port: PortState) -> PortState:
    return port.model_copy(update={"mtu_bytes": 1500})


def test_the_api_of_somebody_else_is_not_held() -> None:
    plane = ExistingPlane(plane="existing", version="v1.36.0")
    plan = make_plan(changed_spec(SPEC, kubernetes=plane), "dev")
    found = intend(plan, installed(plan), Seen(clean(plan), cluster=Unreachable("no")), "changed")
    assert HELD not in found.notes


def test_a_changed_object_gets_a_note_that_stays() -> None:
    applied = installed()
    (daemons, *_) = [each for each in PLAN.manifests if each.kind == "DaemonSet"]
    place: Any = daemons.body["metadata"]
    key = Key("apps/v1", "DaemonSet", place["namespace"], daemons.name)
    other = look(live=Live(((key, daemons.body, {**daemons.body, "spec": {}}),)))
    gone = look(live=Live(((key, daemons.body, None),)))
    quiet = look(live=Live(((key, daemons.body, daemons.body),)))

    first = decided(other, applied).notes
    assert first[daemons.resource_name].startswith(f"1: {key}: spec.")
    assert daemons.resource_name + AGAIN not in first

    note = first[daemons.resource_name]
    noted = {**applied.objects, daemons.resource_name: repaired(daemons.body, note)}
    after = replace(applied, objects=noted)
    assert decided(quiet, after).run == 5, "the repair is not proven yet"
    after = proven(after, first)
    assert decided(quiet, after).notes[daemons.resource_name] == note
    assert decided(quiet, after).run == 4
    again = decided(gone, after).notes
    assert again[daemons.resource_name] == f"2: {key} is absent, want there"
    assert daemons.resource_name + AGAIN in again


def test_a_release_that_is_gone_is_named_with_the_command_that_installs_it() -> None:
    found = decided(look(release=ReleaseLook(None)), installed())
    (line,) = found.cluster.left
    assert line.endswith("is absent, want there: `pulumi up --refresh` installs it again")
    assert found.cluster.repaired == ()
    assert found.run == 4
    refreshed = replace(installed(), releases={})
    assert decided(look(release=ReleaseLook(None)), refreshed).run == 5


def test_the_login_of_a_registry_is_compared_by_its_value() -> None:
    login = {"user": "puller", "password": {"secret": "registry_password"}}
    registry = Registry.model_validate({"address": "registry.example:5000", "login": login})
    spec = changed_spec(SPEC, sources=SPEC.sources.model_copy(update={"registry": registry}))
    plan = make_plan(spec, "dev")
    asked = asked_of_cluster(plan, with_objects(as_applied(plan)), {"registry_password": "s3cret"})
    assert asked is not None
    secrets = [each for each in asked.objects if each["kind"] == "Secret"]
    assert secrets
    for secret in secrets:
        value = cast("Any", secret["data"])[".dockerconfigjson"]
        assert b'"password": "s3cret"' in base64.b64decode(value)
    assert "s3cret" not in repr(asked)


@pytest.mark.parametrize("path", ["", "status"])
def test_a_line_reads_well(path: str) -> None:
    drift = FieldDrift(path, "absent", "there")
    assert str(drift) in {"is absent, want there", "status is absent, want there"}
