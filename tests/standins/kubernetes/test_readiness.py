"""Annotations that steer waiting, and when kinds are ready: pure, without a cluster."""

from __future__ import annotations

import pytest

from standins.kubernetes import readiness
from standins.kubernetes.identity import Gvk, timeout_s_of
from standins.kubernetes.values import Json, JsonMap
from standins.kubernetes.wait_for import WaitForError, check_all, parse_wait_for

POLICY: JsonMap = {
    "metadata": {"generation": 2},
    "status": {
        "state": "ready",
        "observedGeneration": 2,
        "count": 3,
        "ok": True,
        "conditions": [
            {"type": "Progressing", "status": "False", "message": "all done"},
            {"type": "Ready", "status": "True", "reason": "Reconciled"},
        ],
    },
}


@pytest.mark.parametrize(
    ("expression", "done"),
    [
        ("jsonpath={.status.state}=ready", True),
        ("jsonpath={.status.state}=notReady", False),
        ("jsonpath={$.status.count}=3", True),
        ("jsonpath={.status.ok}=true", True),
        ("jsonpath={.status.missing}", False),
        ("jsonpath={.status.conditions}", True),
        ('jsonpath={.status.conditions[?(@.type=="Ready")].status}=True', True),
        ('jsonpath={.status.conditions[?@.type=="Ready"].reason}=Other', False),
        ("jsonpath={.status.conditions[0].type}=Progressing", True),
        ("jsonpath={.status.conditions[*].type}=Progressing", True),
        ("condition=Ready", True),
        ("condition=Progressing", False),
        ("condition=Progressing=False", True),
        ('["jsonpath={.status.state}=ready", "condition=Ready"]', True),
        ('["jsonpath={.status.state}=ready", "condition=Progressing"]', False),
    ],
)
def test_wait_for_expressions(expression: str, *, done: bool) -> None:
    assert check_all(parse_wait_for(expression), POLICY).done is done


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("status.state=ready", "prefix"),
        ("[]", "at least one"),
        ("jsonpath={.a}=b=c", "format should be"),
        ("jsonpath={.a}=", "requires a value"),
        ("jsonpath=.a=b", "wrapped in brackets"),
        ("jsonpath={.a!}=b", "cannot parse"),
    ],
)
def test_wrong_expressions_are_explained(expression: str, complaint: str) -> None:
    with pytest.raises(WaitForError, match=complaint):
        parse_wait_for(expression)


def test_a_map_cannot_be_compared_with_a_value() -> None:
    with pytest.raises(WaitForError, match="non-primitive"):
        check_all(parse_wait_for("jsonpath={.status}=ready"), POLICY)


def test_a_status_of_an_older_generation_does_not_count() -> None:
    stale: JsonMap = {**POLICY, "metadata": {"generation": 3}}
    assert not check_all(parse_wait_for("jsonpath={.status.state}=ready"), stale).done
    assert not check_all(parse_wait_for("condition=Ready"), stale).done


def daemon_set(wanted: int, ready: int, observed: int = 1) -> JsonMap:
    status: JsonMap = {
        "observedGeneration": observed,
        "desiredNumberScheduled": wanted,
        "currentNumberScheduled": wanted,
        "updatedNumberScheduled": wanted,
        "numberAvailable": ready,
        "numberReady": ready,
    }
    return {"metadata": {"generation": 1}, "status": status}


@pytest.mark.parametrize(
    ("obj", "done"),
    [
        (daemon_set(2, 2), True),
        (daemon_set(2, 1), False),
        (daemon_set(0, 0), True),
        (daemon_set(2, 2, observed=0), False),
        ({"metadata": {"generation": 1}}, False),
    ],
)
def test_daemon_sets(obj: JsonMap, *, done: bool) -> None:
    state = readiness.judge(Gvk("apps", "v1", "DaemonSet"), obj)
    assert state is not None
    assert state.done is done


def test_a_deployment_rolls_out_before_it_is_ready() -> None:
    conditions: list[Json] = [{"type": "Available", "status": "True"}]
    status: JsonMap = {
        "observedGeneration": 2,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "conditions": conditions,
    }
    obj: JsonMap = {
        "metadata": {"generation": 2, "annotations": {readiness.DEPLOYMENT_REVISION: "2"}},
        "spec": {"replicas": 1},
        "status": status,
    }
    gvk = Gvk("apps", "v1", "Deployment")
    assert readiness.judge(gvk, obj) != readiness.READY
    conditions.append({"type": "Progressing", "reason": "NewReplicaSetAvailable"})
    state = readiness.judge(gvk, obj)
    assert state is not None
    assert state.done


def test_a_failed_job_is_final() -> None:
    job: JsonMap = {
        "status": {
            "conditions": [
                {"type": "Failed", "status": "True", "reason": "Backoff", "message": "limit"}
            ]
        }
    }
    state = readiness.judge(Gvk("batch", "v1", "Job"), job)
    assert state is not None
    assert state.failed
    assert state.message == "[Backoff] limit"


def pod(*conditions: JsonMap, waiting: JsonMap | None = None) -> JsonMap:
    state: JsonMap = {"waiting": waiting} if waiting else {}
    statuses: list[Json] = [{"name": "c", "ready": False, "state": state}]
    status: JsonMap = {"conditions": [*conditions], "containerStatuses": statuses}
    return {"metadata": {"name": "p", "namespace": "n"}, "status": status}


SCHEDULED: JsonMap = {"type": "PodScheduled", "status": "True"}
INITIALIZED: JsonMap = {"type": "Initialized", "status": "True"}
NOT_READY: JsonMap = {"type": "Ready", "status": "False", "reason": "R", "message": "unready: [c]"}
PULL: JsonMap = {"reason": "ImagePullBackOff", "message": "Back-off"}


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (pod({"type": "PodScheduled", "status": "False", "reason": "U", "message": "m"}), []),
        (pod(SCHEDULED), []),
        (
            pod(SCHEDULED, INITIALIZED, NOT_READY, waiting=PULL),
            ["[Pod n/p]: unready: [c][ImagePullBackOff] Back-off"],
        ),
        (
            pod(SCHEDULED, INITIALIZED, NOT_READY, waiting={"reason": "ContainerCreating"}),
            ["[Pod n/p]: unready: [c]"],
        ),
        (pod(SCHEDULED, INITIALIZED, {"type": "Ready", "status": "True"}), []),
    ],
)
def test_what_a_pod_complains_about(obj: JsonMap, said: list[str]) -> None:
    assert readiness.pod_complaints(obj) == said


def test_nobody_waits_for_custom_resources_and_config_maps() -> None:
    assert readiness.judge(Gvk("", "v1", "ConfigMap"), {}) is None
    assert readiness.judge(Gvk("nvidia.com", "v1", "ClusterPolicy"), {}) is None
    assert readiness.judge(Gvk("example.com", "v1", "Job"), {}) is None


def test_which_timeout_wins() -> None:
    marked: JsonMap = {"metadata": {"annotations": {"pulumi.com/timeoutSeconds": "30"}}}
    assert timeout_s_of(marked, 5) == 5
    assert timeout_s_of(marked, 0) == 30
    assert timeout_s_of({}, 0) == 600
