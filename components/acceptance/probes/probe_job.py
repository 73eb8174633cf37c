"""The probes: of a cluster as jobs, numbered when they run; of hosts alone as commands over SSH.

The jobs are deleted afterwards. They run in pods on the rails' own attachments: a test on the PF
would prove a path that no job uses. On hosts a command runs in a container.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Literal

from components.acceptance.evidence import Probe
from components.containers import container_plan
from components.core.record import field, record
from components.core.to_json import OMIT_EMPTY
from components.jobs import job_plan, templates
from components.jobs.templates import job_script, mpirun_command, program_path
from components.kubernetes.manifest import Body
from components.model import worker_kinds
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.jobs import Collective, Containers, DeepSpeed, DeepSpeedScan, PerftestCase
from components.model.once import once
from components.model.owners import gpu_paths
from components.model.places import pod_links, subnet_of
from components.model.worker_kinds import RailPair, WorkerKind, gpu_kinds, nic_on
from components.pod_network.attachment import (
    PodAttachment,
    pod_attachment,
    rail_attachment,
    server_address,
)
from components.pod_network.manifests import gpu_runtime
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

LOAD_ITERATIONS: Final = 400
"""All-reduces of 2 GiB, in place and out of place: 8 s at 400 GB/s over NVLink, long enough to read
the clocks three times, and 150 s at 20 GB/s over PCIe."""
SCAN_PROBE: Final = "deepspeed-scan"
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
"""Placeholder for the address of the server's pod on its rail: the client's pod is created once the
server has one, so any number of pairs may run at once."""
POD_ADDRESS: Final = "SERVER-POD-ADDRESS"
"""Placeholder for its address in the pod network, for adapters without an address."""
SMOKE_DEADLINE_S: Final = 120.0
"""Seconds for `hostname` and `nvidia-smi` over all hosts: they start in seconds."""
PERFTEST_DEADLINE_S: Final = 180.0
"""Seconds for a client that waits up to two minutes for its server, and sends for five seconds."""
_TF_CNN: Final = "/workspace/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"


@record
class ProbeJob:
    """One probe and its objects."""

    probe: Probe
    objects: tuple[Body, ...]
    """The objects in the order of creation; their names have a placeholder for the run's number."""
    watched: int
    """Index of the object that ends the probe, and whose log is the result."""
    command: tuple[str, ...]
    image: str
    runs_s: int = field(default=0, metadata=OMIT_EMPTY)
    """Seconds of its intended run, which are added to its deadline."""


def memlock_job(spec: ClusterSpec, host: Host) -> Body:
    """Print the locked-memory limit of a pod on one worker; it should be `unlimited`."""
    container: templates.JsonObject = {"name": "memlock", "image": spec.jobs.image}
    container["command"] = ["/bin/sh", "-c", "ulimit -l"]
    return templates.make_pod(spec, f"memlock-{host.name}", {"spec": _pod_on(host, container)})


def _pod_on(host: Host, container: templates.JsonObject) -> templates.JsonObject:
    """A pod on one node; it never restarts, because a failure is a result."""
    node: templates.JsonObject = {"kubernetes.io/hostname": host.node}
    return {"restartPolicy": "Never", "nodeSelector": node, "containers": [container]}


@once
def rail_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """Each rail to the slowest speed of a worker there, in Gbit/s; 0 if the rail has no worker."""
    return {it.name: min(worker_kinds.speed_classes(spec, it), default=0) for it in spec.rails}


def _other_rates(spec: ClusterSpec, speeds: Mapping[str, int]) -> dict[str, float]:
    """The rails on which a probe is faster than the slowest worker of the rail, in Gbit/s.

    Without these rates a fast pair would pass with the speed of the slowest worker.
    """
    slowest = rail_speeds(spec)
    return {rail: float(speed) for rail, speed in speeds.items() if speed != slowest[rail]}


def _kind_suffix(spec: ClusterSpec, kind: WorkerKind) -> str:
    """A suffix for the probes of one kind of workers; empty if the site has one kind."""
    return f"-{kind.name}" if len(gpu_kinds(spec)) > 1 else ""


