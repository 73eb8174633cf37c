"""The nodes of a `torchrun` as pods: they wait for each other, and for the name of the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from lab.cluster.allocate import dump_allocation
from lab.cluster.document import Doc
from lab.cluster.pod_probe import World
from lab.cluster.pod_view import NodeState, Pod
from lab.cluster.torch_pods import is_torch, run_torch
from tests.lab_cluster.test_pod_devices import Physics, hca_devices, make_pod
from tests.submit.jobs import asked_for, job_of

IMAGE = "registry.example/ddp-tutorial:2.9"
PROGRAM = ("/workspace/multinode.py", "2", "1")


def node(index: int, image: str = IMAGE, program: tuple[str, ...] = PROGRAM, **more: str) -> Pod:
    """A pod of the printed Job, as the Job controller makes it."""
    asked = asked_for("pytorch", image=image, program=program)
    job = cast("Any", job_of(asked).objects[1])
    spec = job["spec"]["template"]["spec"] | {"nodeName": f"w-{index}"}
    labels = {"batch.kubernetes.io/job-name": "pytorch"}
    notes = {"batch.kubernetes.io/job-completion-index": str(index)}
    spec |= {"hostname": f"pytorch-{index}"} | more
    pod = make_pod(f"pytorch-{index}-abcde", spec, labels=labels, annotations=notes)
    cast("Doc", pod.document["status"])["podIP"] = f"198.18.0.{index + 1}"
    return pod


def run(
    tmp_path: Path, pods: list[Pod], services: tuple[str, ...] = ("default/pytorch",)
) -> tuple[list[tuple[str, int]], list[Doc]]:
    devices = hca_devices(tmp_path)
    nodes = {name: NodeState(name, devices, (), ()) for name in ("w-0", "w-1")}
    physics = Physics()
    world = World(nodes, pods, {}, {}, frozenset(services))
    ended = [end for pod in pods for end in run_torch(pod, world, cast("Any", physics))]
    return [(end.log, end.exit_code) for end in ended], physics.asked


def test_each_node_asks_for_itself_among_all(tmp_path: Path) -> None:
    pods = [node(0), node(1)]
    assert all(map(is_torch, pods))
    ended, asked = run(tmp_path, pods)
    assert ended == [("played\n", 0), ("played\n", 0)]
    assert [cast("Any", each)["launcher"]["name"] for each in asked] == [
        "pytorch-0-abcde",
        "pytorch-1-abcde",
    ]
    assert [each["name"] for each in cast("Any", asked[0])["pods"]] == [
        "pytorch-0-abcde",
        "pytorch-1-abcde",
    ]


def test_a_node_waits_for_the_others(tmp_path: Path) -> None:
    assert run(tmp_path, [node(0)]) == ([], [])


def test_without_the_name_of_the_first_they_do_not_meet(tmp_path: Path) -> None:
    ended, asked = run(tmp_path, [node(0), node(1)], ())
    assert [code for _, code in ended] == [1, 1]
    assert "failed to connect to any network address of (pytorch-0.pytorch, 29500)" in ended[0][0]
    assert asked == []


@pytest.mark.parametrize(
    ("image", "program", "code", "said"),
    [
        ("registry.example/train:1", PROGRAM, 127, 'exec: "torchrun": executable file not found'),
        (IMAGE, ("/workspace/other.py",), 1, "can't open file '/workspace/other.py'"),
    ],
)
def test_an_image_without_torchrun_or_the_script(
    tmp_path: Path, image: str, program: tuple[str, ...], code: int, said: str
) -> None:
    ended, asked = run(tmp_path, [node(0, image, program), node(1, image, program)])
    assert [each for _, each in ended] == [code, code]
    assert said in ended[0][0]
    assert asked == []


def test_a_script_before_torchrun_finds_the_adapters_of_its_node(tmp_path: Path) -> None:
    nodes = "crusoe-k3s-worker-0,crusoe-k3s-worker-1"
    asked = asked_for("pytorch", nodes, image=IMAGE, program=PROGRAM)
    job = cast("Any", job_of(asked, "crusoe-k3s").objects[1])
    spec = job["spec"]["template"]["spec"]
    pods = [node(index) for index in (0, 1)]
    for pod in pods:
        held = {"nvidia.com/hostdev": [f"0000:0{number}:00.0" for number in range(8)]}
        cast("Any", pod.document)["spec"]["containers"] = spec["containers"]
        cast("Any", pod.document)["metadata"]["annotations"] |= {
            "lab.railyard.dev/devices": dump_allocation(held)
        }
    ended, requests = run(tmp_path, pods)
    assert [code for _, code in ended] == [0, 0]
    (first, second) = cast("Any", requests[0])["pods"]
    assert first["rank_env"]["NCCL_IB_HCA"] == "=" + ",".join(f"mlx5_{n}:1" for n in range(8))
    assert second["rank_env"] == first["rank_env"]
    assert cast("Any", requests[0])["launcher"]["command"] == ["torchrun", *PROGRAM]
