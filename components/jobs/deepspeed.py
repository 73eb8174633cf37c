"""DeepSpeed as Arena starts it, without Arena: storage, TensorBoard, and jobs of the MPI operator.

Arena's `etjob` needs an operator that is not developed any more, and its installer brings another
MPIJob definition with the same name. The MPI operator gives a launcher the same things: a hostfile
with slots, workers with stable names, keys made for the job. A ConfigMap keeps the sample training,
and a user starts it: a waiting job that holds all GPUs would leave none for others.
"""

from __future__ import annotations

from typing import Final

import yaml

from components.core.errors import SpecError
from components.jobs.environment import job_environment, job_script, keep_devices
from components.jobs.mpi import MpiWorkers, mpi_job
from components.jobs.templates import RUN, JsonObject, env_list, ssh_port
from components.kubernetes.manifest import Body, Manifest, make_manifest, pulling
from components.model.cluster import ClusterSpec
from components.model.jobs import ARENA_RESOURCE, DeepSpeed
from components.model.worker_kinds import WorkerKind, fitting_kind
from components.pod_network.attachment import PodAttachment, pod_attachment

OWNER: Final = "deepspeed"
STORAGE_GROUP: Final = 3
"""After the MPI operator's objects."""
SERVER_GROUP: Final = 4
STORAGE_CLASS: Final = "manual"
"""As in the notes: no provisioner serves this class, and therefore the claim binds our volume."""
TENSORBOARD_PORT: Final = 6006
NODE_LABELS: Final = {"gpu-use-type": "exclusive", "rdma": "hca"}
"""Labels of the nodes that take DeepSpeed's workers, as in the notes."""
EXAMPLES: Final = "/workspace/DeepSpeedExamples"


def plan_deepspeed(spec: ClusterSpec) -> tuple[Manifest, ...]:
    """The lasting objects: volume, claim, TensorBoard, and the sample training as a text."""
    sample = spec.jobs.deepspeed
    if sample is None:
        return ()
    storage = (_volume(sample), _claim(spec, sample), _training(spec, sample))
    servers = _tensorboard(spec, sample) if sample.tensorboard else ()
    return tuple(
        make_manifest(OWNER, pulling(spec, body), group)
        for group, bodies in ((STORAGE_GROUP, storage), (SERVER_GROUP, servers))
        for body in bodies
    )


def deepspeed_workers(spec: ClusterSpec, sample: DeepSpeed) -> MpiWorkers:
    """The workers of every DeepSpeed job: on labelled nodes of one kind, with the data mounted."""
    kind = deepspeed_kind(spec, sample)
    attachment = _attachment(spec, sample, kind)
    return MpiWorkers(
        image=sample.image,
        count=sample.workers,
        gpus=sample.gpus,
        attachment=attachment,
        nodes=kind.nodes,
        mounts=({"name": "data", "mountPath": sample.mount_path},),
        volumes=(_data(sample),),
        selector=dict(NODE_LABELS),
        before=keep_devices(spec, kind, in_host=attachment.host_network),
    )


def deepspeed_kind(spec: ClusterSpec, sample: DeepSpeed) -> WorkerKind:
    """The workers that DeepSpeed's jobs run on.

    Raises:
        SpecError: The site has too few of one kind.
    """
    kind = fitting_kind(spec, sample.workers, sample.gpus)
    if kind is None:
        raise SpecError(
            f"jobs.deepspeed wants {sample.workers} workers of {sample.gpus} GPUs, and there are "
            "not so many workers with the same GPUs and rails. Lower one of the two numbers"
        )
    return kind


def _attachment(spec: ClusterSpec, sample: DeepSpeed, kind: WorkerKind) -> PodAttachment:
    """The rails as every job has them; the shared cards by the name that Arena uses."""
    base = pod_attachment(spec, kind.rails_of(spec))
    network = spec.pod_network
    published = {device.resource for device in network.shared_devices}
    resources = base.resources
    if network.mode == "rdma_shared" and ARENA_RESOURCE in published:
        resources = {f"{network.resource_prefix}/{ARENA_RESOURCE}": 1}
    in_host = base.host_network or sample.host_network
    return PodAttachment(resources, {} if in_host else base.annotations, host_network=in_host)