def node_job(spec: ClusterSpec, host: Host, ending: str = "") -> ProbeJob:
    """Make the check of a node's GPUs, with NCCL between them as the load if it has several."""
    programs = spec.jobs.programs
    load: tuple[str, ...] = ()
    if host.gpus > 1:
        size = spec.acceptance.nccl_max_size
        load = (program_path(programs.nccl_tests, "all_reduce_perf"), "-b", size, "-e", size)
        load += ("-n", str(LOAD_ITERATIONS), "-g", str(host.gpus))
    called = shlex.join(("env", "NCCL_DEBUG=INFO", *load)) if load else ""
    script = job_script("node_health", load=called, bandwidth="nvbandwidth", diagnose="1")
    limits = templates.make_limits({}, host.gpus)
    container = templates.make_container(spec.jobs.image, "node", limits)
    container["command"] = ["/bin/sh", "-c", script]
    pod = _pod_on(host, container) | gpu_runtime(spec)
    name = f"node-{host.name}{ending}"
    probe = Probe(name=name, kind="node", rails=(), nodes=(host.name,), ranks=host.gpus)
    job = templates.make_pod(spec, name, {"spec": pod})
    return ProbeJob(probe, (job,), watched=0, command=("node_health", *load), image=spec.jobs.image)


def scan_call(maxsize_exponent: int) -> tuple[str, ...]:
    """DeepSpeed's all-reduce in all sizes up to 2^(exponent - 1) elements a rank."""
    options = ("--scan", "--maxsize", str(maxsize_exponent), "--dist", "torch")
    return job_plan.deepspeed_call(
        (f"{job_plan.EXAMPLES}/benchmarks/communication/all_reduce.py", *options)
    )


def scan_job(spec: ClusterSpec, sample: DeepSpeed, scan: DeepSpeedScan) -> ProbeJob:
    """DeepSpeed's own all-reduce over all its workers, in sizes up to 1 GiB a rank and more."""
    call = scan_call(scan.maxsize_exponent)
    kind = job_plan.deepspeed_kind(spec, sample)
    probe = Probe(
        name=SCAN_PROBE,
        kind="deepspeed_scan",
        rails=tuple(kind.speeds),
        nodes=kind.names[: sample.workers],
        ranks=sample.workers * sample.gpus,
    )
    workers, launcher = (
        job_plan.deepspeed_workers(spec, sample),
        job_plan.deepspeed_launcher(spec, sample, call),
    )
    body = job_plan.mpi_job(spec, SCAN_PROBE, workers, launcher)
    return ProbeJob(probe, (body,), watched=0, command=call, image=sample.image)


