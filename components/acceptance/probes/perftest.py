"""Perftest between two pods of one rail or InfiniBand adapter: one test, or several in turn.

The server's pod is created first. The client's pod is created once the server has an address, which
replaces `RAIL_ADDRESS` or `POD_ADDRESS`; so any number of pairs may run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob, other_rates
from components.jobs.environment import job_script, program_path
from components.jobs.templates import (
    JsonObject,
    env_list,
    make_container,
    make_job,
    make_limits,
    make_pod,
)
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.jobs import PerftestCase
from components.model.owners import gpu_paths
from components.model.places import pod_links
from components.model.worker_kinds import RailPair, nic_on
from components.pod_network.attachment import (
    PodAttachment,
    pod_attachment,
    rail_attachment,
    server_address,
)
from components.pod_network.manifests import gpu_runtime

PERFTEST_SECONDS: Final = 5
"""How long `ib_write_bw` sends: long enough that counters clearly show its traffic."""
RAIL_CASE: Final = PerftestCase(
    name="rail", tool="ib_write_bw", rdma_cm=True, duration_s=PERFTEST_SECONDS
)
"""The test of every rail."""
LATENCY_RUNS: Final = 20_000
"""Messages of a latency test: 20 of them are above 99.9 %; some 0.1 s."""
REFUSED_S: Final = 30
"""How long a client tries to reach a forbidden rail."""
RAIL_ADDRESS: Final = "SERVER-RAIL-ADDRESS"
"""Placeholder for the address of the server's pod on its rail."""
POD_ADDRESS: Final = "SERVER-POD-ADDRESS"
"""Placeholder for its address in the pod network, for adapters without an address."""


@lru_cache
def with_flows(flows: int) -> PerftestCase:
    """Give the rail test with this number of connections."""
    return RAIL_CASE.model_copy(update={"qps": flows}) if flows > 1 else RAIL_CASE


@dataclass(frozen=True, slots=True)
class PairTest:
    """The tests between two workers."""

    name: str
    """The first part of the probe's name."""
    rail: str
    """The rail of the client, and of the server unless `server_rail` is set; or the adapter's
    name."""
    cases: tuple[PerftestCase, ...] = (RAIL_CASE,)
    """One after the other; the first failure ends it."""
    server_rail: str = ""
    """The rail of the server, if it differs."""
    adapter: int | None = None
    """InfiniBand: its place among the adapters of a pod, from 0."""
    gpu: bool = False
    """Use the memory of the GPU nearest to the card, by perftest with CUDA."""
    refused: bool = False
    """The two ends must not reach each other."""


def perftest_command(
    spec: ClusterSpec,
    server: str = "",
    case: PerftestCase = RAIL_CASE,
    *,
    gpu: bool = False,
    refused: bool = False,
) -> tuple[str, ...]:
    """A perftest on the pod's own device, with the mark of the jobs' packets.

    With `-R` the ToS option marks the packets; `--tclass` counts only without it. The pod finds
    `$hca` and `$gid`, because device names and GID indices differ from pod to pod. With
    source-based routes only packets with the pod's own address find the rail, so the client names
    that too. It does so for a forbidden rail too: otherwise the pod's default route avoids the
    card, and a test through another interface cannot find a wrong VLAN. InfiniBand has neither GID
    index nor traffic class.
    """
    roce, programs = spec.rdma.transport == "roce", spec.jobs.programs
    command = [program_path(programs.perftest_cuda if gpu else programs.perftest, case.tool)]
    command += ["-R"] if case.rdma_cm else []
    command += ["-d", "$hca"]
    if roce:
        traffic_class = str(spec.rdma.ip_traffic_class)
        mark = ["-T", traffic_class] if case.rdma_cm else [f"--tclass={traffic_class}"]
        command += ["-x", "$gid", *mark]
    command += ["-q", str(case.qps)] if case.qps > 1 else []
    command += ["-a"] if case.all_sizes else []
    command += ["-D", str(case.duration_s)] if case.duration_s else []
    command += ["--cpu_util"] if case.cpu_util else []
    if case.tool.endswith("_lat"):
        command += [] if case.duration_s else ["-n", str(LATENCY_RUNS)]
        command += ["-F"]
    else:
        command += ["--report_gbits", "-F"]
    if gpu:
        command += ["--use_cuda_bus_id", "$gpu"]
        command += ["--use_cuda_dmabuf"] if {*gpu_paths(spec)} == {"dma_buf"} else []
    if server and (spec.pod_network.source_routing or refused) and roce:
        command += ["--bind_source_ip", "$address"]
    return (*command, server) if server else tuple(command)


