"""Rules on the pods' access to rails: transports, addresses, routes, blocks of nv-ipam."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import islice
from typing import TYPE_CHECKING, Final

from components.checks.rule import Finding, Findings, at, find, places, walk
from components.checks.topology import list_cards
from components.core.problem import SpecPath
from components.model import owners
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.infiniband import IbPartition, IbRail, InfiniBand
from components.model.operators import IbKubernetes
from components.model.places import pod_links, subnets_of
from components.model.pod_network import Exclusion, PodRoute
from components.pod_network.matrix import WAYS, refused
from components.pod_network.rails import ib_rails, rail_ports
from components.reading.wording import did_you_mean

if TYPE_CHECKING:
    from components.pod_network.pools import Pool

_BLOCK: SpecPath = ("pod_network",)
_WITHOUT_LEAVES: Final = {
    "dhcp": "each leaf needs a DHCP server, but the file names one for the rail",
    "static": "each leaf has a separate gateway, which static pods cannot name",
}
"""Modes whose pods cannot get their leaf's addresses, with the reason."""
_RAILS: SpecPath = ("infiniband", "rails")
_IB_RAILS: Final = "infiniband.rails.*"
_NEEDS_RAILS: Final = ("sriov", "ipoib")
_ATTACHED: Final = ("sriov", "macvlan", "ipoib")
"""The pod networks with an interface on a rail."""
_NO_INTERFACE: Final = ("pods lack an interface on a rail", "remove routes")
_EXCLUDING = ("whereabouts", "nv-ipam")
"""The address managers that Railyard can give exclusions."""
_LEAST = 4
"""Size of a subnet with one address besides the network's, the broadcast's and the probe's."""


def check_pod_network(spec: ClusterSpec) -> Findings:
    """The transport can carry the pod network.

    docs/reference/pod-networks.md lists them, with the reason for each refusal.
    """
    if cell := refused(spec, owners.way_of(spec)):
        what = f"{WAYS[owners.way_of(spec)]} does not work on {spec.rdma.transport}: {cell.why}."
        yield Finding(what, places(spec, "pod_network.mode", "rdma.transport"), f"{cell.instead}.")


def check_ib_rail(spec: ClusterSpec) -> Findings:
    """Each rail of an InfiniBand fabric is one HCA of every worker, with unique names.

    With `sriov` that HCA needs VFs; with `host_device` it must have none. With IPoIB on shared HCAs
    the rail names the host's device. Pods of a rail never run on a worker without its HCA.
    """
    way = owners.way_of(spec)
    if spec.kubernetes is None or spec.rdma.transport != "infiniband":
        return
    if way in _NEEDS_RAILS and not ib_rails(spec):
        yield find("ib-rail-empty", *places(spec, "pod_network.mode"), at(_RAILS), pods=WAYS[way])
    for rail, here in walk(spec, _IB_RAILS, IbRail) if way == "ipoib" else ():
        if rail.interface is None:
            yield find("ib-rail-ipoib", *here("name"), rail=rail)
    if way in {"sriov", "host_device"}:
        yield from _ports(spec)
    yield from _unknown_rails(spec)


def _ports(spec: ClusterSpec) -> Findings:
    whole, rails = spec.pod_network.mode == "host_device", [*walk(spec, _IB_RAILS, IbRail)]
    for host, here in walk(spec, "hosts.*", Host):
        for rail, there in rails if host.role == "worker" and host.hcas else ():
            ports, where = rail_ports(host, rail), there("name")
            if len(ports) != 1:
                found_at = here("hca_sriov") + where
                yield find("ib-rail-count", *found_at, host=host, rail=rail, count=len(ports))
            elif not ports[0].vfs and not whole:
                key = f"hca_sriov.{host.hca_sriov.index(ports[0])}.vfs"
                yield find("ib-rail-vfs", *here(key), *where, host=host, ports=ports, rail=rail)


