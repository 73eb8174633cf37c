"""How an NCCL collective over the lab's rails or adapters ends, and what it moves."""

from __future__ import annotations

from collections.abc import Sequence

from lab.physics import nccl_text as text
from lab.physics.bus_bandwidth import bus_factor
from lab.physics.calibration import collective_time_us
from lab.physics.counters import deltas_of, drops_of
from lab.physics.nccl_job import NcclJob, Rank, read_job
from lab.physics.nccl_refusal import refusal_of
from lab.physics.network import Network, find_network, flows_of, pace_of
from lab.physics.path import RailPath, Site
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult

_LARGE_MESSAGE_BYTES = 1 << 20
"""NCCL's chunks on the wire (`len=1048576` in NCCL's logs)."""
_NCCL_ERROR_EXIT = 3
"""testNcclError of nccl-tests."""
_LL_OVERHEAD = 2
"""The LL protocol of small messages sends a flag with each 4 bytes of data."""
_COLUMNS = 2
"""Out-of-place and in-place."""


def run_nccl(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays one NCCL test job.

    Raises:
        UsageError: The job is none that the lab plays.
    """
    job = read_job(request)
    if job.slots_asked > len(job.ranks):
        return ProbeResult("\n".join(text.too_few_slots(job)) + "\n", 1)
    network = find_network(job, site)
    if network.searched is not None:
        return _no_adapters(job, network.searched)
    lines = [*text.opening(job), *text.start_up(job, network)]
    if (refusal := refusal_of(job, network)) is not None:
        return _failed(job, refusal.rank, [*lines, *refusal.lines], refusal.words)
    lines += [*text.connections(job, network), *text.table_head()]
    return _table(job, network, lines)


def _table(job: NcclJob, network: Network, lines: list[text.Line]) -> ProbeResult:
    pace = pace_of(job, network, job.collective)
    factor = bus_factor(job.collective, len(job.ranks))
    rows: list[text.Row] = []
    wrong = "0" if job.checked else "N/A"
    for asked in job.sizes_bytes:
        size = text.printed_size(job, asked)
        blocked = _first_blocked(job, network, size)
        if blocked is not None:
            return _lost(
                job, network, blocked, [*lines, text.Line(0, text.row_start(job, size))], rows
            )
        time_us = collective_time_us(size, factor, pace)
        algbw = size / time_us / 1e3
        row = text.Row(size, time_us, algbw, algbw * factor)
        rows.append(row)
        lines.append(text.table_row(job, row, wrong))
    nics, ports = deltas_of(flows_of(job, network, job.collective, _moved(job, rows)))
    runs = _COLUMNS * (job.iterations + job.warmups)
    return ProbeResult(
        log=text.render(job, [*lines, *text.closing(job, rows)]),
        exit_code=0,
        duration_s=sum(row.time_us for row in rows) * runs / 1e6,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _first_blocked(job: NcclJob, network: Network, size: int) -> RailPath | None:
    """The first rail that drops the packets of this size."""
    message = max(_LL_OVERHEAD * size // len(job.ranks), 1)
    rails = (path for path in network.paths if isinstance(path, RailPath))
    return next((path for path in rails if not path.carries(message)), None)


def _moved(job: NcclJob, rows: Sequence[text.Row]) -> int:
    """Sum of the messages of all runs, warm-up included."""
    return sum(row.size_bytes for row in rows) * _COLUMNS * (job.iterations + job.warmups)


def _lost(
    job: NcclJob,
    network: Network,
    path: RailPath,
    lines: list[text.Line],
    rows: Sequence[text.Row],
) -> ProbeResult:
    """Packets of a rail never arrive: the QP's retries run out (status 12)."""
    rank = job.ranks_of(path.sender.pod)[-1]
    peer = path.receiver.attachment.ip
    words = (
        f"NET/IB: Got completion from peer {peer}<53908> with status=12 opcode=129 "
        f"len={_LARGE_MESSAGE_BYTES} vendor err 129 (Recv) localGid ::ffff:"
        f"{path.sender.attachment.ip} remoteGids::ffff:{peer} hca {path.sender.device}"
    )
    flows, ports = deltas_of(flows_of(job, network, job.collective, _moved(job, rows)))
    lost_nics, lost_ports = drops_of(path)
    failed = _failed(
        job,
        rank,
        [
            *lines,
            *text.warning(rank, "transport/net_ib.cc:2244", words),
            text.info(rank, "transport/net.cc:1362 -> 6"),
        ],
        "remote process exited or there was a network error",
    )
    return ProbeResult(
        log=failed.log,
        exit_code=failed.exit_code,
        nic_deltas=flows + lost_nics,
        port_deltas=ports + lost_ports,
    )


def _no_adapters(job: NcclJob, pod: ProbePod) -> ProbeResult:
    """The search in the ranks of one pod finds no adapter, and ends them before the program."""
    rank = job.ranks_of(pod)[0]
    words = f"no active InfiniBand port on {pod.name}: are the HCAs of this node in the pod?"
    log = text.render(job, [text.Line(rank.number, words)], text.aborted(rank, 1))
    return ProbeResult(log=log, exit_code=1)


def _failed(job: NcclJob, rank: Rank, lines: list[text.Line], reason: str) -> ProbeResult:
    return ProbeResult(
        log=text.render(
            job,
            [*lines, *text.test_failure(rank, reason)],
            text.aborted(rank, _NCCL_ERROR_EXIT),
        ),
        exit_code=_NCCL_ERROR_EXIT,
    )
