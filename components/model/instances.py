"""The hosts that a cloud makes: the pools of the file, written out as the hosts they become.

Every later room works on `hosts`, whoever made them. What only the cloud can know of an instance,
its addresses and its host key, is there as a hole (`components/core/placeholder.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from components.catalogue.instance_types import InstanceType, find_type
from components.core.placeholder import placeholder
from components.core.problem import SpecPath
from components.model.cloud import CrusoeProvision, InstancePool
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.units import Ssh


def crusoe_of(spec: ClusterSpec) -> CrusoeProvision | None:
    """What is to be made in Crusoe Cloud, or None where nothing is."""
    cloud = spec.cloud
    return cloud.instances if cloud and isinstance(cloud.instances, CrusoeProvision) else None


def instance_names(pool: InstancePool) -> tuple[str, ...]:
    """The names of a pool's instances, in the order in which they are made."""
    return tuple(f"{pool.name}-{number}" for number in range(pool.count))


def with_instances(spec: ClusterSpec) -> ClusterSpec:
    """The same site with a host for each instance of its pools.

    A site without pools, one that lists hosts beside them (`cloud-hosts` refuses that), and one
    that is written out already come back as they are.
    """
    provision = crusoe_of(spec)
    if provision is None or spec.hosts:
        return spec
    return spec.model_copy(update={"hosts": tuple(_hosts(provision))})


def _hosts(provision: CrusoeProvision) -> Iterator[Host]:
    for pool in provision.pools:
        # `instance-type` refuses an unknown one; until then it has nothing.
        kind = find_type(pool.type) or InstanceType(pool.type)
        for name in instance_names(pool):
            yield Host(
                name=name,
                role=pool.role,
                ssh=Ssh(
                    address=placeholder(name, "public_ip"),
                    port=provision.ssh_port,
                    user=provision.ssh_user,
                    private_key=provision.ssh_private_key,
                    host_key=placeholder(name, "host_key"),
                ),
                node_ip=placeholder(name, "private_ip"),
                gpus=kind.gpus,
                hcas=kind.hcas,
            )


def written_at(spec: ClusterSpec, path: SpecPath) -> SpecPath:
    """Where the file says what is at a path: a host of a pool is not in it, its pool is."""
    provision = crusoe_of(spec)
    if provision is None or path[:1] != ("hosts",):
        return path
    pools = [(p, name) for p, pool in enumerate(provision.pools) for name in instance_names(pool)]
    if [name for _, name in pools] != [host.name for host in spec.hosts]:
        return path
    place: SpecPath = ("environment", "instances", "pools")
    number = path[1] if path[1:] else None
    return (*place, pools[number][0]) if isinstance(number, int) else place
