"""Plan the MPI operator, jobs over several nodes, and the objects for pods of users.

An MPIJob's launcher reaches workers by SSH. DeepSpeed runs as Arena starts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import yaml
from pydantic import JsonValue

from components.core.errors import SpecError
from components.core.record import field, record
from components.core.to_json import HIDDEN
from components.jobs import templates
from components.jobs.templates import RUN, JsonObject, env_list, job_script, make
from components.kubernetes import manifest
from components.kubernetes.manifest import Body, Manifest, login_manifests, make_manifest, pulling
from components.model.cluster import ClusterSpec
from components.model.jobs import ARENA_RESOURCE, DeepSpeed
from components.model.owners import installs
from components.model.worker_kinds import WorkerKind, fitting_kind
from components.pod_network.attachment import PodAttachment, pod_attachment
from components.pod_network.manifests import gpu_runtime, tolerations

OWNER: Final = "deepspeed"
STORAGE_GROUP: Final = 3
"""After the MPI operator's objects."""
SERVER_GROUP: Final = 4
NODE_LABELS: Final = {"gpu-use-type": "exclusive", "rdma": "hca"}
"""Labels of the nodes that take DeepSpeed's workers, as in the notes."""
EXAMPLES: Final = "/workspace/DeepSpeedExamples"
ENVIRONMENT: Final = "railyard-rdma"
"""Name of the ConfigMap for `envFrom`."""
SCRIPTS: Final = "railyard-rdma-scripts"
"""Name of the ConfigMap with `on-rails`, to be mounted as a folder."""
ON_RAILS: Final = "on-rails"
_TOPOLOGY: Final = "railyard-topology"
_CONTAINER: Final = "Object.spec.containers"
"""CEL's type of a container: a map with values of two types does not compile."""
_EMPTY: Final = "[]"
"""A list is made first, and filled by another patch: a list of objects in the `value` of a patch
ends the request in a panic of kube-apiserver 1.36.3 (seen in the lab)."""
_SH_C: Final = 2
"""Words before the script in `sh -c SCRIPT`."""
MPI_OPERATOR_FILE: Final = "mpi-operator-v0.8.2.json.gz"
MPI_NAMESPACE: Final = "mpi-operator"
_OF_PROFILES: Final = "kubeflow-"
"""Prefix of the roles of Kubeflow's profiles: without Kubeflow no user has such a role."""
_GROUPS: Final = {"Namespace": 0, "Deployment": 2}
SHM_SIZE: Final = "16Gi"
"""Shared memory of a worker: NCCL's intra-node buffers outgrow the 64 MiB default."""
_TOPOLOGY_VOLUME: Final = "nccl-topology"
TorchForm = Literal["job", "trainjob"]
PORT: Final = 29500
"""Where the first node waits for the others: torchrun's default."""
_NODE: Final = "node"
"""The container that Trainer looks for."""
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_ONCE: Final[Mapping[str, JsonValue]] = {"restartPolicy": "Never"}
"""A rank that begins again would wait for the others."""


def plan_deepspeed(spec: ClusterSpec) -> tuple[Manifest, ...]:
    """The lasting objects: volume, claim, TensorBoard, and the sample training as a text.

    Arena's `etjob` needs an operator that is not developed any more, and its installer brings
    another MPIJob definition with the same name. The MPI operator gives a launcher the same things.
    A user starts the training: a waiting job that holds all GPUs would leave none for others.
    """
    sample = spec.jobs.deepspeed
    if sample is None:
        return ()
    source: JsonObject = {"hostPath": {"path": sample.path}}
    if sample.nfs_server is not None:
        source = {"nfs": {"server": sample.nfs_server, "path": sample.path}}
    words = {
        "claim": sample.claim,
        "namespace": spec.pod_network.namespace,
        "mode": sample.access_mode,
        "capacity": sample.capacity_gib,
        "request": sample.request_gib,
        "source": source,
        "image": sample.image,
        "log_dir": sample.log_dir,
        "mount": sample.mount_path,
        "data": _data(sample),
    }
    # The sample training, ready for `kubectl create -f -`.
    name, script = "deepspeed-helloworld", f"{EXAMPLES}/HelloDeepSpeed/train_bert_ds.py"
    job = deepspeed_job(spec, name, sample, (script, "--checkpoint_dir", sample.log_dir))
    text = yaml.safe_dump(pulling(spec, job), sort_keys=True, width=200)
    data = {"job.yaml": text.replace(f"{name}-{RUN}", name)}
    training = make("config-map", name=name, namespace=spec.pod_network.namespace, data=data)
    servers = ("tensorboard", "tensorboard-service") if sample.tensorboard else ()
    bodies = [(STORAGE_GROUP, make(each, **words)) for each in ("volume", "claim")]
    bodies.append((STORAGE_GROUP, training))
    bodies += [(SERVER_GROUP, make(each, **words)) for each in servers]
    return tuple(make_manifest(OWNER, pulling(spec, body), group) for group, body in bodies)


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
        before=templates.keep_devices(spec, kind, in_host=attachment.host_network),
    )


