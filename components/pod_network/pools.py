"""The pools of nv-ipam: one for each rail with addresses, from which each node gets a block.

A pool has its own name and its own node label, and a rail on several leaves has one pool for each.
Sources: README, `ippool_validate.go` and the allocator of nvidia-k8s-ipam v0.4.0
(lab/sources.md#pod-network).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final, TypeAlias

from pydantic import JsonValue

from components.core.record import record
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.infiniband import IbRail
from components.model.owners import draws_blocks
from components.model.places import is_flat, link_of, pod_links, subnet_of
from components.pod_network.manifests import NAMESPACE, make
from components.pod_network.rails import Kept, ib_rails, pools_of, rail_ports, written_exclusions
from components.pod_network.rails import Pool as RailPool

AnyRail: TypeAlias = Rail | IbRail
NETWORK_NAMESPACE: Final = "nvidia-network-operator"
"""Namespace of the network operator; its nv-ipam reads only the pools there."""
_LABELS: Final = "pool.railyard.dev"
_SHARED: Final = 32
"""Addresses of a node if pods share its cards: the number of pods is not known beforehand."""
_SPARE: Final = 2
"""Minimum size of a block as a multiple of the number of VFs: some addresses of a block are
reserved, and ended pods release theirs only after the next pods have started."""


@record
class Pool:
    """The addresses of one rail, or of one leaf on it."""

    name: str
    """Name of the object, also used in attachments."""
    rail: str
    leaf: str
    """The leaf with the subnet; empty if the rail is one subnet."""
    subnet: IPv4Network
    gateway: IPv4Address | None
    block: int
    """Addresses of each node (`perNodeBlockSize`)."""
    kept: tuple[Kept, ...]
    """Addresses that pods never get."""
    routes: tuple[IPv4Network, ...]
    nodes: tuple[str, ...]
    """Hosts that take addresses from it."""
    needs: int
    """Addresses that a node needs free in its block: one for each VF, at least one."""

    def blocks(self) -> Iterator[tuple[IPv4Address, int]]:
        """First address of each block that the controller would give, and its number of pods.

        Blocks start at the first address after the network's own, without a gap. A fully reserved
        block is left out, and so is a block that would include the broadcast address.
        """
        first, last = int(self.subnet[0]) + 1, int(self.subnet[-1]) - 1
        for start in range(first, last - self.block + 2, self.block):
            taken = {
                number
                for kept in self.kept
                for number in range(
                    max(start, int(kept.first)), min(start + self.block - 1, int(kept.last)) + 1
                )
            }
            if len(taken) == self.block:
                continue
            gateway = int(self.gateway) if self.gateway else 0
            if start <= gateway < start + self.block:
                taken.add(gateway)
            if len(taken) < self.block or self.block > 1:
                yield IPv4Address(start), self.block - len(taken)


def pool_name(spec: ClusterSpec, rail: AnyRail, leaf: str = "") -> str:
    """The pool of a rail: the unique name of its attachment, and the leaf.

    The rails of a flat fabric have one pool: two pools of one subnet would give the same addresses.
    """
    named = spec.rails[0] if is_flat(spec) else rail
    return f"{named.network}-{leaf}" if leaf else named.network


def pooled_rails(spec: ClusterSpec) -> tuple[AnyRail, ...]:
    """The rails with a pool: none unless the site has nv-ipam, and one on a flat fabric."""
    if not draws_blocks(spec):
        return ()
    rails = spec.rails[:1] if is_flat(spec) else spec.rails
    return tuple(rail for rail in (*rails, *ib_rails(spec)) if rail.subnet is not None)


def pool_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels by which a node gets blocks of its rails."""
    return {
        f"{_LABELS}/{pool_name(spec, rail, _leaf_of(spec, host, rail))}": "true"
        for rail in pooled_rails(spec)
        if _is_on(spec, host, rail)
    }


