"""Bus bandwidth over algorithm bandwidth of a collective (nccl-tests, PERFORMANCE.md)."""

from __future__ import annotations

_TWICE = frozenset({"all_reduce"})
"""Reduced once around the ring and spread once around it."""


def bus_factor(collective: str, ranks: int) -> float:
    """The factor of a collective over a number of ranks.

    Args:
        collective: `all_reduce`, or the name of its program, `all_reduce_perf`.
        ranks: At least 1.
    """
    once = (ranks - 1) / ranks
    return 2 * once if collective.removesuffix("_perf") in _TWICE else once
