"""The results of the parsers: typed, immutable, with a JSON form (it is part of evidence).

`Seen` is the base of all observed values: texts of logs and devices, of any length, cut to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import not_
from typing import Final, Literal, cast

from pydantic import ConfigDict, Field, model_validator

from components.model.units import Frozen

LONGEST_SEEN: Final = 2000
"""Characters to keep of one text: enough to recognise a line by, and far from the 64 KiB at which
the engine's plugin protocol breaks lines."""
_CUT: Final = " …"
ProblemKind = Literal["empty", "unrecognised"]


def cut_text(text: str) -> str:
    """Cut a text to its longest length, and replace broken characters."""
    if len(text) > LONGEST_SEEN:
        text = text[: LONGEST_SEEN - len(_CUT)] + _CUT
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class Seen(Frozen):
    """A part of the evidence. A long text is cut, not refused, because it comes from outside."""

    model_config = ConfigDict(str_max_length=None)

    @model_validator(mode="before")
    @classmethod
    def _cut(cls, value: object) -> object:
        return cut_texts(value)


def cut_texts(value: object) -> object:
    """The same value with every text in it cut."""
    if isinstance(value, str):
        return cut_text(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {cut_texts(key): cut_texts(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        return tuple(cut_texts(item) for item in cast("tuple[object, ...]", value))
    return value


class ParseProblem(Seen):
    """Why a text could not be read as the expected log."""

    kind: ProblemKind
    what: str


class ImageLog(Seen):
    """The output of a pod of an image; a text is empty if the image lacks the thing."""

    programs: dict[str, str]
    """Asked name to path."""
    mpi: dict[str, str]
    """Program to whether it is linked with MPI: `yes`, `no` or `unknown`."""
    nccl: dict[str, str] = Field(default_factory=dict[str, str])
    """Program, or `torch`, to the release of its NCCL; empty if unknown."""
    missing: tuple[str, ...]
    """`program library` for each library that the loader does not find."""
    mpirun_version: str
    daemon: str
    """Path of Open MPI's daemon in mpirun's folder."""
    uid: str
    home: str
    """Root's home folder, as a login by SSH has it."""
    path: str
    """The PATH that sshd gives to a command."""
    login: str
    """`ok`, `failed`, or empty if it was not tried."""
    said: tuple[str, ...]
    complete: bool


class LogFailure(Seen):
    """A line in which a program reports a failure."""

    kind: str
    """A short name of the class of failure, for example `ibv_modify_qp`."""
    line: str
    meaning: str
    is_consequence: bool = False
    is_before_run: bool = False
    """A launcher or another program wrote it before the run began."""
    host: str = ""
    device: str = ""
    """The RDMA device and its port, such as `mlx5_3:1`."""
    peer: str = ""


class Measure(Seen):
    """One half of a row of nccl-tests: out-of-place or in-place."""

    time_us: float = 0.0
    algbw_gb_s: float
    """GB/s of 10^9 bytes, as all bandwidths of NCCL."""
    busbw_gb_s: float
    wrong: int | None = None
    """Elements with a wrong value; None when not checked (`N/A`) or not printed."""
    error: float | None = None
    """Largest relative error, in the older column `error`."""
    slowest_us: float | None = Field(default=None, exclude_if=lambda each: each is None)
    """With `-I` of nccl-tests 2.19: `i_max`, the longest iteration of the slowest process."""
    varies_percent: float | None = Field(default=None, exclude_if=lambda each: each is None)
    """`i_cv%` in the same way, the standard deviation of iterations over their mean."""
    process_us: tuple[float, ...] = Field(default=(), exclude_if=not_)
    """Mean iteration of each process, in order: only the JSON of several processes has it."""


class NcclRow(Seen):
    """One size of a collective test. Programs other than nccl-tests may print no size."""

    size_bytes: int | None
    parts: int = 1
    """Ranks whose parts make the size: 1 if each rank has the whole size."""
    out_of_place: Measure
    in_place: Measure | None = None

    @property
    def halves(self) -> tuple[Measure, ...]:
        """Both halves, as far as they were measured."""
        return (self.out_of_place, self.in_place) if self.in_place else (self.out_of_place,)

    @property
    def worst_busbw_gb_s(self) -> float:
        """The smaller bus bandwidth of the two halves, in GB/s of 10^9 bytes."""
        return min(half.busbw_gb_s for half in self.halves)


class RankLine(Seen):
    """One line of the device list of nccl-tests."""

    rank: int
    host: str
    group: int = 0
    """Its collective, if NCCL_TESTS_SPLIT runs several at a time."""
    gpu: str = ""
    """Number in its process, bus id and name: `0 [0000:10:00] NVIDIA H100 80GB HBM3`."""


class Hca(Seen):
    """One RDMA device that NCCL uses."""

    index: int
    device: str
    link_layer: str
    """`RoCE` or `IB`."""


class HostNetwork(Seen):
    """The messages of one host's ranks about their network."""

    host: str
    hcas: tuple[Hca, ...]
    relaxed_ordering: bool = False
    """`[RO]`: writes may pass each other on PCIe; virtual machines need it for their rate."""


class Channels(Seen):
    """Counts of NCCL's channel lines, which prove the path of the data."""

    net: dict[str, int] = Field(default_factory=dict[str, int])
    """By network name: `IB`, `IBext`, `Socket`, …"""
    gdr: int = 0
    """Network channels with GPUDirect RDMA, of all in `net`."""
    peer: int = 0
    mnnvl: int = 0
    """Of `peer`, those over NVLink between hosts."""
    shared_memory: int = 0
    other: tuple[str, ...] = ()
    hosts_on_net: tuple[str, ...] = ()
    """Hosts at either end of a network channel, as far as ranks are known by host."""
    devices_by_host: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    """The network devices (rails) that the channels of a host use."""
    strangers: tuple[str, ...] = ()
    """Hosts and ranks of channel lines that are missing in the run's list."""

    @property
    def net_total(self) -> int:
        """Channel lines over any network."""
        return sum(self.net.values())


class Sizes(Seen):
    """The sizes that nccl-tests was asked for, by its first line."""

    least_bytes: int
    most_bytes: int
    """The largest size; if memory was too small for it, the size to which nccl-tests reduced it."""
    factor: int | None = None
    step_bytes: int | None = None
    """Either this or `factor` is set: the next size adds the step, or is a multiple."""


class NcclLog(Seen):
    """One run of an NCCL program, as its log shows it."""

    program: Literal["nccl-tests", "other"]
    collective: str = ""
    nccl_version: str = ""
    other_versions: tuple[str, ...] = ()
    is_rccl: bool = False
    """It is AMD's RCCL, which prints as NCCL does."""
    gpus_known: int = 0
    """Ranks whose GPU is shown with its bus id."""
    shared_gpus: tuple[str, ...] = ()
    """Host and bus id of GPUs that more than one rank uses."""
    has_preamble: bool = False
    has_footer: bool = False
    iterations: int | None = None
    tables: int = 0
    rows: tuple[NcclRow, ...] = ()
    bad_rows: tuple[str, ...] = ()
    out_of_bounds: int | None = None
    average_busbw_gb_s: float | None = None
    ranks: tuple[RankLine, ...] = ()
    nranks: int | None = None
    init_complete: int = 0
    destroy_complete: int = 0
    networks: dict[str, int] = Field(default_factory=dict[str, int])
    """Ranks by their `Using network …`."""
    hosts: tuple[HostNetwork, ...] = ()
    channels: Channels = Channels()
    topology_files: tuple[str, ...] = ()
    """The files that `NCCL_TOPO_FILE set by environment to` names, each once."""
    topology_unread: tuple[str, ...] = ()
    failures: tuple[LogFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    """NCCL's warnings that are neither known failures nor known to be harmless."""
    sizes: Sizes | None = None
    nodes: int | None = None
    """Hosts of the communicator, as NCCL counts them."""
    algorithms: tuple[str, ...] = ()
    """`RING`, `TREE`: the algorithms that NCCL was forced to use, or reports."""
    providers: tuple[str, ...] = ()
    """Of libfabric, by the plugin's own line: `efa`."""
    gpu_links: tuple[str, ...] = ()
    """How NCCL's search reached from GPU to GPU: `NVL`, `PIX`, `SYS`."""
    multi_node_nvlink: bool = False
    in_document: bool = False
    """A document quotes it between its sentences, and leaves out start and end."""
    is_page: bool = False
    """It has sentences or markup, like a page that quotes lines of logs."""
    overlaps: bool = False
    """Another run began before this one had printed a row: they ran at the same time."""
    other_runs: tuple[NcclLog, ...] = Field(default=(), exclude_if=not_)
    """Further runs in the same file, in its order."""

    @property
    def runs(self) -> tuple[NcclLog, ...]:
        """Every run of the file, this one first."""
        return (self, *self.other_runs)


class PerftestRow(Seen):
    """One size of a bandwidth test."""

    size_bytes: int
    iterations: int
    peak_gbit_s: float
    average_gbit_s: float
    """Gb/s of 10^9 bits, whatever unit the log has."""
    rate_mpps: float | None
    """None: releases before 3.0 do not print it."""
    cpu_percent: float | None = None
    """The CPU's share, with `--cpu_util`."""
    ports_gbit_s: tuple[float, ...] = Field(default=(), exclude_if=not_)
    """Of a test over both ports of a card, with `--report-per-port`: the average of each."""


class LatencyRow(Seen):
    """One size of a latency test."""

    size_bytes: int
    typical_us: float
    average_us: float
    tail_us: float | None = Field(default=None, exclude_if=lambda each: each is None)
    """99.9 % of the messages took less; None in duration mode, which does not keep them."""


class PerftestLog(Seen):
    """The contents of a log of perftest."""

    test: str = ""
    call: str = Field(default="", exclude_if=not_)
    """The program of a bandwidth test and its arguments, in the line of a shell or a launcher."""
    device: str = ""
    mtu_bytes: int | None = None
    link_type: str = ""
    transport_type: str = ""
    """`IB` for InfiniBand and RoCE, `IW` for iWARP; others print none of the three."""
    connection_type: str = ""
    """`RC`, `UC`, `UD`, or `SRD` of EFA."""
    contradictions: tuple[str, ...] = ()
    """Fields that the two ends of one run show differently."""
    gid_index: int | None = None
    has_no_lid: bool = Field(default=False, exclude_if=not_)
    """A port has LID 0, as one of Ethernet, which `--force-link` shows as InfiniBand."""
    rdma_cm: bool | None = None
    unit: str = ""
    bidirectional: bool = False
    gids: tuple[str, ...] = ()
    rows: tuple[PerftestRow, ...] = ()
    latency: tuple[LatencyRow, ...] = ()
    bad_rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    has_table: bool = False
    ended: bool = False
    """The rule after the table is there."""
    clock_unknown: bool = False
    """The tool could not measure the processor's clock: every rate is 0, even if data arrived."""
    failures: tuple[LogFailure, ...] = ()
    other_runs: tuple[PerftestLog, ...] = Field(default=(), exclude_if=not_)
    """Further runs in the same file, in its order."""

    @property
    def largest(self) -> PerftestRow | None:
        """The row of the largest size."""
        return max(self.rows, key=lambda each: each.size_bytes, default=None)

    @property
    def runs(self) -> tuple[PerftestLog, ...]:
        """Every run of the file, this one first."""
        return (self, *self.other_runs)


class DeepSpeedRow(Seen):
    """One size of DeepSpeed's communication benchmark."""

    size_bytes: int
    duration_us: float
    busbw_gbit_s: float
    """Gb/s of 10^9 bits; the definition of nccl-tests, in bits."""


class DeepSpeedLog(Seen):
    """The contents of a log of DeepSpeed's communication benchmark."""

    collective: str = ""
    devices: int = 0
    """Ranks, by the headline of the table."""
    rows: tuple[DeepSpeedRow, ...] = ()
    bad_rows: tuple[str, ...] = ()
    out_of_memory: bool = False
    """It ran out of GPU memory, after which it stops without an error."""
    resolved: tuple[str, ...] = ()
    """Names of the hostfile that the launcher found in the cluster's DNS."""
    failures: tuple[LogFailure, ...] = ()


class TrainingLog(Seen):
    """The contents of a log of a training benchmark: tf_cnn_benchmarks or Horovod's own."""

    program: Literal["tf_cnn_benchmarks", "horovod"]
    totals_images_s: tuple[float, ...] = ()
    """`total images/sec`: each rank prints the sum of all ranks; Horovod prints it once."""
    steps_images_s: tuple[float, ...] = ()
    """Images per second of one rank, as printed along the way."""
    gpus: int | None = None
    failures: tuple[LogFailure, ...] = ()


class MpiLog(Seen):
    """The output of a command that mpirun started once on every host."""

    hosts: tuple[str, ...] = ()
    """Lines with only a host name."""
    gpus: int = 0
    """GPUs that nvidia-smi listed, on all hosts together."""
    failures: tuple[LogFailure, ...] = ()
