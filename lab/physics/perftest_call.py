"""How a pod calls perftest: its tool and its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from components.core.errors import UsageError
from components.core.record import record
from lab.physics.command_line import find_tool, option_value, parse_size
from lab.physics.request import ProbePod, ProbeRequest

Verb = Literal["write", "read", "send"]
_TOOLS: Final[dict[str, Verb]] = {
    f"ib_{verb}_{what}": verb for verb in ("write", "read", "send") for what in ("bw", "lat")
}
DEFAULT_BYTES: Final = {"bw": 65536, "lat": 2}
_DEFAULT_ITERATIONS: Final = 1000
_DEFAULT_ITERATIONS_WRITE_BW: Final = 5000
_ROCE_V2_GID_INDEX: Final = 3
"""Of an interface with one IPv4 address (sources.md#host-qos)."""
_ALL_SIZES_BYTES: Final = tuple(2**power for power in range(1, 24))
"""`-a`: from 2 bytes to 2^23."""
_VALUED: Final = {
    *("-d", "--ib-dev", "-i", "--ib-port", "-x", "--gid-index", "-s", "--size", "-n", "--iters"),
    *("-p", "--port", "-q", "--qp", "-m", "--mtu", "-D", "--duration", "-T", "--tos", "-t"),
    *("--tclass", "--bind_source_ip", "-S", "--sl", "--tx-depth"),
    *("--use_cuda", "--use_cuda_bus_id"),
}
_FLAGS: Final = {
    *("-R", "--rdma_cm", "--report_gbits", "-F", "--CPU-freq", "-a", "--all", "--cpu_util"),
    "--use_cuda_dmabuf",
}


@record
class PerftestCall:
    """The options of one call of a test."""

    tool: str
    verb: Verb
    server: str
    device: str
    rdma_cm: bool
    gbits: bool
    tclass: int
    gid_index: int | None
    """None: it names none."""
    sizes_bytes: tuple[int, ...]
    iterations: int
    duration_s: int
    source_ip: str
    bound: bool
    """It names its own address, so that the routes of that address count."""
    qps: int
    cpu_util: bool
    cuda: str = ""
    """The GPU whose memory is used, by number or by PCI address; empty for the host's memory."""
    dmabuf: bool = False

    @property
    def is_latency(self) -> bool:
        """It measures how long a message takes."""
        return self.tool.endswith("_lat")

    @property
    def shape(self) -> tuple[object, ...]:
        """What both ends must be told alike."""
        return (self.tool, self.rdma_cm, self.sizes_bytes, self.duration_s, self.qps)


def roles(request: ProbeRequest) -> tuple[ProbePod, ProbePod]:
    """The client and the server of a request.

    Raises:
        UsageError: It is not one client and one server.
    """
    pods = list(request.pods)
    if request.launcher and all(pod.name != request.launcher.name for pod in pods):
        pods.append(request.launcher)
    clients = [pod for pod in pods if parse_call(pod).server]
    servers = [pod for pod in pods if not parse_call(pod).server]
    if len(clients) != 1 or len(servers) != 1:
        names = ", ".join(pod.name for pod in pods) or "no pod"
        raise UsageError(f"a perftest needs one server and one client; got {names}")
    return clients[0], servers[0]


def parse_call(pod: ProbePod) -> PerftestCall:
    """Read a pod's call of a test.

    Raises:
        UsageError: Another tool, or an option that the lab does not play.
    """
    suffix = "_lat" if any("_lat" in word for word in pod.command) else "_bw"
    call = find_tool(pod.command, pod.env, suffix)
    if call.tool not in _TOOLS:
        raise UsageError(f"the lab plays {', '.join(_TOOLS)}, not {call.tool}")
    words = call.arguments
    rdma_cm = bool({"-R", "--rdma_cm"} & set(words))
    # perftest sets --tclass on its own QPs only; with -R the ToS option of rdma_cm counts.
    tclass = option_value(words, "-T", "--tos") if rdma_cm else option_value(words, "--tclass")
    every = bool({"-a", "--all"} & set(words))
    size = option_value(words, "-s", "--size") or str(DEFAULT_BYTES[suffix.removeprefix("_")])
    device = option_value(words, "-d", "--ib-dev") or ""
    source_ip = option_value(words, "--bind_source_ip") or ""
    duration_s = _whole(option_value(words, "-D", "--duration") or "0", "-D")
    _refuse_odd_pairs(words, duration_s, every=every)
    writes = call.tool == "ib_write_bw"
    usual = _DEFAULT_ITERATIONS_WRITE_BW if writes else _DEFAULT_ITERATIONS
    return PerftestCall(
        tool=call.tool,
        verb=_TOOLS[call.tool],
        server=_positional(words),
        device="" if "$" in device else device,
        rdma_cm=rdma_cm,
        gbits="--report_gbits" in words,
        tclass=_whole(tclass or "0", "-T"),
        gid_index=_gid_index(option_value(words, "-x", "--gid-index")),
        sizes_bytes=_ALL_SIZES_BYTES if every else (parse_size(size),),
        iterations=_whole(option_value(words, "-n", "--iters") or str(usual), "-n"),
        duration_s=duration_s,
        source_ip="" if "$" in source_ip else source_ip,
        bound=bool(source_ip),
        qps=_whole(option_value(words, "-q", "--qp") or "1", "-q"),
        cpu_util="--cpu_util" in words,
        cuda=option_value(words, "--use_cuda_bus_id", "--use_cuda") or "",
        dmabuf="--use_cuda_dmabuf" in words,
    )


def _gid_index(text: str | None) -> int | None:
    """The index asked for; what a script finds out is the usual one of RoCE v2 over IPv4."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else _ROCE_V2_GID_INDEX


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
