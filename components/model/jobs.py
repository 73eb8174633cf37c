"""Jobs on the cluster or in containers, and the proofs that acceptance needs of them."""

import re
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from components.model import texts, units
from components.model.reach import SshAddress

GdrLevel = Literal["LOC", "PIX", "PXB", "PHB", "SYS", "0", "1", "2", "3", "4", "5"]
"""NCCL_NET_GDR_LEVEL by name; the old form is 0 to 5 (NCCL user guide, environment)."""
AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
"""Of a persistent volume (Kubernetes core/v1, PersistentVolumeAccessMode)."""
ARENA_RESOURCE: Final = "hca"
"""The resource that Arena's `--rdma` requests, after the prefix (its charts)."""
DOCKER_HUB: Final = "docker.io"
"""The registry of an image name without one."""
CASE_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$"
_SIZE: Final = re.compile(r"([0-9]+)([KMG]?)")
_SIZE_FIX: Final = "write it as nccl-tests takes it, 1G or more: for example 2G."
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_JUDGED_BYTES: Final = 1 << 30
"""Least message size for judging bandwidth, 1 GiB: it levels out there."""
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall"]
LATENCY_TAIL_US: Final = 50.0
"""Default of `acceptance.latency_tail_us`, which says why."""
SuiteName = Literal["quick", "full", "soak"]
PerftestTool = Literal[
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"
]
CaseName = Annotated[str, StringConstraints(pattern=CASE_NAME)]
CRON_FIELDS: Final = (
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day of the month", 1, 31, ""),
    ("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("day of the week", 0, 6, "sun mon tue wed thu fri sat"),
)
"""Each field of cron with its limits and names, as Kubernetes' parser has them (robfig/cron v3.0.1,
parser.go and spec.go): 7 is no Sunday there."""
_CRON_WORDS: Final = r"@(yearly|annually|monthly|weekly|daily|midnight|hourly)"
_CRON_PART: Final = re.compile(r"(\*|\?|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]+))?")
_CRON_FIX: Final = 'write five fields of cron, such as "0 3 * * *" for 03:00 each day.'
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
CRON_SCHEDULE: Final = r"^(@[a-z]+|[0-9A-Za-z*?/,_=+ -]+)$"
TIME_ZONE: Final = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
GATEWAY: Final = (
    r"^https?://([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$"
)


class TopologyFile(units.Frozen):
    """NCCL's topology file: virtual machines hide the PCIe tree from NCCL."""

    host_path: texts.AbsolutePath
    """The file on the node."""
    mount_path: texts.AbsolutePath
    """The same file in the pod: the value of NCCL_TOPO_FILE."""


class DeepSpeed(units.Frozen):
    """A DeepSpeed launcher and its workers, as `arena submit etjob` makes them."""

    image: units.PinnedImage
    """Image with DeepSpeed, its examples and an SSH server."""
    workers: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=0)]
    """GPUs of one worker."""
    claim: units.DnsLabel = "training-data"
    """Name of the persistent volume claim."""
    capacity_gib: Annotated[int, Field(ge=1)] = 10
    """Size of the volume in GiB."""
    request_gib: Annotated[int, Field(ge=1)] = 3
    """Size that the claim asks for, in GiB."""
    access_mode: AccessMode = "ReadWriteMany"
    """One claim for workers on several nodes needs `ReadWriteMany`."""
    nfs_server: SshAddress | None = None
    """Address of the NFS server that exports `path`; None: a `hostPath` of one node."""
    path: texts.ExportPath = "/data"
    """Folder on the server or node."""
    mount_path: texts.AbsolutePath = "/data"
    """Folder of the volume in the pods."""
    log_dir: texts.AbsolutePath = "/data/deepspeed_data"
    """Folder for checkpoints and TensorBoard logs."""
    tensorboard: bool = True
    """Run TensorBoard on `log_dir`."""
    host_network: bool = False
    """Run the workers in the host's network."""


