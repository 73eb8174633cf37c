"""The parts that all jobs of a site share: names, limits, containers, SSH, NCCL and MPI.

The MPI operator mounts one key pair of the job at `/root/.ssh` of launcher and workers. Workers
show that key as their host key and the launcher trusts only that one, so an image needs no host
keys and every check stays on.

Sources: the controller and the base image of the MPI operator; sshd(8), ssh(1); NCCL's environment
documentation and net_ib source, Open MPI's documentation, DeepOps; for InfiniBand in virtual
machines the values of the cloud's own nccl-tests jobs (lab/sources.md#cloud-ib).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from pydantic import JsonValue

from components.core.errors import SpecError
from components.core.templates import object_of, reader_of
from components.kubernetes.manifest import Body, map_at
from components.model.cluster import ClusterSpec
from components.model.jobs import Programs
from components.model.places import is_flat
from components.model.worker_kinds import WorkerKind
from components.pod_network.manifests import tolerations

RUN: Final = "RUN-NUMBER"
"""Placeholder for the run's number in names."""
LONGEST_NAME: Final = 63
"""Kubernetes copies a Job's name into a label of its pods and refuses a longer name
(kubernetes/kubernetes#50850: "spec.template.labels: must be no more than 63 characters")."""
_DIGITS: Final = 10
"""Room for the number of a run."""
_HASH: Final = 8
"""Hexadecimal digits that keep shortened names apart."""
GPU: Final = "nvidia.com/gpu"
PART_OF: Final = "app.kubernetes.io/part-of"
ACCEPTANCE: Final = "railyard-acceptance"
"""The value of that label for all that a run creates."""

JsonObject = dict[str, JsonValue]
SSHD: Final = "/usr/sbin/sshd"
"""sshd must be started by its full path: it runs itself again for every connection."""
POD_PORT: Final = 22
HOST_NETWORK_PORT: Final = 2222
"""In the host's network the host's own sshd has port 22."""
KNOWN_HOSTS: Final = "/tmp/railyard_known_hosts"  # noqa: S108 - the launcher's own container
_CONNECT: Final = "-o ConnectionAttempts=10"
"""A worker may need a moment. The MPI operator sets it too, but our options replace its own."""


_NO_MESH: Final[Mapping[str, JsonObject]] = {
    "labels": {"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none"},
    "annotations": {"linkerd.io/inject": "disabled"},
}
"""Labels and annotations that keep a mesh away from the connections by which ranks find each other.

istio/istio 00af2c55, `pkg/kube/inject/inject.go`, `injectRequired`: the pod's label wins over its
namespace; the second label is that of ambient mode. linkerd/linkerd2 1071ec2e, `pkg/k8s/labels.go`.
"""
POD_INTERFACE: Final = "eth0"
"""The default pod network: MPI's and NCCL's own messages go there, RDMA goes over the rails."""
_MPI_OVER_TCP: Final = ("--mca", "pml", "ob1", "--mca", "btl", "^openib")
"""MPI's own messages, which are few compared with NCCL's. UCX, which Ubuntu's Open MPI prefers,
would take every card of the pod, and rails without a route between them hang it (openucx/ucx#7295,
#10420)."""
_NO_HCOLL: Final = ("--mca", "coll_hcoll_enable", "0")
"""HPC-X's collectives would open the adapters too, also on RoCE: Oracle's own jobs turn them off
(oracle-quickstart/oci-hpc-oke 61d210a). An Open MPI without them ignores it."""
_QPS: Final = "NCCL_IB_QPS_PER_CONNECTION"
_QPS_OVER_SPINES: Final = "4"
"""Queue pairs of a connection on rails with several leaves. ECMP sends one queue pair over one
spine; several spread. NCCL's documentation recommends more than one without a number (its default
is 1); 4 is the start that stas00/ml-engineering (network, NCCL) gives. Unproven here: `jobs.env`
sets another."""
_INFINIBAND: Final = {
    # A virtual function of a cloud: PCIe reordering is allowed, or half of the rate is lost.
    "NCCL_IB_PCI_RELAXED_ORDERING": "1",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
    "NCCL_IB_QPS_PER_CONNECTION": "2",
    # The guest has no PF, and NCCL would take the functions of one card for one device.
    "NCCL_IB_MERGE_VFS": "0",
}
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ib_hcas": ("ib_ports", "ib_hcas"),
    "ib_adapter": ("ib_ports", "ib_adapter", "memlock"),
    "rdma_device": ("find_gid", "rdma_device", "memlock"),
    "rdma_shared_device": ("find_gid", "rdma_shared_device", "memlock"),
    "mpi_launch": ("mpi_program", "mpi_launch"),
    "mpi_compare": ("mpi_program", "mpi_compare"),
}
"""Script to the files that form it, in order; other scripts are one file."""