def deepspeed_launcher(spec: ClusterSpec, sample: DeepSpeed, call: tuple[str, ...]) -> JsonObject:
    """The launcher of a DeepSpeed job, which runs `call` once its workers answer."""
    attachment = _attachment(spec, sample, deepspeed_kind(spec, sample))
    port = ssh_port(spec, host_network=attachment.host_network)
    text = job_script("deepspeed_launch").replace("deepspeed_port", str(port))
    script = text.replace("deepspeed_call", " ".join(call))
    return {
        "name": "launcher",
        "image": sample.image,
        "command": ["/bin/sh", "-c", script],
        # DeepSpeed hands variables that begin with NCCL on to its workers.
        "env": env_list(job_environment(spec)),
    }


def _data(sample: DeepSpeed) -> JsonObject:
    return {"name": "data", "persistentVolumeClaim": {"claimName": sample.claim}}


def _volume(sample: DeepSpeed) -> Body:
    source: JsonObject = {"hostPath": {"path": sample.path}}
    if sample.nfs_server is not None:
        source = {"nfs": {"server": sample.nfs_server, "path": sample.path}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{sample.claim}-pv"},
        "spec": {
            "storageClassName": STORAGE_CLASS,
            "capacity": {"storage": f"{sample.capacity_gib}Gi"},
            "accessModes": [sample.access_mode],
            # The results of a training outlive the claim.
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
        },
    }


def _claim(spec: ClusterSpec, sample: DeepSpeed) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": sample.claim, "namespace": spec.pod_network.namespace},
        "spec": {
            "storageClassName": STORAGE_CLASS,
            "volumeName": f"{sample.claim}-pv",
            "accessModes": [sample.access_mode],
            "resources": {"requests": {"storage": f"{sample.request_gib}Gi"}},
        },
    }


def deepspeed_call(program: tuple[str, ...]) -> tuple[str, ...]:
    """A program under DeepSpeed's own launcher; `$master` is the first worker."""
    return ("deepspeed", "--hostfile=/job/hostfile", '--master_addr="$master"', *program)


def deepspeed_job(
    spec: ClusterSpec, name: str, sample: DeepSpeed, program: tuple[str, ...]
) -> Body:
    """A training by DeepSpeed, with the data mounted in the launcher too."""
    mounts: JsonObject = {"volumeMounts": [{"name": "data", "mountPath": sample.mount_path}]}
    launcher = deepspeed_launcher(spec, sample, deepspeed_call(program)) | mounts
    return mpi_job(spec, name, deepspeed_workers(spec, sample), launcher, volumes=[_data(sample)])


def _training(spec: ClusterSpec, sample: DeepSpeed) -> Body:
    """The sample training, ready for `kubectl create -f -`."""
    name = "deepspeed-helloworld"
    program = (
        f"{EXAMPLES}/HelloDeepSpeed/train_bert_ds.py",
        "--checkpoint_dir",
        sample.log_dir,
    )
    job = deepspeed_job(spec, name, sample, program)
    text = yaml.safe_dump(pulling(spec, job), sort_keys=True, width=200).replace(
        f"{name}-{RUN}", name
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": spec.pod_network.namespace},
        "data": {"job.yaml": text},
    }


def _tensorboard(spec: ClusterSpec, sample: DeepSpeed) -> tuple[Body, ...]:
    labels: JsonObject = {"app.kubernetes.io/name": "tensorboard"}
    metadata: JsonObject = {"name": "tensorboard", "namespace": spec.pod_network.namespace}
    container: JsonObject = {
        "name": "tensorboard",
        "image": sample.image,
        "command": ["tensorboard", "--logdir", sample.log_dir, "--bind_all"],
        "ports": [{"containerPort": TENSORBOARD_PORT}],
        "volumeMounts": [{"name": "data", "mountPath": sample.mount_path, "readOnly": True}],
    }
    deployment: Body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": [_data(sample)]},
            },
        },
    }
    service: Body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "selector": labels,
            "ports": [{"port": TENSORBOARD_PORT, "targetPort": TENSORBOARD_PORT}],
        },
    }
    return deployment, service
