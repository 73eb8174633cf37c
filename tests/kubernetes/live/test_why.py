"""Why something is not ready, in the words of its own status, its pods and their events."""

from __future__ import annotations

from typing import Any

import pytest

from components.kubernetes.live.why import NotReady, reasons_of, state_of

IMAGE = 'Back-off pulling image "registry.example.com/multus-cni:v4.3.0"'


def daemon_set(generation: int = 2, **status: int) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "multus", "namespace": "kube-system", "generation": generation},
        "spec": {},
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 4, **status},
    }


def pod(name: str, node: str = "", **status: Any) -> dict[str, Any]:  # noqa: ANN401 - keys of the API
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Pending", **status},
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (daemon_set(numberReady=4, updatedNumberScheduled=4), ""),
        (daemon_set(numberReady=3), "3 of 4 pods are ready"),
        (
            daemon_set(numberReady=4, updatedNumberScheduled=1),
            "1 of 4 pods are of the last change",
        ),
        (
            daemon_set(3, numberReady=4, updatedNumberScheduled=4),
            "its controller has not seen the last change",
        ),
        (
            {"kind": "Deployment", "metadata": {}, "spec": {}, "status": {}},
            "0 of 1 pods are ready",
        ),
        (
            {"kind": "Deployment", "metadata": {}, "spec": {}, "status": {"readyReplicas": 1}},
            "",
        ),
        ({"kind": "ConfigMap", "metadata": {}}, ""),
        (
            {"kind": "CustomResourceDefinition", "metadata": {}},
            "NamesAccepted is not true: not judged yet",
        ),
        (
            {
                "kind": "CustomResourceDefinition",
                "metadata": {},
                "status": {
                    "conditions": [
                        {"type": "NamesAccepted", "status": "False", "message": "kind is taken"}
                    ]
                },
            },
            "NamesAccepted is not true: kind is taken",
        ),
        (
            {
                "kind": "NicClusterPolicy",
                "metadata": {},
                "status": {
                    "state": "notReady",
                    "appliedStates": [
                        {"name": "state-OFED", "state": "ignore"},
                        {"name": "state-SRIOV-device-plugin", "state": "notReady"},
                        {"name": "state-multus-cni", "state": "error", "message": "no image"},
                    ],
                },
            },
            (
                "its state is notReady; state-SRIOV-device-plugin notReady; "
                "state-multus-cni error: no image"
            ),
        ),
        (
            {
                "kind": "ClusterPolicy",
                "metadata": {},
                "status": {
                    "state": "notReady",
                    "conditions": [
                        {"type": "Ready", "status": "False", "message": ""},
                        {"type": "Error", "status": "True", "message": "state-driver: 2 of 4"},
                    ],
                },
            },
            "its state is notReady; Error: state-driver: 2 of 4",
        ),
        ({"kind": "ClusterPolicy", "metadata": {}, "status": {"state": "ready"}}, ""),
    ],
)
def test_the_state_of_an_object(body: dict[str, Any], words: str) -> None:
    assert state_of(body) == words


def test_an_image_that_cannot_be_pulled_is_named_with_its_node() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": IMAGE}
    status = {"name": "kube-multus", "state": {"waiting": waiting}}
    found = reasons_of([pod("multus-x1", "gpu01", containerStatuses=[status])], [])
    assert found == (f"pod multus-x1 on gpu01: kube-multus ImagePullBackOff: {IMAGE}",)


def test_what_a_container_said_at_its_end_is_shown() -> None:
    status = {
        "name": "check-cni-folders",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"message": "no CNI configuration in /etc/cni/net.d\n"}},
    }
    found = reasons_of([pod("cni-folders-a", "gpu02", initContainerStatuses=[status])], [])
    assert found == (
        (
            "pod cni-folders-a on gpu02: check-cni-folders CrashLoopBackOff: "
            "no CNI configuration in /etc/cni/net.d"
        ),
    )


def test_a_pod_without_a_node_says_why() -> None:
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    assert reasons_of([pod("job-0", conditions=[condition])], []) == (
        f"pod job-0: Unschedulable: {message}",
    )


def test_a_pod_that_is_on_its_way_is_explained_by_its_newest_warning() -> None:
    waits = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    events = [
        {
            "involvedObject": {"name": "job-0"},
            "reason": "FailedCreatePodSandBox",
            "message": 'failed to find plugin "macvlan" in path [/opt/cni/bin]',
            "lastTimestamp": "2026-01-01T00:00:02Z",
        },
        {
            "involvedObject": {"name": "job-0"},
            "reason": "FailedMount",
            "message": "older",
            "lastTimestamp": "2026-01-01T00:00:01Z",
        },
    ]
    assert reasons_of([pod("job-0", "gpu01", containerStatuses=[waits])], events) == (
        (
            "pod job-0 on gpu01: ContainerCreating; FailedCreatePodSandBox: "
            'failed to find plugin "macvlan" in path [/opt/cni/bin]'
        ),
    )


def test_ready_pods_are_left_out_and_many_are_counted() -> None:
    ready = pod("ok", "gpu01", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    found = reasons_of([ready, *(pod(f"p{number}", "n") for number in range(5))], [])
    assert found == (
        "pod p0 on n: not ready yet",
        "pod p1 on n: not ready yet",
        "pod p2 on n: not ready yet",
        "and 2 more pods",
    )


def test_what_is_not_ready_is_a_line_with_its_reasons_below() -> None:
    found = NotReady("DaemonSet kube-system/multus", "3 of 4 pods are ready", ("pod a: late",))
    assert str(found) == "DaemonSet kube-system/multus: 3 of 4 pods are ready\n  pod a: late"
