"""Why NCCL makes no communicator on a network, in the words of its warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.physics import nccl_text as text
from lab.physics.nccl_job import NcclJob, Rank
from lab.physics.network import Network
from lab.physics.path import Endpoint
from lab.physics.request import ProbePod

_SYSTEM: Final = "unhandled system error (run with NCCL_DEBUG=INFO for details)"
_INTERNAL: Final = "internal error - please report this issue to the NCCL developers"


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a rank ends before the first byte."""

    rank: Rank
    """The first one that complains."""
    lines: list[text.Line]
    """NCCL's warning."""
    words: str
    """NCCL's own text of the error (`ncclGetErrorString`)."""
    error: str
    """Its name in `ncclResult_t`."""


def refusal_of(job: NcclJob, network: Network) -> Refusal | None:
    """Why no communicator comes about; None where one does."""
    if network.split:
        # One side listens with the socket type of NET/IB (4), the other of NET/Socket (3).
        pod = next(pod for pod in job.pods if network.devices[pod.name])
        source, warning = "misc/socket.cc:441", "socketFinalizeAccept: wrong type 3 != 4"
        return _refusal(job, pod, (source, warning), (_INTERNAL, "ncclInternalError"))
    source, system = "misc/ibvwrap.cc:262", (_SYSTEM, "ncclSystemError")
    if network.unpinned is not None:
        warning = "Call to ibv_create_cq failed with error Cannot allocate memory"
        return _refusal(job, network.unpinned.pod, (source, warning), system)
    if network.fault is not None:
        end = network.fault.endpoint
        return _refusal(job, end.pod, (source, _no_route(end)), system)
    return None


def _refusal(
    job: NcclJob, pod: ProbePod, warning: tuple[str, str], error: tuple[str, str]
) -> Refusal:
    rank = job.ranks_of(pod)[0]
    return Refusal(rank, text.warning(rank, *warning), *error)


def _no_route(end: Endpoint) -> str:
    return (
        f"Call to ibv_modify_qp failed with 110 Connection timed out, on dev {end.device}:1, "
        "curr state INIT, next state RTR, local GID index 3, "
        f"local GID ::ffff:{end.attachment.ip}"
    )
