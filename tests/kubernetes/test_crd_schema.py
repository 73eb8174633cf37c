"""The schema of a vendored CRD is upstream's, and refuses what jobs get wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic import JsonValue

from components.jobs.plan import MPI_OPERATOR_FILE
from components.kubernetes.manifest import make_manifest
from components.kubernetes.vendored import load_vendored, without_texts
from lab.cluster.api import Api, ApiError
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until


def test_the_schema_loses_its_descriptions_alone() -> None:
    """A field that is called `description` stays."""
    field: JsonValue = {"type": "string", "description": "what it is"}
    schema: JsonValue = {"description": "all", "properties": {"description": field}}
    assert without_texts(schema) == {"properties": {"description": {"type": "string"}}}


def test_the_packed_definition_is_the_releases_own() -> None:
    """`deploy/v2beta1/mpi-operator.yaml` of v0.8.2: a whole pod, its status, lists with keys."""
    kind = cast("Any", _definition())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "conditions" in kind["properties"]["status"]["properties"]
    replicas = kind["properties"]["spec"]["properties"]["mpiReplicaSpecs"]
    pod = replicas["additionalProperties"]["properties"]["template"]["properties"]["spec"]
    assert len(pod["properties"]) > 30
    assert "x-kubernetes-preserve-unknown-fields" not in pod
    container = pod["properties"]["containers"]["items"]["properties"]
    assert container["ports"]["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]


def test_the_state_holds_two_copies_of_at_most_seventy_kilobytes() -> None:
    assert len(json.dumps(_definition(), separators=(",", ":"))) <= 70_000


def test_a_definition_is_waited_for() -> None:
    metadata = cast("Any", _definition()["metadata"])
    assert metadata["annotations"]["pulumi.com/waitFor"] == "condition=Established"


def _definition() -> dict[str, JsonValue]:
    bodies = load_vendored("components.jobs", MPI_OPERATOR_FILE)
    body = next(body for body in bodies if body["kind"] == "CustomResourceDefinition")
    return make_manifest("mpi-operator", body, 1).body


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[Api]:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    plane.admin.request("POST", path, cast("Any", _definition()))
    wait_until("the kind to be served", lambda: plane.admin.answers(JOBS), 30)
    yield plane.admin
    plane.admin.request("DELETE", f"{path}/mpijobs.kubeflow.org")
    wait_until(
        "the kind to be gone", lambda: not plane.admin.find(f"{path}/mpijobs.kubeflow.org"), 30
    )


DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"

AFFINITY: JsonValue = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
}
WRONG_PODS: list[dict[str, JsonValue]] = [
    {"affinty": {}},
    {"affinity": {"nodeAffinity": {"anything": [1, 2]}}},
    {"hostNetwork": "yes"},
    {"priority": "high"},
    {"volumes": [{"emptyDir": {}}]},
    {"volumes": [{"name": "twice"}, {"name": "twice"}]},
    {"containers": []},
]


def _job(**container: JsonValue) -> dict[str, Any]:
    pod = {
        "containers": [{"name": "mpi", "image": "nccl", **container}],
        "affinity": {"podAntiAffinity": AFFINITY},
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    replica = {"replicas": 1, "template": {"spec": pod}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "probe"},
        "spec": {"slotsPerWorker": 8, "mpiReplicaSpecs": {"Launcher": replica, "Worker": replica}},
    }


@pytest.mark.cluster
def test_a_real_api_server_takes_it_and_keeps_all_of_a_pod(api: Api) -> None:
    made = cast("Any", api.request("POST", JOBS, _job(), query=DRY_RUN))
    pod = made["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert pod["affinity"] == {"podAntiAffinity": AFFINITY}
    assert pod["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    defaults = {"slotsPerWorker": 8, "sshAuthMountPath": "/root/.ssh", "runLauncherAsWorker": False}
    defaults |= {"launcherCreationPolicy": "AtStartup", "mpiImplementation": "OpenMPI"}
    assert {key: made["spec"][key] for key in defaults} == defaults


@pytest.mark.cluster
@pytest.mark.parametrize(
    "wrong",
    [
        {"env": [{"name": 1}]},
        {"env": [{"nam": "NCCL_DEBUG"}]},
        {"resources": {"limits": {"nvidia.com/gpu": {}}}},
        {"volumeMounts": [{"name": "dshm"}]},
        {"imagee": "nccl"},
    ],
)
def test_it_still_refuses_what_jobs_get_wrong(api: Api, wrong: dict[str, JsonValue]) -> None:
    with pytest.raises(ApiError):
        api.request("POST", JOBS, _job(**wrong), query=DRY_RUN)


@pytest.mark.cluster
@pytest.mark.parametrize("wrong", WRONG_PODS)
def test_it_still_refuses_what_a_pod_gets_wrong(api: Api, wrong: dict[str, JsonValue]) -> None:
    job = _job()
    pod = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    pod |= wrong
    if not pod["containers"]:
        del pod["containers"]
    with pytest.raises(ApiError):
        api.request("POST", JOBS, job, query=DRY_RUN)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "wrong",
    [
        {"mpiReplicaSpecs": None},
        {"slotsPerWorker": "eight"},
        {"mpiImplementation": "LAM"},
        {"runPolicy": {"backoffLimits": 0}},
    ],
)
def test_it_still_refuses_what_a_job_gets_wrong(api: Api, wrong: dict[str, JsonValue]) -> None:
    job = _job()
    job["spec"] |= wrong
    with pytest.raises(ApiError):
        api.request("POST", JOBS, job, query=DRY_RUN)
