"""Busy, closed and broken: told apart from the API's own objects."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import pytest

from components.acceptance.collect.turn import (
    NodeUse,
    find_hindrance,
    lacks_places,
    needs_of,
    read_nodes,
)
from components.acceptance.probes.probe_plan import plan_probes
from components.jobs.templates import number_objects
from tests.golden.site import load_example

PLAN = plan_probes(load_example("dgx-roce"))
_, _, PERFTEST, _, NCCL = (number_objects(job.objects, 1) for job in PLAN.jobs)
READY = {"type": "Ready", "status": "True"}
OFFERS = {
    "nvidia.com/gpu": "8",
    "intel.com/sriov_111": "8",
    "intel.com/sriov_112": "8",
    "cpu": "80",
}


def node(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - keys of the API
    status = {"allocatable": OFFERS, "conditions": [more.pop("ready", READY)]}
    return {"metadata": {"name": name}, "spec": more, "status": status}


def pod(name: str, on: str, phase: str = "Running", **limits: int) -> dict[str, Any]:
    amounts = {key.replace("__", "/").replace("_dot_", "."): str(n) for key, n in limits.items()}
    container = {"resources": {"limits": amounts}}
    return {
        "metadata": {"name": name, "namespace": "train"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


def gpus(name: str, on: str, count: int, phase: str = "Running") -> dict[str, Any]:
    return pod(name, on, phase, nvidia_dot_com__gpu=count)


def why(nodes: list[Any], pods: list[Any], objects: list[Any]) -> tuple[str, str] | None:
    found = find_hindrance(objects, read_nodes(nodes, pods))
    return (found.kind, found.reason) if found else None


BOTH = [node("gpu01"), node("gpu02")]


def test_a_free_cluster_is_in_nobodys_way() -> None:
    assert why(BOTH, [], NCCL) is None
    assert why(BOTH, [], PERFTEST) is None


def test_one_pod_with_all_gpus_is_named_with_its_numbers() -> None:
    assert why(BOTH, [gpus("job-0", "gpu01", 8)], NCCL) == (
        "busy",
        "busy: pod train/job-0 uses 8 of 8 GPUs of gpu01",
    )


def test_several_pods_are_named_with_their_shares() -> None:
    pods = [gpus("b", "gpu02", 1), gpus("a", "gpu02", 4)]
    assert why(BOTH, pods, NCCL) == (
        "busy",
        "busy: pods train/a (4), train/b (1) use 5 of 8 GPUs of gpu02",
    )


def test_a_perftest_needs_no_gpu_and_is_hindered_by_cards_alone() -> None:
    pods = [gpus("job-0", "gpu01", 8), gpus("job-1", "gpu02", 8)]
    assert why(BOTH, pods, PERFTEST) is None
    held = pod("cards", "gpu01", intel_dot_com__sriov_111=8)
    assert why(BOTH, [held], PERFTEST) == (
        "busy",
        "busy: pod train/cards uses 8 of 8 intel.com/sriov_111 of gpu01",
    )
    assert why(BOTH, [pod("cards", "gpu01", intel_dot_com__sriov_111=7)], PERFTEST) is None


FEW: dict[str, Any] = {"allocatable": {**OFFERS, "nvidia.com/gpu": "7"}, "conditions": [READY]}
NONE: dict[str, Any] = {"allocatable": {"cpu": "80"}, "conditions": [READY]}


@pytest.mark.parametrize(
    ("second", "objects", "lacks"),
    [
        (node("gpu02"), NCCL, False),
        (node("gpu02", unschedulable=True), NCCL, False),
        (node("gpu03"), NCCL, True),
        (node("gpu02") | {"status": FEW}, NCCL, True),
        (node("gpu02") | {"status": FEW}, PERFTEST, False),
        (node("gpu02") | {"status": NONE}, PERFTEST, True),
    ],
)
def test_places_lack_where_too_few_nodes_offer_enough_whoever_has_it(
    second: dict[str, Any], objects: list[Any], *, lacks: bool
) -> None:
    nodes = read_nodes([node("gpu01"), second], [gpus("job-0", "gpu01", 8)])
    assert lacks_places(objects, nodes) is lacks


def test_a_cluster_that_does_not_list_its_nodes_lacks_no_place() -> None:
    assert not lacks_places(NCCL, {})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    assert why(BOTH, [gpus("old", "gpu01", 8, phase)], NCCL) is None


def test_a_pod_that_is_placed_and_not_started_holds_its_gpus() -> None:
    found = why(BOTH, [gpus("new", "gpu01", 8, "Pending")], NCCL)
    assert found is not None
    assert found[0] == "busy"


def test_first_containers_count_as_the_scheduler_counts_them() -> None:
    body = gpus("job", "gpu01", 2)
    four = {"resources": {"requests": {"nvidia.com/gpu": "4"}}}
    body["spec"]["initContainers"] = [four, {**four, "restartPolicy": "Always"}]
    held = read_nodes(BOTH, [body])["gpu01"].held["nvidia.com/gpu"]
    assert held == {"train/job": 6}, "2 and the sidecar's 4; the first one is done by then"


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "closed"),
    [
        ({"key": "team", "operator": "Exists"}, False),
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, False),
        ({"operator": "Exists"}, False),
        ({"key": "team", "value": "b"}, True),
        ({"key": "other", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, True),
    ],
)
def test_a_taint_that_the_pods_tolerate_closes_no_node(
    toleration: dict[str, str], *, closed: bool
) -> None:
    objects = copy.deepcopy(PERFTEST)
    for body in objects:
        cast("Any", body)["spec"]["tolerations"] = [toleration]
    found = why([node("gpu01"), node("gpu02", taints=[TAINT])], [], objects)
    assert (found is not None and found[0] == "closed") is closed


DOWN = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}


@pytest.mark.parametrize(
    ("second", "kind", "words"),
    [
        (node("gpu02", unschedulable=True), "closed", "cordoned: node gpu02 refuses pods"),
        (
            node("gpu02", taints=[TAINT]),
            "closed",
            "tainted: node gpu02 refuses pods (team=a:",
        ),
        (node("gpu02", ready=DOWN), "broken", "node gpu02 is not ready: Kubelet stopped posting"),
        (node("other"), "broken", "gpu02 is not a node of the cluster"),
    ],
)
def test_a_node_that_takes_no_pods_is_named(second: Any, kind: str, words: str) -> None:  # noqa: ANN401
    found = why([node("gpu01"), second], [], NCCL)
    assert found is not None
    assert found[0] == kind
    assert found[1].startswith(words)


def test_a_taint_that_only_prefers_hinders_nothing() -> None:
    taint = {**TAINT, "effect": "PreferNoSchedule"}
    assert why([node("gpu01"), node("gpu02", taints=[taint])], [], NCCL) is None


def test_broken_outweighs_busy() -> None:
    found = why([node("gpu01"), node("gpu02", ready=DOWN)], [gpus("j", "gpu01", 8)], NCCL)
    assert found is not None
    assert found[0] == "broken"


def test_too_little_offered_is_not_busy_the_scheduler_says_what_lacks() -> None:
    poor = node("gpu02")
    poor["status"]["allocatable"] = {**OFFERS, "nvidia.com/gpu": "4"}
    assert why([node("gpu01"), poor], [gpus("j", "gpu02", 4)], NCCL) is None


def test_a_cluster_that_says_nothing_hinders_nothing() -> None:
    nodes: Mapping[str, NodeUse] = {}
    assert find_hindrance(NCCL, nodes) is None


def test_a_look_at_an_image_needs_one_free_node_of_all() -> None:
    objects = number_objects(PLAN.images[0].objects, 1)
    (need,) = needs_of(objects)
    assert (need.nodes, need.count, need.resources) == (("gpu01", "gpu02"), 1, {})
    closed = [node("gpu01", unschedulable=True), node("gpu02")]
    assert why(closed, [gpus("j", "gpu02", 8)], objects) is None
