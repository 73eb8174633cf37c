"""Rules on jobs, acceptance and what an update may interrupt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.model.cluster import ClusterSpec

_SIZE: Final = re.compile(r"^([0-9]+)([KMG]?)$")
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_JUDGED_BYTES: Final = 1 << 30
"""Bandwidth is judged on messages of 1 GiB and more, where it has levelled out."""


def check_max_unavailable(spec: ClusterSpec) -> Iterator[Finding]:
    """At least one host may be down during an update, and not all workers at once."""
    count, workers = spec.disruption.max_unavailable, len(spec.workers)
    if count < 1 or (workers and count > workers):
        reason = "would never let an update begin" if count < 1 else f"is more than all {workers}"
        yield Finding(
            f"max_unavailable {count} {reason}.",
            (at(("disruption", "max_unavailable"), count),),
            "set it to 1: one host after the other.",
        )


def check_message_size(spec: ClusterSpec) -> Iterator[Finding]:
    """The all-reduce reaches messages of 1 GiB, on which its bandwidth is judged."""
    text = spec.acceptance.nccl_max_size
    match = _SIZE.match(text)
    size_bytes = int(match[1]) * _UNITS[match[2]] if match else None
    if size_bytes is not None and size_bytes >= _JUDGED_BYTES:
        return
    reason = "is no size" if size_bytes is None else "is too small to judge bandwidth by"
    yield Finding(
        f'nccl_max_size "{text}" {reason}.',
        (at(("acceptance", "nccl_max_size"), text),),
        "write it as nccl-tests takes it, 1G or more: for example 2G.",
    )


def check_mpi_operator(spec: ClusterSpec) -> Iterator[Finding]:
    """The MPI operator is installed: the NCCL acceptance test is an MPIJob."""
    if not spec.jobs.mpi_operator:
        yield Finding(
            "the MPI operator is off, and the NCCL acceptance test is an MPIJob.",
            (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),),
            "set mpi_operator to true.",
        )
