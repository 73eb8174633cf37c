"""Probes on hosts without a cluster: a command in a container over SSH, and its output."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final, Literal

from components.acceptance.probes.perftest import perftest_command
from components.containers.launch import (
    find_devices,
    in_container,
    mpirun,
    nccl_exports,
    on_own_devices,
    shell_words,
)
from components.jobs.environment import job_script
from components.model.cluster import ClusterSpec
from components.model.containers import Containers
from components.model.fabric import Rail
from components.model.hosts import Host, Nic
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

HostProbeKind = Literal["mpi_hosts", "mpi_gpus", "nccl", "perftest", "resnet50"]
SMOKE_DEADLINE_S: Final = 120.0
"""Seconds for `hostname` and `nvidia-smi` over all hosts: they start in seconds."""
PERFTEST_DEADLINE_S: Final = 180.0
"""Seconds for a client that waits two minutes at most for its server, and sends for five."""
_TF_CNN: Final = "/workspace/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
_NEEDED_HOSTS: Final = 2


@dataclass(frozen=True, slots=True)
class HostCommand:
    """One command on one host."""

    endpoint: Endpoint
    script: str
    """Shell text, run as root on the host."""


@dataclass(frozen=True, slots=True)
class HostProbe:
    """One probe: what runs, where, and what it is to prove."""

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
    """Of a perftest: runs at the same time, and ends with the client."""
    deadline_s: float
    command: tuple[str, ...]
    """What it runs, for people."""


def plan_payload_probes(spec: ClusterSpec) -> tuple[HostProbe, ...]:
    """The probes of a site without Kubernetes; none for another, or for one host.

    The order is that of their meaning: who cannot start `hostname` everywhere needs no bandwidth.
    """
    containers = spec.containers
    if containers is None or len(spec.workers) < _NEEDED_HOSTS:
        return ()
    probes = [_mpi_hosts(spec, containers), _mpi_gpus(spec, containers)]
    probes += [
        _perftest(spec, containers, rail, (sender, receiver))
        for rail in spec.rails
        for sender, receiver in [_ends(spec, rail)]
        if sender is not None and receiver is not None
    ]
    if spec.workers[0].gpus:
        probes.append(_nccl(spec, containers))
        if spec.acceptance.resnet50 is not None:
            probes.append(_resnet50(spec, containers, spec.acceptance.resnet50.batch_size))
    return tuple(probes)


def _nic(host: Host, rail: Rail) -> Nic | None:
    return next((nic for nic in host.nics if nic.rail == rail.name), None)


End = tuple[Host, Nic]


def _ends(spec: ClusterSpec, rail: Rail) -> tuple[End | None, End | None]:
    """The first two workers on a rail whose card has an address there."""
    found: list[End] = []
    for host in spec.workers:
        nic = _nic(host, rail)
        if nic is not None and nic.address is not None:
            found.append((host, nic))
    padded: list[End | None] = [*found[:_NEEDED_HOSTS], None, None]
    return padded[0], padded[1]


def _all_workers(
    spec: ClusterSpec,
    containers: Containers,
    name: str,
    kind: HostProbeKind,
    program: tuple[str, ...],
    *,
    ranks: int,
) -> HostProbe:
    """A probe that `mpirun` on the first worker starts on all of them."""
    measured = kind in {"nccl", "resnet50"}
    exports = nccl_exports(spec) if measured else ()
    run = on_own_devices(spec, program) if measured else program
    script = shlex.join(mpirun(spec, ranks, (*exports, *run)))
    return HostProbe(
        name=name,
        kind=kind,
        rails=tuple(rail.name for rail in spec.rails) if measured else (),
        nodes=tuple(host.name for host in spec.workers),
        ranks=ranks,
        client=HostCommand(host_endpoint(spec.workers[0]), in_container(containers, f"{script}\n")),
        server=None,
        deadline_s=spec.acceptance.timeout_s if measured else SMOKE_DEADLINE_S,
        command=mpirun(spec, ranks, (*exports, *program)),
    )


def _mpi_hosts(spec: ClusterSpec, containers: Containers) -> HostProbe:
    ranks = len(spec.workers)
    return _all_workers(spec, containers, "mpi-hosts", "mpi_hosts", ("hostname",), ranks=ranks)


def _mpi_gpus(spec: ClusterSpec, containers: Containers) -> HostProbe:
    ranks, program = len(spec.workers), ("nvidia-smi", "-L")
    return _all_workers(spec, containers, "mpi-gpus", "mpi_gpus", program, ranks=ranks)


def _gpus(spec: ClusterSpec) -> int:
    return sum(host.gpus for host in spec.workers)


def _nccl(spec: ClusterSpec, containers: Containers) -> HostProbe:
    program = ("all_reduce_perf", "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    program += ("-g", "1")
    return _all_workers(spec, containers, "nccl-all-reduce", "nccl", program, ranks=_gpus(spec))


def _resnet50(spec: ClusterSpec, containers: Containers, batch_size: int) -> HostProbe:
    """The guide's command; the NCCL variables beside the guide's two keep it on the rails."""
    program = ("python3", _TF_CNN, "--model", "resnet50", "--batch_size", str(batch_size))
    program += ("--use_fp16", "--variable_update=horovod", "--xla=True")
    return _all_workers(spec, containers, "resnet50", "resnet50", program, ranks=_gpus(spec))


def _perftest(
    spec: ClusterSpec, containers: Containers, rail: Rail, ends: tuple[End, End]
) -> HostProbe:
    (sender, _), (receiver, receiver_nic) = ends
    client = perftest_command(spec, receiver_nic.address or "")
    server = perftest_command(spec)
    return HostProbe(
        name=f"perftest-{rail.name}-{sender.name}-{receiver.name}",
        kind="perftest",
        rails=(rail.name,),
        nodes=(sender.name, receiver.name),
        ranks=0,
        client=_end(containers, ends[0], _call("perftest_client", client)),
        server=_end(containers, ends[1], _call("perftest_server", server)),
        deadline_s=PERFTEST_DEADLINE_S,
        command=client,
    )


def _call(script: str, command: tuple[str, ...]) -> str:
    """One of the two scripts that run in pods: the client tries until its server answers."""
    return job_script(script).replace("ib_write_bw_call", shell_words(command))


def _end(containers: Containers, end: End, script: str) -> HostCommand:
    host, nic = end
    text = find_devices((nic.netdev,)) + script
    return HostCommand(host_endpoint(host), in_container(containers, text))
