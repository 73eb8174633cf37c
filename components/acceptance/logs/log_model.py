"""What the parsers make of a log: typed, immutable, with a JSON form (it is part of evidence)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.model.units import Frozen

ProblemKind = Literal["empty", "unrecognised"]


class ParseProblem(Frozen):
    """Why a text could not be read as the log it should be."""

    kind: ProblemKind
    what: str


class LogFailure(Frozen):
    """A line in which a program says that it failed."""

    kind: str
    """A short name of the class of failure, for example `ibv_modify_qp`."""
    line: str
    meaning: str
    """What it usually means, and where to look."""
    is_consequence: bool = False
    """True for lines that follow from a failure elsewhere."""


class Measure(Frozen):
    """One half of a row of nccl-tests: out-of-place or in-place."""

    time_us: float = 0.0
    algbw_gb_s: float
    """GB/s of 10^9 bytes, as all bandwidths of NCCL."""
    busbw_gb_s: float
    wrong: int | None = None
    """Elements with a wrong value; None when not checked (`N/A`) or not printed."""
    error: float | None = None
    """Largest relative error, in the older column `error`."""


class NcclRow(Frozen):
    """One size of a collective test. A program of its own may print no size."""

    size_bytes: int | None
    out_of_place: Measure
    in_place: Measure | None = None

    @property
    def worst_busbw_gb_s(self) -> float:
        """The smaller bus bandwidth of the two halves, in GB/s of 10^9 bytes."""
        halves = [self.out_of_place, self.in_place] if self.in_place else [self.out_of_place]
        return min(half.busbw_gb_s for half in halves)


class RankLine(Frozen):
    """One line of the device list of nccl-tests."""

    rank: int
    host: str


class Hca(Frozen):
    """One RDMA device that NCCL uses."""

    index: int
    device: str
    link_layer: str
    """`RoCE` or `IB`."""


class HostNetwork(Frozen):
    """What the ranks of one host said about their network."""

    host: str
    hcas: tuple[Hca, ...]
    relaxed_ordering: bool = False
    """`[RO]`: writes may pass each other on PCIe; virtual machines need it for their rate."""


class Channels(Frozen):
    """Counts of NCCL's channel lines, which prove the path of the data."""

    net: dict[str, int] = Field(default_factory=dict[str, int])
    """By network name: `IB`, `IBext`, `Socket`, …"""
    gdr: int = 0
    """Network channels with GPUDirect RDMA, of all in `net`."""
    peer: int = 0
    shared_memory: int = 0
    devices_by_host: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    """The network devices (rails) that the channels of a host use."""

    @property
    def net_total(self) -> int:
        """Channel lines over any network."""
        return sum(self.net.values())


class NcclLog(Frozen):
    """All that a log of an NCCL program says."""

    program: Literal["nccl-tests", "other"]
    collective: str = ""
    nccl_version: str = ""
    has_preamble: bool = False
    has_footer: bool = False
    max_bytes: int | None = None
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
    """What `NCCL_TOPO_FILE set by environment to` names, each once."""
    topology_unread: tuple[str, ...] = ()
    """Topology files that NCCL says it could not open."""
    failures: tuple[LogFailure, ...] = ()


class PerftestRow(Frozen):
    """One size of a bandwidth test."""

    size_bytes: int
    iterations: int
    peak_gbit_s: float
    average_gbit_s: float
    """Gb/s of 10^9 bits, whatever unit the log has."""
    rate_mpps: float
    cpu_percent: float | None = None
    """The CPU's share, with `--cpu_util`."""


class LatencyRow(Frozen):
    """One size of a latency test."""

    size_bytes: int
    typical_us: float
    average_us: float


class PerftestLog(Frozen):
    """All that a log of perftest says."""

    test: str = ""
    device: str = ""
    mtu_bytes: int | None = None
    link_type: str = ""
    gid_index: int | None = None
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
    """The tool could not measure the processor's clock: every rate is 0, whatever arrived."""
    failures: tuple[LogFailure, ...] = ()


class DeepSpeedRow(Frozen):
    """One size of DeepSpeed's communication benchmark."""

    size_bytes: int
    duration_us: float
    busbw_gbit_s: float
    """Gb/s of 10^9 bits; the definition of nccl-tests, in bits."""


class DeepSpeedLog(Frozen):
    """All that a log of DeepSpeed's communication benchmark says."""

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


class TrainingLog(Frozen):
    """All that a log of a training benchmark says: tf_cnn_benchmarks or Horovod's own."""

    program: Literal["tf_cnn_benchmarks", "horovod"]
    totals_images_s: tuple[float, ...] = ()
    """`total images/sec`: each rank prints the sum of all ranks, Horovod only one of them."""
    steps_images_s: tuple[float, ...] = ()
    """Images per second of one rank, as printed along the way."""
    gpus: int | None = None
    """Horovod: GPUs that took part."""
    failures: tuple[LogFailure, ...] = ()


class MpiLog(Frozen):
    """What a command printed that mpirun started once on every host."""

    hosts: tuple[str, ...] = ()
    """Lines that are a host name."""
    gpus: int = 0
    """GPUs that nvidia-smi listed, on all hosts together."""
    failures: tuple[LogFailure, ...] = ()
