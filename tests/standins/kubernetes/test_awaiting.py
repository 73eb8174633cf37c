from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from standins.kubernetes.client import ApiError, Client
from standins.kubernetes.values import JsonMap, as_map, dig
from tests.standins.kubernetes.protocol import Handle, InitFailed, PluginError, PluginProcess

pytestmark = pytest.mark.cluster
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def deployment(namespace: str, image: str = "lab/none:1", cpu: str = "1m") -> JsonMap:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {
                    "containers": [
                        {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
                    ]
                },
            },
        },
    }


def annotated(obj: JsonMap, **annotations: str) -> JsonMap:
    names = {"skip": "skipAwait", "wait_for": "waitFor", "timeout": "timeoutSeconds"}
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    marks = {f"pulumi.com/{names[key]}": value for key, value in annotations.items()}
    return {**obj, "metadata": {**metadata, "annotations": {**marks}}}


def config_map(namespace: str, **data: str) -> JsonMap:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": namespace},
        "data": {**data},
    }


def test_a_deployment_is_recorded_when_it_is_available(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, DEPLOYMENT)
    made = handle.create(deployment(namespace))
    assert dig(made.state, "status", "readyReplicas") == 2
    after = handle.update(made, deployment(namespace, "lab/none:2"))
    assert dig(after.state, "status", "updatedReplicas") == 2
    assert handle.diff(after, deployment(namespace, "lab/none:2")).kinds == {}


def test_a_timeout_keeps_the_half_made_object_and_the_next_update_completes_it(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, DEPLOYMENT)
    too_big = deployment(namespace, cpu="100000")
    with pytest.raises(InitFailed, match="failed to fully initialize") as caught:
        handle.create(too_big, timeout_s=6)
    half = caught.value.resource
    assert half.id == f"{namespace}/app"
    assert caught.value.reasons[1:] == [
        "[MinimumReplicasUnavailable] Deployment does not have minimum availability.",
        "Minimum number of live Pods was not attained",
    ]  # and not a word about the pods that fit on no node
    with pytest.raises(InitFailed):
        handle.refresh(half)  # it still is not ready, and a refresh says so
    done = handle.update(half, deployment(namespace), timeout_s=60)
    assert dig(done.state, "status", "readyReplicas") == 2


def test_the_timeout_annotation_counts_and_skip_await_returns_at_once(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, DEPLOYMENT)
    started = time.monotonic()
    made = handle.create(annotated(deployment(namespace, cpu="100000"), skip="true"))
    handle.delete(made)
    assert time.monotonic() - started < 5
    with pytest.raises(PluginError, match="object is being deleted"):
        handle.create(deployment(namespace))  # the price of not waiting for the end
    soon = annotated(config_map(namespace), timeout="1", wait_for="jsonpath={.data.never}")
    with pytest.raises(InitFailed, match="timed out waiting for the condition"):
        Handle(plugin, "kubernetes:core/v1:ConfigMap").create(soon)
    assert time.monotonic() - started < 10


def test_a_job_that_fails_is_reported_without_waiting_for_the_timeout(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, "kubernetes:batch/v1:Job")
    job: JsonMap = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {
            "activeDeadlineSeconds": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "c",
                            "image": "lab/none:1",
                            "resources": {"requests": {"cpu": "100000"}},
                        }
                    ],
                }
            },
        },
    }
    with pytest.raises(InitFailed) as caught:
        handle.create(job, timeout_s=40)
    assert any("DeadlineExceeded" in reason for reason in caught.value.reasons)
    handle.delete(caught.value.resource)
    with pytest.raises(ApiError, match="not found"):
        cluster.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/job")


def test_a_job_and_a_pod_complete(plugin: PluginProcess, namespace: str) -> None:
    container: JsonMap = {"name": "c", "image": "lab/none:1"}
    pod_spec: JsonMap = {"restartPolicy": "Never", "containers": [container]}
    job: JsonMap = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"template": {"spec": pod_spec}},
    }
    made = Handle(plugin, "kubernetes:batch/v1:Job").create(job, timeout_s=50)
    assert dig(made.state, "status", "succeeded") == 1
    pod: JsonMap = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": namespace},
        "spec": {"containers": [container]},
    }
    alive = Handle(plugin, "kubernetes:core/v1:Pod").create(pod, timeout_s=50)
    assert dig(alive.state, "status", "phase") == "Running"


def service(namespace: str) -> JsonMap:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "svc", "namespace": namespace},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "app"}},
    }


