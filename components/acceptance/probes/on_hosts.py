"""Probes on hosts without a cluster: a command in a container over SSH, and its output."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from components.acceptance.probes.probe_job import kind_suffix, other_rates, perftest_command
from components.containers.container_plan import (
    find_devices,
    in_container,
    mpirun,
    nccl_exports,
    on_own_devices,
    shell_words,
)
from components.core.to_json import OMIT_EMPTY
from components.jobs.environment import job_script
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.jobs import Containers
from components.model.places import subnet_of
from components.model.worker_kinds import PAIR, RailPair, WorkerKind, gpu_kinds, nic_on, rail_pairs
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

HostProbeKind = Literal["mpi_hosts", "mpi_gpus", "nccl", "perftest", "resnet50"]
SMOKE_DEADLINE_S: Final = 120.0
"""Seconds for `hostname` and `nvidia-smi` over all hosts: they start in seconds."""
PERFTEST_DEADLINE_S: Final = 180.0
"""Seconds for a client that waits at most two minutes for its server, and sends for five
seconds."""
_TF_CNN: Final = "/workspace/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"


@dataclass(frozen=True, slots=True)
class HostCommand:
    """One command on one host."""

    endpoint: Endpoint
    script: str
    """Shell text, run as root on the host."""


@dataclass(frozen=True, slots=True)
class HostProbe:
    """One probe: its commands, its hosts, and the expected result."""

    name: str
    kind: HostProbeKind
    rails: tuple[str, ...]
    nodes: tuple[str, ...]
    """perftest: sender, receiver. Else the hosts of all ranks."""
    ranks: int
    """Ranks of MPI; 0 for a perftest."""
    client: HostCommand
    """Its output is the log."""
    server: HostCommand | None
    """The server of a perftest: it runs at the same time, and ends with the client."""
    deadline_s: float
    command: tuple[str, ...]
    rates: Mapping[str, float] = field(default_factory=dict[str, float], metadata=OMIT_EMPTY)
    """The rates of the rails whose hosts are faster than the slowest worker there, in Gbit/s."""


def plan_payload_probes(spec: ClusterSpec) -> tuple[HostProbe, ...]:
    """The probes of a site without Kubernetes, the basic ones first; none for one host."""
    containers = spec.containers
    if containers is None or len(spec.workers) < PAIR:
        return ()
    hosts, fitted = spec.workers, tuple(host for host in spec.workers if host.gpus)
    smoke = [_Launch("mpi-hosts", "mpi_hosts", hosts, len(hosts), ("hostname",))]
    if fitted:
        program = ("nvidia-smi", "-L")
        smoke.append(_Launch("mpi-gpus", "mpi_gpus", fitted, len(fitted), program))
    probes = [_launched(spec, containers, each) for each in smoke]
    probes += [
        _perftest(spec, containers, rail, pair)
        for rail in spec.rails
        for pair in _pairs(spec, rail)
    ]
    kinds = [kind for kind in gpu_kinds(spec) if kind.runs_collectives]
    launches = [_nccl(spec, kind) for kind in kinds]
    if spec.acceptance.resnet50 is not None:
        launches += [_resnet50(kind, spec.acceptance.resnet50.batch_size) for kind in kinds[:1]]
    return (*probes, *(_launched(spec, containers, each) for each in launches))


def _pairs(spec: ClusterSpec, rail: Rail) -> Iterator[RailPair]:
    """One pair for each speed of a rail and from each speed to the next, of hosts with addresses.

    If the rail has several leaves, also one pair from each leaf to the next. The file has the
    cards' addresses: `container-hosts` refuses a worker's card without one.
    """
    seen: set[tuple[int, bool, bool]] = set()
    for pair in rail_pairs(spec, rail):
        ends = [nic_on(host, rail.name) for host in (pair.client, pair.server)]
        if any(nic is None or nic.address is None for nic in ends):
            continue
        alike = len({nic.speed_gbit_s for nic in ends if nic is not None}) == 1
        crosses = len({subnet_of(spec, rail, host) for host in (pair.client, pair.server)}) > 1
        if crosses or (pair.speed_gbit_s, alike, crosses) not in seen:
            seen.add((pair.speed_gbit_s, alike, crosses))
            yield pair


@dataclass(frozen=True, slots=True)
class _Launch:
    """One `mpirun` over hosts: the hosts, the number of ranks, and their program."""

    name: str
    kind: HostProbeKind
    hosts: tuple[Host, ...]
    ranks: int
    program: tuple[str, ...]
    speeds: Mapping[str, int] = field(default_factory=dict[str, int])
    """The rails that it measures, to their speed; empty if it measures none."""


def _launched(spec: ClusterSpec, containers: Containers, launch: _Launch) -> HostProbe:
    """Make a probe that `mpirun` on the first host starts on all hosts."""
    hosts, ranks, program = launch.hosts, launch.ranks, launch.program
    measured = launch.kind in {"nccl", "resnet50"}
    exports = nccl_exports(spec) if measured else ()
    run = on_own_devices(spec, program) if measured else program
    script = shlex.join(mpirun(hosts, ranks, (*exports, *run)))
    return HostProbe(
        name=launch.name,
        kind=launch.kind,
        rails=tuple(launch.speeds),
        nodes=tuple(host.name for host in hosts),
        ranks=ranks,
        client=HostCommand(host_endpoint(hosts[0]), in_container(containers, f"{script}\n")),
        server=None,
        deadline_s=spec.acceptance.timeout_s if measured else SMOKE_DEADLINE_S,
        command=mpirun(hosts, ranks, (*exports, *program)),
        rates=other_rates(spec, launch.speeds),
    )


def _nccl(spec: ClusterSpec, kind: WorkerKind) -> _Launch:
    program = ("all_reduce_perf", "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    name = f"nccl-all-reduce{kind_suffix(spec, kind)}"
    return _Launch(name, "nccl", kind.hosts, kind.ranks, (*program, "-g", "1"), kind.speeds)


def _resnet50(kind: WorkerKind, batch_size: int) -> _Launch:
    """The guide's command; the other NCCL variables keep it on the rails."""
    program = ("python3", _TF_CNN, "--model", "resnet50", "--batch_size", str(batch_size))
    program += ("--use_fp16", "--variable_update=horovod", "--xla=True")
    return _Launch("resnet50", "resnet50", kind.hosts, kind.ranks, program, kind.speeds)


def _perftest(spec: ClusterSpec, containers: Containers, rail: Rail, pair: RailPair) -> HostProbe:
    sender, receiver = pair.client, pair.server
    card = nic_on(receiver, rail.name)
    client = perftest_command(spec, (card.address if card else None) or "")
    server = perftest_command(spec)
    return HostProbe(
        name=f"perftest-{rail.name}-{sender.name}-{receiver.name}",
        kind="perftest",
        rails=(rail.name,),
        nodes=(sender.name, receiver.name),
        ranks=0,
        client=_end(containers, (sender, rail), "perftest_client", client),
        server=_end(containers, (receiver, rail), "perftest_server", server),
        deadline_s=PERFTEST_DEADLINE_S,
        command=client,
        rates=other_rates(spec, {rail.name: pair.speed_gbit_s}),
    )


def _end(
    containers: Containers, end: tuple[Host, Rail], script: str, command: tuple[str, ...]
) -> HostCommand:
    """Fill the command into the script of one end; a client tries until its server answers."""
    host, rail = end
    nic = nic_on(host, rail.name)
    call = job_script(script).replace("ib_write_bw_call", shell_words(command))
    text = find_devices((nic.netdev,) if nic else ()) + call
    return HostCommand(host_endpoint(host), in_container(containers, text))
