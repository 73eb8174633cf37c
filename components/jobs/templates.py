"""The jobs of acceptance as templates: numbered when they are run, deleted afterwards.

They run in pods on the rails' own attachments, because a test on the PF would prove a path that no
job uses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Final

from pydantic import JsonValue, TypeAdapter

from components.acceptance.evidence import Probe
from components.jobs.environment import mpirun_command, nccl_environment
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.pod_network.sriov import probe_address, probe_network

RUN: Final = "RUN-NUMBER"
"""Stands in names for the number of the run."""
_BODIES: Final = TypeAdapter(list[Body])
PERFTEST_SECONDS: Final = 5
"""How long `ib_write_bw` sends: long enough for counters to stand out from the rest."""
SHM_SIZE: Final = "16Gi"
"""Shared memory of a worker: NCCL's intra-node buffers outgrow the 64 MiB default."""
SSH_PORT: Final = 22

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe and what it creates."""

    probe: Probe
    objects: tuple[Body, ...]
    """In the order of creation; names hold the place of the run's number."""
    watched: int
    """Index of the object whose end is the probe's end, and whose log is its result."""
    command: tuple[str, ...]
    """What it runs, for people."""


def number_objects(objects: tuple[Body, ...], run: int) -> list[Body]:
    """The objects of one run: every name carries the run's number."""
    text = json.dumps([*objects]).replace(RUN, str(run))
    return _BODIES.validate_json(text)


def _metadata(spec: ClusterSpec, name: str) -> JsonObject:
    return {
        "name": f"{name}-{RUN}",
        "namespace": spec.pod_network.namespace,
        "labels": {"app.kubernetes.io/part-of": "railyard-acceptance"},
    }


def _limits(spec: ClusterSpec, rails: list[Rail], gpus: int = 0) -> JsonObject:
    prefix = spec.pod_network.resource_prefix
    limits: JsonObject = {f"{prefix}/{rail.resource}": 1 for rail in rails}
    return limits | ({"nvidia.com/gpu": gpus} if gpus else {})


def _container(spec: ClusterSpec, name: str, limits: JsonObject) -> JsonObject:
    return {
        "name": name,
        "image": spec.jobs.image,
        "resources": {"limits": limits},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }


def _env(values: dict[str, str]) -> list[JsonValue]:
    return [{"name": name, "value": value} for name, value in values.items()]


def perftest_command(spec: ClusterSpec, server: str = "") -> tuple[str, ...]:
    """`ib_write_bw` over RDMA-CM on the pod's own device, marked as the jobs' packets are.

    With `-R` the ToS option marks the packets; `--tclass` counts only without it. `$hca` and `$gid`
    are found in the pod: device names and GID indices differ from pod to pod.
    """
    traffic_class = str(spec.rdma.ip_traffic_class)
    command = ("ib_write_bw", "-R", "-d", "$hca", "-x", "$gid", "-T", traffic_class)
    command += ("-D", str(PERFTEST_SECONDS), "--report_gbits", "-F")
    return (*command, server) if server else command


def _script(name: str, command: tuple[str, ...]) -> str:
    folder = resources.files("components.jobs").joinpath("scripts")
    words = " ".join(f'"{word}"' if word.startswith("$") else word for word in command)
    find = folder.joinpath("rdma_device.sh").read_text("utf-8")
    body = folder.joinpath(f"{name}.sh").read_text("utf-8")
    lines = [line for line in (find + body).splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("ib_write_bw_call", words) + "\n"


def _perftest_pod(
    spec: ClusterSpec, host: Host, rail: Rail, network: str, script: str
) -> JsonObject:
    container = _container(spec, "perftest", _limits(spec, [rail]))
    container["command"] = ["/bin/sh", "-c", script]
    return {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": network}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": host.name},
            "containers": [container],
        },
    }


def _job(spec: ClusterSpec, name: str, pod: JsonObject) -> Body:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(spec, name),
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(spec.acceptance.timeout_s),
            "template": pod,
        },
    }


def perftest_job(spec: ClusterSpec, rail: Rail, sender: Host, receiver: Host) -> ProbeJob:
    """`ib_write_bw` between two workers on one rail."""
    name = f"perftest-{rail.name}-{sender.name}-{receiver.name}"
    client = perftest_command(spec, str(probe_address(rail)))
    server_pod = _perftest_pod(
        spec,
        receiver,
        rail,
        probe_network(rail),
        _script("perftest_server", perftest_command(spec)),
    )
    client_pod = _perftest_pod(spec, sender, rail, rail.network, _script("perftest_client", client))
    return ProbeJob(
        Probe(name=name, kind="perftest", rails=(rail.name,), nodes=(sender.name, receiver.name)),
        (_job(spec, f"{name}-s", server_pod), _job(spec, f"{name}-c", client_pod)),
        watched=1,
        command=client,
    )


def nccl_job(spec: ClusterSpec) -> ProbeJob:
    """One NCCL all-reduce over all GPUs of all workers and all rails."""
    ranks = sum(host.gpus for host in spec.workers)
    program = ("all_reduce_perf", "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    command = mpirun_command(spec, ranks, (*program, "-g", "1"))
    name = "nccl-all-reduce"
    body: Body = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(spec, name),
        "spec": {
            "slotsPerWorker": spec.workers[0].gpus,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "activeDeadlineSeconds": int(spec.acceptance.timeout_s),
            },
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [_launcher(spec, command)]}},
                },
                "Worker": {
                    "replicas": len(spec.workers),
                    "restartPolicy": "Never",
                    "template": _worker(spec, f"{name}-{RUN}"),
                },
            },
        },
    }
    probe = Probe(
        name=name,
        kind="nccl",
        rails=tuple(rail.name for rail in spec.rails),
        nodes=tuple(host.name for host in spec.workers),
        ranks=ranks,
    )
    return ProbeJob(probe, (body,), watched=0, command=command)


def _launcher(spec: ClusterSpec, command: tuple[str, ...]) -> JsonObject:
    return {"name": "launcher", "image": spec.jobs.image, "command": [*command]}


def _worker(spec: ClusterSpec, job: str) -> JsonObject:
    gpus = spec.workers[0].gpus
    more: JsonObject = {
        "command": ["/usr/sbin/sshd", "-De"],
        "env": _env(nccl_environment(spec)),
        # Started is not yet reachable: the launcher waits for workers that answer.
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - a container's own
    }
    container = _container(spec, "worker", _limits(spec, [*spec.rails], gpus)) | more
    apart: JsonObject = {
        "labelSelector": {
            "matchLabels": {
                "training.kubeflow.org/job-name": job,
                "training.kubeflow.org/job-role": "worker",
            }
        },
        "topologyKey": "kubernetes.io/hostname",
    }
    networks = ",".join(rail.network for rail in spec.rails)
    return {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
        "spec": {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
            },
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}}],
        },
    }


def memlock_job(spec: ClusterSpec, host: Host) -> Body:
    """Prints the locked-memory limit that a pod of one worker gets; `unlimited` is wanted."""
    container: JsonObject = {
        "name": "memlock",
        "image": spec.jobs.image,
        "command": ["/bin/sh", "-c", "ulimit -l"],
    }
    pod: JsonObject = {
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": host.name},
            "containers": [container],
        }
    }
    return _job(spec, f"memlock-{host.name}", pod)
