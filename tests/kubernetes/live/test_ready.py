"""What of a plan is not ready: objects, Helm releases, what an operator started, finalizers."""

from __future__ import annotations

import copy
from typing import Any

from components.kubernetes.live.look import Asked, await_ready, find_not_ready
from components.kubernetes.live.read import ReleaseRef
from components.kubernetes.live.why import NotReady
from tests.kubernetes.live.played_api import PlayedApi, load, release_secret

CONFIG = load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")[0]
PLUGIN = load("""
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plugin, namespace: kube-system, generation: 1}
spec: {selector: {matchLabels: {name: plugin}}}
status: {observedGeneration: 1, desiredNumberScheduled: 2, numberReady: 1}
""")[0]
POD = load("""
apiVersion: v1
kind: Pod
metadata: {name: plugin-a, namespace: kube-system, labels: {name: plugin}}
spec: {nodeName: gpu01}
status:
  phase: Pending
  containerStatuses:
  - {name: c, state: {waiting: {reason: ErrImagePull, message: "not found"}}}
""")[0]
POLICY = load("""
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
status: {state: notReady}
""")[0]
OPERAND = load("""
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-driver-daemonset, namespace: gpu-operator}
spec: {selector: {matchLabels: {app: driver}}}
status: {desiredNumberScheduled: 2, numberReady: 0}
""")[0]
RELEASE = ReleaseRef("gpu-operator", "gpu-operator")


def asked(*objects: dict[str, Any], releases: tuple[ReleaseRef, ...] = ()) -> Asked:
    return Asked(objects=objects, releases=releases)


def lines(api: PlayedApi, wanted: Asked) -> list[str]:
    return [str(each) for each in find_not_ready(api, wanted)]


def test_a_workload_is_named_with_its_pods() -> None:
    api = PlayedApi()
    api.put(CONFIG, PLUGIN, POD)
    assert lines(api, asked(CONFIG, PLUGIN)) == [
        (
            "DaemonSet kube-system/plugin: 1 of 2 pods are ready\n"
            "  pod plugin-a on gpu01: c ErrImagePull: not found"
        )
    ]


def test_what_is_not_there_is_counted_and_named() -> None:
    assert lines(PlayedApi(), asked(CONFIG, PLUGIN)) == [
        "2 objects: not there: ConfigMap default/a, DaemonSet kube-system/plugin"
    ]


def test_an_operators_policy_is_explained_by_what_it_started() -> None:
    api = PlayedApi()
    api.kinds["nvidia.com/v1"] = ("ClusterPolicy",)
    text = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\n"
    api.put(POLICY, OPERAND, release_secret(text, status="pending-install"))
    assert lines(api, asked(releases=(RELEASE,))) == [
        "Helm release gpu-operator/gpu-operator: its status is pending-install",
        "ClusterPolicy cluster-policy: its state is notReady",
        "DaemonSet gpu-operator/nvidia-driver-daemonset: 0 of 2 pods are ready",
    ]


def test_a_finalizer_that_holds_an_object_is_named() -> None:
    held = copy.deepcopy(CONFIG)
    held["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["lab/hold"]}
    api = PlayedApi()
    api.put(held)
    assert lines(api, asked(CONFIG)) == [
        "ConfigMap default/a: is being deleted, and held by lab/hold"
    ]


def test_waiting_ends_with_the_last_lack_or_the_deadline() -> None:
    clock = [0.0]
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        clock[0] += seconds

    lack = NotReady("a", "late")
    looks = iter([(lack,), (lack,), ()])
    assert await_ready(lambda: next(looks), 60, lambda: clock[0], pause) == ()
    assert paused == [5.0, 5.0]
    clock[0], paused[:] = 0.0, []
    assert await_ready(lambda: (lack,), 7, lambda: clock[0], pause) == (lack,)
    assert paused == [5.0, 2.0]
