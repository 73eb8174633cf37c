"""Which pod network and which addresses work on which transport, and why others do not.

`matrix.yaml` has the words of each cell, from which docs/reference/pod-networks.md is generated.
Sources: lab/sources.md#pod-network.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from components.core.templates import read_table
from components.model.cluster import ClusterSpec
from components.model.owners import Way

WAYS: Final[dict[Way, str]] = {
    "sriov": "mode: sriov",
    "host_device": "mode: host_device",
    "macvlan": "mode: rdma_shared, interface: macvlan",
    "ipoib": "mode: rdma_shared, interface: ipoib",
    "none": "mode: rdma_shared, interface: none",
    "host": "mode: rdma_shared, host_network: true",
}
"""The spelling in the file."""
REFUSED: Final = frozenset(
    {
        ("host_device", "roce"),
        ("macvlan", "infiniband"),
        ("ipoib", "roce"),
        ("none", "roce"),
        ("dhcp", "infiniband"),
    }
)
"""Ways of pods, and of their addresses, that a transport does not support."""


class Refused(NamedTuple):
    """Why a transport does not support a way, and what to choose instead."""

    why: str
    instead: str


def refused(spec: ClusterSpec, way: str) -> Refused | None:
    """Why the site's transport lacks a way of pods, or of their addresses; None if it has it."""
    cell = way, spec.rdma.transport
    return Refused(**read_table(__file__, "matrix")[way][cell[1]]) if cell in REFUSED else None
