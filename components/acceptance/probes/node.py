"""Reads the GPUs of a node before, during and after a load, in a pod that has all of them."""

from __future__ import annotations

import shlex
from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.jobs.environment import job_script, program_path
from components.jobs.templates import JsonObject, make_container, make_limits, make_pod
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.pod_network.manifests import gpu_runtime

LOAD_ITERATIONS: Final = 400
"""All-reduces of 2 GiB, in place and out of place: 8 s at 400 GB/s over NVLink, long enough to read
the clocks three times, and 150 s at 20 GB/s over PCIe."""


def node_job(spec: ClusterSpec, host: Host, ending: str = "") -> ProbeJob:
    """Make the check of a node's GPUs, with NCCL between them as the load if it has several."""
    programs = spec.jobs.programs
    load: tuple[str, ...] = ()
    if host.gpus > 1:
        size = spec.acceptance.nccl_max_size
        load = (program_path(programs.nccl_tests, "all_reduce_perf"), "-b", size, "-e", size)
        load += ("-n", str(LOAD_ITERATIONS), "-g", str(host.gpus))
    settings = {
        "load": shlex.join(("env", "NCCL_DEBUG=INFO", *load)) if load else "",
        "bandwidth": "nvbandwidth",
        "diagnose": "1",
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in settings.items()]
    container = make_container(spec.jobs.image, "node", make_limits({}, host.gpus))
    container["command"] = ["/bin/sh", "-c", "".join(lines) + job_script("node_health")]
    pod: JsonObject = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host.node},
        "containers": [container],
        **gpu_runtime(spec),
    }
    name = f"node-{host.name}{ending}"
    probe = Probe(name=name, kind="node", rails=(), nodes=(host.name,), ranks=host.gpus)
    job = make_pod(spec, name, {"spec": pod})
    return ProbeJob(probe, (job,), watched=0, command=("node_health", *load), image=spec.jobs.image)
