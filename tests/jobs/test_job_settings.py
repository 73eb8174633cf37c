"""What a site sets for its jobs: environment, sshd's port, and the programs of a foreign image."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.acceptance.probes.probe_plan import plan_probes
from components.jobs.templates import job_script, number_objects
from components.model.cluster import ClusterSpec
from components.model.jobs import Programs
from tests.golden.site import changed_spec, load_example
from tests.lab_physics.examples import example

SPEC, CLOUD, SHARED = (example(name) for name in ("dgx-roce", "crusoe-k3s", "shared-rdma"))


def with_jobs(spec: ClusterSpec, **settings: object) -> ClusterSpec:
    return changed_spec(spec, jobs=spec.jobs.model_copy(update=settings))


def in_host_network(spec: ClusterSpec) -> ClusterSpec:
    network = spec.pod_network.model_copy(update={"host_network": True})
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"address": f"10.106.156.{host.name[-1]}"})
                    for nic in host.nics
                )
            }
        )
        for host in spec.hosts
    )
    return changed_spec(spec, pod_network=network, hosts=hosts)


def mpi_job_of(spec: ClusterSpec) -> Any:  # noqa: ANN401 - free JSON
    job = next(job for job in plan_probes(spec).jobs if job.probe.kind == "nccl")
    body: Any = number_objects(job.objects, 7)[0]
    return body["spec"]["mpiReplicaSpecs"]


def container_of(spec: ClusterSpec, role: str) -> Any:  # noqa: ANN401 - free JSON
    return mpi_job_of(spec)[role]["template"]["spec"]["containers"][0]


def ports_of(spec: ClusterSpec) -> tuple[str, int, str, str]:
    """The port as sshd, the readiness probe, mpirun and Open MPI 5 have it."""
    worker, launcher = container_of(spec, "Worker"), container_of(spec, "Launcher")
    command, call = worker["command"], launcher["command"]
    options = call[call.index("plm_rsh_args") + 1].split()
    env = {item["name"]: item["value"] for item in launcher["env"]}
    prte = env["PRTE_MCA_plm_ssh_args"].split()
    return (
        command[command.index("-p") + 1],
        worker["readinessProbe"]["tcpSocket"]["port"],
        options[options.index("-p") + 1],
        prte[prte.index("-p") + 1],
    )


@pytest.mark.parametrize(
    ("spec", "port"),
    [
        (SPEC, 22),
        (with_jobs(SPEC, ssh_port=2200), 2200),
        (in_host_network(SHARED), 2222),
        (with_jobs(in_host_network(SHARED), ssh_port=10022), 10022),
    ],
)
def test_all_four_places_have_one_port(spec: ClusterSpec, port: int) -> None:
    assert ports_of(spec) == (str(port), port, str(port), str(port))


def test_no_check_of_host_keys_is_switched_off_anywhere() -> None:
    text = str(mpi_job_of(SPEC))
    assert "StrictHostKeyChecking=yes" in text
    assert "StrictHostKeyChecking=no" not in text
    assert "HostKey=/root/.ssh/id_rsa" in text, "the key that the operator made for this job"


def test_variables_of_the_file_reach_workers_and_ranks_and_perftest() -> None:
    spec = with_jobs(SPEC, env={"NCCL_IB_SL": "1"})
    assert {"name": "NCCL_IB_SL", "value": "1"} in container_of(spec, "Worker")["env"]
    command = container_of(spec, "Launcher")["command"]
    assert command[command.index("NCCL_IB_SL=1") - 1] == "-x"
    client = number_objects(plan_probes(spec).jobs[2].objects, 7)[1]
    assert "'NCCL_IB_SL', 'value': '1'" in str(client)


def test_programs_of_a_vendors_image_are_called_where_they_are() -> None:
    command = container_of(CLOUD, "Launcher")["command"]
    assert "/opt/nccl-tests/build/all_reduce_perf" in command
    handed = [command[i + 1] for i, word in enumerate(command) if word == "-x"]
    assert {"PATH", "LD_LIBRARY_PATH"} <= set(handed), "its libraries are not in the loader's path"
    programs = Programs(mpirun=Path("/opt/hpcx/ompi/bin/mpirun").as_posix(), perftest="/opt/p/bin")
    spec = with_jobs(SPEC, programs=programs)
    assert container_of(spec, "Launcher")["command"][4] == "/opt/hpcx/ompi/bin/mpirun"
    assert plan_probes(spec).jobs[2].command[0] == "/opt/p/bin/ib_write_bw"


def test_an_image_with_all_on_its_path_is_handed_no_path() -> None:
    command = container_of(SPEC, "Launcher")["command"]
    assert "PATH" not in command


def launch(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "bin").mkdir()
    (folder / "bin/mpirun").write_text('#!/bin/sh\necho "$0" "$@"\n')
    (folder / "bin/mpirun").chmod(0o755)
    (folder / "id_rsa.pub").write_text("ecdsa-sha2-nistp521 AAAA of-the-job\n")
    script = job_script("mpi_launch").replace("/root/.ssh", str(folder))
    script = script.replace("/tmp/railyard", f"{folder}/railyard")
    return subprocess.run(
        ["/bin/sh", "-c", script, "mpi_launch", program, "-np", "16"],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


def test_mpirun_is_called_by_its_full_path_so_that_it_finds_its_daemon(tmp_path: Path) -> None:
    done = launch(tmp_path, "mpirun")
    assert done.stdout == f"{tmp_path}/bin/mpirun -np 16\n"
    known = (tmp_path / "railyard_known_hosts").read_text()
    assert known == "* ecdsa-sha2-nistp521 AAAA\n"


def test_an_image_without_mpirun_says_so(tmp_path: Path) -> None:
    done = launch(tmp_path, "mpiexec-of-another-mpi")
    assert done.returncode == 127
    assert "mpiexec-of-another-mpi: not found: this image has none on its PATH" in done.stderr


@pytest.mark.parametrize(("example", "count"), [("dgx-roce", 1), ("quantum-ib", 0)])
def test_mpi_itself_stays_off_the_rails_of_roce(example: str, count: int) -> None:
    """UCX would take every card of a pod, and hang between rails without a route (ucx#7295)."""
    command = " ".join(container_of(load_example(example), "Launcher")["command"])
    assert command.count("--mca pml ob1 --mca btl ^openib") == count
    assert "--mca coll_hcoll_enable 0" in command, "HPC-X opens every adapter"
