"""nv-ipam: the controller that gives nodes their blocks, and the daemon that gives addresses. Pure.

After the source of nvidia-k8s-ipam v0.4.0: `pkg/ipam-controller/allocator/allocator.go`,
`pkg/ipam-node/allocator/allocator.go` and `handlers/allocate.go`
(lab/sources.md#pod-network).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.core.errors import DeviceError
from lab.cluster.document import Doc, Json, docs_at, name_of, number_at, text_at, texts_at

POOLS = "/apis/nv-ipam.nvidia.com/v1alpha1/ippools"
KINDS = ("ippools", "cidrpools")
"""The kinds of pools, by their name in the API."""
IMAGE = "nvidia-k8s-ipam"
"""A part of the image that has controller, daemon and plugin."""


class NoAddressError(DeviceError):
    """The daemon gives no address; the text is the plugin's."""


def give_blocks(pool: Doc, labels: Mapping[str, Mapping[str, str]]) -> list[Json]:
    """The allocations that the controller writes into the status of an IPPool.

    A node keeps its block as long as it fits the pool; one that the selector leaves out loses it.

    Args:
        pool: The IPPool as it is.
        labels: The labels of all nodes.
    """
    nodes = sorted(name for name, own in labels.items() if _selected(pool, own))
    kept: dict[str, Json] = {
        text_at(each, "nodeName"): each
        for each in docs_at(pool, "status", "allocations")
        if text_at(each, "nodeName") in nodes and _fits(pool, each)
    }
    taken = {text_at(each, "startIP") for each in kept.values()}
    free = (block for block in _blocks(pool) if str(block[0]) not in taken)
    for name in nodes:
        if name not in kept and (block := next(free, None)) is not None:
            kept[name] = {"nodeName": name, "startIP": str(block[0]), "endIP": str(block[1])}
    return [kept[name] for name in nodes if name in kept]


def give_prefixes(pool: Doc, labels: Mapping[str, Mapping[str, str]]) -> list[Json]:
    """The allocations that the controller writes into the status of a CIDRPool.

    What `staticAllocations` says of a node counts; the others get the next free prefix (README,
    CIDRPool CR). A static prefix of no node is kept from all.

    Args:
        pool: The CIDRPool as it is.
        labels: The labels of all nodes.
    """
    nodes = sorted(name for name, own in labels.items() if _selected(pool, own))
    written = docs_at(pool, "spec", "staticAllocations")
    static = {text_at(each, "nodeName"): each for each in written if text_at(each, "nodeName")}
    taken = {text_at(each, "prefix") for each in written}
    whole = ipaddress.IPv4Network(text_at(pool, "spec", "cidr"))
    prefixes = whole.subnets(new_prefix=number_at(pool, "spec", "perNodeNetworkPrefix"))
    free = (prefix for prefix in prefixes if str(prefix) not in taken)
    index, given = number_at(pool, "spec", "gatewayIndex"), list[Json]()
    for name in nodes:
        own = static.get(name, {})
        prefix = text_at(own, "prefix") or str(next(free, ""))
        if prefix:
            gateway = text_at(own, "gateway") or str(ipaddress.IPv4Network(prefix)[index])
            given.append({"nodeName": name, "prefix": prefix, "gateway": gateway})
    return given


def _selected(pool: Doc, labels: Mapping[str, str]) -> bool:
    return selects(docs_at(pool, "spec", "nodeSelector", "nodeSelectorTerms"), labels)


def selects(terms: Sequence[Doc], labels: Mapping[str, str]) -> bool:
    """Whether terms of a NodeSelector select a node; none select every node."""
    return not terms or any(
        all(_matches(each, labels) for each in docs_at(term, "matchExpressions")) for term in terms
    )


def _matches(expression: Doc, labels: Mapping[str, str]) -> bool:
    value = labels.get(text_at(expression, "key"))
    operator = text_at(expression, "operator")
    if operator == "In":
        return value in texts_at(expression, "values")
    if operator == "Exists":
        return value is not None
    raise DeviceError(f"the lab knows no operator {operator} of a NodeSelector")