def nccl_command(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce"
) -> tuple[str, ...]:
    """`mpirun` of one program of nccl-tests over all GPUs of a kind."""
    binary = program_path(spec.jobs.programs.nccl_tests, f"{collective}_perf")
    program = (binary, "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    return mpirun_command(spec, kind.ranks, (*program, "-g", "1"), kind)


def nccl_job(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce", ending: str = ""
) -> ProbeJob:
    """One NCCL collective over all GPUs of the workers of a kind, on all rails that they have."""
    command = nccl_command(spec, kind, collective)
    name = f"nccl-{collective.replace('_', '-')}{_kind_suffix(spec, kind)}{ending}"
    probe = Probe(
        name=name,
        kind="nccl",
        rails=tuple(kind.speeds),
        nodes=kind.names,
        ranks=kind.ranks,
        collective=collective,
        rates=_other_rates(spec, kind.speeds),
    )
    # The last worker's name must be a DNS label for the operator (`validateMPIJobName` of
    # kubeflow/mpi-operator), and a kind may be called as its first host is.
    job = templates.fit_name(name, f"-worker-{len(kind.hosts) - 1}")
    image = spec.jobs.image
    body = job_plan.launched_job(spec, job, kind, command, image)
    return ProbeJob(probe, (body,), watched=0, command=command, image=image)


@record
class PairTest:
    """The tests between two workers."""

    name: str
    rail: str
    """The rail of the client, and of the server unless `server_rail` is set; or the adapter."""
    cases: tuple[PerftestCase, ...] = (RAIL_CASE,)
    """One after the other; the first failure ends it."""
    server_rail: str = ""
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


def perftest_job(
    spec: ClusterSpec, pair: RailPair, test: PairTest, *, as_jobs: bool = False
) -> ProbeJob:
    """One test as two pods, or Jobs with known addresses; the data of a read flow to the client."""
    name = f"perftest-{test.name}-{pair.client.name}-{pair.server.name}"
    own, far = spec.rail(test.rail), spec.rail(test.server_rail or test.rail)
    if own is None or far is None:
        client_end, server_end, address = pod_attachment(spec), pod_attachment(spec), POD_ADDRESS
        rates = {test.rail: float(pair.speed_gbit_s)}
    else:
        network = spec.pod_network
        # `static` has one address per rail.
        is_known = network.ipam == "static" or network.host_network or far.name in pod_links(spec)
        is_known = is_known or as_jobs
        server_end = rail_attachment(spec, far, server=pair.server if is_known else None)
        address = server_address(spec, far, pair.server) if is_known else RAIL_ADDRESS
        client_end = rail_attachment(spec, own)
        rates = _other_rates(spec, {test.rail: pair.speed_gbit_s})
    gpu, refused, cases = test.gpu, test.refused, test.cases
    calls = [perftest_command(spec, address, each, gpu=gpu, refused=refused) for each in cases]
    serves = [perftest_command(spec, case=case, gpu=gpu) for case in cases]
    runs_s = sum(case.duration_s or 0 for case in cases)
    serve, call = _script(spec, test, "server", serves), _script(spec, test, "client", calls)
    server = _pod(spec, (pair.server, far, server_end), serve, gpu=gpu)
    client = _pod(spec, (pair.client, own, client_end), call, gpu=gpu)
    tools, nodes = tuple(case.tool for case in cases), (pair.client.name, pair.server.name)
    probe = Probe(
        name=name,
        kind="perftest",
        rails=(test.rail, test.server_rail) if test.server_rail else (test.rail,),
        nodes=nodes[::-1] if tools == ("ib_read_bw",) else nodes,
        flows=cases[0].qps if cases[0].qps > 1 else 0,
        rates=rates,
        tools=tools if tools != ("ib_write_bw",) else (),
        refused=refused,
    )
    make = templates.make_job if as_jobs else partial(templates.make_pod, runs_s=runs_s)
    bodies = tuple(make(spec, f"{name}-{end}", pod) for end, pod in (("s", server), ("c", client)))
    words = [word for call in calls for word in (";", *call)]
    return ProbeJob(probe, bodies, 1, tuple(words[1:]), spec.jobs.image, runs_s)


def programs_of(command: Sequence[str]) -> list[str]:
    """The programs that a probe's command calls, one after the other."""
    starts = [0, *(place + 1 for place, word in enumerate(command) if word == ";")]
    return [command[place] for place in starts]


def _script(spec: ClusterSpec, test: PairTest, end: str, calls: Sequence[tuple[str, ...]]) -> str:
    device = "rdma_device" if spec.pod_network.mode == "sriov" else "rdma_shared_device"
    find = [device if test.adapter is None else "ib_adapter"]
    find += ["source_address"] if any("$address" in command for command in calls) else []
    find += ["near_gpu"] if test.gpu else []
    given = "" if test.adapter is None else f"adapter={test.adapter}\n"
    given += f"patience={REFUSED_S}\n" if test.refused else ""
    return given + _script_of((*find, f"perftest_{end}"), tuple(calls))


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
) -> templates.JsonObject:
    """The pod of one end; for GPU memory it gets all GPUs of its node and chooses the nearest."""
    host, rail, attachment = end
    limits = templates.make_limits(attachment.resources, host.gpus if gpu else 0)
    container = templates.make_container(spec.jobs.image, "perftest", limits)
    container["command"] = ["/bin/sh", "-c", script]
    env = dict(spec.jobs.env)
    pod = _pod_on(host, container) | (gpu_runtime(spec) if gpu else {})
    if attachment.host_network:
        pod["hostNetwork"] = True
        nic = nic_on(host, rail.name) if rail else None
        env |= {"RAIL_INTERFACE": nic.netdev} if nic else {}
    if env:
        container["env"] = templates.env_list(dict(sorted(env.items())))
    return {"metadata": {"annotations": {**attachment.annotations}}, "spec": pod}


@record
class HostCommand:
    """One command on one host."""

    endpoint: Endpoint
    script: str
    """Shell text, run as root on the host."""


@record
class HostProbe:
    """One probe and its commands."""

    probe: Probe
    client: HostCommand
    """Its output is the log."""
    server: HostCommand | None
    """The server of a perftest: it runs at the same time, and ends with the client."""
    deadline_s: float
    command: tuple[str, ...]