def _unknown_rails(spec: ClusterSpec) -> Findings:
    known, owners = [rail.name for rail in ib_rails(spec)], dict[str, str]()
    for host, port, path in list_cards(spec):
        place = at((*path, "rail"), port.rail)
        if not isinstance(port, HcaPf) or port.rail is None:
            continue
        if port.rail not in known:
            fix = f"use one of: {', '.join(known)}." if known else "add it to infiniband.rails."
            yield find("ib-rail-unknown", place, at(_RAILS), host=host, port=port, fix=fix)
        elif owners.setdefault(port.pci, port.rail) != port.rail:
            yield find("ib-rail-address", place, port=port, rail=owners[port.pci], host=host)


def check_pod_address(spec: ClusterSpec) -> Findings:
    """Pods get addresses in a way that their interfaces and their jobs can use.

    Both CNI plugins of IPoIB refuse DHCP. With DHCP each rail has a server, whose pool must exclude
    the last address of the subnet, the bandwidth test's. With static addresses the workers of an
    MPIJob share one template. On a rail with `leaves` only whereabouts and nv-ipam give the leaf's
    addresses.
    """
    ipam, where = spec.pod_network.ipam, places(spec, "pod_network.ipam")
    if spec.kubernetes is None or owners.way_of(spec) not in _ATTACHED:
        return
    if wrong := refused(spec, spec.pod_network.ipam):
        what = f"ipam is {ipam}, but {wrong.why}."
        yield Finding(what, where + places(spec, "rdma.transport"), f"{wrong.instead}.")
        return
    for rail, here in walk(spec, "rails.*", Rail):
        if rail.leaves and (why := _WITHOUT_LEAVES.get(ipam)):
            leaves = at((*here.path, "leaves"), ", ".join(rail.leaves))
            words = {"ipam": ipam, "rail": rail, "count": len(rail.leaves), "why": why}
            yield find("pod-address-leaves", *where, leaves, **words)
        elif ipam == "dhcp" and rail.dhcp_server is None:
            yield find("pod-address-dhcp", *where, *here("name"), rail=rail)
    if ipam == "static" and spec.jobs.mpi_operator:
        yield find("pod-address-static", *where, *places(spec, "jobs.mpi_operator"))


def check_pod_route(spec: ClusterSpec) -> Findings:
    """Each route of pods uses a rail with addresses and a next hop on it, and leads elsewhere.

    With DHCP the server provides the routes: the CNI plugin accepts no others.
    """
    attached = spec.kubernetes is not None and owners.way_of(spec) in _ATTACHED
    if spec.pod_network.source_routing and not attached:
        where = places(spec, "pod_network.source_routing", "pod_network.mode")
        yield find("pod-route-source-routing", *where)
    for route, here in walk(spec, "pod_network.routes.*", PodRoute):
        wrong = _wrong_route(spec, route) if attached else _NO_INTERFACE
        if wrong is not None:
            yield find("pod-route", *here("to", "rail"), route=route, wrong=wrong)


def _wrong_route(spec: ClusterSpec, route: PodRoute) -> tuple[str, str] | None:
    """Explain why a route fails, also for pods on other leaves or behind other routed ports."""
    subnets = {rail.name: rail.subnet for rail in (*spec.rails, *ib_rails(spec)) if rail.subnet}
    gateways = {rail.name: subnets_of(rail)[0].gateway for rail in spec.rails}
    subnet, via = subnets.get(route.rail), route.via or gateways.get(route.rail)
    rail, ipam = spec.rail(route.rail), spec.pod_network.ipam
    why, fix = "", ""
    if route.rail in pod_links(spec):
        why = "each pod sends by its own switch port" if route.via is not None else ""
        fix = "remove via"
    elif rail is not None and rail.leaves and route.via is not None:
        why = f"its next hop {route.via} is on one of the {len(rail.leaves)} leaves of {route.rail}"
        fix = "remove via: pods use the gateway of their own leaf"
    elif subnet is None:
        why = f"{route.rail} is not a rail with addresses"
        fix = f"rails with addresses are {', '.join(subnets) or 'none: give a rail a subnet'}"
    elif ipam == "dhcp":
        why, fix = "with ipam: dhcp the server gives routes", "remove it, and set it there"
    elif ipam == "nv-ipam" and (via is None or via != gateways.get(route.rail)):
        why = f"nv-ipam uses only the rail's gateway, but via is {via or 'empty'}"
        fix = "give the rail a gateway and remove via, or set ipam to whereabouts"
    elif via is None or via not in subnet:
        why = f"its next hop {via} is not in {subnet}" if via else f"{route.rail} lacks a gateway"
        fix = f"write via with an address of {subnet}"
    elif route.to.overlaps(subnet):
        why, fix = f"it leads into {subnet}, the rail itself", "correct to, or remove it"
    return (why, fix) if why else None