def make(template: str, /, **words: object) -> dict[str, Any]:
    """An object of this room; see `object_of`."""
    return object_of("components.jobs", template, **words)


def outside_meshes(template: JsonObject) -> JsonObject:
    """Mark a pod's template to keep Istio and Linkerd away from its connections."""
    found: JsonObject = {**map_at(template, "metadata")}
    for key, ours in _NO_MESH.items():
        found[key] = {**map_at(found, key), **ours}
    return {**template, "metadata": found}


def number_objects(objects: tuple[Body, ...], run: int) -> list[Body]:
    """The objects of one run: every name carries the run's number."""
    return reader_of(list[Body]).validate_json(json.dumps([*objects]).replace(RUN, str(run)))


def make_metadata(spec: ClusterSpec, name: str, **labels: JsonValue) -> JsonObject:
    """The metadata of an object of a run."""
    return {
        "name": f"{name}-{RUN}",
        "namespace": spec.pod_network.namespace,
        "labels": {PART_OF: ACCEPTANCE, **labels},
    }


def fit_name(name: str, ending: str = "") -> str:
    """A job's name, cut to a hash to leave room for a run's number and the `ending` of pods."""
    longest = LONGEST_NAME - len("-") - _DIGITS - len(ending)
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: longest - _HASH - 1].rstrip('-')}-{digest}"


def make_limits(resources: Mapping[str, int], gpus: int = 0) -> JsonObject:
    """The limits of a container: RDMA resources, and GPUs if it has any."""
    limits: JsonObject = {**resources}
    return limits | ({GPU: gpus} if gpus else {})


def make_container(image: str, name: str, limits: JsonObject) -> JsonObject:
    """A container that may pin memory."""
    return {
        "name": name,
        "image": image,
        "resources": {"limits": limits},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }


def env_list(values: Mapping[str, str]) -> list[JsonValue]:
    """Variables as Kubernetes takes them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def make_job(spec: ClusterSpec, name: str, pod: JsonObject) -> Body:
    """Make a Job with one pod that never retries: a failure is a result."""
    return make(
        "job",
        metadata=make_metadata(spec, fit_name(name)),
        deadline_s=int(spec.acceptance.timeout_s),
        template=outside_meshes(_tolerant(spec, pod)),
    )


def make_pod(spec: ClusterSpec, name: str, template: JsonObject, runs_s: int = 0) -> Body:
    """Make a pod without a Job: on a large site, creating the Jobs would take an hour.

    kube-controller-manager sends 20 requests a second by default, and a Job takes about five. The
    seconds of the intended run are added to its deadline.
    """
    metadata: JsonObject = {**make_metadata(spec, fit_name(name)), **map_at(template, "metadata")}
    timed: JsonObject = {**map_at(template, "spec")}
    timed["activeDeadlineSeconds"] = int(spec.acceptance.timeout_s) + runs_s
    # A server whose client failed waits on, and by default it would get 30 s to end.
    timed["terminationGracePeriodSeconds"] = 1
    whole = outside_meshes(_tolerant(spec, {"metadata": metadata, "spec": timed}))
    return {"apiVersion": "v1", "kind": "Pod", **whole}


def _tolerant(spec: ClusterSpec, template: JsonObject) -> JsonObject:
    return {**template, "spec": {**map_at(template, "spec"), **tolerations(spec)}}


def ssh_port(spec: ClusterSpec, *, host_network: bool) -> int:
    """The port of the workers' sshd."""
    if spec.jobs.ssh_port is not None:
        return spec.jobs.ssh_port
    return HOST_NETWORK_PORT if host_network else POD_PORT