def deepspeed_kind(spec: ClusterSpec, sample: DeepSpeed) -> WorkerKind:
    """The workers that DeepSpeed's jobs run on; SpecError if the site has too few of one kind."""
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
    port = templates.ssh_port(spec, host_network=attachment.host_network)
    text = job_script("deepspeed_launch").replace("deepspeed_port", str(port))
    script = text.replace("deepspeed_call", " ".join(call))
    return {
        "name": "launcher",
        "image": sample.image,
        "command": ["/bin/sh", "-c", script],
        # DeepSpeed hands variables that begin with NCCL on to its workers.
        "env": env_list(templates.job_environment(spec)),
    }


def _data(sample: DeepSpeed) -> JsonObject:
    return {"name": "data", "persistentVolumeClaim": {"claimName": sample.claim}}


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


def plan_own_pods(spec: ClusterSpec, group: int) -> tuple[Manifest, ...]:
    """The objects for pods of users; empty if the file does not ask for them."""
    own = spec.jobs.own_pods
    if own is None:
        return ()
    spaces = own.namespaces or (spec.pod_network.namespace,)
    data: dict[str, JsonObject] = {ENVIRONMENT: {**templates.job_environment(spec)}}
    if script := on_rails_script(spec):
        data[SCRIPTS] = {ON_RAILS: script}
    bodies: list[tuple[str, Body]] = [
        (space, make("config-map", name=name, namespace=space, data=each))
        for space in spaces
        for name, each in data.items()
    ]
    if own.admission:
        # Patch containers that ask for a resource of the rails, but keep their own values. Ours
        # come first in `envFrom`: of two sources the later one counts, and `env` more than both.
        resources = json.dumps(sorted(pod_attachment(spec).resources))
        limits = f"{resources}.exists(n, n in c.resources.limits)"
        asks = f"has(c.resources) && has(c.resources.limits) && {limits}"
        source = f'{_CONTAINER}.envFrom.configMapRef{{name: "{ENVIRONMENT}"}}'
        ours = f"{_CONTAINER}.envFrom{{configMapRef: {source}}}"
        mine = f'c.envFrom.exists(e, has(e.configMapRef) && e.configMapRef.name == "{ENVIRONMENT}")'
        lacks = f"({asks}) && !(has(c.envFrom) && {mine})"
        patches = [
            _each(f"{lacks} && !has(c.envFrom)", "envFrom", _EMPTY),
            _each(lacks, "envFrom/0", ours),
        ]
        if spec.jobs.topology_file is not None:
            file = spec.jobs.topology_file
            path = f'mountPath: "{file.mount_path}", readOnly: true'
            mount = f'{_CONTAINER}.volumeMounts{{name: "{_TOPOLOGY}", {path}}}'
            there = f'c.volumeMounts.exists(m, m.mountPath == "{file.mount_path}")'
            lacks = f"({asks}) && !(has(c.volumeMounts) && {there})"
            host = f'Object.spec.volumes.hostPath{{path: "{file.host_path}", type: "File"}}'
            volume = f'Object.spec.volumes{{name: "{_TOPOLOGY}", hostPath: {host}}}'
            wanted = f"object.spec.containers.exists(c, {lacks})"
            patches += [
                _if(f"{wanted} && !has(object.spec.volumes)", "/spec/volumes", _EMPTY),
                _if(wanted, "/spec/volumes/-", volume),
                _each(f"{lacks} && !has(c.volumeMounts)", "volumeMounts", _EMPTY),
                _each(lacks, "volumeMounts/-", mount),
            ]
        condition = f"object.spec.containers.exists(c, {asks})"
        policy = make("policy", condition=condition, patches=" + ".join(patches))
        binding = make("policy-binding", namespaces=[*spaces])
        bodies += [("", policy), ("", binding)]
    return tuple(
        make_manifest(f"own-pods-{space}" if space else "own-pods", body, group)
        for space, body in bodies
    )


def on_rails_script(spec: ClusterSpec) -> str:
    """The program that finds the pod's RDMA devices, then runs its arguments; empty for VFs."""
    words = templates.on_devices(spec, ())
    return f"#!/bin/sh\n{words[_SH_C]}" if len(words) > _SH_C else ""


