"""A pod that looks at all GPUs of its node, from the plan's own job to the judge."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from components.acceptance.digest import digest_log
from components.acceptance.evidence import Limits
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.verdict import Finding
from components.acceptance.probes.probe_job import node_job
from components.jobs.templates import number_objects
from components.model.cluster import ClusterSpec
from lab.cluster.devices import NodeDevices
from lab.cluster.document import Doc, as_doc
from lab.cluster.lab_link import LabLink
from lab.cluster.pod_probe import World
from lab.cluster.pod_runner import run_pods
from lab.cluster.pod_view import NodeState, Pod
from lab.cluster.probe_end import Ended
from lab.hosts.gpu_calls import call_on_gpus, gpu_pod
from lab.hosts.gpu_faults import cause_gpu_fault
from lab.hosts.model import HostModel
from lab.views import HcaConfig
from tests.lab_cluster.conftest import FakeLab
from tests.lab_hosts.conftest import make_host
from tests.lab_physics.examples import example

DGX = example("dgx-roce")
NOW = dt.datetime.fromisoformat("2026-01-01T00:01:00Z")


@dataclass(frozen=True)
class GpuLab:
    """A lab daemon with the GPUs of one host."""

    link: LabLink
    host: HostModel

    def run(self, spec: ClusterSpec = DGX, *, kind: str = "Job", image: str = "") -> Ended:
        """Run the node's probe of the plan, as a pod of its Job or as a Pod alone."""
        worker = spec.workers[0]
        body: Any = number_objects(node_job(spec, worker).objects, 1)[0]
        within: dict[str, Any] = {
            **body["spec"].get("template", body)["spec"],
            "nodeName": worker.name,
        }
        if image:
            within["containers"][0]["image"] = image
        metadata: dict[str, Any] = {"name": "node-gpu01", "namespace": "default", "uid": "1"}
        if kind == "Job":
            metadata["ownerReferences"] = [{"kind": "Job", "name": "node-gpu01"}]
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        pod = Pod(as_doc({"metadata": metadata, "spec": within, "status": status}))
        state = NodeState(worker.name, NodeDevices(gpus=worker.gpus), (), [pod])
        (ended,) = run_pods(World({worker.name: state}, [pod], {}), self.link, NOW)
        return ended

    def judge(self) -> dict[str, Finding]:
        """What the judge says of a run, by check."""
        ended = self.run()
        outcome = "completed" if ended.exit_code == 0 else "failed"
        item = digest_log(node_job(DGX, DGX.workers[0]).probe, ended.log, outcome=outcome)
        return {each.check: each for each in judge_probe(item, Limits())}


@pytest.fixture
def gpu_lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GpuLab]:
    folder = tmp_path_factory.mktemp("gpu")  # the address of a socket is short
    adapters = (HcaConfig("mlx5_0", "0000:40:00.0", 400, "InfiniBand", 0),)
    config = make_host("gpu01", "127.0.0.1")
    host = HostModel(
        replace(config, hcas=adapters) if getattr(request, "param", "") == "H100" else config,
        folder / "nvram.json",
    )
    host.boot("gpu01")

    def play(asked: Doc) -> Doc:
        loaded = asked.get("loaded") is True
        return {"ok": True, **cast("Doc", call_on_gpus(host, gpu_pod(asked), loaded=loaded))}

    lab = FakeLab(folder / "control.sock", physics=play)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(lab.socket_path))
        listener.listen()
        threading.Thread(target=lab.serve, args=(listener,), daemon=True).start()
        yield GpuLab(LabLink(lab.socket_path), host)


@pytest.mark.parametrize(
    ("gpu_lab", "kind"), [("V100", "Job"), ("H100", "Pod")], indirect=["gpu_lab"]
)
def test_a_sound_node_passes(gpu_lab: GpuLab, kind: str) -> None:
    ended = gpu_lab.run(kind=kind)
    assert ended.exit_code == 0, ended.log
    item = digest_log(node_job(DGX, DGX.workers[0]).probe, ended.log, outcome="completed")
    found = {each.check: each for each in judge_probe(item, Limits())}
    wrong = {check: each for check, each in found.items() if each.verdict != "passed"}
    assert wrong == {}
    assert {"gpu clocks", "gpu pcie", "nvlink", "copy GPU to GPU", "bandwidth"} <= found.keys()
    assert item.node is not None
    assert item.node.absent == ("dcgmi",)


@pytest.mark.parametrize(
    ("fault", "check", "said"),
    [
        (("gpu-width", "3", "8"), "gpu pcie", "GPU 3 (09:00.0): 8 of 16 lanes"),
        (("gpu-gen", "3", "1"), "gpu pcie", "GPU 3 (09:00.0): PCIe 1 of"),
        (("gpu-gen", "3", "1"), "copy host to GPU", "GPU 3: "),
        (("gpu-ecc", "3", "2"), "gpu memory", "GPU 3 (09:00.0): 2 errors not corrected"),
        (("gpu-lost", "3", "on"), "gpus", "GPU0000:09:00.0"),
    ],
)
def test_a_fault_fails_the_check_that_names_the_gpu(
    gpu_lab: GpuLab, fault: tuple[str, str, str], check: str, said: str
) -> None:
    cause_gpu_fault(gpu_lab.host, fault[0], fault[1:])
    found = gpu_lab.judge()[check]
    assert (found.verdict, said in found.actual) == ("failed", True), found.actual


def test_an_image_without_nvbandwidth_proves_no_copy(gpu_lab: GpuLab) -> None:
    ended = gpu_lab.run(image="ghcr.io/crusoecloud/nccl-tests:1")
    assert "railyard-node: absent nvbandwidth" in ended.log


def test_a_call_that_the_lab_does_not_play_fails(gpu_lab: GpuLab, tmp_path: Path) -> None:
    absent = GpuLab(LabLink(tmp_path / "nothing.sock"), gpu_lab.host)
    assert absent.run().exit_code != 0