def check_pod_pool(spec: ClusterSpec) -> Findings:
    """Each worker gets a separate block of each rail's subnet, with an address for each VF.

    nv-ipam gives blocks of one size, from the first address on, until the next one would hold the
    broadcast address. Reserved addresses in a block (gateway, cards, the bandwidth test's server,
    `exclusions`) are lost for its pods.
    """
    if not owners.draws_blocks(spec):
        return
    from components.pod_network.pools import plan_pools, pooled_rails  # noqa: PLC0415 - slow, rare

    pooled = {rail.name for rail in pooled_rails(spec)}
    listed: dict[tuple[str, str], tuple[SpecPath, IPv4Network]] = {}
    for rail, here in walk(spec, "rails.*", Rail):
        for each in subnets_of(rail) if rail.name in pooled else ():
            leaf = ("leaves", each.leaf) if each.leaf else ()
            listed[rail.name, each.leaf] = (*here.path, *leaf, "subnet"), each.network
    for rail, here in walk(spec, _IB_RAILS, IbRail):
        if rail.subnet is not None and rail.name in pooled:
            listed[rail.name, ""] = (*here.path, "subnet"), rail.subnet
    small = {key: each for key, each in listed.items() if each[1].num_addresses < _LEAST}
    for (name, _), (path, subnet) in small.items():
        where = (at(path, subnet), *places(spec, "pod_network.ipam"))
        yield find("pod-pool", *where, name=name, subnet=subnet)
    for pool in () if small else plan_pools(spec):
        yield from _pool(spec, pool, listed[pool.rail, pool.leaf][0])


def _pool(spec: ClusterSpec, pool: Pool, path: SpecPath) -> Findings:
    size, nodes = spec.pod_network.addresses_per_node, len(pool.nodes)
    blocks = [*islice(pool.blocks(), nodes)]
    first, free = min(blocks, key=lambda block: block[1], default=(None, pool.needs))
    what, fix = "", ""
    if len(blocks) < nodes:
        what = f"{pool.subnet} of {pool.rail} has {len(blocks)} blocks of {pool.block}, but "
        what += f"{nodes} workers need one each."
        fit = (pool.subnet.num_addresses - 2) // nodes
        fits = f"set addresses_per_node to {fit} or less, or " if fit >= pool.needs else ""
        fix = f"{fits}give the rail a larger subnet."
    elif free < pool.needs:
        what = f"the block {first} of {pool.rail} has {free} free addresses for {pool.needs} pods."
        fix = f"set addresses_per_node to {pool.needs + pool.block - free} or more."
    if what:
        where = (at(path, pool.subnet), at((*_BLOCK, "addresses_per_node"), size or pool.block))
        yield Finding(what, where, fix)


def check_pod_exclusion(spec: ClusterSpec) -> Findings:
    """Excluded addresses are in the subnet of their rail.

    The API server accepts any: nv-ipam's webhook is not installed.
    """
    network = spec.pod_network
    subnets = {rail.name: rail.subnet for rail in (*spec.rails, *ib_rails(spec)) if rail.subnet}
    for each, here in walk(spec, "pod_network.exclusions.*", Exclusion):
        last, subnet = each.last or each.first, subnets.get(each.rail)
        if network.ipam not in _EXCLUDING or not owners.uses_multus(spec):
            given = "" if owners.uses_multus(spec) else "pods lack interfaces"
            given = given or f"ipam is {network.ipam}"
            what = f"exclusions work with whereabouts and nv-ipam, but {given}."
            fix = "remove exclusions."
        elif subnet is None:
            what = f"{each.rail} is not a rail with addresses."
            fix = f"rails with addresses are {', '.join(subnets) or 'none: give a rail a subnet'}."
        elif each.first not in subnet or last not in subnet or each.first > last:
            what = f"{each.first} to {last} is outside of {subnet}, the subnet of {each.rail}."
            fix = "correct first and last: from the lower to the higher, both in the subnet."
        else:
            continue
        yield Finding(what, here("first", "rail"), fix)


