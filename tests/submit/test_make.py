"""The manifests of every kind: goldens, and what in them has to agree with the site."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from components.jobs.templates import job_script
from components.submit.make import choose, make_job, render_objects
from tests.golden.files import check_golden
from tests.golden.site import changed_spec
from tests.lab_physics.examples import example
from tests.submit.jobs import asked_for, job_of

SHARED = "node03,node04"
CASES = {
    "nccl": (asked_for("nccl"), "dgx-roce"),
    "nccl-tcp": (asked_for("nccl", collective="all_gather", compare=True), "dgx-roce"),
    "nccl-ib": (asked_for("nccl", "crusoe-k3s-worker-0,crusoe-k3s-worker-1"), "crusoe-k3s"),
    "perftest": (asked_for("perftest", "gpu02,gpu01"), "dgx-roce"),
    "deepspeed": (asked_for("deepspeed", SHARED), "shared-rdma"),
    "deepspeed-own": (asked_for("deepspeed", "node04", program=("/data/train.py",)), "shared-rdma"),
    "horovod": (asked_for("horovod", name="resnet"), "dgx-roce"),
    "pytorch": (asked_for("pytorch"), "dgx-roce"),
    "pytorch-trainjob": (asked_for("pytorch", SHARED, form="trainjob"), "shared-rdma"),
}


def bodies_of(case: str) -> list[Any]:
    asked, site = CASES[case]
    return list(cast("list[Any]", yaml.safe_load_all(render_objects(job_of(asked, site).objects))))


def worker_of(case: str) -> Any:  # noqa: ANN401 - free JSON
    return bodies_of(case)[-1]["spec"]["mpiReplicaSpecs"]["Worker"]


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_are_as_recorded(case: str) -> None:
    asked, site = CASES[case]
    text = render_objects(job_of(asked, site).objects)
    assert "RUN-NUMBER" not in text
    assert "railyard-acceptance" not in text
    check_golden(f"submit/{case}.yaml", text)


def test_what_is_printed_is_what_is_submitted() -> None:
    assert bodies_of("nccl") == [*job_of(CASES["nccl"][0]).objects]


def test_nccl_asks_for_the_rails_the_gpus_and_the_sites_class() -> None:
    (body,) = bodies_of("nccl")
    assert body["metadata"]["name"] == "nccl"
    worker = worker_of("nccl")
    assert worker["replicas"] == 2
    pod = worker["template"]
    networks = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks == "sriov111,sriov112"
    container = pod["spec"]["containers"][0]
    assert container["resources"]["limits"] == {
        "intel.com/sriov_111": 1,
        "intel.com/sriov_112": 1,
        "nvidia.com/gpu": 8,
    }
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env["NCCL_IB_TC"] == "106"  # DSCP 26 and ECN's two bits: 26 * 4 + 2
    assert env["NCCL_SOCKET_IFNAME"] == "eth0"
    terms = pod["spec"]["affinity"]["nodeAffinity"]
    terms = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["gpu01", "gpu02"]


def test_a_part_of_a_site_gets_a_job_of_that_part_alone() -> None:
    pod = worker_of("deepspeed-own")
    assert pod["replicas"] == 1
    assert "node03" not in str(pod)


def test_own_programs_have_no_deadline_and_benchmarks_have_one() -> None:
    assert "activeDeadlineSeconds" not in str(bodies_of("deepspeed-own"))
    assert "activeDeadlineSeconds" not in str(bodies_of("pytorch"))
    assert bodies_of("nccl")[0]["spec"]["runPolicy"]["activeDeadlineSeconds"] == 600
    assert bodies_of("nccl-tcp")[0]["spec"]["runPolicy"]["activeDeadlineSeconds"] == 1200


def test_infiniband_finds_its_adapters_and_marks_no_class() -> None:
    launcher = bodies_of("nccl-ib")[0]["spec"]["mpiReplicaSpecs"]["Launcher"]
    command = launcher["template"]["spec"]["containers"][0]["command"]
    assert "ib_hcas" in command
    assert not [word for word in command if word.startswith("NCCL_IB_TC")]


def test_perftest_has_a_server_and_a_client_on_every_rail() -> None:
    bodies = bodies_of("perftest")
    assert [body["metadata"]["name"] for body in bodies] == [
        "perftest-rail-0-s",
        "perftest-rail-0-c",
        "perftest-rail-1-s",
        "perftest-rail-1-c",
    ]
    client = bodies[3]["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert "10.10.112.254" in client


def test_perftest_of_hosts_with_long_names_has_the_users_own_names() -> None:
    site = example("dgx-roce")
    hosts = tuple(host.model_copy(update={"name": host.name.ljust(60, "x")}) for host in site.hosts)
    asked = asked_for("perftest", ",".join(host.name for host in hosts if host.role == "worker"))
    chosen, troubles = choose(changed_spec(site, hosts=hosts), asked)
    assert troubles == ()
    assert chosen is not None
    bodies: list[Any] = [*make_job(chosen).objects]
    assert [body["metadata"]["name"] for body in bodies] == [
        f"perftest-rail-{rail}-{end}" for rail in (0, 1) for end in "sc"
    ]


def test_torchrun_gets_the_same_variables_that_trainer_sets() -> None:
    service, job = bodies_of("pytorch")
    pod = job["spec"]["template"]["spec"]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert {key: env[key] for key in env if key.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "8",
        "PET_MASTER_ADDR": "pytorch-0.pytorch",
        "PET_MASTER_PORT": "29500",
        "PET_NODE_RANK": None,
    }
    assert (pod["subdomain"], service["metadata"]["name"]) == ("pytorch", "pytorch")
    assert job["spec"]["completionMode"] == "Indexed"


def test_a_trainjob_names_its_runtime_and_leaves_the_variables_to_trainer() -> None:
    runtime, job = bodies_of("pytorch-trainjob")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == "pytorch"
    assert job["spec"]["trainer"] == {"numNodes": 2, "numProcPerNode": 8}
    replicated = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    assert replicated["template"]["metadata"]["labels"] == {label: "trainer"}
    container = replicated["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["name"] == "node"
    assert "PET_" not in str(container["env"])


def test_the_second_launch_differs_by_one_word_alone(tmp_path: Path) -> None:
    """Two launches run even where the first one fails, and the failure is not lost."""
    (tmp_path / "mpirun").write_text('#!/bin/sh\necho "$@"\n[ "$2" = NCCL_IB_DISABLE=1 ]\n')
    (tmp_path / "mpirun").chmod(0o755)
    (tmp_path / "id_rsa.pub").write_text("ecdsa-sha2-nistp521 AAAA of-the-job\n")
    script = job_script("mpi_compare").replace("/root/.ssh", str(tmp_path))
    script = script.replace("/tmp/railyard", f"{tmp_path}/railyard")
    words = ["-x", "NCCL_IB_DISABLE=0", "a b", "NCCL_IB_DISABLE=0 "]
    done = subprocess.run(
        ["/bin/sh", "-c", script, "mpi_compare", "mpirun", *words],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "railyard: launch over RDMA",
        "-x NCCL_IB_DISABLE=0 a b NCCL_IB_DISABLE=0 ",
        "railyard: launch over TCP",
        "-x NCCL_IB_DISABLE=1 a b NCCL_IB_DISABLE=0 ",
    ]
    assert done.returncode == 1
