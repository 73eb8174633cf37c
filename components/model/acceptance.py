"""What the finished path must prove, and the least numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import Frozen, ReleaseText

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall"]


class PerftestCase(Frozen):
    """One perftest between a pair of workers, beside the one that every rail gets."""

    name: str
    tool: Literal["ib_write_bw", "ib_read_bw", "ib_send_bw"]
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


class NcclFloor(Frozen):
    """Least bus bandwidth of messages of 1 GiB and more, with where the number comes from."""

    min_gbyte_s: Annotated[float, Field(gt=0)]
    """Below it the verdict is failed. GB/s."""
    warn_gbyte_s: Annotated[float, Field(gt=0)] | None = None
    """Below it the report warns. GB/s."""
    source: str
    """Why this number: shown beside the verdict."""


class ResNet50(Frozen):
    """tf_cnn_benchmarks' ResNet-50 over Horovod, as in the NVIDIA AI Enterprise guide."""

    batch_size: Annotated[int, Field(gt=0)] = 512
    min_images_s: Annotated[float, Field(gt=0)]
    """Least median of the ranks' `total images/sec` lines."""


class DeepSpeedScan(Frozen):
    """DeepSpeed's `all_reduce.py --scan`."""

    maxsize_exponent: Annotated[int, Field(ge=20, le=34)] = 28
    """`--maxsize`: 2^28 elements of float32 are 1 GiB, on which bandwidth is judged."""
    min_busbw_gbit_s: Annotated[float, Field(gt=0)]
    """Least bus bandwidth of the largest message, in Gbit/s."""


class Acceptance(Frozen):
    """What the finished path must prove."""

    gate: Literal["fail", "warn"] = "fail"
    """`fail`: `pulumi up` fails with the verdict table."""
    perftest_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Least ib_write_bw average over line rate; the DeepOps guide shows 92.4 of 100."""
    nccl_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Least busbw over the sum of the rails' line rate; the DeepOps guide: 22.9 of 25 GB/s."""
    nccl_floor: NcclFloor | None = None
    """An absolute floor in place of `nccl_min_fraction`."""
    nccl_max_size: str = "2G"
    """Largest message of the collectives, in nccl-tests' notation."""
    nccl_min_version: ReleaseText | None = None
    """Least NCCL version that the log must show, for example `2.19`."""
    nccl_algo: Literal["RING", "TREE"] | None = None
    """NCCL_ALGO; two nodes need RING, else a tree's number is above line rate."""
    collectives: tuple[Collective, ...] = ("all_reduce",)
    """Which of nccl-tests run over all workers."""
    perftest: tuple[PerftestCase, ...] = ()
    """More perftests between the first two workers."""
    resnet50: ResNet50 | None = None
    """The ResNet-50 benchmark; only with `containers`."""
    deepspeed_scan: DeepSpeedScan | None = None
    """DeepSpeed's own all-reduce; needs `jobs.deepspeed`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one probe in seconds."""
