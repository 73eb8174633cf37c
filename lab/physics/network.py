"""What NCCL finds when it starts: devices per host, connections between them, and their pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from components.core.record import record
from lab.physics.bus_bandwidth import bus_factor
from lab.physics.calibration import (
    ALLTOALL_SHARE,
    FABRIC_LATENCY_US,
    FABRIC_SHARE,
    FABRIC_SLOW_START_US,
    FABRIC_TREE_SHARE,
    HOST_STAGING_SHARE,
    NCCL_SHARE,
    SOCKET_GB_S,
    Pace,
    pair_gbit_s,
)
from lab.physics.counters import Flow
from lab.physics.fabric import FabricPath, HcaEndpoint
from lab.physics.nccl_job import NcclJob
from lab.physics.path import AnyEnd, Endpoint, PathFault, RailPath, Site, find_fault, follow
from lab.physics.request import ProbePod

_LARGE_MESSAGE_BYTES = 1 << 20
"""NCCL's chunks on the wire (`len=1048576` in NCCL's logs)."""
_BITS = 8
_PAIR_OF_HOSTS = 2
AnyPath = RailPath | FabricPath


@record
class Network:
    """The rails or adapters that a job found, or why it cannot use them."""

    devices: Mapping[str, tuple[AnyEnd, ...]]
    """By pod: the active devices in NCCL's order. Empty: NCCL falls back to sockets."""
    paths: tuple[AnyPath, ...] = ()
    """One per device and direction around the ring of hosts."""
    fault: PathFault | None = None
    split: bool = False
    """Some hosts have RDMA devices and some have none."""
    unpinned: AnyEnd | None = None
    """An end whose pod may not pin memory."""
    searched: ProbePod | None = None
    """A pod in which the search for adapters found none."""

    @property
    def on_fabric(self) -> bool:
        """It is InfiniBand."""
        return any(isinstance(path, FabricPath) for path in self.paths)

    @property
    def width(self) -> int:
        """Devices that every host has."""
        return min((len(found) for found in self.devices.values()), default=0)


def find_network(job: NcclJob, site: Site) -> Network:
    """What NCCL finds when it starts."""
    devices = {pod.name: _devices(job, pod, site) for pod in job.pods}
    bare = next((pod for pod in job.pods if job.searches and not devices[pod.name]), None)
    if bare is not None:
        return Network(devices, searched=bare)
    counts = [len(found) for found in devices.values()]
    if not any(counts):
        return Network(devices={})
    if not all(counts):
        return Network(devices, split=True)
    return _connect(job, devices)


def _connect(job: NcclJob, devices: Mapping[str, tuple[AnyEnd, ...]]) -> Network:
    paths: list[AnyPath] = []
    for pod, following in zip(job.pods, (*job.pods[1:], job.pods[0]), strict=True):
        ours, theirs = devices[pod.name], devices[following.name]
        for index in range(max(len(ours), len(theirs))):
            one, other = ours[index % len(ours)], theirs[index % len(theirs)]
            if isinstance(one, HcaEndpoint) and isinstance(other, HcaEndpoint):
                unpinned = next((end for end in (one, other) if not end.can_pin), None)
                if unpinned is not None:
                    return Network(devices, unpinned=unpinned)
                paths.append(FabricPath(one, other))
            elif isinstance(one, Endpoint) and isinstance(other, Endpoint):
                fault = find_fault(one, other)
                if fault is not None:
                    end = fault.endpoint if fault.kind == "no_memory" else None
                    return Network(devices, fault=fault, unpinned=end)
                paths.append(follow(one, other, job.tclass))
            else:
                return Network(devices, split=True)
    return Network(devices, tuple(paths))


def uses_gdr(job: NcclJob, end: AnyEnd) -> bool:
    """True if the card reads GPU memory itself: it can, and the level allows it."""
    level = job.env.get("NCCL_NET_GDR_LEVEL", "")
    # A virtual machine shows no PCIe tree: without the file, GPU and adapter seem far apart.
    told = not isinstance(end, HcaEndpoint) or end.can_read(job.env.get("NCCL_TOPO_FILE", ""))
    return end.gdr_possible and told and level.upper() not in ("0", "LOC")


def pace_of(job: NcclJob, network: Network, collective: str) -> Pace:
    """How fast a collective runs: the slowest rail sets the pace of all channels."""
    if not network.paths:
        return Pace(SOCKET_GB_S * _spread(job, collective))
    if network.on_fabric:
        share = FABRIC_SHARE
        if _as_tree(job, collective):
            share = FABRIC_TREE_SHARE
        slowest = min(path.line_rate_gbit_s for path in network.paths) * share
        start = (FABRIC_LATENCY_US, FABRIC_SLOW_START_US)
    else:
        slowest = NCCL_SHARE * min(
            pair_gbit_s(rate, path.efficiency, _LARGE_MESSAGE_BYTES)
            for path, rate in _shared_rates(network.paths)
        )
        start = (Pace(0).latency_us, Pace(0).slow_start_us)
    ends = [end for found in network.devices.values() for end in found]
    if not all(uses_gdr(job, end) for end in ends):
        slowest *= HOST_STAGING_SHARE
    return Pace(network.width * slowest / _BITS * _spread(job, collective), *start)