def sshd_command(port: int) -> tuple[str, ...]:
    """The command of a worker.

    `StrictModes`: a mounted Secret is a folder on its own file system, which everybody may write.
    """
    options = ("-o", "HostKey=/root/.ssh/id_rsa", "-o", "StrictModes=no")
    return (SSHD, "-De", "-p", str(port), *options)


def ssh_options(port: int) -> str:
    """The options of ssh with which mpirun reaches the workers."""
    trust = f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={KNOWN_HOSTS}"
    return f"{_CONNECT} -p {port} {trust}"


def nccl_environment(spec: ClusterSpec) -> dict[str, str]:
    """A job's NCCL variables by name; each rank finds its adapters on its node (`find_hcas`)."""
    jobs = spec.jobs
    values = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": jobs.gdr_level,
        # Rails are separate subnets and not routed: NIC k talks to NIC k. On a flat fabric every
        # card reaches all others, and NCCL's own default holds, unless `jobs.env` sets another.
        **({} if is_flat(spec) else {"NCCL_CROSS_NIC": "0"}),
    }
    if not spec.pod_network.host_network:
        values["NCCL_SOCKET_IFNAME"] = POD_INTERFACE
    if spec.rdma.transport == "infiniband":
        values |= _INFINIBAND
        if spec.infiniband is not None and spec.infiniband.adaptive_routing:
            # NCCL sends large messages apart from their notice, because packets may overtake. It is
            # NCCL's default on InfiniBand; every service level may be spread (opensm: ar_sl_mask).
            values["NCCL_IB_ADAPTIVE_ROUTING"] = "1"
    else:
        traffic_class = spec.rdma.ip_traffic_class if jobs.nccl_ib_tc is None else jobs.nccl_ib_tc
        # Without it NCCL sends DSCP 0, and the switch's ECN on the RoCE class does nothing.
        values["NCCL_IB_TC"] = str(traffic_class)
        if any(rail.leaves for rail in spec.rails):
            values[_QPS] = jobs.env.get(_QPS, _QPS_OVER_SPINES)
        # MPI over UCX takes verbs too; the inbox driver cannot mark them for it.
        values["UCX_IB_TRAFFIC_CLASS"] = str(traffic_class)
    if jobs.gid_index is not None:
        values["NCCL_IB_GID_INDEX"] = str(jobs.gid_index)
    if jobs.topology_file is not None:
        values["NCCL_TOPO_FILE"] = jobs.topology_file.mount_path
    if spec.acceptance.nccl_algo is not None:
        values["NCCL_ALGO"] = spec.acceptance.nccl_algo
    return dict(sorted(values.items()))


def job_environment(spec: ClusterSpec) -> dict[str, str]:
    """The variables of every job: the file's own and NCCL's, sorted by name."""
    return dict(sorted({**spec.jobs.env, **nccl_environment(spec)}.items()))


def program_path(folder: str | None, program: str) -> str:
    """A program of an image: on its PATH, or in the folder that the file names."""
    return program if folder is None else f"{folder}/{program}"


def find_hcas(program: tuple[str, ...]) -> tuple[str, ...]:
    """A program behind the search for the node's InfiniBand adapters.

    A list in the file would be wrong on the next instance type: the names have gaps, and some are
    management or storage ports that hang NCCL.
    """
    return ("/bin/sh", "-c", job_script("ib_hcas"), "ib_hcas", *program)


