"""What `railyard image build` builds: the base it starts from, and the sources in it.

The Dockerfile has the same numbers; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BASE: Final = "docker.io/nvidia/cuda:12.8.1-devel-ubuntu24.04"
"""NVIDIA's CUDA with compiler and NCCL, on the Ubuntu whose Open MPI is 4.1.6. Its digest is asked
of the registry at the build, or given: none is written down here that was not seen."""
NAME: Final = "railyard-probe"
TAG: Final = "1"


@dataclass(frozen=True, slots=True)
class Source:
    """One program that is built from a commit."""

    name: str
    repository: str
    tag: str
    commit: str


SOURCES: Final = (
    Source(
        "nccl-tests",
        "https://github.com/NVIDIA/nccl-tests.git",
        "v2.19.6",
        "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432",
    ),
    Source(
        "perftest",
        "https://github.com/linux-rdma/perftest.git",
        "26.04.17",
        "720b61082454e189b1f21835ec175536a944afc3",
    ),
)
"""Tags and commits as their repositories show them."""