def _shared_rates(paths: Sequence[AnyPath]) -> Iterator[tuple[AnyPath, int]]:
    """Each path with its rate in Gbit/s: all of them send at once, and share links of switches."""
    routed = [path for path in paths if isinstance(path, RailPath)]
    load = Counter((port.switch, port.port) for path in routed for port, _ in path.hops)
    for path in paths:
        shares = [
            port.speed_gbit_s // load[port.switch, port.port]
            for port, _ in (path.hops if isinstance(path, RailPath) else ())
        ]
        yield path, min((path.line_rate_gbit_s, *shares))


def flows_of(job: NcclJob, network: Network, collective: str, moved_bytes: int) -> list[Flow]:
    """Each device carries its share of what crosses a host's boundary, in each direction.

    Args:
        job: The job.
        network: What it uses.
        collective: Which collective.
        moved_bytes: Sum of the messages of all runs.
    """
    if not network.paths:
        return []
    total = moved_bytes * _crossing(job, collective)
    if collective == "alltoall" and len(job.pods) > _PAIR_OF_HOSTS and not network.on_fabric:
        share = round(total / network.width / (len(job.pods) - 1))
        return [Flow(path, share) for path in _between_all(job, network)]
    return [Flow(path, round(total / network.width)) for path in network.paths]


def _between_all(job: NcclJob, network: Network) -> Iterator[RailPath]:
    """From each device to the one of the same number on every other host, where there is a way."""
    for pod, other in permutations(job.pods, 2):
        pairs = zip(network.devices[pod.name], network.devices[other.name], strict=False)
        yield from (
            follow(one, far, job.tclass)
            for one, far in pairs
            if isinstance(one, Endpoint) and isinstance(far, Endpoint)
            if find_fault(one, far) is None
        )


def _as_tree(job: NcclJob, collective: str) -> bool:
    """Two hosts may use a tree, whose number is above the line rate, unless a ring is forced."""
    forced = job.env.get("NCCL_ALGO", "").upper() == "RING"
    return len(job.pods) == _PAIR_OF_HOSTS and collective == "all_reduce" and not forced


def _spread(job: NcclJob, collective: str) -> float:
    """In alltoall the bus bandwidth is that of one rank, and some of its peers are near."""
    if collective != "alltoall":
        return 1.0
    ranks, here = len(job.ranks), len(job.ranks) / len(job.pods)
    return ALLTOALL_SHARE * (ranks - 1) / ((ranks - here) * here)


def _crossing(job: NcclJob, collective: str) -> float:
    """How often a message crosses the boundary of a host in one direction."""
    ranks, here = len(job.ranks), len(job.ranks) / len(job.pods)
    if collective == "alltoall":
        return here * (ranks - here) / ranks
    return bus_factor(collective, ranks)


def _devices(job: NcclJob, pod: ProbePod, site: Site) -> tuple[AnyEnd, ...]:
    if job.env.get("NCCL_IB_DISABLE", "0") not in ("", "0"):
        return ()
    found = [end for end in site.ends_of(pod) if end.usable]
    if job.searches:
        found = _fastest_adapters(found)
    selector = "" if job.searches else job.env_of(pod).get("NCCL_IB_HCA", "")
    chosen = [end for end in found if _is_selected(end.device, selector)]
    return tuple(sorted(chosen, key=lambda end: (len(end.device), end.device)))


def _fastest_adapters(ends: Sequence[AnyEnd]) -> list[AnyEnd]:
    """What the job's own search keeps: active InfiniBand adapters of the highest rate."""
    adapters = [
        end for end in ends if isinstance(end, HcaEndpoint) and end.hca.link_layer == "InfiniBand"
    ]
    top = max((end.hca.rate_gbit_s for end in adapters), default=0)
    return [end for end in adapters if end.hca.rate_gbit_s == top]


def _is_selected(device: str, selector: str) -> bool:
    """NCCL_IB_HCA: a list of prefixes; `=` exact names, `^` all but these."""
    if not selector:
        return True
    negated = selector.startswith("^")
    rest = selector.removeprefix("^")
    exact = rest.startswith("=")
    names = [name.partition(":")[0] for name in rest.removeprefix("=").split(",")]
    hit = device in names if exact else any(device.startswith(name) for name in names)
    return hit != negated