def perftest_job(spec: ClusterSpec, pair: RailPair, test: PairTest) -> ProbeJob:
    """One test between two workers as two plain pods; the data of a read flow to the client."""
    name = f"perftest-{test.name}-{pair.client.name}-{pair.server.name}"
    own, far = spec.rail(test.rail), spec.rail(test.server_rail or test.rail)
    if own is None or far is None:
        client_end, server_end, address = pod_attachment(spec), pod_attachment(spec), POD_ADDRESS
        rates = {test.rail: float(pair.speed_gbit_s)}
    else:
        client_end, (server_end, address) = rail_attachment(spec, own), _served(spec, far, pair)
        rates = other_rates(spec, {test.rail: pair.speed_gbit_s})
    calls = [
        perftest_command(spec, address, case, gpu=test.gpu, refused=test.refused)
        for case in test.cases
    ]
    serves = [perftest_command(spec, case=case, gpu=test.gpu) for case in test.cases]
    runs_s = sum(case.duration_s or 0 for case in test.cases)
    server = _pod(
        spec, (pair.server, far, server_end), _script(spec, test, "server", serves), gpu=test.gpu
    )
    client = _pod(
        spec, (pair.client, own, client_end), _script(spec, test, "client", calls), gpu=test.gpu
    )
    tools = tuple(case.tool for case in test.cases)
    nodes = (pair.client.name, pair.server.name)
    probe = Probe(
        name=name,
        kind="perftest",
        rails=(test.rail, test.server_rail) if test.server_rail else (test.rail,),
        nodes=nodes[::-1] if tools == ("ib_read_bw",) else nodes,
        flows=test.cases[0].qps if test.cases[0].qps > 1 else 0,
        rates=rates,
        tools=tools if tools != ("ib_write_bw",) else (),
        refused=test.refused,
    )
    pods = (
        make_pod(spec, f"{name}-s", server, runs_s),
        make_pod(spec, f"{name}-c", client, runs_s),
    )
    words = [word for call in calls for word in (";", *call)]
    return ProbeJob(probe, pods, 1, tuple(words[1:]), spec.jobs.image, runs_s)


def programs_of(command: Sequence[str]) -> list[str]:
    """The programs that a probe's command calls, one after the other."""
    starts = [0, *(place + 1 for place, word in enumerate(command) if word == ";")]
    return [command[place] for place in starts]


def user_perftest(spec: ClusterSpec, rail: Rail, pair: RailPair) -> ProbeJob:
    """Make the test of one rail as two Jobs, whose addresses are known before they run."""
    address = server_address(spec, rail, pair.server)
    test = PairTest(rail.name, rail.name)
    serve = _script(spec, test, "server", [perftest_command(spec)])
    call = _script(spec, test, "client", [perftest_command(spec, address)])
    served = rail_attachment(spec, rail, server=pair.server)
    ends = (
        _pod(spec, (pair.server, rail, served), serve),
        _pod(spec, (pair.client, rail, rail_attachment(spec, rail)), call),
    )
    name = f"perftest-{rail.name}-{pair.client.name}-{pair.server.name}"
    probe = perftest_job(spec, pair, test).probe
    jobs = tuple(make_job(spec, f"{name}-{end}", pod) for end, pod in zip("sc", ends, strict=True))
    return ProbeJob(probe, jobs, 1, perftest_command(spec, address), spec.jobs.image)


def _served(spec: ClusterSpec, rail: Rail, pair: RailPair) -> tuple[PodAttachment, str]:
    """The server's attachment to its rail, and its address; `static` has one address per rail."""
    network = spec.pod_network
    if network.ipam == "static" or network.host_network or rail.name in pod_links(spec):
        attachment = rail_attachment(spec, rail, server=pair.server)
        return attachment, server_address(spec, rail, pair.server)
    return rail_attachment(spec, rail), RAIL_ADDRESS


def _script(
    spec: ClusterSpec, test: PairTest, end: str, commands: Sequence[tuple[str, ...]]
) -> str:
    if test.adapter is not None:
        find = ["ib_adapter"]
    else:
        find = ["rdma_device" if spec.pod_network.mode == "sriov" else "rdma_shared_device"]
    find += ["source_address"] if any("$address" in command for command in commands) else []
    find += ["near_gpu"] if test.gpu else []
    given = "" if test.adapter is None else f"adapter={test.adapter}\n"
    given += f"patience={REFUSED_S}\n" if test.refused else ""
    return given + _script_of((*find, f"perftest_{end}"), tuple(commands))


@lru_cache(maxsize=512)
def _script_of(names: tuple[str, ...], commands: tuple[tuple[str, ...], ...]) -> str:
    """The script, which is the same text for all pairs with the same commands."""
    calls = (
        " ".join(f'"{word}"' if word.startswith("$") else word for word in command)
        for command in commands
    )
    return "".join(map(job_script, names)).replace("ib_write_bw_call", "\nrun ".join(calls))


def _pod(
    spec: ClusterSpec,
    end: tuple[Host, Rail | None, PodAttachment],
    script: str,
    *,
    gpu: bool = False,
) -> JsonObject:
    """The pod of one end; for GPU memory it gets all GPUs of its node and chooses the nearest."""
    host, rail, attachment = end
    limits = make_limits(attachment.resources, host.gpus if gpu else 0)
    container = make_container(spec.jobs.image, "perftest", limits)
    container["command"] = ["/bin/sh", "-c", script]
    env = dict(spec.jobs.env)
    pod: JsonObject = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host.node},
        "containers": [container],
        **(gpu_runtime(spec) if gpu else {}),
    }
    if attachment.host_network:
        pod["hostNetwork"] = True
        nic = nic_on(host, rail.name) if rail else None
        env |= {"RAIL_INTERFACE": nic.netdev} if nic else {}
    if env:
        container["env"] = env_list(dict(sorted(env.items())))
    return {"metadata": {"annotations": {**attachment.annotations}}, "spec": pod}
