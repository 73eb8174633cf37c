"""Rules on the addresses of pods: blocks of nv-ipam, exclusions, and who brings Multus."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import islice

from components.checks.rule import Finding, Findings, at, places
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.cni import uses_multus
from components.model.owners import written_owner
from components.model.rail_subnets import subnets_of
from components.pod_network.pools import Pool, plan_pools, pooled_rails
from components.pod_network.rails import ib_rails

_BLOCK: SpecPath = ("pod_network",)
_EXCLUDING = ("whereabouts", "nv-ipam")
"""The ways in which Railyard says which addresses are not given."""
_LEAST = 4
"""Addresses of a subnet that has one beside the network's, the broadcast's and the probe's."""


def check_pod_pool(spec: ClusterSpec) -> Findings:
    """Each worker gets a block of its own of each rail's subnet, with an address for each VF.

    nv-ipam gives blocks of one size, from the first address on, until the next one would hold the
    broadcast address. A node without a block gets no pod onto the rail; what is kept of a block
    (gateway, cards, the bandwidth test's server, `exclusions`) is lost for its pods.
    """
    network = spec.pod_network
    size = network.addresses_per_node
    if size is not None and network.ipam != "nv-ipam":
        yield Finding(
            f"addresses_per_node is the size of nv-ipam's blocks, and ipam is {network.ipam}.",
            places(spec, "pod_network.addresses_per_node", "pod_network.ipam"),
            "remove addresses_per_node, or set ipam to nv-ipam.",
        )
    listed = {(rail, leaf): (path, subnet) for rail, leaf, path, subnet in _subnets(spec)}
    small = [each for each in listed.items() if each[1][1].num_addresses < _LEAST]
    for (name, _), (path, subnet) in small:
        yield Finding(
            f"{name} has {subnet.num_addresses} addresses in {subnet}: none is left for pods.",
            (at(path, subnet), at((*_BLOCK, "ipam"), network.ipam)),
            "give the rail a larger subnet.",
        )
    for pool in () if small else plan_pools(spec):
        path, _ = listed[pool.rail, pool.leaf]
        yield from _pool(spec, pool, path)


def _subnets(spec: ClusterSpec) -> Iterator[tuple[str, str, SpecPath, IPv4Network]]:
    """Rail, leaf, place and subnet of each pool of nv-ipam."""
    pooled = {rail.name for rail in pooled_rails(spec)}
    for r, rail in enumerate(spec.rails):
        for each in subnets_of(rail) if rail.name in pooled else ():
            key: SpecPath = ("leaves", each.leaf, "subnet") if each.leaf else ("subnet",)
            yield rail.name, each.leaf, ("rails", r, *key), each.network
    for r, rail in enumerate(ib_rails(spec)):
        if rail.name in pooled and rail.subnet is not None:
            yield rail.name, "", ("infiniband", "rails", r, "subnet"), rail.subnet


def _pool(spec: ClusterSpec, pool: Pool, path: SpecPath) -> Findings:
    size, nodes = spec.pod_network.addresses_per_node, len(pool.nodes)
    blocks = [*islice(pool.blocks(), nodes)]
    where = (at(path, pool.subnet), at((*_BLOCK, "addresses_per_node"), size or pool.block))
    if len(blocks) < nodes:
        fit = (pool.subnet.num_addresses - 2) // nodes
        fits = f"set addresses_per_node to {fit} or less, or " if fit >= pool.needs else ""
        yield Finding(
            f"{pool.subnet} of {pool.rail} is {len(blocks)} x {pool.block} addresses at most, and "
            f"each of {nodes} workers needs a block of {pool.block}.",
            where,
            f"{fits}give the rail a larger subnet.",
        )
        return
    first, free = min(blocks, key=lambda block: block[1], default=(None, pool.needs))
    if free < pool.needs:
        yield Finding(
            f"the block of {pool.rail} that begins with {first} has {free} of {pool.block} "
            f"addresses for pods, and a node may have {pool.needs} pods there.",
            where,
            f"set addresses_per_node to {pool.needs + pool.block - free} or more.",
        )


def check_pod_exclusion(spec: ClusterSpec) -> Findings:
    """Addresses that pods do not get are in the subnet of the rail that they are written for.

    The API server takes any; nv-ipam's webhook, which is not installed, would refuse them.
    """
    network = spec.pod_network
    subnets = {rail.name: rail.subnet for rail in (*spec.rails, *ib_rails(spec)) if rail.subnet}
    for n, each in enumerate(network.exclusions):
        path: SpecPath = (*_BLOCK, "exclusions", n)
        last, subnet = each.last or each.first, subnets.get(each.rail)
        where = (at((*path, "first"), each.first), at((*path, "rail"), each.rail))
        if network.ipam not in _EXCLUDING or not uses_multus(spec):
            given = f"ipam is {network.ipam}" if uses_multus(spec) else "pods have no interface"
            yield Finding(
                f"exclusions say what whereabouts and nv-ipam do not give, and {given}.",
                where,
                "remove exclusions.",
            )
        elif subnet is None:
            yield Finding(
                f"{each.rail} is no rail with addresses.",
                where,
                f"rails with addresses are {', '.join(subnets) or 'none: give a rail a subnet'}.",
            )
        elif each.first not in subnet or last not in subnet or each.first > last:
            yield Finding(
                f"{each.first} to {last} is no part of {subnet}, the subnet of {each.rail}.",
                where,
                "correct first and last: from the lower to the higher, both in the subnet.",
            )


def check_multus_owner(spec: ClusterSpec) -> Findings:
    """Where Multus is left to the network operator, the site has one, and pods have networks.

    Its policy brings the reference plugins too, and what our own DaemonSets of them would bring is
    left out: two that write one program would take turns.
    """
    network = spec.pod_network
    if network.multus != "operator" or spec.kubernetes is None:
        return
    place = at((*_BLOCK, "multus"), network.multus)
    if spec.operators.network is None:
        yield Finding(
            "multus is left to the network operator, and the site has none.",
            (place, at(("operators", "network"))),
            "add operators.network, or set multus to install.",
        )
    elif not uses_multus(spec):
        yield Finding(
            "multus is left to the network operator, and pods have no networks for it to attach.",
            (place, at((*_BLOCK, "mode"), network.mode)),
            "remove multus.",
        )
    elif written_owner(spec, "multus") == "theirs":
        yield Finding(
            "multus is left to the network operator, and kubernetes.components says it is theirs.",
            (place, at(("kubernetes", "components", "multus"), "theirs")),
            "remove one of the two.",
        )
