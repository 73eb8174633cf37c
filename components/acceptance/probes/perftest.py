"""Perftest between two pods of one rail: one for every rail, and the cases that the file names."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob, other_rates
from components.jobs.environment import job_script, program_path
from components.jobs.templates import JsonObject, env_list, make_container, make_job, make_limits
from components.model.acceptance import PerftestCase
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.worker_kinds import RailPair
from components.pod_network.attachment import PodAttachment, rail_attachment, server_address

PERFTEST_SECONDS: Final = 5
"""How long `ib_write_bw` sends: long enough for counters to stand out from the rest."""
RAIL_CASE: Final = PerftestCase(
    name="rail", tool="ib_write_bw", rdma_cm=True, duration_s=PERFTEST_SECONDS
)
"""What every rail gets."""


@lru_cache
def with_flows(flows: int) -> PerftestCase:
    """The same with so many connections."""
    return RAIL_CASE.model_copy(update={"qps": flows}) if flows > 1 else RAIL_CASE


def perftest_command(
    spec: ClusterSpec, server: str = "", case: PerftestCase = RAIL_CASE
) -> tuple[str, ...]:
    """A perftest on the pod's own device, marked as the jobs' packets are.

    With `-R` the ToS option marks the packets; `--tclass` counts only without it. `$hca` and `$gid`
    are found in the pod: device names and GID indices differ from pod to pod. With source-based
    routes only packets with the pod's own address find the rail, so the client names that too.
    """
    traffic_class = str(spec.rdma.ip_traffic_class)
    command = [program_path(spec.jobs.programs.perftest, case.tool)]
    command += ["-R"] if case.rdma_cm else []
    command += ["-d", "$hca", "-x", "$gid"]
    command += ["-T", traffic_class] if case.rdma_cm else [f"--tclass={traffic_class}"]
    command += ["-q", str(case.qps)] if case.qps > 1 else []
    command += ["-a"] if case.all_sizes else []
    command += ["-D", str(case.duration_s)] if case.duration_s else []
    command += ["--cpu_util"] if case.cpu_util else []
    command += ["--report_gbits", "-F"]
    if server and spec.pod_network.source_routing:
        command += ["--bind_source_ip", "$address"]
    return (*command, server) if server else tuple(command)


def perftest_job(
    spec: ClusterSpec, rail: Rail, pair: RailPair, case: PerftestCase = RAIL_CASE
) -> ProbeJob:
    """One test between two workers on one rail; the data of a read flow from server to client."""
    own = any(case is each for each in spec.acceptance.perftest)
    label = case.name if own else rail.name
    name = f"perftest-{label}-{pair.client.name}-{pair.server.name}"
    address = server_address(spec, rail, pair.server)
    client = perftest_command(spec, address, case)
    server_pod = _pod(
        spec,
        pair.server,
        rail,
        rail_attachment(spec, rail, server=pair.server),
        _script(spec, "perftest_server", perftest_command(spec, case=case)),
    )
    client_pod = _pod(
        spec,
        pair.client,
        rail,
        rail_attachment(spec, rail),
        _script(spec, "perftest_client", client),
    )
    nodes = (pair.client.name, pair.server.name)
    if case.tool == "ib_read_bw":
        nodes = (pair.server.name, pair.client.name)
    return ProbeJob(
        Probe(
            name=name,
            kind="perftest",
            rails=(rail.name,),
            nodes=nodes,
            flows=case.qps if case.qps > 1 else 0,
            rates=other_rates(spec, {rail.name: pair.speed_gbit_s}),
        ),
        (make_job(spec, f"{name}-s", server_pod), make_job(spec, f"{name}-c", client_pod)),
        watched=1,
        command=client,
        image=spec.jobs.image,
    )


def _script(spec: ClusterSpec, name: str, command: tuple[str, ...]) -> str:
    find = ["rdma_device" if spec.pod_network.mode == "sriov" else "rdma_shared_device"]
    find += ["source_address"] if "$address" in command else []
    return _script_of((*find, name), command)


@lru_cache(maxsize=64)
def _script_of(names: tuple[str, ...], command: tuple[str, ...]) -> str:
    """One text for all pairs of a rail, which often run the same command."""
    words = " ".join(f'"{word}"' if word.startswith("$") else word for word in command)
    return "".join(map(job_script, names)).replace("ib_write_bw_call", words)


def _pod(
    spec: ClusterSpec, host: Host, rail: Rail, attachment: PodAttachment, script: str
) -> JsonObject:
    container = make_container(spec.jobs.image, "perftest", make_limits(attachment.resources))
    container["command"] = ["/bin/sh", "-c", script]
    env = dict(spec.jobs.env)
    pod: JsonObject = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host.node},
        "containers": [container],
    }
    if attachment.host_network:
        netdev = next(nic.netdev for nic in host.nics if nic.rail == rail.name)
        env["RAIL_INTERFACE"] = netdev
        pod["hostNetwork"] = True
    if env:
        container["env"] = env_list(dict(sorted(env.items())))
    return {"metadata": {"annotations": {**attachment.annotations}}, "spec": pod}