def check_multus_owner(spec: ClusterSpec) -> Findings:
    """If the network operator brings Multus, the site has that operator, and pods have networks.

    Its policy also brings the reference plugins; Railyard then omits its own DaemonSets for them.
    """
    what, other, fix = "", "", ""
    if spec.operators.network is None:
        what, other = "operators.network is not set", "operators.network"
        fix = "add operators.network, or set multus to install."
    elif not owners.uses_multus(spec):
        what, other = "pods have no networks that it could attach", "pod_network.mode"
        fix = "remove multus."
    elif owners.written_owner(spec, "multus") == "theirs":
        what, other = "kubernetes.components says theirs", "kubernetes.components.multus"
        fix = "remove one of the two."
    if what and spec.pod_network.multus == "operator" and spec.kubernetes is not None:
        where = places(spec, "pod_network.multus", other)
        yield Finding(f"multus is operator, but {what}.", where, fix)


def check_pod_partition(spec: ClusterSpec) -> Findings:
    """VFs can join the partition of their rail by their GUIDs.

    On switches Railyard adds the GUIDs that the hosts give the VFs; with UFM, ib-kubernetes adds a
    GUID for each pod.
    """
    fabric, network = spec.infiniband, spec.operators.network
    if spec.kubernetes is None or fabric is None:
        return
    keys = network.ib_kubernetes if network is not None else None
    rails = [each for each in walk(spec, _IB_RAILS, IbRail) if each[0].partition]
    names = {each.name: each for each in fabric.partitions}
    if keys is not None and not rails:
        where = places(spec, "operators.network.ib_kubernetes", "infiniband.rails")
        yield find("pod-partition-none", *where)
    for rail, here in rails:
        where = here("partition")
        partition = names.get(rail.partition or "")
        if partition is None:
            hint = did_you_mean(rail.partition or "", [*names])
            where += places(spec, "infiniband.partitions")
            yield find("pod-partition-unknown", *where, rail=rail, hint=hint)
            continue
        workers = [host.name for host in spec.workers if rail_ports(host, rail)]
        lacking = ", ".join(name for name in workers if partition.membership_of(name) is None)
        if (wrong := _why_not_joined(spec, fabric, partition, keys)) is not None:
            yield find("pod-partition-cannot", *where, rail=rail, partition=partition, wrong=wrong)
        elif keys is None and lacking:
            what = f"{lacking} use VFs on {rail.name}, but {partition.name} lacks them."
            yield Finding(what, where, f"add {lacking} to the members of {partition.name}.")
    by_switch = keys is None and fabric.subnet_manager == "switch"
    if rails and by_switch and owners.way_of(spec) == "sriov":
        where = tuple(place for _, here in rails for place in here("partition"))
        yield find("pod-partition-switches", *where)


def _why_not_joined(
    spec: ClusterSpec, fabric: InfiniBand, partition: IbPartition, keys: IbKubernetes | None
) -> tuple[str, str] | None:
    external, why, fix = fabric.subnet_manager == "external", "", ""
    if owners.way_of(spec) != "sriov":
        why = f"with {WAYS[owners.way_of(spec)]} the partition is that of the host's port or device"
        fix = "remove partition; with IPoIB name the partition's device: interface: ibs0f0.8101"
    elif owners.vfs_by_operator(spec):
        why = "the SR-IOV network operator gives VFs other GUIDs at each boot"
        fix = "set operators.network.vfs to host"
    elif external and keys is None and fabric.ufm is None:
        why = "the subnet manager is external, but the file does not say how to reach it"
        fix = "say in infiniband.ufm how UFM is reached, or add operators.network.ib_kubernetes"
    elif not external and keys is not None:
        why = "ib-kubernetes only talks to UFM, but the switches run the subnet manager"
        fix = "remove ib_kubernetes: Railyard puts the VFs there itself"
    elif keys is None and partition.members == "all":
        why, fix = "its members are all, which may leave out VFs", "list its members"
    return (why, fix) if why else None