def plan_pools(spec: ClusterSpec) -> tuple[Pool, ...]:
    """The pools of a site, in the order of its rails and of their leaves."""
    found: list[Pool] = []
    for rail in pooled_rails(spec):
        members: dict[str, list[Host]] = {}
        for host in spec.workers:
            if _is_on(spec, host, rail):
                members.setdefault(_leaf_of(spec, host, rail), []).append(host)
        if isinstance(rail, Rail):
            parts = pools_of(spec)[rail.name]
        else:
            assert rail.subnet is not None  # noqa: S101 - `pooled_rails` leaves out the others
            kept = written_exclusions(spec, rail.name)
            parts = (RailPool(rail.name, "", rail.subnet, None, kept, None, ()),)
        found += (_pool(spec, rail, part, members.get(part.leaf, [])) for part in parts)
    return tuple(found)


def _pool(spec: ClusterSpec, rail: AnyRail, part: RailPool, members: Sequence[Host]) -> Pool:
    of_hosts = (
        rail_ports(host, rail)
        if isinstance(rail, IbRail)
        else [nic for nic in host.nics if nic.rail == rail.name or is_flat(spec)]
        for host in members
    )
    vfs = max((sum(port.vfs for port in ports) for ports in of_hosts), default=0)
    default = 1 << (_SPARE * vfs - 1).bit_length() if vfs else _SHARED  # a power of two
    others = [rail.subnet] if isinstance(rail, Rail) and part.leaf else []
    routes = (each.to for each in spec.pod_network.routes if each.rail == rail.name)
    return Pool(
        pool_name(spec, rail, part.leaf), rail.name, part.leaf, part.network, part.gateway,
        block=spec.pod_network.addresses_per_node or default,
        # The gateway has a separate field.
        kept=tuple(each for each in part.kept if not each.first == each.last == part.gateway),
        routes=(*others, *routes), nodes=tuple(host.name for host in members), needs=max(vfs, 1),
    )  # fmt: skip


def _leaf_of(spec: ClusterSpec, host: Host, rail: AnyRail) -> str:
    """The leaf whose part of a rail a host is in; empty if the rail is one subnet."""
    place = subnet_of(spec, rail, host) if isinstance(rail, Rail) else None
    return place.leaf if place is not None else ""


def _is_on(spec: ClusterSpec, host: Host, rail: AnyRail) -> bool:
    if host.role != "worker":
        return False
    if isinstance(rail, Rail):
        return any(nic.rail == rail.name or is_flat(spec) for nic in host.nics)
    # On shared HCAs a rail is a network device, and the file need not list a port for it.
    return bool(rail_ports(host, rail) or (spec.pod_network.mode == "rdma_shared" and host.hcas))


def pool_manifest(spec: ClusterSpec, pool: Pool) -> Body:
    """The IPPool of a rail, which is ready when the first node has its block."""
    kept = [{"startIP": str(kept.first), "endIP": str(kept.last)} for kept in pool.kept]
    return _object(
        spec, "ip-pool", pool.name, subnet=str(pool.subnet), block=pool.block, kept=kept or None,
        gateway=pool.gateway and str(pool.gateway),
        routes=[{"dst": str(to)} for to in pool.routes] or None,
    )  # fmt: skip


def link_pools(spec: ClusterSpec) -> list[tuple[str, Body]]:
    """A CIDRPool for each rail on routed ports, with the rail's name: each worker has its own /31.

    The pool lists the /31 of each node, since the switch port has its other address.
    """
    found: list[tuple[str, Body]] = []
    for rail in (each for each in spec.rails if each.name in pod_links(spec)):
        own: list[JsonValue] = []
        links = pod_links(spec)[rail.name]
        for host in (each for each in spec.workers if each.name in links):
            network, port = link_of(links[host.name])
            own.append({"nodeName": host.node, "prefix": str(network), "gateway": str(port)})
        others = (each.to for each in spec.pod_network.routes if each.rail == rail.name)
        routes = [{"dst": str(to)} for to in (rail.subnet, *others)]
        name, subnet = pool_name(spec, rail), str(rail.subnet)
        found.append(
            (rail.name, _object(spec, "cidr-pool", name, subnet=subnet, own=own, routes=routes))
        )
    return found


def _object(spec: ClusterSpec, template: str, name: str, **words: object) -> Body:
    """A pool, in the namespace of nv-ipam's controller, which looks for its pools only there."""
    namespace = NETWORK_NAMESPACE if spec.operators.network else NAMESPACE
    return make(template, name=name, label=f"{_LABELS}/{name}", namespace=namespace, **words)