class Programs(units.Frozen):
    """Programs in the image, if they are not on the PATH that sshd gives to a command.

    With any of them, mpirun passes PATH and LD_LIBRARY_PATH of the launcher to every rank.
    """

    nccl_tests: texts.AbsolutePath | None = None
    """Folder of `all_reduce_perf` and its siblings: `/opt/nccl-tests/build` in vendors' images."""
    mpirun: texts.AbsolutePath | None = None
    """mpirun itself, such as `/opt/hpcx/ompi/bin/mpirun`; every worker then takes its daemon from
    the same folder."""
    perftest: texts.AbsolutePath | None = None
    """Folder of `ib_write_bw` and its siblings."""
    perftest_cuda: texts.AbsolutePath | None = "/opt/perftest-cuda/bin"
    """Folder of the same programs with CUDA, which suite `full` runs on GPU memory. Default: their
    folder in the image of `railyard image build`. `null`: no separate test of GPU memory."""


class OwnPods(units.Frozen):
    """Settings for pods that users write themselves.

    A ConfigMap `railyard-rdma` holds the environment of jobs for `envFrom`. If a pod sees RDMA
    devices of others, the script of `railyard-rdma-scripts` finds its own.
    """

    namespaces: tuple[units.DnsLabel, ...] = ()
    """Existing namespaces of the users; default `pod_network.namespace`."""
    admission: bool = False
    """Let the API server put the environment and the topology file into their containers with a
    resource of the rails. It needs Kubernetes 1.36."""


class Jobs(units.Frozen):
    """Settings of jobs on the cluster."""

    image: units.PinnedImage
    """Image of the acceptance and sample jobs, with a tag or digest. `railyard image build` makes
    it; docs/reference/probe-image.md says what another one must have."""
    programs: Programs = Programs()
    """Folders of the programs in a foreign image."""
    env: dict[units.EnvironmentName, texts.AnyLine] = Field(default_factory=dict)
    """Environment of all jobs, for example `NCCL_IB_SL: "1"`. The plan's own variables are
    refused."""
    ssh_port: units.TcpPort | None = None
    """Port of the workers' sshd; default 22, in the host's network 2222."""
    mpi_operator: bool = True
    """Install the MPI operator, which acceptance needs."""
    gdr_level: GdrLevel = "2"
    """NCCL_NET_GDR_LEVEL; 2 is the DeepOps guide's value. NCCL ignores all other words."""
    nccl_ib_tc: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_TC; default from `rdma.dscp`."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_GID_INDEX; default: left to NCCL, which finds the RoCE v2 GID (NCCL >= 2.21)."""
    topology_file: TopologyFile | None = None
    """NCCL_TOPO_FILE of the nodes."""
    deepspeed: DeepSpeed | None = None
    """The DeepSpeed sample; default none."""
    own_pods: OwnPods | None = None
    """The environment for users' own pods; default none."""


class RegistryLogin(units.Frozen):
    """Login to a registry."""

    user: texts.RegistryUser
    password: units.SecretRef
    """Secret with the password or token."""


class ImageBuild(units.Frozen):
    """How the first host builds the multi-node image."""

    base: units.PinnedImage
    """`FROM`: the guide's is `nvcr.io/nvaie/tensorflow:21.07-tf1-py3`."""
    login: RegistryLogin | None = None
    """Login to the registry of `base`, if it differs: NVIDIA's `nvcr.io/nvaie` wants the user
    `$oauthtoken` and an NGC key."""
    mofed_version: units.ReleaseText | None = None
    """NVIDIA's user-space RDMA libraries in the image, the hosts' driver version.

    With `mofed_sha256`; without both the image takes rdma-core from its base system.
    """
    mofed_sha256: units.Sha256 | None = None
    """Checksum of NVIDIA's archive of that version."""
    os_version: units.ReleaseText = "ubuntu20.04"
    """NVIDIA's name of the image's system."""


class Containers(units.Frozen):
    """One container per host, as in NVIDIA AI Enterprise's multi-node guide."""

    image: units.PinnedImage
    """Image that all hosts run, with its registry: it is pushed there after the build."""
    build: ImageBuild | None = None
    """Build and push the image; None: it is only pulled."""
    login: RegistryLogin | None = None
    """Login to the image's registry."""
    name: units.DnsLabel = "mpicont"
    """Name of the container."""
    ssh_port: units.TcpPort | None = None
    """SSH port by which `mpirun` starts its daemons; default each host's `ssh.port`."""
    shm_size_gib: Annotated[int, Field(ge=1)] = 1
    """Shared memory in GiB, for NCCL."""
    stack_bytes: Annotated[int, Field(gt=0)] = 67108864
    """`--ulimit stack`: 64 MiB, the guide's value."""


def registry_of(image: str) -> str:
    """Return the registry of an image: its first part, if that has a dot or a port."""
    first, slash, _ = image.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if named else DOCKER_HUB


