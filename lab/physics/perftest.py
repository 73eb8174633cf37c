"""What `ib_write_bw`, `ib_read_bw` and `ib_send_bw` print between two pods, and what they move.

The layout is perftest's (sources.md#acceptance), and the failures are its own words.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from components.core.errors import UsageError
from lab.physics.calibration import pair_gbit_s
from lab.physics.command_line import find_tool, option_value, parse_size
from lab.physics.counters import Flow, deltas_of, drops_of
from lab.physics.path import Endpoint, PathFault, RailPath, Site, find_fault, follow
from lab.physics.request import Attachment, ProbePod, ProbeRequest, ProbeResult
from lab.physics.routed import next_hop

_Paths = list[tuple[RailPath, int]]
"""Each path, and how many queue pairs take it."""
RULE = "-" * 87
"""RESULT_LINE of perftest."""
_DEFAULT_SIZE_BYTES = 65536
_DEFAULT_ITERATIONS = 5000
_ROCE_V2_GID_INDEX = 3
"""Of an interface with one IPv4 address (sources.md#host-qos)."""
_ALL_SIZES_BYTES = tuple(2**power for power in range(1, 24))
"""`-a`: from 2 bytes to 2^23."""
_MIB_PER_GBIT = 1e9 / 8 / 2**20
_PEAK_OVER_AVERAGE_GBIT_S = 0.02
"""Seed 000: 92.42 at its peak for 92.40 on average."""
_SEGFAULT = "Segmentation fault (core dumped)"
"""With `-R`, if the node GUID is 0 (sriov-network-operator#267); the shell makes it 128 + 11."""
_TESTS = {"ib_write_bw": "RDMA_Write", "ib_read_bw": "RDMA_Read", "ib_send_bw": "Send"}
_CPU_PERCENT = 6.25
"""One of sixteen cores polls: a choice, no recording has the column."""
_VALUED = {
    *("-d", "--ib-dev", "-i", "--ib-port", "-x", "--gid-index", "-s", "--size", "-n", "--iters"),
    *("-p", "--port", "-q", "--qp", "-m", "--mtu", "-D", "--duration", "-T", "--tos", "-t"),
    *("--tclass", "--bind_source_ip", "-S", "--sl", "--tx-depth"),
}
_FLAGS = {"-R", "--rdma_cm", "--report_gbits", "-F", "--CPU-freq", "-a", "--all", "--cpu_util"}


@dataclass(frozen=True, slots=True)
class BwCall:
    """The options of one call of a bandwidth test."""

    tool: str
    server: str
    device: str
    rdma_cm: bool
    gbits: bool
    tclass: int
    gid_index: int
    sizes_bytes: tuple[int, ...]
    iterations: int
    duration_s: int
    source_ip: str
    bound: bool
    """It names its own address, so that the routes of that address count."""
    qps: int
    cpu_util: bool

    @property
    def shape(self) -> tuple[object, ...]:
        """What both ends must be told alike."""
        return (self.tool, self.rdma_cm, self.sizes_bytes, self.duration_s, self.qps)


def run_perftest(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays one client and one server of a bandwidth test.

    Raises:
        UsageError: The request is not one client and one server, or asks for what the lab does
            not play.
    """
    client_pod, server_pod = _roles(request)
    client = parse_bw(client_pod)
    server = parse_bw(server_pod)
    local = _endpoint(site, client_pod, client, client.server)
    remote = _endpoint(site, server_pod, server, client.server)
    if local is None or remote is None:
        return _no_device(client, server, missing_local=local is None)
    if local.attachment.by_source and not client.bound:
        # By the main table the server is behind the pod's default route, which has no RDMA device.
        return ProbeResult(_join(_cannot_reach(client)), 1, server_log=_waiting())
    fault = find_fault(local, remote)
    if fault is None and client.rdma_cm:
        blind = (end for end in (local, remote) if not end.attachment.has_node_guid)
        fault = next((PathFault("no_node_guid", end, "") for end in blind), None)
    if fault is not None:
        return _refused(client, fault, local)
    if client.shape != server.shape:
        return _mismatch(client, follow(local, remote, client.tclass))
    answers = server.tclass if client.tool == "ib_read_bw" else 0
    forward = _spread(local, remote, client.tclass, client.qps)
    return _measured(client, forward, _spread(remote, local, answers, client.qps))


def _spread(sender: Endpoint, receiver: Endpoint, tclass: int, pairs: int) -> _Paths:
    """The paths of several queue pairs, each with its own UDP source port, the first pair first."""
    found: list[tuple[RailPath, int]] = []
    for pair in range(pairs):
        path = follow(sender, receiver, tclass, pair)
        at = next((n for n, (each, _) in enumerate(found) if each.hops == path.hops), None)
        if at is None:
            found.append((path, 1))
        else:
            found[at] = (found[at][0], found[at][1] + 1)
    return found


def parse_bw(pod: ProbePod) -> BwCall:
    """Reads a pod's call of a bandwidth test.

    Raises:
        UsageError: Another tool, or an option that the lab does not play.
    """
    call = find_tool(pod.command, pod.env, "_bw")
    if call.tool not in _TESTS:
        raise UsageError(f"the lab plays {', '.join(_TESTS)}, not {call.tool}")
    words = call.arguments
    rdma_cm = bool({"-R", "--rdma_cm"} & set(words))
    # perftest sets --tclass on its own QPs only; with -R the ToS option of rdma_cm counts.
    tclass = option_value(words, "-T", "--tos") if rdma_cm else option_value(words, "--tclass")
    every = bool({"-a", "--all"} & set(words))
    size = parse_size(option_value(words, "-s", "--size") or str(_DEFAULT_SIZE_BYTES))
    device = option_value(words, "-d", "--ib-dev") or ""
    source_ip = option_value(words, "--bind_source_ip") or ""
    duration_s = _whole(option_value(words, "-D", "--duration") or "0", "-D")
    _refuse_odd_pairs(words, duration_s, every=every)
    return BwCall(
        tool=call.tool,
        server=_positional(words),
        device="" if "$" in device else device,
        rdma_cm=rdma_cm,
        gbits="--report_gbits" in words,
        tclass=_whole(tclass or "0", "-T"),
        gid_index=_gid_index(option_value(words, "-x", "--gid-index") or ""),
        sizes_bytes=_ALL_SIZES_BYTES if every else (size,),
        iterations=_whole(option_value(words, "-n", "--iters") or str(_DEFAULT_ITERATIONS), "-n"),
        duration_s=duration_s,
        source_ip="" if "$" in source_ip else source_ip,
        bound=bool(source_ip),
        qps=_whole(option_value(words, "-q", "--qp") or "1", "-q"),
        cpu_util="--cpu_util" in words,
    )


def _refuse_odd_pairs(words: Sequence[str], duration_s: int, *, every: bool) -> None:
    """Pairs of options that perftest itself refuses (perftest_parameters.c)."""
    if every and duration_s:
        raise UsageError("Duration mode currently doesn't support running on all sizes.")
    if "--cpu_util" in words and not duration_s:
        raise UsageError("CPU Utilization works only with Duration mode.")


def _whole(text: str, option: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"perftest's {option} is {text!r}; expected a whole number")
    return int(text)


def _gid_index(text: str) -> int:
    """The index asked for; what a script finds out is the usual one of RoCE v2 over IPv4."""
    return int(text) if text.isdecimal() else _ROCE_V2_GID_INDEX


def _positional(words: Sequence[str]) -> str:
    found = ""
    skip = False
    for word in words:
        name = word.partition("=")[0]
        if skip:
            skip = False
        elif word in _VALUED:
            skip = True
        elif word in _FLAGS or (name in _VALUED and "=" in word):
            continue
        elif word.startswith("-"):
            raise UsageError(f"the lab does not play the option {word} of perftest")
        else:
            found = word
    return found


def _roles(request: ProbeRequest) -> tuple[ProbePod, ProbePod]:
    pods = list(request.pods)
    if request.launcher and all(pod.name != request.launcher.name for pod in pods):
        pods.append(request.launcher)
    clients = [pod for pod in pods if parse_bw(pod).server]
    servers = [pod for pod in pods if not parse_bw(pod).server]
    if len(clients) != 1 or len(servers) != 1:
        names = ", ".join(pod.name for pod in pods) or "no pod"
        raise UsageError(f"a perftest needs one server and one client; got {names}")
    return clients[0], servers[0]


def _endpoint(site: Site, pod: ProbePod, call: BwCall, server_ip: str) -> Endpoint | None:
    """The attachment that a call uses: by device, else by address, else as the pod routes."""
    ends = [end for end in site.ends_of(pod) if isinstance(end, Endpoint)]
    wanted = {call.device, call.source_ip} - {""}
    if wanted:
        named = (
            end
            for end in ends
            if wanted <= {end.device, end.attachment.ip, end.attachment.interface}
        )
        return next(named, None)
    near = (end for end in ends if _reaches(end.attachment, server_ip) == "")
    return next(near, None) or next((end for end in ends if _by_route(end, server_ip)), None)


def _reaches(item: Attachment, server_ip: str) -> str | None:
    """The router to a server; empty on its own subnet, None where this interface has no route."""
    if item.ip == server_ip:
        return ""
    if not item.prefix:
        same = item.ip.rpartition(".")[0] == server_ip.rpartition(".")[0]
        return "" if same else None
    return next_hop(item.ip, item.prefix, item.routes, server_ip)


def _by_route(end: Endpoint, server_ip: str) -> bool:
    return _reaches(end.attachment, server_ip) is not None


def _no_device(client: BwCall, server: BwCall, *, missing_local: bool) -> ProbeResult:
    call = client if missing_local else server
    name = call.device or "mlx5_0"
    lines = [f"IB device {name} not found", " Unable to find the Infiniband/RoCE device"]
    if missing_local:
        return ProbeResult(_join(lines), 1, server_log=_waiting())
    return ProbeResult(_join(_cannot_reach(client)), 1, server_log=_join(lines))


def _refused(call: BwCall, fault: PathFault, local: Endpoint) -> ProbeResult:
    device = fault.endpoint.device
    words = {
        "no_device": [
            f"IB device {device} not found",
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
    }[fault.kind]
    if fault.endpoint is local or fault.kind == "no_connection":
        return ProbeResult(_join(words), 139 if _SEGFAULT in words else 1, server_log=_waiting())
    return ProbeResult(_join(_cannot_reach(call)), 1, server_log=_join(words))


def _cannot_reach(call: BwCall) -> list[str]:
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


def _measured(call: BwCall, out: _Paths, home: _Paths) -> ProbeResult:
    """The data of a read come from the server; those of the others go there."""
    forward, back = out[0][0], home[0][0]
    reads = call.tool == "ib_read_bw"
    data = back if reads else forward
    rows: list[str] = []
    moved = 0
    seconds = 0.0
    for size in call.sizes_bytes:
        if not data.carries(size):
            return _lost(call, forward, data, rows, moved)
        gbit_s = pair_gbit_s(data.line_rate_gbit_s, data.efficiency, size)
        iterations = call.iterations
        if call.duration_s:
            iterations = int(gbit_s * 1e9 / 8 / size * call.duration_s)
        rows.append(_row(call, size, iterations, gbit_s))
        moved += size * iterations
        seconds += size * iterations * 8 / (gbit_s * 1e9)
    paths = home if reads else out
    nics, ports = deltas_of(Flow(path, moved * n // call.qps) for path, n in paths)
    report = _banner(call, forward)
    return ProbeResult(
        log=_join([*report, *rows, RULE]),
        exit_code=0,
        server_log=_join([*_waiting().splitlines(), *_banner(call, back), RULE]),
        duration_s=seconds,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _mismatch(call: BwCall, path: RailPath) -> ProbeResult:
    """The two ends were told different things: the first operation is refused (status 10)."""
    words = [
        " Completion with error at client",
        " Failed status 10: wr_id 0 syndrom 0x88",
        "scnt=128, ccnt=0",
    ]
    log = _join([*_banner(call, path), *words])
    return ProbeResult(log=log, exit_code=1, server_log=_waiting())


def _lost(
    call: BwCall, forward: RailPath, path: RailPath, rows: list[str], moved: int
) -> ProbeResult:
    """The packets of this size never arrive: the QP gives up after its retries."""
    nics, ports = deltas_of([Flow(path, moved)])
    lost_nics, lost_ports = drops_of(path)
    words = [
        " Completion with error at client",
        " Failed status 12: wr_id 0 syndrom 0x81",
        "scnt=128, ccnt=0",
    ]
    return ProbeResult(
        log=_join([*_banner(call, forward), *rows, *words]),
        exit_code=1,
        server_log=_waiting(),
        nic_deltas=nics + lost_nics,
        port_deltas=ports + lost_ports,
    )


def _row(call: BwCall, size: int, iterations: int, gbit_s: float) -> str:
    scale = 1.0 if call.gbits else _MIB_PER_GBIT
    average = gbit_s * scale
    peak = 0.0 if call.duration_s else (gbit_s + _PEAK_OVER_AVERAGE_GBIT_S) * scale
    rate = gbit_s * 1e9 / 8 / size / 1e6
    gap = " " * 12
    cpu = f"{gap}{_CPU_PERCENT:<7.2f}" if call.cpu_util else ""
    return (
        f" {size:<7}    {iterations:<10}       {peak:<7.2f}{gap}{average:<7.2f}{gap}{rate:.6f}{cpu}"
    )


def _banner(call: BwCall, path: RailPath) -> list[str]:
    unit = "Gb/sec" if call.gbits else "MiB/sec"
    cpu = "    CPU_Util[%]" if call.cpu_util else ""
    manager = "rdma_cm" if call.rdma_cm else "Ethernet"
    lines = [
        RULE,
        f"                    {_TESTS[call.tool]} BW Test",
        f" Dual-port       : OFF          Device         : {path.sender.device}",
        f" Number of qps   : {call.qps:<12} Transport type : IB",
        " Connection type : RC           Using SRQ      : OFF",
        " PCIe relax order: ON",
        " ibv_wr* API     : ON",
        " TX depth        : 128",
        " CQ Moderation   : 1",
        f" Mtu             : {path.rdma_mtu_bytes}[B]",
        " Link type       : Ethernet",
        f" GID index       : {call.gid_index}",
        " Outstand reads  : 16" if call.tool == "ib_read_bw" else " Max inline data : 0[B]",
        f" rdma_cm QPs     : {'ON' if call.rdma_cm else 'OFF'}",
        f" Data ex. method : {manager}",
        RULE,
        *_address("local", path.sender),
        *_address("remote", path.receiver),
        RULE,
        f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]{cpu}",
    ]
    if call.duration_s:
        lines.insert(1, "WARNING: BW peak won't be measured in this run.")
    return lines


def _address(which: str, end: Endpoint) -> list[str]:
    mark = zlib.crc32(f"{end.nic.host}/{end.attachment.ip}".encode())
    gid = end.attachment.gid_text if end.attachment.ip else _link_local_gid(mark)
    return [
        f" {which} address: LID 0000 QPN 0x{mark & 0xFFFF:04x} PSN 0x{mark >> 8:06x}",
        f" GID: {gid}",
    ]


def _link_local_gid(mark: int) -> str:
    """The GID of a card whose IPv4 address the request does not name."""
    low = [f"{mark >> shift & 0xFF:02d}" for shift in (24, 16, 8, 0)]
    return ":".join(["254", "128", *["00"] * 6, "02", "00", "00", "255", *low])


def _waiting() -> str:
    stars = "*" * 36
    return f"\n{stars}\n* Waiting for client to connect... *\n{stars}\n"


def _join(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
