"""GPUs, cards and CPUs of one NUMA node: what kubelets are told, and what pods of jobs ask for."""

from __future__ import annotations

from typing import Any

import pytest

from components.checks.site import load_checked_site
from components.drift.applied import Applied, AppliedStep
from components.kubernetes.kubespray.wanted import WORKERS_KUBELET, owned_settings
from components.kubernetes.planes.k3s import render_config
from components.kubernetes.planes.node_files import arguments_in, site_arguments
from components.model.cluster import ClusterSpec
from components.model.kubernetes import Alignment, cpus_of
from components.plan.make import make_plan
from components.update.refusals import judge_alignment
from tests.golden.site import EXAMPLES, changed_spec, load_example
from tests.submit.jobs import asked_for, job_of
from tests.update.judged import texts

OWN = Alignment(reserved_cpus="0-1,64-65", job_cpus=96, job_memory_gib=900)


def aligned(spec: ClusterSpec, own: Alignment | None = OWN) -> ClusterSpec:
    assert spec.kubernetes is not None
    return changed_spec(spec, kubernetes=spec.kubernetes.model_copy(update={"alignment": own}))


def test_the_file_of_k3s_has_the_arguments_on_workers_alone() -> None:
    spec = aligned(load_example("dgx-roce"))
    line = (
        'kubelet-arg: ["cpu-manager-policy=static", "reserved-cpus=0-1,64-65", '
        '"topology-manager-policy=best-effort", "topology-manager-scope=container"]'
    )
    assert line in render_config(spec, spec.workers[0]).splitlines()
    assert "kubelet-arg" not in render_config(spec, spec.servers[0])
    assert arguments_in({"config.yaml.02": line}) == (
        "cpu-manager-policy=static reserved-cpus=0-1,64-65"
        " topology-manager-policy=best-effort topology-manager-scope=container"
    )
    assert arguments_in({"config.yaml.02": "node-ip: x"}) == ""


def test_arguments_of_others_are_not_compared() -> None:
    assert site_arguments(
        ("max-pods=200", "reserved-cpus=0", "v", "cpu-manager-policy=static")
    ) == ("cpu-manager-policy=static reserved-cpus=0")


@pytest.fixture(scope="module")
def kubespray() -> ClusterSpec:
    return load_checked_site(EXAMPLES / "dgx-roce" / "kubespray.yaml").spec_or_raise()


def test_kubespray_writes_the_fields_on_nodes_beside_the_control_plane(
    kubespray: ClusterSpec,
) -> None:
    assert owned_settings(aligned(kubespray))[WORKERS_KUBELET] == {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1,64-65",
        "topologyManagerPolicy": "best-effort",
        "topologyManagerScope": "container",
    }
    assert WORKERS_KUBELET not in owned_settings(kubespray)


def test_kubespray_takes_no_other_alignment_later(kubespray: ClusterSpec) -> None:
    before, after = (make_plan(each, "dev") for each in (kubespray, aligned(kubespray)))
    assert before.kubernetes is not None
    assert before.kubernetes.playbooks is not None
    step = before.kubernetes.playbooks.step
    applied = Applied({step.name: AppliedStep(step.desired)})
    (words,) = texts(judge_alignment, after, applied)
    assert words.startswith("alignment: the cluster was installed with no alignment, and kubespray")
    assert "remove /var/lib/kubelet/cpu_manager_state" in words
    assert texts(judge_alignment, before, applied) == ()
    assert texts(judge_alignment, after, Applied()) == ()


def test_pods_of_jobs_ask_for_whole_cpus_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = aligned(load_example("dgx-roce"))

    def example(name: str) -> ClusterSpec:
        assert name == "dgx-roce"
        return spec

    monkeypatch.setattr("tests.submit.jobs.example", example)
    job: Any = job_of(asked_for("nccl")).objects[0]
    (container,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert (limits["cpu"], limits["memory"], limits["nvidia.com/gpu"]) == ("96", "900Gi", 8)
    assert "requests" not in container["resources"], "the same as the limits: Guaranteed"


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", (0,)), ("0-2,64", (0, 1, 2, 64)), ("3-1", ()), ("1,0", (1, 0))]
)
def test_a_list_of_cpus_is_read_in_its_order(text: str, cpus: tuple[int, ...]) -> None:
    assert cpus_of(text) == cpus