def on_devices(
    spec: ClusterSpec,
    program: tuple[str, ...],
    kind: WorkerKind | None = None,
    *,
    in_host: bool = False,
) -> tuple[str, ...]:
    """The program of every rank or node on the right devices; a VF is the only one in its pod.

    Shared cards are those of the rails among all of the node. `kind` are the workers that run it,
    by default all. `in_host`: its pods are in the host's network, also if those of other jobs are
    not. SpecError: jobs run in the host's network, and a rail's card is named differently on two
    workers, which one script serves.
    """
    if spec.rdma.transport == "infiniband":
        return find_hcas(program)
    if spec.pod_network.mode != "rdma_shared":
        return program
    rails = kind.rails_of(spec) if kind else spec.rails
    names = [f"net{index}" for index in range(1, len(rails) + 1)]
    if in_host or spec.pod_network.host_network:
        hosts = kind.hosts if kind else spec.workers
        for index, rail in enumerate(rails):
            nics = [nic for host in hosts for nic in host.nics if nic.rail == rail.name]
            cards = sorted({nic.netdev for nic in nics})
            if len(cards) != 1:
                raise SpecError(
                    f"the cards of {rail.name} are named {', '.join(cards) or 'nothing'}, and jobs "
                    "in the host's network look for one name. Name them alike "
                    "(host_defaults.rail_names)"
                )
            names[index] = cards[0]
    script = job_script("rail_hcas", interfaces=" ".join(names))
    return ("/bin/sh", "-c", script, "rail_hcas", *program)


def keep_devices(spec: ClusterSpec, kind: WorkerKind, *, in_host: bool) -> tuple[str, ...]:
    """The command before a worker's sshd if its ranks do not get our environment.

    DeepSpeed's launcher starts its ranks by pdsh. The search that a rank of mpirun would do runs
    once, at the start of the worker, and writes its result to /etc/nccl.conf, which every NCCL
    reads (its documentation of environment variables). Empty on VFs, which need no search. Its
    arguments are those of `on_devices`.
    """
    search = on_devices(spec, (), kind, in_host=in_host)
    return (*search, "/bin/sh", "-c", job_script("nccl_conf"), "nccl_conf") if search else ()


@cache
def job_script(name: str, **values: str) -> str:
    """One of the room's scripts without comments, after the values of its variables."""
    head = "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())
    folder = resources.files("components.jobs").joinpath("scripts")
    files = (folder.joinpath(f"{part}.sh") for part in _PARTS.get(name, (name,)))
    lines = (line for file in files for line in file.read_text("utf-8").splitlines(keepends=True))
    return head + "".join(line for line in lines if not line.lstrip().startswith("#"))


def mpirun_command(
    spec: ClusterSpec, ranks: int, program: tuple[str, ...], kind: WorkerKind | None = None
) -> tuple[str, ...]:
    """`mpirun` over the operator's hostfile, with the variables of jobs handed to every rank.

    The hostfile is named because Open MPI 5 ignores the variable that the operator sets, and would
    then run all ranks in the launcher.
    """
    in_host = spec.pod_network.host_network
    port = ssh_port(spec, host_network=in_host)
    # MPI's own messages stay off the rails; the host's network has no separate pod interface.
    keys = () if in_host else ("oob_tcp_if_include", "btl_tcp_if_include")
    words = ["=".join(pair) for pair in job_environment(spec).items()]
    if spec.jobs.programs != Programs():
        # A program outside of PATH seldom has its libraries where the loader looks.
        words += [name for name in ("PATH", "LD_LIBRARY_PATH") if name not in spec.jobs.env]
    return (
        spec.jobs.programs.mpirun or "mpirun",
        "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "-np", str(ranks),
        "--bind-to", "none", "--tag-output", "--mca", "plm_rsh_args", ssh_options(port),
        *(word for key in keys for word in ("--mca", key, POD_INTERFACE)),
        *_NO_HCOLL,
        *(() if spec.rdma.transport == "infiniband" else _MPI_OVER_TCP),
        *(part for word in words for part in ("-x", word)),
        *on_devices(spec, program, kind),
    )  # fmt: skip
