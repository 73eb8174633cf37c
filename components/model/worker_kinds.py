"""Kinds of equal workers for jobs, and the hosts that a cloud makes.

A job starts the same number of ranks on each worker, and asks for one device of each rail there. So
hosts of one kind have the same GPUs, the same rails, and the same speed on each rail.

All later rooms work on `hosts`, whoever made them. Facts that only the cloud knows, an instance's
addresses and host key, are holes (`components/core/plain_text.py`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from components.catalogue.environments import InstanceType, find_type
from components.core.plain_text import placeholder
from components.core.problem import SpecPath
from components.core.record import record
from components.model.cluster import ClusterSpec
from components.model.environments import CrusoeProvision, InstancePool
from components.model.fabric import Rail
from components.model.hosts import Host, Nic
from components.model.once import once
from components.model.places import leaves_of_hosts, shares_resource
from components.model.units import Ssh

PAIR: Final = 2
"""Least number of hosts between which RDMA can be proven."""
_Key = tuple[int, str | None, tuple[tuple[str, int], ...], bool]


def crusoe_of(spec: ClusterSpec) -> CrusoeProvision | None:
    """Return the instances to make in Crusoe Cloud, or None."""
    cloud = spec.cloud
    return cloud.instances if cloud and isinstance(cloud.instances, CrusoeProvision) else None


def instance_names(pool: InstancePool) -> tuple[str, ...]:
    """The names of a pool's instances, in the order in which they are made."""
    return tuple(f"{pool.name}-{number}" for number in range(pool.count))


def with_instances(spec: ClusterSpec) -> ClusterSpec:
    """Return the site with a host for each instance of its pools.

    The site comes back unchanged if it has no pools, if it lists hosts too (`cloud-hosts` refuses
    that), or if its hosts were already added.
    """
    provision = crusoe_of(spec)
    if provision is None or spec.hosts:
        return spec
    hosts: list[Host] = []
    for pool in provision.pools:
        # `instance-type` refuses an unknown one; until then it has no devices.
        kind = find_type(pool.type) or InstanceType(pool.type)
        for name in instance_names(pool):
            ssh = Ssh(
                address=placeholder(name, "public_ip"),
                port=provision.ssh_port,
                user=provision.ssh_user,
                private_key=provision.ssh_private_key,
                host_key=placeholder(name, "host_key"),
            )
            own = Host(name=name, role=pool.role, ssh=ssh, gpus=kind.gpus, hcas=kind.hcas)
            hosts.append(own.model_copy(update={"node_ip": placeholder(name, "private_ip")}))
    return spec.model_copy(update={"hosts": tuple(hosts)})


def written_at(spec: ClusterSpec, path: SpecPath) -> SpecPath:
    """Return the path in the file for a path in the spec: a pool's host maps to its pool."""
    provision = crusoe_of(spec)
    if provision is None or path[:1] != ("hosts",):
        return path
    pools = [(p, name) for p, pool in enumerate(provision.pools) for name in instance_names(pool)]
    if [name for _, name in pools] != [host.name for host in spec.hosts]:
        return path
    place: SpecPath = ("environment", "instances", "pools")
    number = path[1] if path[1:] else None
    return (*place, pools[number][0]) if isinstance(number, int) else place