def _subnet(pool: Doc) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text_at(pool, "spec", "subnet"), strict=False)
    except ValueError as error:
        raise DeviceError(f"nv-ipam: {name_of(pool)}: {error}") from error


def _fits(pool: Doc, block: Doc) -> bool:
    """A block of another size or subnet is given again."""
    subnet, size = _subnet(pool), number_at(pool, "spec", "perNodeBlockSize")
    first = ipaddress.IPv4Address(text_at(block, "startIP"))
    last = ipaddress.IPv4Address(text_at(block, "endIP"))
    aligned = (int(first) - int(subnet[0]) - 1) % size == 0
    return first in subnet and last in subnet and aligned and int(last) - int(first) == size - 1


def _blocks(pool: Doc) -> list[tuple[ipaddress.IPv4Address, ipaddress.IPv4Address]]:
    subnet, size = _subnet(pool), number_at(pool, "spec", "perNodeBlockSize")
    if size < 1:
        raise DeviceError(f"nv-ipam: {name_of(pool)}: perNodeBlockSize must be at least 1")
    found: list[tuple[ipaddress.IPv4Address, ipaddress.IPv4Address]] = []
    first = subnet.network_address + 1
    gateway = text_at(pool, "spec", "gateway")
    while int(first) + size - 1 < int(subnet.broadcast_address):
        last = first + (size - 1)
        excluded = all(_excluded(pool, first + n) for n in range(size))
        if not excluded and not (size == 1 and str(first) == gateway):
            found.append((first, last))
        first = last + 1
    return found


def _excluded(pool: Doc, address: ipaddress.IPv4Address) -> bool:
    return any(
        ipaddress.IPv4Address(text_at(each, "startIP"))
        <= address
        <= ipaddress.IPv4Address(text_at(each, "endIP"))
        for each in docs_at(pool, "spec", "exclusions")
    )


@dataclass(slots=True)
class NodeStore:
    """What the daemon of each node wrote into its file: the address of each pool it gave last."""

    last: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])


def give_address(
    ipam: Doc, node: str, pools: Sequence[Doc], used: set[str], store: NodeStore
) -> str:
    """Give the next free address of a node's block, in a round from the one given last.

    Raises:
        NoAddressError: The pool has no block for the node, or all of it is in use.
    """
    name, kind = text_at(ipam, "poolName"), text_at(ipam, "poolType") or "ippool"
    named = (each for each in pools if name_of(each) == name)
    by_cidr = kind == "cidrpool"  # which has a `cidr` in place of a `subnet`
    pool = next((each for each in named if bool(text_at(each, "spec", "cidr")) is by_cidr), None)
    own = docs_at(pool, "status", "allocations") if pool else []
    block = next((each for each in own if text_at(each, "nodeName") == node), None)
    shown = f'"{name}", poolType "{kind}"'
    if pool is None or block is None:
        raise _refusal("NotFound", f"configuration for pool {shown} not found")
    first, size = _range(block)
    last = store.last.get((node, name))
    begin = int(ipaddress.IPv4Address(last)) - first + 1 if last else 0
    for step in range(size):
        address = ipaddress.IPv4Address(first + (begin + step) % size)
        gateways = {text_at(pool, "spec", "gateway"), text_at(block, "gateway")}
        is_gateway = str(address) in gateways
        if not is_gateway and not _excluded(pool, address) and str(address) not in used:
            store.last[node, name] = str(address)
            return str(address)
    raise _refusal("ResourceExhausted", f"no free addresses in the pool {shown}")


def _range(block: Doc) -> tuple[int, int]:
    """The first address of a node's part and how many there are; of a /31 both count."""
    if prefix := text_at(block, "prefix"):
        hosts = [*ipaddress.IPv4Network(prefix).hosts()]
        return int(hosts[0]), len(hosts)
    first = int(ipaddress.IPv4Address(text_at(block, "startIP")))
    return first, int(ipaddress.IPv4Address(text_at(block, "endIP"))) - first + 1


def _refusal(code: str, text: str) -> NoAddressError:
    return NoAddressError(f"grpc call failed: rpc error: code = {code} desc = {text}")
