"""How a perftest between two pods ends, and what it moves.

The layout is perftest's (`perftest_text`), and the failures are its own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.physics.calibration import HOST_TO_GPU_SHARE, PCIE_LANE_GB_S, pair_gbit_s
from lab.physics.counters import Flow, deltas_of, drops_of
from lab.physics.fabric import FabricPath, HcaEndpoint
from lab.physics.path import (
    AnyEnd,
    Endpoint,
    FaultKind,
    RailPath,
    Site,
    find_fault,
    follow,
)
from lab.physics.perftest_call import PerftestCall, parse_call, roles
from lab.physics.perftest_text import (
    CUDA_END,
    RULE,
    AnyPath,
    bandwidth_row,
    banner,
    cuda_lines,
    joined,
    latency_row,
    no_gpu,
    waiting,
)
from lab.physics.request import Attachment, ProbePod, ProbeRequest, ProbeResult
from lab.physics.routed import next_hop

_Paths = list[tuple[AnyPath, int]]
"""Each path, and how many queue pairs take it."""
_SEGFAULT: Final = "Segmentation fault (core dumped)"
"""With `-R`, if the node GUID is 0 (sriov-network-operator#267); the shell makes it 128 + 11."""
_LATENCY_US: Final = {"write": 2.1, "send": 2.2, "read": 4.2}
"""One way of a small message, and of a read both ways, through one switch: a choice."""
_SWITCH_US: Final = 0.4
"""Of each further switch: a choice."""


def run_perftest(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays one client and one server of a test.

    Raises:
        UsageError: The request is not one client and one server, or asks for what the lab does
            not play.
    """
    client_pod, server_pod = roles(request)
    client, server = parse_call(client_pod), parse_call(server_pod)
    local = _endpoint(site, client_pod, client, client.server)
    remote = _endpoint(site, server_pod, server, client.server)
    if local is None or remote is None:
        return _no_device(client, server, missing_local=local is None)
    if local.attachment.by_source and not client.bound:
        # By the main table the server is behind the pod's default route, which has no RDMA device.
        return ProbeResult(joined(_cannot_reach(client)), 1, server_log=waiting())
    fault = _fault(client, local, remote)
    if fault is not None:
        return _refused(client, *fault, local)
    for call, end in ((client, local), (server, remote)):
        lacks = _lacks_gpu(call, end)
        if lacks:
            log = joined(lacks if end is local else _cannot_reach(client))
            return ProbeResult(log, 1, server_log=joined(lacks) if end is remote else waiting())
    if client.shape != server.shape:
        return _mismatch(client, _follow(local, remote, client.tclass))
    answers = server.tclass if client.verb == "read" else 0
    forward = _spread(local, remote, client.tclass, client.qps)
    return _measured(client, forward, _spread(remote, local, answers, client.qps), server)


def _fault(call: PerftestCall, local: AnyEnd, remote: AnyEnd) -> tuple[FaultKind, AnyEnd] | None:
    """Why the two ends do not connect, and which of them has the fault."""
    ends = (local, remote)
    if isinstance(local, Endpoint) and isinstance(remote, Endpoint):
        fault = find_fault(local, remote)
        if fault is not None:
            return fault.kind, fault.endpoint
    elif not (isinstance(local, HcaEndpoint) and isinstance(remote, HcaEndpoint)):
        return "no_connection", local
    else:
        for end in (local, remote):
            if not end.usable:
                return "link_down", end
            if not end.can_pin:
                return "no_memory", end
    if not call.rdma_cm:
        return None
    blind = (end for end in ends if not end.attachment.has_node_guid)
    # RDMA-CM finds its peer by IP alone, which an adapter without IPoIB does not have.
    bare = (end for end in ends if isinstance(end, HcaEndpoint) and not end.attachment.ip)
    found: Iterator[tuple[FaultKind, AnyEnd]] = (("no_node_guid", end) for end in blind)
    return next(found, None) or next((("no_connection", end) for end in bare), None)


def _lacks_gpu(call: PerftestCall, end: AnyEnd) -> list[str]:
    """What perftest says if it cannot use the GPU memory that it was asked for."""
    if not call.cuda:
        return []
    index = _gpu_index(call, end.pod)
    if index is None:
        return no_gpu(call, end.pod)
    if end.gdr_possible:
        return []
    shown = cuda_lines(call, end.pod.gpu_views, index)
    words = ["Couldn't allocate MR with error=14", "failed to create mr", "Failed to create MR"]
    return [*shown, *words, " Couldn't create IB resources"]


def _gpu_index(call: PerftestCall, pod: ProbePod) -> int | None:
    """The place of the GPU among those of its pod; None where it is none of them."""
    for index, gpu in enumerate(pod.gpu_views):
        names = {str(index), gpu.pci.lower(), gpu.pci.lower().removeprefix("0000")}
        if call.cuda.lower() in names and not gpu.lost:
            return index
    return None


def _follow(sender: AnyEnd, receiver: AnyEnd, tclass: int, pair: int = 0) -> AnyPath:
    if isinstance(sender, Endpoint) and isinstance(receiver, Endpoint):
        return follow(sender, receiver, tclass, pair)
    if isinstance(sender, HcaEndpoint) and isinstance(receiver, HcaEndpoint):
        return FabricPath(sender, receiver)
    raise TypeError("one end is on Ethernet, and the other one on InfiniBand")


def _spread(sender: AnyEnd, receiver: AnyEnd, tclass: int, pairs: int) -> _Paths:
    """The paths of several queue pairs, each with its own UDP source port, the first pair first."""
    found: list[tuple[AnyPath, int]] = []
    for pair in range(pairs):
        path = _follow(sender, receiver, tclass, pair)
        at = next((n for n, (each, _) in enumerate(found) if _hops(each) == _hops(path)), None)
        if at is None:
            found.append((path, 1))
        else:
            found[at] = (found[at][0], found[at][1] + 1)
    return found


def _hops(path: AnyPath) -> tuple[object, ...]:
    return path.hops if isinstance(path, RailPath) else ()


def _endpoint(site: Site, pod: ProbePod, call: PerftestCall, server_ip: str) -> AnyEnd | None:
    """The attachment that a call uses: by device, else by address, else as the pod routes."""
    ends = site.ends_of(pod)
    wanted = {call.device, call.source_ip} - {""}
    if wanted:
        named = (
            end
            for end in ends
            if wanted <= {end.device, end.attachment.ip, end.attachment.interface}
        )
        return next(named, None)
    near = (end for end in ends if _reaches(end.attachment, server_ip) == "")
    routed = (end for end in ends if _reaches(end.attachment, server_ip) is not None)
    # Without an address perftest takes the first device of the list.
    return next(near, None) or next(routed, None) or next(_adapters(ends), None)


def _adapters(ends: tuple[AnyEnd, ...]) -> Iterator[AnyEnd]:
    return (end for end in ends if isinstance(end, HcaEndpoint))


def _reaches(item: Attachment, server_ip: str) -> str | None:
    """The router to a server; empty on its own subnet, None where this interface has no route."""
    if item.ip == server_ip:
        return ""
    if not item.prefix:
        same = item.ip.rpartition(".")[0] == server_ip.rpartition(".")[0]
        return "" if same else None
    return next_hop(item.ip, item.prefix, item.routes, server_ip)


def _no_device(client: PerftestCall, server: PerftestCall, *, missing_local: bool) -> ProbeResult:
    call = client if missing_local else server
    name = call.device or "mlx5_0"
    lines = [f"IB device {name} not found", " Unable to find the Infiniband/RoCE device"]
    if missing_local:
        return ProbeResult(joined(lines), 1, server_log=waiting())
    return ProbeResult(joined(_cannot_reach(client)), 1, server_log=joined(lines))


def _refused(call: PerftestCall, kind: FaultKind, end: AnyEnd, local: AnyEnd) -> ProbeResult:
    words = {
        "no_device": [
            f"IB device {end.device} not found",
            " Unable to find the Infiniband/RoCE device",
        ],
        "link_down": [
            " Port number 1 state is Down",
            " Couldn't set the link layer",
            " Couldn't get context for the device",
        ],
        "no_memory": [" Couldn't create CQ", " Couldn't create IB resources"],
        "no_node_guid": [_SEGFAULT],
        "no_connection": _cannot_reach(call),
    }[kind]
    if end is local or kind == "no_connection":
        return ProbeResult(joined(words), 139 if _SEGFAULT in words else 1, server_log=waiting())
    return ProbeResult(joined(_cannot_reach(call)), 1, server_log=joined(words))


def _cannot_reach(call: PerftestCall) -> list[str]:
    if call.rdma_cm:
        return [
            "Received 10 times ADDR_ERROR",
            " Unable to perform rdma_client function",
            " Unable to init the socket connection",
        ]
    return [
        f"Couldn't connect to {call.server}:18515",
        "Unable to open file descriptor for socket connection Unable to init the socket connection",
    ]


def _measured(call: PerftestCall, out: _Paths, home: _Paths, served: PerftestCall) -> ProbeResult:
    """The data of a read come from the server; those of the others go there."""
    forward, back = out[0][0], home[0][0]
    data = back if call.verb == "read" else forward
    shown, closed = _banner(call, forward)
    served_shown, served_closed = _banner(served, back)
    rows: list[str] = []
    moved = 0
    seconds = 0.0
    for size in call.sizes_bytes:
        if not data.carries(size):
            return _lost(call, [*shown, *rows], data, moved)
        row, iterations, took_s = _row(call, size, data)
        rows.append(row)
        moved += size * iterations
        seconds += took_s
    flows = [*(home if call.verb == "read" else out)]
    # What is written or sent comes back, so that its way can be timed.
    flows += home if call.is_latency and call.verb != "read" else []
    nics, ports = deltas_of(Flow(path, moved * n // call.qps) for path, n in flows)
    return ProbeResult(
        log=joined([*shown, *rows, RULE, *closed]),
        exit_code=0,
        server_log=joined([*waiting().splitlines(), *served_shown, RULE, *served_closed]),
        duration_s=seconds,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _row(call: PerftestCall, size: int, data: AnyPath) -> tuple[str, int, float]:
    """A row, its iterations, and the seconds that it took."""
    gbit_s = pair_gbit_s(data.line_rate_gbit_s, data.efficiency, size)
    gbit_s = min(gbit_s, *(_gpu_gbit_s(call, end) for end in (data.sender, data.receiver)))
    if call.is_latency:
        us = _LATENCY_US[call.verb] + _SWITCH_US * len(_hops(data)) + size * 8 / (gbit_s * 1e3)
        round_us = us if call.verb == "read" else 2 * us
        iterations = int(call.duration_s * 1e6 / round_us) if call.duration_s else call.iterations
        return latency_row(call, size, iterations, us), iterations, iterations * round_us / 1e6
    iterations = call.iterations
    if call.duration_s:
        iterations = int(gbit_s * 1e9 / 8 / size * call.duration_s)
    took_s = size * iterations * 8 / (gbit_s * 1e9)
    return bandwidth_row(call, size, iterations, gbit_s), iterations, took_s


def _gpu_gbit_s(call: PerftestCall, end: AnyEnd) -> float:
    """What the PCIe link of the GPU carries whose memory is used."""
    index = _gpu_index(call, end.pod) if call.cuda else None
    if index is None:
        return float("inf")
    gpu = end.pod.gpu_views[index]
    return 8 * HOST_TO_GPU_SHARE * PCIE_LANE_GB_S[gpu.pcie_gen] * gpu.pcie_width


def _banner(call: PerftestCall, path: AnyPath) -> tuple[list[str], list[str]]:
    """What one end shows before the rows and after them."""
    index = _gpu_index(call, path.sender.pod) if call.cuda else None
    if index is None:
        return banner(call, path), []
    inline = "inline messages: inline size set to 0"
    words = [f"Perftest doesn't supports device memory tests with {inline}"]
    shown = cuda_lines(call, path.sender.pod.gpu_views, index)
    return [*words, *shown, *banner(call, path)], [*CUDA_END]


def _mismatch(call: PerftestCall, path: AnyPath) -> ProbeResult:
    """The two ends were told different things: the first operation is refused (status 10)."""
    words = [
        " Completion with error at client",
        " Failed status 10: wr_id 0 syndrom 0x88",
        "scnt=128, ccnt=0",
    ]
    log = joined([*banner(call, path), *words])
    return ProbeResult(log=log, exit_code=1, server_log=waiting())


def _lost(call: PerftestCall, shown: list[str], path: AnyPath, moved: int) -> ProbeResult:
    """The packets of this size never arrive: the QP gives up after its retries."""
    nics, ports = deltas_of([Flow(path, moved)])
    lost_nics, lost_ports = drops_of(path) if isinstance(path, RailPath) else ((), ())
    words = [
        " Completion with error at client",
        " Failed status 12: wr_id 0 syndrom 0x81",
        f"scnt={1 if call.is_latency else 128}, ccnt=0",
    ]
    return ProbeResult(
        log=joined([*shown, *words]),
        exit_code=1,
        server_log=waiting(),
        nic_deltas=nics + lost_nics,
        port_deltas=ports + lost_ports,
    )
