"""The look at the image of the jobs, before the first of them: one pod an image and run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.jobs.environment import job_script, program_path
from components.jobs.ssh import SSHD
from components.jobs.templates import JsonObject, make_job
from components.model.acceptance import PerftestCase
from components.model.cluster import ClusterSpec

TRIAL_PORT: Final = 2299
"""Where sshd is tried in the pod, on its loopback address; above 1023, so that any user may."""
_SSH: Final = (SSHD, "ssh", "ssh-keygen")
"""`ssh-keygen` makes the key of the trial; OpenSSH's client package has both."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def image_jobs(spec: ClusterSpec, jobs: Sequence[ProbeJob]) -> list[ProbeJob]:
    """One look for each image that the jobs use, in the order of the jobs.

    Args:
        spec: The site.
        jobs: All that will run in them.
    """
    images = dict.fromkeys(job.image for job in jobs)
    named = {spec.jobs.image: "image-jobs"}
    return [_look(spec, named.get(image, "image-deepspeed"), image, jobs) for image in images]


def _look(spec: ClusterSpec, name: str, image: str, jobs: Iterable[ProbeJob]) -> ProbeJob:
    mine = [job.probe for job in jobs if job.image == image]
    kinds = {probe.kind for probe in mine}
    programs = spec.jobs.programs
    linked = [
        program_path(programs.nccl_tests, f"{probe.collective}_perf")
        for probe in mine
        if probe.kind == "nccl"
    ]
    mpirun = (programs.mpirun or "mpirun") if linked else ""
    needed = [
        *((mpirun, *linked, *_SSH) if linked else ()),
        *(_perftests(spec) if "perftest" in kinds else ()),
        *(("deepspeed", "pdsh", "getent", *_SSH) if "deepspeed_scan" in kinds else ()),
    ]
    probe = Probe(name=name, kind="image", rails=(), nodes=(), image=image, programs=tuple(needed))
    settings = {
        "programs": " ".join(needed),
        "linked": " ".join(linked),
        "mpirun": mpirun,
        "port": str(TRIAL_PORT),
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in settings.items()]
    script = "".join(lines) + job_script("image_check")
    return ProbeJob(
        probe, (make_job(spec, name, _pod(spec, image, script)),), 0, ("image_check", image), image
    )


def _perftests(spec: ClusterSpec) -> list[str]:
    cases: tuple[PerftestCase, ...] = spec.acceptance.perftest
    tools = dict.fromkeys(["ib_write_bw", *(case.tool for case in cases)])
    return [program_path(spec.jobs.programs.perftest, tool) for tool in tools]


def _pod(spec: ClusterSpec, image: str, script: str) -> JsonObject:
    """On a worker with GPUs where there is one, and without any: it must not wait for them."""
    nodes = [host.node for host in spec.workers if host.gpus] or [h.node for h in spec.workers]
    here: JsonObject = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    terms: JsonObject = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    return {
        "spec": {
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": {_REQUIRED: terms}},
            "containers": [{"name": "image", "image": image, "command": ["/bin/sh", "-c", script]}],
        }
    }
