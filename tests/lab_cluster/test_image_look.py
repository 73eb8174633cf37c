"""The look at an image, run by a real shell in a lab pod of that image, and its judgement."""

from __future__ import annotations

from typing import Any

import pytest

from components.acceptance.digest import digest_log
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.verdict import Finding
from components.acceptance.judge.workload_findings import judge_image
from components.acceptance.probes.probe_job import ProbeJob
from components.acceptance.probes.probe_plan import image_jobs, plan_probes
from components.jobs.templates import number_objects
from components.model.cluster import ClusterSpec
from components.model.jobs import Programs
from lab.cluster.images import find_image
from lab.cluster.pod_shell import Container, run_script
from tests.golden.site import changed_spec
from tests.lab_physics.examples import example

DGX, CLOUD, SHARED = (example(name) for name in ("dgx-roce", "crusoe-k3s", "shared-rdma"))


def with_jobs(spec: ClusterSpec, **settings: object) -> ClusterSpec:
    return changed_spec(spec, jobs=spec.jobs.model_copy(update=settings))


def look_at(spec: ClusterSpec, which: int = 0) -> list[Finding]:
    """The findings of one look, from the plan's own pod to the judge."""
    job: ProbeJob = plan_probes(spec).images[which]
    body: Any = number_objects(job.objects, 1)[0]
    container = body["spec"]["template"]["spec"]["containers"][0]
    run = run_script(container["command"], Container({}, image=find_image(container["image"])))
    assert run.exit_code == 0, run.output
    item = digest_log(job.probe, run.output, outcome="completed")
    return [each for each in judge_probe(item, limits_of(spec)) if each.check != "run"]


def limits_of(spec: ClusterSpec) -> Any:  # noqa: ANN401 - the judge of images asks none
    from components.acceptance.acceptance_plan import plan_acceptance  # noqa: PLC0415 - only here

    return plan_acceptance(spec).limits


def test_the_probe_image_has_all_that_the_jobs_call() -> None:
    (found,) = look_at(DGX)
    assert found.verdict == "passed"
    assert found.actual == (
        "has mpirun, all_reduce_perf, sshd, ssh, ssh-keygen, ib_write_bw "
        "(mpirun (Open MPI) 4.1.6, NCCL 2.26.5)"
    )


def test_a_vendors_image_has_its_programs_where_the_site_says() -> None:
    assert [each.verdict for each in look_at(CLOUD)] == ["passed"]
    (lost, *_) = look_at(with_jobs(CLOUD, programs=Programs()))
    assert "has no all_reduce_perf" in lost.actual
    assert "jobs.programs.nccl_tests" in lost.next_step


def test_deepspeeds_image_is_looked_at_by_what_deepspeed_needs() -> None:
    assert len(plan_probes(SHARED).images) == 2
    (found,) = look_at(SHARED, 1)
    assert (found.verdict, found.subject) == ("passed", "image-deepspeed")
    assert "mpirun" not in found.actual


V100 = changed_spec(
    DGX, hosts=tuple(host.model_copy(update={"gpu_model": "V100"}) for host in DGX.hosts)
)


@pytest.mark.parametrize(
    ("image", "release"),
    [
        # The file of NVIDIA's Debian packages is named by its release (libnccl2 2.25.1-1 in
        # nvidia/cuda:12.8.1); that of PyPI's nvidia-nccl-cu12 is libnccl.so.2, and says it inside.
        ("old-nccl", "2.25.1"),
        ("old-nccl-of-wheel", "2.21.5"),
    ],
)
def test_an_nccl_that_ends_at_hidden_gids_fails_the_image_of_macvlan_pods(
    image: str, release: str
) -> None:
    name = f"lab.railyard.dev/{image}:1"
    (found,) = look_at(with_jobs(SHARED, image=name))
    assert (found.verdict, found.expected) == ("failed", "NCCL 2.26.2 or newer for all_reduce_perf")
    assert found.actual.startswith(f"the image {name} has NCCL {release} for all_reduce_perf")
    assert "ncclIbRoceGetVersionNum: Invalid argument" in found.actual
    assert "railyard image build" in found.next_step


@pytest.mark.parametrize(
    "spec",
    [
        DGX,  # VFs have GID tables of their own
        changed_spec(SHARED, jobs=SHARED.jobs.model_copy(update={"gid_index": 5})),
    ],
)
def test_an_old_nccl_is_as_good_where_it_meets_no_hidden_gid(spec: ClusterSpec) -> None:
    (found,) = look_at(with_jobs(spec, image="lab.railyard.dev/old-nccl:1"))
    assert (found.verdict, found.detail) == ("passed", "")
    assert found.actual.endswith("NCCL 2.25.1)")


