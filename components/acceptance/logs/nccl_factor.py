"""Bus bandwidth over algorithm bandwidth of a collective (nccl-tests, PERFORMANCE.md)."""

from __future__ import annotations

from typing import Final

_TWICE: Final = frozenset({"all_reduce"})
"""Reduced once around the ring and spread once around it."""
_WHOLE: Final = frozenset({"broadcast", "reduce", "sendrecv", "hypercube", "pt2pt"})
"""One rank's data goes as it is (broadcast.cu, reduce.cu, sendrecv.cu), or the rank's own part is
left out of the bandwidth already (hypercube.cu)."""


def bus_factor(collective: str, ranks: int) -> float:
    """The factor of a collective over a number of ranks.

    Args:
        collective: `all_reduce`, or the name of its program, `all_reduce_perf`.
        ranks: At least 1.
    """
    name = collective.removesuffix("_perf")
    if name in _WHOLE:
        return 1.0
    once = (ranks - 1) / ranks
    return 2 * once if name in _TWICE else once


def possible_factors(collective: str, ranks: int) -> tuple[float, ...]:
    """The factors that a table may have: one, or one for each family where no name is shown."""
    names = (collective,) if collective else ("all_reduce", "all_gather", "broadcast")
    return tuple(bus_factor(name, ranks) for name in names)
