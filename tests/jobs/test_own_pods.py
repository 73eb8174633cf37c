"""What users' own pods get: the same as our jobs, in the namespaces that the file names."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from components.jobs.job_plan import on_rails_script, plan_jobs, plan_own_pods
from components.jobs.templates import job_environment
from components.model.jobs import OwnPods
from tests.golden.site import changed_spec, load_example
from tests.submit.own_pods import site


def bodies(*namespaces: str) -> dict[str, Any]:
    return {each.resource_name: each.body for each in plan_own_pods(site(*namespaces), 0)}


def test_a_site_that_does_not_ask_has_none() -> None:
    assert plan_own_pods(load_example("crusoe-k3s"), 0) == ()


def test_each_namespace_gets_the_environment_of_our_jobs_and_the_script() -> None:
    found = bodies("research", "teaching")
    assert list(found) == [
        "own-pods-research-configmap-railyard-rdma",
        "own-pods-research-configmap-railyard-rdma-scripts",
        "own-pods-teaching-configmap-railyard-rdma",
        "own-pods-teaching-configmap-railyard-rdma-scripts",
        "own-pods-mutatingadmissionpolicy-railyard-rdma",
        "own-pods-mutatingadmissionpolicybinding-railyard-rdma",
    ]
    data = found["own-pods-teaching-configmap-railyard-rdma"]["data"]
    assert data == job_environment(site())
    assert data["NCCL_IB_SL"] == "1", "the file's own variables too"
    binding = found["own-pods-mutatingadmissionpolicybinding-railyard-rdma"]["spec"]
    (where,) = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert where["values"] == ["research", "teaching"]


def test_pods_with_vfs_of_their_own_need_no_script() -> None:
    spec = load_example("dgx-roce")
    jobs = spec.jobs.model_copy(update={"own_pods": OwnPods()})
    found = plan_own_pods(changed_spec(spec, jobs=jobs), 0)
    assert [each.resource_name for each in found] == ["own-pods-default-configmap-railyard-rdma"]
    assert found[0].body["data"] == {
        "NCCL_CROSS_NIC": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_TC": "106",
        "NCCL_NET_GDR_LEVEL": "2",
        "NCCL_SOCKET_IFNAME": "eth0",
        "UCX_IB_TRAFFIC_CLASS": "106",
    }


def test_groups_of_the_jobs_room_never_fall() -> None:
    groups = [each.group for each in plan_jobs(site()).manifests]
    assert groups == sorted(groups)


def test_the_script_runs_its_arguments_with_the_adapters_of_the_pod(tmp_path: Path) -> None:
    port = tmp_path / "ib/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in (("link_layer", "InfiniBand"), ("state", "4: ACTIVE"), ("rate", "400 Gb")):
        (port / name).write_text(text)
    script = tmp_path / "on-rails"
    script.write_text(on_rails_script(site()))
    done = subprocess.run(
        ["sh", str(script), "sh", "-c", "echo $NCCL_IB_HCA"],
        env={"PATH": "/usr/bin:/bin", "RAILYARD_INFINIBAND": str(tmp_path / "ib")},
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("=mlx5_0:1\n", "")
