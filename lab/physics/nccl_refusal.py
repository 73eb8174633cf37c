"""Why NCCL makes no communicator on a network, in the words of its warnings."""

from __future__ import annotations

from typing import Final

from components.core.record import record
from lab.physics import nccl_text as text
from lab.physics.nccl_job import NcclJob, Rank
from lab.physics.network import Network
from lab.physics.path import Endpoint
from lab.physics.request import ProbePod

_LOOKS_FOR_GID: Final = (2, 21, 0)
"""The first NCCL that looks for its GID; older ones take the first, which is the host's."""
_SKIPS_HIDDEN: Final = (2, 26, 2)
"""The first NCCL that goes on at a GID whose type it cannot read."""
_SYSTEM: Final = "unhandled system error (run with NCCL_DEBUG=INFO for details)"
_INTERNAL: Final = "internal error - please report this issue to the NCCL developers"


@record
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
    pod = next((pod for pod in job.pods if _meets_hidden_gid(job, pod, network)), None)
    if pod is not None:
        return _refusal(job, pod, _hidden_gid(pod), system)
    return None


def _meets_hidden_gid(job: NcclJob, pod: ProbePod, network: Network) -> bool:
    """NCCL looks for its GID on a card, some of whose GIDs the driver hides from the pod."""
    ends = (end for end in network.devices.get(pod.name, ()) if isinstance(end, Endpoint))
    given = int(job.env_of(pod).get("NCCL_IB_GID_INDEX", "-1")) >= 0
    old = text.release_of(pod) < _SKIPS_HIDDEN
    return old and not given and any(end.attachment.hidden_gids for end in ends)


def _hidden_gid(pod: ProbePod) -> tuple[str, str]:
    """NVIDIA/nccl#1573 and src/transport/net_ib.cc of v2.25.1-1; #925 for NCCL before 2.21."""
    if text.release_of(pod) < _LOOKS_FOR_GID:
        return "misc/ibvwrap.cc:160", "Call to ibv_modify_qp failed with error No such device"
    words = "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument"
    return "transport/net_ib.cc:330", words


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
