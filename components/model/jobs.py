"""What runs on the cluster: image, NCCL's environment, sample jobs."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from components.model.reach import SshAddress
from components.model.texts import AbsolutePath, AnyLine, ExportPath
from components.model.units import (
    DnsLabel,
    EnvironmentName,
    Frozen,
    PinnedImage,
    TcpPort,
)

GdrLevel = Literal["LOC", "PIX", "PXB", "PHB", "SYS", "0", "1", "2", "3", "4", "5"]
"""NCCL_NET_GDR_LEVEL by name; the old form is 0 to 5 (NCCL user guide, environment)."""
AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
"""Of a persistent volume (Kubernetes core/v1, PersistentVolumeAccessMode)."""
ARENA_RESOURCE: Final = "hca"
"""What Arena's `--rdma` requests, after the prefix (its charts)."""


class TopologyFile(Frozen):
    """NCCL's topology file: virtual machines hide the PCIe tree from NCCL."""

    host_path: AbsolutePath
    """The file on the node."""
    mount_path: AbsolutePath
    """The same file in the pod: the value of NCCL_TOPO_FILE."""


class DeepSpeed(Frozen):
    """A DeepSpeed launcher and its workers, as `arena submit etjob` makes them."""

    image: PinnedImage
    """Image with DeepSpeed, its examples and an SSH server."""
    workers: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=0)]
    """GPUs of one worker."""
    claim: DnsLabel = "training-data"
    """Name of the persistent volume claim."""
    capacity_gib: Annotated[int, Field(ge=1)] = 10
    """Size of the volume in GiB."""
    request_gib: Annotated[int, Field(ge=1)] = 3
    """What the claim asks of it, in GiB."""
    access_mode: AccessMode = "ReadWriteMany"
    """One claim for workers on several nodes needs `ReadWriteMany`."""
    nfs_server: SshAddress | None = None
    """Address of the NFS server that holds `path`; None: a `hostPath` of one node."""
    path: ExportPath = "/data"
    """Folder on the server or node."""
    mount_path: AbsolutePath = "/data"
    """Where the pods see it."""
    log_dir: AbsolutePath = "/data/deepspeed_data"
    """Where training writes checkpoints and TensorBoard logs."""
    tensorboard: bool = True
    """Run TensorBoard on `log_dir`."""
    host_network: bool = False
    """Run the workers in the host's network."""


class Programs(Frozen):
    """Where the image has its programs, if not on the PATH that sshd gives to a command.

    With any of them, mpirun hands PATH and LD_LIBRARY_PATH of the launcher on to every rank.
    """

    nccl_tests: AbsolutePath | None = None
    """Folder of `all_reduce_perf` and its siblings: `/opt/nccl-tests/build` in vendors' images."""
    mpirun: AbsolutePath | None = None
    """mpirun itself, such as `/opt/hpcx/ompi/bin/mpirun`; its daemon is then taken from beside it
    on every worker."""
    perftest: AbsolutePath | None = None
    """Folder of `ib_write_bw` and its siblings."""
    perftest_cuda: AbsolutePath | None = "/opt/perftest-cuda/bin"
    """Folder of the same programs with CUDA, which suite `full` runs on GPU memory. Default: where
    the image of `railyard image build` has them. `null`: GPU memory is not tested alone."""


class OwnPods(Frozen):
    """What pods that users write themselves find in the cluster.

    A ConfigMap `railyard-rdma` with the environment of jobs for `envFrom`, and where a pod sees
    more RDMA devices than its own, `railyard-rdma-scripts` with the script that finds the right
    ones.
    """

    namespaces: tuple[DnsLabel, ...] = ()
    """Namespaces of the users, which have to be there; default `pod_network.namespace`."""
    admission: bool = False
    """Let the API server put the environment, and the topology file, into every container in these
    namespaces that asks for a resource of the rails. It takes Kubernetes 1.36."""


class Jobs(Frozen):
    """What runs on the cluster."""

    image: PinnedImage
    """Image of the acceptance and sample jobs, with a tag or digest.

    `railyard image build` makes it; docs/reference/probe-image.md says what another one must have.
    """
    programs: Programs = Programs()
    """Where a foreign image has its programs."""
    env: dict[EnvironmentName, AnyLine] = Field(default_factory=dict)
    """Environment of all jobs, for example `NCCL_IB_SL: "1"`. What the plan decides is refused."""
    ssh_port: TcpPort | None = None
    """Port of the workers' sshd; default 22, and 2222 in the host's network, where 22 is taken."""
    mpi_operator: bool = True
    """Install the MPI operator, which acceptance needs."""
    gdr_level: GdrLevel = "2"
    """NCCL_NET_GDR_LEVEL; 2 is the DeepOps guide's value. NCCL ignores all other words."""
    nccl_ib_tc: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_TC; default from `rdma.dscp`. Another value is refused by `one-traffic-class`."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_GID_INDEX; default: left to NCCL, which finds the RoCE v2 GID (NCCL >= 2.21)."""
    topology_file: TopologyFile | None = None
    """NCCL_TOPO_FILE of the nodes."""
    deepspeed: DeepSpeed | None = None
    """The DeepSpeed sample; None: none."""
    own_pods: OwnPods | None = None
    """The environment for pods that users write themselves; None: none."""
