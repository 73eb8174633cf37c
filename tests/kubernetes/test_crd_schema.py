"""The schema of a vendored CRD is small, and still refuses what jobs get wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic import JsonValue

from ci.pack_manifest import slim_schema
from components.jobs.job_plan import MPI_OPERATOR_FILE
from components.kubernetes.manifest import load_vendored, make_manifest
from lab.cluster.api import Api, ApiError
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until

ENVIRONMENT: JsonValue = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
}
POD: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "containers": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "lifecycle": {"type": "object", "properties": {"preStop": {"type": "object"}}},
                    "env": ENVIRONMENT,
                },
            },
        },
        "volumes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "nfs": {"type": "object", "properties": {"path": {"type": "string"}}},
                },
            },
        },
        "restartPolicy": {"type": "string"},
        "affinity": {"type": "object", "properties": {"nodeAffinity": {"type": "object"}}},
    },
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_pod_keeps_what_jobs_set_and_is_open_below() -> None:
    slim = cast("Any", slim_schema(POD))
    assert slim["x-kubernetes-preserve-unknown-fields"] is True
    pod = slim["properties"]
    entry = pod["containers"]["items"]
    assert entry["required"] == ["name"]
    assert pod["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert entry["properties"]["env"] == ENVIRONMENT
    assert entry["properties"]["lifecycle"] == OPEN
    assert set(pod) == {"containers", "volumes", "restartPolicy"}
    assert pod["volumes"]["items"] == {**OPEN, "properties": {"name": {"type": "string"}}}
    assert pod["restartPolicy"] == {"type": "string"}


def test_a_list_type_that_is_the_default_is_not_said() -> None:
    listed = {"type": "array", "x-kubernetes-list-type": "atomic"}
    assert slim_schema(cast("JsonValue", listed)) == {"type": "array"}


def test_the_status_of_a_kind_is_open_and_that_of_anything_else_is_not() -> None:
    status: JsonValue = {"type": "object", "properties": {"phase": {"type": "string"}}}
    kind: JsonValue = {
        "properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "status": status}
    }
    assert cast("Any", slim_schema(kind))["properties"]["status"] == OPEN
    assert slim_schema({"properties": {"status": status}}) == {"properties": {"status": status}}


def test_the_state_holds_two_copies_of_at_most_seven_kilobytes() -> None:
    assert len(json.dumps(_definition(), separators=(",", ":"))) <= 7_000


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
    wait_until("the kind to be served", lambda: plane.admin.answers(JOBS), 120)
    yield plane.admin
    plane.admin.request("DELETE", f"{path}/mpijobs.kubeflow.org")
    wait_until(
        "the kind to be gone", lambda: not plane.admin.find(f"{path}/mpijobs.kubeflow.org"), 30
    )


DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"

WRONG_PODS: list[dict[str, JsonValue]] = [
    {"hostNetwork": "yes"},
    {"priority": "high"},
    {"volumes": [{"emptyDir": {}}]},
    {"volumes": [{"name": "twice"}, {"name": "twice"}]},
    {"containers": []},
]


def _job(**container: JsonValue) -> dict[str, Any]:
    pod = {
        "containers": [{"name": "mpi", "image": "nccl", **container}],
        "affinity": {"nodeAffinity": {"anything": [1, 2]}},
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
def test_a_real_api_server_takes_it_and_keeps_what_is_open(api: Api) -> None:
    made = cast("Any", api.request("POST", JOBS, _job(), query=DRY_RUN))
    pod = made["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert pod["affinity"] == {"nodeAffinity": {"anything": [1, 2]}}
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