def _at_least(number: int) -> str:
    """The pattern of whole numbers from one on."""
    text = str(number)
    larger = [
        rf"{text[:place]}[{int(digit) + 1}-9][0-9]{{{len(text) - place - 1}}}"
        for place, digit in enumerate(text)
        if digit != "9"
    ]
    return f"0*({'|'.join([text, *larger])}|[1-9][0-9]{{{len(text)},}})"


MessageSize = Annotated[
    str,
    texts.only(_SIZE.fullmatch, '"{}" is no size', _SIZE_FIX),
    texts.only(
        lambda text: int(text.rstrip("KMG")) * _UNITS[text.lstrip("0123456789")] >= _JUDGED_BYTES,
        '"{}" is too small to judge bandwidth by',
        _SIZE_FIX,
    ),
    texts.form_schema(
        "^("
        + "|".join(f"{_at_least(_JUDGED_BYTES // size)}{unit}" for unit, size in _UNITS.items())
        + ")$"
    ),
]
"""A size as nccl-tests takes it, at least 1 GiB, where bandwidth is judged."""


class PerftestCase(units.Frozen):
    """One perftest between a pair of workers, in addition to the one that every rail gets."""

    name: CaseName
    """A part of a Job's name, together with those of two hosts and the number of the run."""
    tool: PerftestTool
    rdma_cm: bool = False
    """`-R`: connect by the RDMA communication manager."""
    qps: Annotated[int, Field(ge=1)] = 1
    """`-q`: queue pairs."""
    all_sizes: bool = False
    """`-a`: message sizes from 2 bytes to 8 MiB."""
    duration_s: Annotated[int, Field(ge=1)] | None = None
    """`-D`: seconds; None runs a number of iterations."""
    cpu_util: bool = False
    """`--cpu_util`: print the CPU's share; only with `duration_s`."""


class NcclFloor(units.Frozen):
    """Least bus bandwidth for messages of 1 GiB and more, with the source of the number."""

    min_gbyte_s: Annotated[float, Field(gt=0)]
    """Below it the verdict is failed. GB/s."""
    warn_gbyte_s: Annotated[float, Field(gt=0)] | None = None
    """Below it the report warns. GB/s."""
    source: texts.LineText
    """Why this number: the report shows it next to the verdict."""


class ResNet50(units.Frozen):
    """tf_cnn_benchmarks' ResNet-50 over Horovod, as in the NVIDIA AI Enterprise guide."""

    batch_size: Annotated[int, Field(gt=0)] = 512
    min_images_s: Annotated[float, Field(gt=0)]
    """Least median of the ranks' `total images/sec` lines."""


class DeepSpeedScan(units.Frozen):
    """DeepSpeed's `all_reduce.py --scan`."""

    maxsize_exponent: Annotated[int, Field(ge=20, le=34)] = 28
    """`--maxsize`: the largest message has 2^(N-1) float32 for each rank, so 16 ranks send 8 GiB
    with 28 (DeepSpeedExamples, benchmarks/communication)."""
    min_busbw_gbit_s: Annotated[float, Field(gt=0)]
    """Least bus bandwidth of the largest message, in Gbit/s."""


class LossLimits(units.Frozen):
    """Limits for the counters of the ports on a probe's path, above which the probe fails.

    A port may count up to a limit for each TB (10^12 bytes) that the probe moved there, and always
    `per_port`. With `null` for a limit the report warns and the probe passes.
    """

    per_port: Annotated[int, Field(ge=0)] = 100
    """At each port, however little the probe moved: a VLAN filter discards some frames of LLDP,
    ARP and neighbour discovery, a few a minute (a choice)."""
    discards_per_tb: Annotated[float, Field(ge=0)] | None = 100
    """Packets that a port or NIC discarded. RoCE with PFC should lose none of the 244 million of
    4096 bytes in 1 TB; other traffic may lose 100 (a choice)."""
    out_of_sequence_per_tb: Annotated[float, Field(ge=0)] | None = 2000
    """Packets that arrived out of sequence: IEEE 802.3 allows a link a bit error ratio of 10^-12,
    so 8 lost packets in 1 TB; each delays those in flight, 250 on 400 Gb/s with 20 us. A fabric
    with adaptive routing may need more."""
    retransmissions_per_tb: Annotated[float, Field(ge=0)] | None = 2000
    """Packets that were sent again: as many as were out of sequence."""
    pauses_per_tb: Annotated[float, Field(ge=0)] | None = 400_000
    """PFC frames in RDMA's priority: 2,000 a second, as a broken NIC sent on 40 Gb/s, where 1 TB
    takes 200 s (Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016)."""
    marks_per_tb: Annotated[float, Field(ge=0)] | None = 2_440_000
    """Packets marked by ECN: 1 % of the packets of 4096 bytes (a choice). It fails pairs, which
    congest nothing; where many send to one, as in collectives, it warns."""
    errors_per_port: Annotated[int, Field(ge=0)] | None = 0
    """Link down, wrong checksum, symbol error that FEC did not correct, pause storm, sequence error
    at the sender, late acknowledgement: a sound link has none (mlx5/counters.rst: "Error")."""


