"""PyTorch's own launcher on each of some nodes: an Indexed Job, or a TrainJob of Kubeflow Trainer.

`torchrun` takes its options from variables that begin with `PET_`. Trainer sets them itself in a
container called `node`; in a plain Job they are set here, to the same values.

Sources: torchrun's documentation; Kubernetes' documentation, "Indexed Job"; the torch plugin and
the API of Kubeflow Trainer v2.3.0 (lab/sources.md#trainer).
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import JsonValue

from components.jobs.environment import on_devices
from components.jobs.mpi import MpiWorkers, rail_container, rail_pod
from components.jobs.templates import RUN, JsonObject, make_metadata
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind
from components.pod_network.attachment import pod_attachment

TorchForm = Literal["job", "trainjob"]
PORT: Final = 29500
"""Where the first node waits for the others: torchrun's default."""
_NODE: Final = "node"
"""The container, and the replicated job, that Trainer looks for."""
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_TRAINER: Final = "trainer.kubeflow.org/v1alpha1"


def torch_objects(
    spec: ClusterSpec,
    name: str,
    kind: WorkerKind,
    image: str,
    program: tuple[str, ...],
    form: TorchForm,
) -> tuple[Body, ...]:
    """The objects of a training by `torchrun`, in the order of creation.

    Args:
        spec: The site.
        name: Its name, without the number of the run.
        kind: The workers: one pod on each, with all its GPUs.
        image: An image with `torchrun`.
        program: The script and its arguments.
        form: `job`: a headless Service and an Indexed Job. `trainjob`: a runtime of the site's own
            and a TrainJob.
    """
    workers = MpiWorkers(
        image=image,
        count=len(kind.hosts),
        gpus=kind.gpus,
        attachment=pod_attachment(spec, kind.rails_of(spec)),
        nodes=kind.nodes,
    )
    container = rail_container(spec, workers, _NODE)
    container["command"] = [*on_devices(spec, ("torchrun", *program), kind)]
    made = _indexed if form == "job" else _trained
    return made(spec, name, workers, container)


def _indexed(
    spec: ClusterSpec, name: str, workers: MpiWorkers, container: JsonObject
) -> tuple[Body, ...]:
    job = f"{name}-{RUN}"
    own: JsonObject = {"batch.kubernetes.io/job-name": job}
    set_env = container["env"]
    more = _pet_env(workers, f"{job}-0.{job}")
    container["env"] = [*(set_env if isinstance(set_env, list) else ()), *more]
    # Pods of an Indexed Job are called JOB-INDEX; the Service gives them names.
    template = _pod(spec, workers, own, container, subdomain=job)
    service: Body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": make_metadata(spec, name),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": own},
    }
    body: Body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": make_metadata(spec, name),
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.count,
            "parallelism": workers.count,
            "backoffLimit": 0,
            "template": template,
        },
    }
    return service, body


def _pod(
    spec: ClusterSpec,
    workers: MpiWorkers,
    own: JsonObject,
    container: JsonObject,
    **more: JsonValue,
) -> JsonObject:
    """Make a pod that never restarts: a rank that begins again would wait for the others."""
    template = rail_pod(spec, workers, own, container)
    pod = template["spec"]
    ends: JsonObject = {"restartPolicy": "Never", **more}
    template["spec"] = ends | (pod if isinstance(pod, dict) else {})
    return template


def _pet_env(workers: MpiWorkers, first: str) -> list[JsonValue]:
    values = {
        "PET_NNODES": str(workers.count),
        "PET_NPROC_PER_NODE": str(workers.gpus),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": str(PORT),
    }
    rank: JsonObject = {"fieldRef": {"fieldPath": _INDEX}}
    found: list[JsonValue] = [{"name": key, "value": text} for key, text in values.items()]
    return [*found, {"name": "PET_NODE_RANK", "valueFrom": rank}]


def _trained(
    spec: ClusterSpec, name: str, workers: MpiWorkers, container: JsonObject
) -> tuple[Body, ...]:
    job = f"{name}-{RUN}"
    own: JsonObject = {"jobset.sigs.k8s.io/jobset-name": job}
    replicated: JsonObject = {
        "name": _NODE,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": _pod(spec, workers, own, container)},
        },
    }
    runtime: Body = {
        "apiVersion": _TRAINER,
        "kind": "TrainingRuntime",
        "metadata": make_metadata(spec, name),
        "spec": {
            "mlPolicy": {"numNodes": workers.count, "torch": {}},
            "template": {"spec": {"replicatedJobs": [replicated]}},
        },
    }
    metadata = runtime["metadata"]
    if isinstance(metadata, dict) and isinstance(labels := metadata["labels"], dict):
        labels["trainer.kubeflow.org/framework"] = "torch"
    train: Body = {
        "apiVersion": _TRAINER,
        "kind": "TrainJob",
        "metadata": make_metadata(spec, name),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "TrainingRuntime",
                "name": job,
            },
            "trainer": {"numNodes": workers.count, "numProcPerNode": workers.gpus},
        },
    }
    return runtime, train
