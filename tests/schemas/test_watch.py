"""The job of `watch` before the real API server: its objects, and its rights as its own account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from components.acceptance.report.publish import TYPE, RailFault, write_conditions
from components.kubernetes.client import KubernetesCalls
from components.plan.make import make_plan
from lab.cluster.plane import ControlPlane
from tests.acceptance.test_watch_plan import watched
from tests.schemas.test_api_server import make_namespace

pytestmark = pytest.mark.cluster
SPEC = watched("dgx-roce", conditions=True, claim="proofs", folder="/var/textfile", node="mgmt01")
PLURALS = {
    "ConfigMap": "configmaps",
    "CronJob": "cronjobs",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
USER = "system:serviceaccount:railyard-watch:railyard-watch"
NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Made:
    """The cluster with the objects of `watch`, and access as the job."""

    plane: ControlPlane
    calls: KubernetesCalls


@pytest.fixture(scope="module")
def made(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    paths: dict[str, None] = {}

    def place(name: str) -> None:
        path = f"/api/v1/namespaces/{name}"
        if plane.admin.find(path) is None:
            make_namespace(plane.admin, name)
            paths[path] = None

    for each in make_plan(SPEC, "dev").jobs.watch:
        body: Any = each.body
        metadata = body["metadata"]
        if each.kind == "Namespace":
            place(metadata["name"])
            continue
        space = metadata.get("namespace", "")
        if space:
            place(space)
        version = body["apiVersion"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        base += f"/namespaces/{space}" if space else ""
        query = {"fieldManager": "test", "force": "true", "fieldValidation": "Strict"}
        kind = "application/apply-patch+yaml"
        path = f"{base}/{PLURALS[each.kind]}/{metadata['name']}"
        plane.admin.request("PATCH", path, body, kind, query)
        paths[path] = None
    for name in ("gpu01", "mgmt01"):
        node: Any = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        plane.admin.apply(f"/api/v1/nodes/{name}", node)
        paths[f"/api/v1/nodes/{name}"] = None
    file = plane.write_kubeconfig(tmp_path_factory.mktemp("watch") / "job.kubeconfig", USER)
    yield Made(plane, KubernetesCalls(file.read_text()))
    for path in reversed(paths):
        plane.admin.request("DELETE", path)


def status(made: Made, method: str, path: str, body: Any = None) -> int:  # noqa: ANN401 - JSON
    return made.calls.call(method, path, body).status


def test_it_sets_the_condition_of_a_worker_and_of_no_other_node(made: Made) -> None:
    fault = RailFault("PROOF_LINK", "rail-0", "the cable")
    faults = {"gpu01": (fault,)}
    assert write_conditions(made.calls, SPEC, faults, NOW) == []
    node: Any = made.plane.admin.find("/api/v1/nodes/gpu01")
    (own,) = [each for each in node["status"]["conditions"] if each["type"] == TYPE]
    assert (own["status"], own["reason"]) == ("True", f"{TYPE}IsNotHealthy")
    assert own["lastTransitionTime"] == "2026-03-01T03:00:00Z"
    foreign = made.calls.call("GET", "/api/v1/nodes/mgmt01").body
    assert status(made, "PUT", "/api/v1/nodes/mgmt01/status", {**foreign}) == 403


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/apps/v1/daemonsets",
        "/apis/batch/v1/namespaces/railyard-watch/cronjobs",
        "/api/v1/namespaces/railyard-watch/configmaps/railyard-watch",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        "/api/v1/namespaces/gpu-operator/secrets",
    ],
)
def test_it_reads_what_an_audit_asks(made: Made, path: str) -> None:
    assert status(made, "GET", path) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/namespaces/railyard-watch/secrets",
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces/default/secrets",
    ],
)
def test_it_reads_no_other_secret(made: Made, path: str) -> None:
    assert status(made, "GET", path) == 403


def test_it_makes_probes_in_their_namespace_alone(made: Made) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    }
    query = "?dryRun=All"
    assert status(made, "POST", f"/api/v1/namespaces/kube-system/pods{query}", pod) == 403
    assert status(made, "POST", f"/api/v1/namespaces/railyard-watch/pods{query}", pod) == 403
    answer = made.calls.call("POST", f"/api/v1/namespaces/default/pods{query}", pod)
    assert answer.status == 201, answer.words
    assert status(made, "DELETE", "/apis/apps/v1/namespaces/default/deployments/x") == 403