class Acceptance(units.Frozen):
    """The proof that the finished path must give."""

    accept: Literal["changed", "always", "never", "canary"] = "changed"
    """When an update proves: `changed` if something changed or is not proven. `canary` is `changed`
    on one pair of workers. `railyard:accept` of a stack overrides it."""
    scope: Literal["all", "changed"] = "all"
    """`changed`: after a full proof, an update proves only changed hosts and their partners."""
    when_busy: Literal["warn", "wait", "fail"] = "warn"
    """What the gate does if other pods hold resources that a probe needs: it never evicts them, and
    `wait` waits for `busy_wait_s` before it fails."""
    busy_wait_s: Annotated[float, Field(gt=0)] = 600.0
    """With `when_busy: wait`, seconds that all probes together may wait."""
    time_budget_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which no probe starts; the parts proven longest ago go first."""
    max_age_days: Annotated[int, Field(ge=1)] = 30
    """Days for which a proof counts. Default: a month, in which cables are moved and optics age
    unseen (a choice)."""

    suite: SuiteName = "quick"
    """How much is proven; `railyard plan` prints its coverage and duration.

    `quick`: the GPUs of each node, each rail between neighbours, the collectives: 15 minutes at
    most, by fewer pairs on a large site. `full`: more tools, GPU memory, InfiniBand adapters alone,
    far pairs, separate rails, halves: 2 hours at most. `soak`: as `quick`, under load for `soak_s`.
    """
    soak_s: Annotated[int, Field(ge=60, le=604_800)] = 14_400
    """Seconds of load in all rounds of `soak` together. Default: 4 hours, in which a link with a
    bit error ratio of 10^-15 at 400 Gb/s shows some five errors (a choice)."""
    latency_tail_us: Annotated[float, Field(gt=0)] = LATENCY_TAIL_US
    """Longest time for 99.9 % of the small messages of a latency test, in microseconds. A pair on
    one leaf takes 2 to 5; a retransmission or a pause takes hundreds (a choice)."""
    gate: Literal["fail", "warn"] = "fail"
    """`fail`: `pulumi up` fails with the verdict table."""
    perftest_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Least ib_write_bw average over line rate; the DeepOps guide shows 92.4 of 100."""
    nccl_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Least busbw over the sum of the rails' line rate; the DeepOps guide: 22.9 of 25 GB/s."""
    nccl_floor: NcclFloor | None = None
    """An absolute floor in place of `nccl_min_fraction`."""
    nccl_max_size: MessageSize = "2G"
    """Largest message of the collectives, in nccl-tests' notation; 1 GiB or more."""
    nccl_min_version: units.ReleaseText | None = None
    """Least NCCL version that the log must show, for example `2.19`."""
    nccl_algo: Literal["RING", "TREE"] | None = None
    """NCCL_ALGO; two nodes need RING, since a tree's number exceeds the line rate."""
    collectives: tuple[Collective, ...] = ("all_reduce",)
    """The nccl-tests to run over all workers."""
    perftest: tuple[PerftestCase, ...] = ()
    """More perftests between the first two workers."""
    resnet50: ResNet50 | None = None
    """The ResNet-50 benchmark; only with `containers`."""
    deepspeed_scan: DeepSpeedScan | None = None
    """DeepSpeed's own all-reduce; needs `jobs.deepspeed`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one probe in seconds."""
    limits: LossLimits = Field(default=LossLimits(), exclude_if=lambda each: each == LossLimits())
    """Limits of lost, repeated, paused and marked packets."""


