"""The speed of a healthy path, calibrated on measurements of real clusters.

Nothing here is a free choice except where it says so:

- `PAIR_GBIT_S`: DeepOps, `ib_write_bw` of 64 KiB on a 100G ConnectX-5, RDMA MTU 4096, no VLAN:
  92.40 Gb/s and 0.176230 Mpps, hence 92.3953. Other links and MTUs scale with line rate and
  with the payload's share of the wire (sources.md#roce-path).
- `NCCL_SHARE`: DeepOps, 16 ranks over two such rails: 22.92 GB/s bus bandwidth, which is 99.2 %
  of what its own `ib_write_bw` gives on two rails.
- `LATENCY_US`, `SLOW_START_US`, `SLOW_START_BYTES`: fitted to the time column of the same table
  (88 us at 1 KiB, 503 us at 4 MiB; from 32 MiB on within 3 % of the better column). Its small rows
  are noisy (82 to 647 us): the lab prints one smooth curve, not their noise.
- `HOST_STAGING_SHARE`: without GPUDirect RDMA the data go through host memory. Imbue's fleet
  accepts 300 of 720 Gb/s then (sources.md#acceptance).
- `MESSAGES_PER_S`: a choice of the lab for one QP of ConnectX-5; no recording has small sizes.
- InfiniBand: Crusoe's four H100 hosts of 8 x 400 Gb/s, all-reduce of 1 and 2 GiB in 5380.5 and
  10716 us (bus bandwidth 386.65 and 388.26): a straight line of 389.9 GB/s behind 45 us. Two hosts
  without a ring reach 446 (their README), because a tree crosses the boundary less often. How the
  45 us spread over small sizes is a choice.
- `ALLTOALL_SHARE`: a choice; no recording has it.
- `TRAINING_*`: NVIDIA AI Enterprise's guide, ResNet-50 over four hosts with one GPU and 100 Gb/s
  each: totals of 8400.46, 8400.99, 8400.84 and 8400.58 images/s. Its gradients are 25.6 million
  numbers of four bytes; a slower network lengthens each step by what its all-reduce takes longer,
  because the last layers' gradients hide behind nothing.
- `HOROVOD_*`: NVIDIA's guide for DeepOps, ResNet-50 by Horovod's own benchmark over two
  DGX-1 and two such rails: 3756.0 images/s of 16 GPUs with 32 images each.
- `HOST_TO_GPU_SHARE`, `GPU_TO_HOST_SHARE`: nvbandwidth on an H200 has 54.1 and 55.3 of the 63 GB/s
  that its link carries. `NVLINK_COPY_SHARE` and `PCIE_BUS_SHARE` are choices
  (sources.md#gpus-of-the-lab).
- Socket transport: 4.69 GB/s, the largest of the recorded run over sockets (NCCL 2.28.3),
  shared by nothing: the lab's hosts have one management network.
"""

from __future__ import annotations

from components.core.record import record

PAIR_GBIT_S = 92.3953
_PAIR_LINE_RATE_GBIT_S = 100
_PAIR_EFFICIENCY = 4096 / (4096 + 82)
NCCL_SHARE = 22.92 / (2 * PAIR_GBIT_S / 8)
LATENCY_US = 88.0
SLOW_START_US = 66.0
SLOW_START_BYTES = 65536
HOST_STAGING_SHARE = 300 / 720
MESSAGES_PER_S = 7.5e6
SOCKET_GB_S = 4.69
FABRIC_SHARE = 389.9 / 400
FABRIC_TREE_SHARE = 446 / 400
FABRIC_LATENCY_US = 30.0
FABRIC_SLOW_START_US = 15.0
ALLTOALL_SHARE = 0.85
TRAINING_TOTALS = (8400.46, 8400.99, 8400.84, 8400.58)
TRAINING_RANKS = 4
HOROVOD_IMAGES_S = 3756.0
HOROVOD_RANKS = 16
HOROVOD_BATCH = 32
HOROVOD_RAILS = 2
PCIE_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938}
"""By generation, of one lane and direction: PCI-SIG's rate less its line code."""
HOST_TO_GPU_SHARE = 54.1 / 63
GPU_TO_HOST_SHARE = 55.3 / 63
NVLINK_COPY_SHARE = 0.85
PCIE_BUS_SHARE = 0.7
GRADIENT_BYTES = 25_557_032 * 4
_BITS = 8


def pair_gbit_s(line_rate_gbit_s: float, efficiency: float, message_bytes: int) -> float:
    """Gb/s of `ib_write_bw` over one QP for messages of one size.

    Args:
        line_rate_gbit_s: Of the slowest link of the path.
        efficiency: The payload's share of the bytes on the wire.
        message_bytes: Size of one write.
    """
    plateau = PAIR_GBIT_S * line_rate_gbit_s / _PAIR_LINE_RATE_GBIT_S
    plateau *= efficiency / _PAIR_EFFICIENCY
    return min(plateau, MESSAGES_PER_S * message_bytes * _BITS / 1e9)


@record
class Pace:
    """How fast a network lets a collective run."""

    plateau_gb_s: float
    """Bus bandwidth of large messages, GB/s of 10^9 bytes."""
    latency_us: float = LATENCY_US
    slow_start_us: float = SLOW_START_US


def collective_time_us(size_bytes: int, factor: float, pace: Pace) -> float:
    """Time of one collective.

    Args:
        size_bytes: Bytes as nccl-tests counts them.
        factor: Bus bandwidth over algorithm bandwidth.
        pace: Of the network.
    """
    start = pace.latency_us + pace.slow_start_us * size_bytes / (size_bytes + SLOW_START_BYTES)
    return start + size_bytes * factor / (pace.plateau_gb_s * 1e3)
