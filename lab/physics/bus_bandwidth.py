"""How nccl-tests makes a bus bandwidth of an algorithm bandwidth; the judge has its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_PER_RANKS: Final[dict[str, Callable[[int], float]]] = {
    "all_reduce": lambda ranks: 2.0 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "alltoall": lambda ranks: (ranks - 1) / ranks,
}
"""`*GetBw` of each program's source: src/all_reduce.cu, all_gather.cu, reduce_scatter.cu,
alltoall.cu of NVIDIA/nccl-tests."""


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth of a program that the lab plays.

    Args:
        collective: `all_reduce`, or the name of its program, `all_reduce_perf`.
        ranks: At least 1.
    """
    return _PER_RANKS[collective.removesuffix("_perf")](ranks)