@record
class WorkerKind:
    """Workers that one job can run on together."""

    name: str
    """The host group of these hosts, if they have one; else the name of the first host."""
    hosts: tuple[Host, ...]
    """In the order of the file."""
    gpus: int
    """GPUs of each host."""
    speeds: Mapping[str, int]
    """The rails that each host is on, to the speed there in Gbit/s, in the order of the file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its hosts."""
        return tuple(host.name for host in self.hosts)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of their nodes in the cluster."""
        return tuple(host.node for host in self.hosts)

    @property
    def ranks(self) -> int:
        """Ranks of a job on all of its hosts: one for each GPU."""
        return self.gpus * len(self.hosts)

    @property
    def runs_collectives(self) -> bool:
        """Whether a collective can cross from one of its hosts to another."""
        return self.gpus > 0 and len(self.hosts) >= PAIR

    def rails_of(self, spec: ClusterSpec) -> tuple[Rail, ...]:
        """Return its rails, in the order of the file; empty on InfiniBand."""
        return tuple(rail for rail in spec.rails if rail.name in self.speeds)


def speeds_of(spec: ClusterSpec, host: Host) -> dict[str, int]:
    """The rails of the file that a host is on, to its speed there in Gbit/s."""
    own = {nic.rail: nic.speed_gbit_s for nic in reversed(host.nics)}
    return {rail.name: own[rail.name] for rail in spec.rails if rail.name in own}


@once
def worker_kinds(spec: ClusterSpec) -> tuple[WorkerKind, ...]:
    """Return the kinds of workers, in the order of their first hosts in the file."""
    found: dict[_Key, list[Host]] = {}
    fabric = spec.rdma.transport == "infiniband"  # every worker with HCAs has the same number
    for host in spec.workers:
        rails, fitted = tuple(speeds_of(spec, host).items()), fabric and host.hcas > 0
        found.setdefault((host.gpus, host.gpu_model, rails, fitted), []).append(host)
    owners = Counter(group for hosts in found.values() for group in {host.group for host in hosts})
    kinds: list[WorkerKind] = []
    for (gpus, _, speeds, _), hosts in found.items():
        # A kind has the name of its group if that is exactly this kind; else of its first host.
        group, is_one = hosts[0].group, len({host.group for host in hosts}) == 1
        name = group if group and is_one and owners[group] == 1 else hosts[0].name
        kinds.append(WorkerKind(name, tuple(hosts), gpus, dict(speeds)))
    return tuple(kinds)


def gpu_kinds(spec: ClusterSpec) -> tuple[WorkerKind, ...]:
    """The kinds whose hosts have GPUs."""
    return tuple(kind for kind in worker_kinds(spec) if kind.gpus)


def fitting_kind(spec: ClusterSpec, workers: int, gpus: int) -> WorkerKind | None:
    """Return the kind with enough workers and GPUs; among several, the one with most rails."""
    able = [kind for kind in worker_kinds(spec) if len(kind.hosts) >= workers and kind.gpus >= gpus]
    return max(able, key=lambda kind: len(kind.speeds), default=None)


def on_infiniband(spec: ClusterSpec) -> tuple[Host, ...]:
    """Return the workers with InfiniBand adapters; in a cloud all workers have them."""
    return tuple(host for host in spec.workers if host.hcas or spec.cloud is not None)


def nic_on(host: Host, rail: str) -> Nic | None:
    """A host's card on a rail, or None."""
    return next((nic for nic in host.nics if nic.rail == rail), None)


def speed_classes(spec: ClusterSpec, rail: Rail) -> Mapping[int, tuple[Host, ...]]:
    """The workers on a rail by their speed there in Gbit/s, in the order of the file."""
    found: dict[int, list[Host]] = {}
    for host in spec.workers:
        nic = nic_on(host, rail.name)
        if nic is not None:
            found.setdefault(nic.speed_gbit_s, []).append(host)
    return {speed: tuple(hosts) for speed, hosts in found.items()}


@record
class RailPair:
    """Two workers of one rail between which a test is run."""

    client: Host
    server: Host
    speed_gbit_s: int
    """The speed of the slower worker."""


def rail_pairs(spec: ClusterSpec, rail: Rail) -> Iterator[RailPair]:
    """Yield neighbours of one speed, and a pair from each speed to the next: all workers join.

    The slower speed judges a pair of two speeds. On a rail with several leaves, the workers of one
    leaf are neighbours, so one pair joins each leaf to the next. If all rails share one resource
    there are no pairs: a pod cannot choose the rail of its VF.
    """
    if shares_resource(spec) and spec.kubernetes is not None:
        return
    last: tuple[Host, int] | None = None
    order = {leaf: number for number, leaf in enumerate(rail.leaves)}
    leaf_of = leaves_of_hosts(spec)

    def place(host: Host) -> int:
        return order.get(leaf_of.get((host.name, rail.name), ""), len(order))

    for speed, hosts in speed_classes(spec, rail).items():
        for host in sorted(hosts, key=place):
            if last is not None:
                yield RailPair(last[0], host, min(last[1], speed))
            last = host, speed