def test_the_nccl_of_pytorch_counts_for_deepspeed() -> None:
    sample = SHARED.jobs.deepspeed
    assert sample is not None
    old = sample.model_copy(update={"image": "lab.railyard.dev/old-torch:1"})
    (found,) = look_at(with_jobs(SHARED, deepspeed=old), 1)
    assert (found.verdict, found.expected) == ("failed", "NCCL 2.26.2 or newer for torch")
    assert "NCCL 2.21.5" in found.actual
    assert "PyTorch" in found.next_step
    in_host = old.model_copy(update={"host_network": True})
    (found,) = look_at(with_jobs(SHARED, deepspeed=in_host), 1)
    assert found.verdict == "passed"


def test_what_is_only_a_doubt_about_nccl_stops_no_job() -> None:
    (unknown,) = look_at(with_jobs(SHARED, image="lab.railyard.dev/some-nccl:1"))
    assert (unknown.verdict, "no release of the NCCL" in unknown.detail) == ("passed", True)
    newer = "lab.railyard.dev/nccl-2.28.9:1"
    (suspect,) = look_at(with_jobs(V100, image=newer))
    assert (suspect.verdict, "crashes on V100" in suspect.detail) == ("passed", True)
    assert [each.detail for each in look_at(with_jobs(DGX, image=newer))] == [""]


LACKS = {
    "no-sshd": ("has no /usr/sbin/sshd", "install openssh-server"),
    "no-mpirun": ("has no mpirun", "jobs.programs.mpirun"),
    "no-orted": ("has neither orted nor prted in /usr/bin", "jobs.programs.mpirun"),
    "no-perftest": ("has no ib_write_bw", "jobs.programs.perftest"),
    "no-nccl-tests": ("has no all_reduce_perf", "jobs.programs.nccl_tests"),
    "no-mpi-in-tests": ("has all_reduce_perf without MPI", "MPI=1"),
    "no-libnccl": ("lacks libnccl.so.2, which all_reduce_perf is linked with", "LD_LIBRARY_PATH"),
    "no-run-sshd": ("lets no login in: Missing privilege separation directory", "/run/sshd"),
    "no-root-login": ("ROOT LOGIN REFUSED", "let root log in by key"),
    "other-home": ("has /home/root as home of root", "/etc/passwd"),
    "user": ("runs as user 1000", "remove USER"),
    "mpich": ("has another mpirun: HYDRA build details:", "jobs.programs.mpirun"),
}


@pytest.mark.parametrize("name", LACKS)
def test_each_lack_is_one_clear_message(name: str) -> None:
    image = f"lab.railyard.dev/{name}:1"
    (found,) = look_at(with_jobs(DGX, image=image))
    words, remedy = LACKS[name]
    assert found.verdict == "failed"
    assert found.actual.startswith(f"the image {image} ")
    assert words in found.actual
    assert remedy in found.next_step


def test_an_image_that_is_no_image_of_jobs_lacks_everything_at_once() -> None:
    found = look_at(with_jobs(DGX, image="docker.io/library/debian:12"))
    lacks = [each.expected for each in found]
    assert lacks == [
        "mpirun",
        "all_reduce_perf",
        "/usr/sbin/sshd",
        "ssh",
        "ssh-keygen",
        "ib_write_bw",
    ]


@pytest.mark.parametrize("lines", [0, 1, 5])
def test_half_an_output_is_no_proof(lines: int) -> None:
    job = plan_probes(DGX).images[0]
    body: Any = number_objects(job.objects, 1)[0]
    command = body["spec"]["template"]["spec"]["containers"][0]["command"]
    log = run_script(command, Container({})).output
    half = "".join(log.splitlines(keepends=True)[:lines])
    item = digest_log(job.probe, half, outcome="completed")
    verdicts = {each.verdict for each in judge_probe(item, limits_of(DGX))}
    assert "error" in verdicts
    if item.image is not None:
        assert "passed" not in {each.verdict for each in judge_image(item, item.image)}


def test_a_site_with_one_image_is_looked_at_once() -> None:
    jobs = plan_probes(DGX).jobs
    assert [job.probe.name for job in image_jobs(DGX, jobs)] == ["image-jobs"]