def _cron(text: str) -> str:
    """Refuse what Kubernetes would refuse, and a date that no year has."""
    if re.fullmatch(_CRON_WORDS, text):
        return text
    if text.startswith(("TZ=", "CRON_TZ=")):
        what = f"the schedule {text!r} names a time zone, which Kubernetes refuses there"
        raise texts.refuse(what, "write the zone as watch.time_zone.")
    fields = text.lower().split()
    if len(fields) != len(CRON_FIELDS):
        raise texts.refuse(f"the schedule {text!r} does not have five fields", _CRON_FIX)
    _, _, days, months, _ = map(partial(_cron_field, text), CRON_FIELDS, fields)
    if fields[4] in {"*", "?"} and min(days) > max(_DAYS[month - 1] for month in months):
        what = f"the schedule {text!r} never comes: no such month has a day {min(days)}"
        raise texts.refuse(what, _CRON_FIX)
    return text


def _cron_field(text: str, field: tuple[str, int, int, str], written: str) -> set[int]:
    name, least, most, words = field
    numbers = {word: number for number, word in enumerate(words.split(), least)}
    found: set[int] = set()
    for part in written.split(","):
        match = _CRON_PART.fullmatch(part)
        first, last, step = match.groups() if match else ("", None, None)
        ends = [numbers.get(end, int(end) if end.isdigit() else -1) for end in (first, last or "")]
        if first in {"*", "?"} and not last:
            ends = [least, most]
        elif not last:
            ends[1] = most if step else ends[0]
        if not least <= ends[0] <= ends[1] <= most or step == "0":
            what = f"the {name} {part!r} of the schedule {text!r} is not from {least} to {most}"
            raise texts.refuse(what, _CRON_FIX)
        found |= {*range(ends[0], ends[1] + 1, int(step or 1))}
    return found


def _time_zone(name: str) -> str:
    """Refuse a name that the time zones of this machine lack; without any, accept all."""
    from zoneinfo import available_timezones  # noqa: PLC0415 - rarely needed

    known = available_timezones()
    if name == "Local" or (known and name not in known):
        fix = "write a name such as Europe/Berlin or Etc/UTC."
        raise texts.refuse(f"{name!r} is no time zone of the IANA database", fix, sorted(known))
    return name


class Watch(units.Frozen):
    """A CronJob that looks at the cluster by itself: an audit, then the quick suite on idle nodes.

    It changes no device, and takes no node from another pod. See docs/howto/watch.md.
    """

    schedule: Annotated[str, AfterValidator(_cron), texts.form_schema(CRON_SCHEDULE)]
    """When, as five fields of cron (`0 3 * * *`) or a word such as `@daily`."""
    image: units.PinnedImage
    """Image with the program `railyard` of this release, with a tag or digest."""
    time_zone: Annotated[str, AfterValidator(_time_zone), texts.form_schema(TIME_ZONE)] = "Etc/UTC"
    """The time zone of the schedule, by its IANA name. Kubernetes' own default is
    kube-controller-manager's."""
    accept: bool = True
    """Whether the quick suite runs after the audit."""
    conditions: bool = False
    """Whether each worker gets the node condition `RdmaRailProblem`."""
    deadline_s: Annotated[int, Field(ge=60, le=86400)] = 7200
    """Seconds after which Kubernetes ends a run. Default: far more than the 15 minutes of the quick
    suite (a choice)."""
    keep: Annotated[int, Field(ge=1, le=100)] = 3
    """Finished runs of each outcome that Kubernetes keeps."""
    namespace: units.DnsLabel = "railyard-watch"
    """Namespace of the job, which the site makes. Its pods can read the secrets of the devices, so
    it is none of users."""
    secret: units.DnsLabel | None = None
    """Name of a Secret in that namespace. Its keys are environment variables:
    `RAILYARD_SECRET_<NAME>` for each secret of the devices."""
    claim: units.DnsLabel | None = None
    """Name of a PersistentVolumeClaim in that namespace for evidence, logs and the dates of earlier
    proofs; default none: each run begins without them."""
    push: Annotated[str, StringConstraints(pattern=GATEWAY)] | None = None
    """Address of a Prometheus Pushgateway for the metrics; default none."""
    folder: texts.AbsolutePath | None = None
    """Folder of the node exporter's textfile collector on `node`, in which the user 65532 can
    write; default none."""
    node: units.NodeName | None = None
    """The node on which it runs, as `folder` needs; default any, control-plane nodes first."""