def _if(condition: str, path: str, value: str) -> str:
    return f'({condition} ? [JSONPatch{{op: "add", path: "{path}", value: {value}}}] : [])'


def _each(condition: str, path: str, value: str) -> str:
    place = f'"/spec/containers/" + string(i) + "/{path}"'
    patch = f'JSONPatch{{op: "add", path: {place}, value: {value}}}'
    return f"object.spec.containers.transformList(i, c, {condition}, {patch})"


@record
class JobsPlan:
    """The MPI operator, the sample jobs of the file, and the objects of `watch`."""

    manifests: tuple[Manifest, ...]
    watch: tuple[Manifest, ...] = field(default=(), metadata=HIDDEN)
    """No change here repeats acceptance."""

    @property
    def all_manifests(self) -> tuple[Manifest, ...]:
        """Every object of this stage."""
        return (*self.manifests, *self.watch)


def plan_jobs(spec: ClusterSpec) -> JobsPlan:
    """Plan the operator and the samples; a site without Kubernetes gets neither."""
    if spec.kubernetes is None:
        return JobsPlan(manifests=())
    operator: list[Manifest] = []
    if installs(spec, "mpi_operator"):
        vendored = manifest.load_vendored("components.jobs", MPI_OPERATOR_FILE)
        image = spec.sources.images.mpi_operator
        for body in (it for it in vendored if not manifest.name_of(it).startswith(_OF_PROFILES)):
            own = pulling(spec, manifest.with_image(body, image))
            for pod in manifest.pods_in(own):  # each node of a cluster may be tainted
                pod.update(tolerations(spec))
            # The namespace first, then what needs it, then the operator.
            operator.append(make_manifest("mpi-operator", own, _GROUPS.get(str(body["kind"]), 1)))
        operator += login_manifests(spec, "mpi-operator", MPI_NAMESPACE, 1)
    return JobsPlan(
        manifests=(
            *login_manifests(spec, "jobs", spec.pod_network.namespace, 0),
            *plan_own_pods(spec, 0),
            *sorted(operator, key=lambda each: each.group),
            *plan_deepspeed(spec),
        )
    )


@record
class MpiWorkers:
    """The workers of an MPIJob."""

    image: str
    count: int
    gpus: int
    attachment: PodAttachment
    nodes: tuple[str, ...]
    mounts: tuple[JsonObject, ...] = ()
    volumes: tuple[JsonObject, ...] = ()
    selector: dict[str, str] = field(default_factory=dict[str, str])
    """Labels of the nodes that take workers; empty for any."""
    before: tuple[str, ...] = ()
    """The command of a worker; it takes the command of sshd as its last arguments."""


def mpi_job(
    spec: ClusterSpec, name: str, workers: MpiWorkers, launcher: JsonObject, **pod: JsonValue
) -> Body:
    """An MPIJob of one run, from its launcher's container; `pod` has more keys of that pod."""
    port = templates.ssh_port(spec, host_network=workers.attachment.host_network)
    container: JsonObject = {
        **_rail_container(spec, workers, "worker"),
        "command": [*workers.before, *templates.sshd_command(port)],
        # Started is not yet reachable: the launcher waits for workers that answer.
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
    }
    own: JsonObject = {
        "training.kubeflow.org/job-name": f"{name}-{RUN}",
        "training.kubeflow.org/job-role": "worker",
    }
    return make(
        "mpi-job",
        metadata=templates.make_metadata(spec, name),
        gpus=workers.gpus,
        count=workers.count,
        deadline_s=int(spec.acceptance.timeout_s),
        launcher=templates.outside_meshes(
            {"spec": {"containers": [launcher], **tolerations(spec), **pod}}
        ),
        worker=_rail_pod(spec, workers, own, container),
    )


def _rail_pod(
    spec: ClusterSpec,
    workers: MpiWorkers,
    own: JsonObject,
    container: JsonObject,
    **more: JsonValue,
) -> JsonObject:
    """The pod template of workers: on the rails, one on a node; `own` are this job's labels."""
    volumes: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}},
        *workers.volumes,
    ]
    if file := spec.jobs.topology_file:
        # `File`: a node without it refuses the pod; another type would make an empty folder.
        source: JsonObject = {"path": file.host_path, "type": "File"}
        volumes.insert(1, {"name": _TOPOLOGY_VOLUME, "hostPath": source})
    more |= tolerations(spec) | (gpu_runtime(spec) if workers.gpus else {})
    if workers.selector:
        more["nodeSelector"] = {**workers.selector}
    if workers.attachment.host_network:
        # It still uses the cluster's DNS: otherwise the launcher would not find the workers.
        more |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    notes = {**workers.attachment.annotations}
    template = make(
        "rail-pod",
        metadata={"annotations": notes} if notes else None,
        nodes=[*workers.nodes],
        own=own,
        container=container,
        volumes=volumes,
        more=more,
    )
    return templates.outside_meshes(template)