def plan_payload_probes(spec: ClusterSpec) -> tuple[HostProbe, ...]:
    """The probes of a site without Kubernetes, the basic ones first; none for one host."""
    containers = spec.containers
    if containers is None or len(spec.workers) < worker_kinds.PAIR:
        return ()
    hosts, fitted = spec.workers, tuple(host for host in spec.workers if host.gpus)
    smoke = [_Launch("mpi-hosts", "mpi_hosts", hosts, ("hostname",))]
    if fitted:
        smoke.append(_Launch("mpi-gpus", "mpi_gpus", fitted, ("nvidia-smi", "-L")))
    kinds = [kind for kind in gpu_kinds(spec) if kind.runs_collectives]
    sizes = ("-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    program = ("all_reduce_perf", *sizes, "-g", "1")
    names = [f"nccl-all-reduce{_kind_suffix(spec, kind)}" for kind in kinds]
    launches = [
        _Launch(name, "nccl", kind.hosts, program, kind.speeds)
        for name, kind in zip(names, kinds, strict=True)
    ]
    if (images := spec.acceptance.resnet50) is not None:
        # The guide's command; the other NCCL variables keep it on the rails.
        program = ("python3", _TF_CNN, "--model", "resnet50", "--batch_size")
        program += (str(images.batch_size), "--use_fp16", "--variable_update=horovod", "--xla=True")
        launches += [
            _Launch("resnet50", "resnet50", kind.hosts, program, kind.speeds) for kind in kinds[:1]
        ]
    pairs = ((rail, pair) for rail in spec.rails for pair in _pairs(spec, rail))
    return (
        *(_launched(spec, containers, each) for each in smoke),
        *(_perftest(spec, containers, *each) for each in pairs),
        *(_launched(spec, containers, each) for each in launches),
    )


def _pairs(spec: ClusterSpec, rail: Rail) -> Iterator[RailPair]:
    """One pair for each speed of a rail and from each speed to the next, of hosts with addresses.

    If the rail has several leaves, also one pair from each leaf to the next. The file has the
    cards' addresses: `container-hosts` refuses a worker's card without one.
    """
    seen: set[tuple[int, bool, bool]] = set()
    for pair in worker_kinds.rail_pairs(spec, rail):
        ends = [nic_on(host, rail.name) for host in (pair.client, pair.server)]
        if any(nic is None or nic.address is None for nic in ends):
            continue
        alike = len({nic.speed_gbit_s for nic in ends if nic is not None}) == 1
        crosses = len({subnet_of(spec, rail, host) for host in (pair.client, pair.server)}) > 1
        if crosses or (pair.speed_gbit_s, alike, crosses) not in seen:
            seen.add((pair.speed_gbit_s, alike, crosses))
            yield pair


@record
class _Launch:
    """One `mpirun` over hosts: the hosts, and the program of their ranks."""

    name: str
    kind: Literal["mpi_hosts", "mpi_gpus", "nccl", "resnet50"]
    hosts: tuple[Host, ...]
    program: tuple[str, ...]
    speeds: Mapping[str, int] = field(default_factory=dict[str, int])
    """The rails that it measures, to their speed; empty if it measures none."""


def _launched(spec: ClusterSpec, containers: Containers, launch: _Launch) -> HostProbe:
    """Make a probe that `mpirun` on the first host starts on all hosts."""
    hosts, program = launch.hosts, launch.program
    measured = launch.kind in {"nccl", "resnet50"}
    gpus = sum(host.gpus for host in hosts)
    ranks = gpus if measured else len(hosts)
    exports = container_plan.nccl_exports(spec) if measured else ()
    run = container_plan.on_own_devices(spec, program) if measured else program
    script = shlex.join(container_plan.mpirun(hosts, ranks, (*exports, *run)))
    probe = Probe(
        name=launch.name,
        kind=launch.kind,
        rails=tuple(launch.speeds),
        nodes=tuple(host.name for host in hosts),
        ranks=gpus if launch.kind == "mpi_gpus" else ranks,
        rates=_other_rates(spec, launch.speeds),
    )
    return HostProbe(
        probe,
        client=HostCommand(
            host_endpoint(hosts[0]), container_plan.in_container(containers, f"{script}\n")
        ),
        server=None,
        deadline_s=spec.acceptance.timeout_s if measured else SMOKE_DEADLINE_S,
        command=container_plan.mpirun(hosts, ranks, (*exports, *program)),
    )


def _perftest(spec: ClusterSpec, containers: Containers, rail: Rail, pair: RailPair) -> HostProbe:
    sender, receiver = pair.client, pair.server
    card = nic_on(receiver, rail.name)
    client = perftest_command(spec, (card.address if card else None) or "")
    server = perftest_command(spec)
    probe = Probe(
        name=f"perftest-{rail.name}-{sender.name}-{receiver.name}",
        kind="perftest",
        rails=(rail.name,),
        nodes=(sender.name, receiver.name),
        rates=_other_rates(spec, {rail.name: pair.speed_gbit_s}),
    )
    return HostProbe(
        probe,
        client=_end(containers, (sender, rail), "perftest_client", client),
        server=_end(containers, (receiver, rail), "perftest_server", server),
        deadline_s=PERFTEST_DEADLINE_S,
        command=client,
    )


def _end(
    containers: Containers, end: tuple[Host, Rail], script: str, command: tuple[str, ...]
) -> HostCommand:
    """Fill the command into the script of one end; a client tries until its server answers."""
    host, rail = end
    nic = nic_on(host, rail.name)
    call = job_script(script).replace("ib_write_bw_call", container_plan.shell_words(command))
    text = container_plan.find_devices((nic.netdev,) if nic else ()) + call
    return HostCommand(host_endpoint(host), container_plan.in_container(containers, text))