def pod_on_no_node(cluster: Client, namespace: str, *, ready: bool) -> None:
    """Makes a pod that no kubelet answers for, or changes whether it says to be ready."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod: JsonMap = {
        "metadata": {"name": "pod", "labels": {"app": "app"}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "lab/none:1"}]},
    }
    if not ready:
        cluster.request("POST", pods, body=pod)
    address = "192.0.2.1"  # nothing connects to it; Endpoints refuse loopback addresses
    status: JsonMap = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    cluster.request(
        "PATCH",
        f"{pods}/pod/status",
        body={"status": status},
        content_type="application/merge-patch+json",
    )


def test_a_service_waits_for_unready_pods_behind_it(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:Service")
    pod_on_no_node(cluster, namespace, ready=False)
    with pytest.raises(InitFailed) as caught:
        handle.create(service(namespace), timeout_s=3)
    assert any("does not target any Pods" in reason for reason in caught.value.reasons)
    pod_on_no_node(cluster, namespace, ready=True)
    handle.update(caught.value.resource, service(namespace), timeout_s=60)


def test_a_service_does_not_wait_for_pods_that_do_not_exist(
    plugin: PluginProcess, namespace: str
) -> None:
    made = Handle(plugin, "kubernetes:core/v1:Service").create(service(namespace), timeout_s=60)
    assert dig(made.state, "spec", "clusterIP")


def test_a_daemon_set_gives_up_with_the_words_of_the_client_library(
    plugin: PluginProcess, namespace: str
) -> None:
    template = as_map(as_map(deployment(namespace, cpu="100000")["spec"])["template"])
    wanted: JsonMap = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "ds", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "app"}}, "template": template},
    }
    with pytest.raises(InitFailed) as caught:
        Handle(plugin, "kubernetes:apps/v1:DaemonSet").create(wanted, timeout_s=1)
    assert len(caught.value.reasons) == 1
    assert caught.value.reasons[0].endswith("timed out waiting for the condition")


@pytest.mark.parametrize(
    "wait_for",
    [
        "jsonpath={.data.phase}=ready",
        '["jsonpath={.data.phase}=ready", "jsonpath={.metadata.uid}"]',
    ],
)
def test_wait_for_holds_until_the_value_is_there(
    plugin: PluginProcess, cluster: Client, namespace: str, wait_for: str
) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:ConfigMap")
    outcome: list[bool] = []

    def make() -> None:
        handle.create(annotated(config_map(namespace, phase="no"), wait_for=wait_for), 30)
        outcome.append(True)

    waiting = threading.Thread(target=make)
    waiting.start()
    waiting.join(1.0)
    assert waiting.is_alive()
    cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/cm",
        body={"data": {"phase": "ready"}},
        content_type="application/merge-patch+json",
    )
    waiting.join(10)
    assert outcome == [True]


def test_wait_for_a_condition_and_a_wrong_expression(plugin: PluginProcess, namespace: str) -> None:
    handle = Handle(plugin, DEPLOYMENT)
    handle.create(annotated(deployment(namespace), wait_for="condition=Available"), 40)
    broken = Handle(plugin, "kubernetes:core/v1:ConfigMap")
    with pytest.raises(PluginError, match=r'"jsonpath=" or "condition="'):
        broken.create(annotated(config_map(namespace), wait_for="phase=ready"), 5)


def test_a_stuck_finalizer_is_an_error_after_the_deadline(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:ConfigMap")
    stuck = config_map(namespace, a="1")
    stuck["metadata"] = {"name": "cm", "namespace": namespace, "finalizers": ["lab/hold"]}
    made = handle.create(stuck)
    with pytest.raises(PluginError, match="timed out waiting for the condition"):
        handle.delete(made, timeout_s=1)
    cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/cm",
        body={"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )
    handle.delete(made, timeout_s=60)


def test_cancel_ends_a_wait(
    start: Callable[[], PluginProcess], kubeconfig: str, namespace: str
) -> None:
    process = start()
    process.configure({"kubeconfig": kubeconfig})
    failures: list[str] = []

    def make() -> None:
        try:
            Handle(process, DEPLOYMENT).create(deployment(namespace, cpu="100000"), 60)
        except InitFailed as error:
            failures.append(str(error))

    waiting = threading.Thread(target=make)
    waiting.start()
    waiting.join(1.5)
    process.cancel()
    waiting.join(10)
    assert len(failures) == 1
    assert "cancelled" in failures[0]