def _rail_container(
    spec: ClusterSpec, workers: MpiWorkers, name: str, own: Sequence[JsonValue] = ()
) -> JsonObject:
    """A container with GPUs on the rails, the environment of jobs, and variables of its own."""
    limits = templates.make_limits(workers.attachment.resources, workers.gpus)
    if alignment := spec.kubernetes.alignment if spec.kubernetes else None:
        # kubelet's static policy gives CPUs only to pods with whole CPUs and memory.
        memory = f"{alignment.job_memory_gib}Gi"
        limits |= {"cpu": str(alignment.job_cpus), "memory": memory}
    mounts: list[JsonValue] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a container's own
        *workers.mounts,
    ]
    if file := spec.jobs.topology_file:
        mounts.insert(1, {"name": _TOPOLOGY_VOLUME, "mountPath": file.mount_path, "readOnly": True})
    env = [*env_list(templates.job_environment(spec)), *own]
    more: JsonObject = {"env": env, "volumeMounts": mounts}
    return templates.make_container(workers.image, name, limits) | more


def _all_of(spec: ClusterSpec, kind: WorkerKind, image: str) -> MpiWorkers:
    attachment = pod_attachment(spec, kind.rails_of(spec))
    return MpiWorkers(image, len(kind.hosts), kind.gpus, attachment, kind.nodes)


def launched_job(
    spec: ClusterSpec,
    name: str,
    kind: WorkerKind,
    command: tuple[str, ...],
    image: str,
    *,
    twice: bool = False,
) -> Body:
    """The MPIJob of a `mpirun_command` over all workers of a kind, `twice` to compare with TCP."""
    workers, script = _all_of(spec, kind, image), "mpi_compare" if twice else "mpi_launch"
    in_host = workers.attachment.host_network
    ssh = templates.ssh_options(templates.ssh_port(spec, host_network=in_host))
    launcher: JsonObject = {
        "name": "launcher",
        "image": image,
        # `mpirun` once the workers' host key is known.
        "command": ["/bin/sh", "-c", job_script(script), script, *command],
        # Open MPI 5 reads these options from its launcher's environment alone.
        "env": env_list({"PRTE_MCA_plm_ssh_args": ssh}),
    }
    return mpi_job(spec, name, workers, launcher)


def torch_objects(
    spec: ClusterSpec,
    name: str,
    kind: WorkerKind,
    image: str,
    program: tuple[str, ...],
    form: TorchForm,
) -> tuple[Body, ...]:
    """The objects of a training by `torchrun`, in the order of creation.

    `torchrun` takes its options from variables that begin with `PET_`. Trainer sets them itself in
    a container called `node`; in a plain Job they are set here, to the same values. Sources: the
    documentation of torchrun and of Indexed Jobs; Kubeflow Trainer v2.3.0 (lab/sources.md#trainer).

    One pod on each worker has all its GPUs. The form `job` is a headless Service and an Indexed
    Job; `trainjob` is a runtime of the site's own and a TrainJob.
    """
    workers, job, plain = _all_of(spec, kind, image), f"{name}-{RUN}", form == "job"
    env: list[JsonValue] = []
    if plain:
        values = {
            "PET_NNODES": str(workers.count),
            "PET_NPROC_PER_NODE": str(workers.gpus),
            "PET_MASTER_ADDR": f"{job}-0.{job}",
            "PET_MASTER_PORT": str(PORT),
        }
        rank: JsonObject = {"fieldRef": {"fieldPath": _INDEX}}
        env = [*env_list(values), {"name": "PET_NODE_RANK", "valueFrom": rank}]
    container = _rail_container(spec, workers, _NODE, env)
    container["command"] = [*templates.on_devices(spec, ("torchrun", *program), kind)]
    label = "batch.kubernetes.io/job-name" if plain else "jobset.sigs.k8s.io/jobset-name"
    own, more = JsonObject({label: job}), {**_ONCE, **({"subdomain": job} if plain else {})}
    words = {
        "count": workers.count,
        "gpus": workers.gpus,
        "job": job,
        "own": own,
        "template": _rail_pod(spec, workers, own, container, **more),
    }
    labels = {} if plain else {"trainer.kubeflow.org/framework": "torch"}
    first, second = ("torch-service", "torch-job") if plain else ("torch-runtime", "torch-train")
    return (
        make(first, metadata=templates.make_metadata(spec, name, **labels), **words),
        make(second, metadata=templates.make_metadata(spec, name), **words),
    )
