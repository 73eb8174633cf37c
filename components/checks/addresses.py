"""Rules on addresses and networks: unique addresses, and networks that do not overlap."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations, product
from operator import itemgetter
from typing import Final, NamedTuple

from components.checks.rule import Finding, Findings, at, find, places, twins, values, walk
from components.checks.topology import list_nics
from components.core.judge import needs
from components.core.plain_text import has_placeholder
from components.core.problem import Place, SpecPath
from components.fabric.links import reachable, switches_of_rails
from components.model import places as sites
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host, Nic
from components.model.reach import as_ipv4, is_machine_ipv4
from components.pod_network.rails import pools_of

_PODS_PER_NODE: Final = 256
"""K3s hands each node a /24 of the pod network (`--node-cidr-mask-size` 24)."""
_NEVER: Final = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")))
"""Loopback, and multicast with the reserved range above it (RFC 6890 and RFC 5771)."""
_OF_SSH: Final = ("ssh", "address")
_NO_MACHINES: Final = 31
"""Prefix length of a subnet with only a network and a broadcast address."""
_KERNELS_OWN: Final = re.compile(r"(eth|ib|wlan|mlx\d_)\d+")
"""Names that the kernel itself gives out, in the order in which devices come up."""


def check_resource_name(spec: ClusterSpec) -> Findings:
    """Each rail has a separate extended resource, or all rails of a flat fabric share one.

    A pod gets VFs of any card from one resource. So each card of a flat fabric has one VF, and
    a pod asks for as many as there are rails; the bandwidth test of one rail is left out. Case
    makes no difference, since the plugin passes VFs in variables of upper case. With
    `rdma_shared` rails may share a resource.
    """
    if spec.pod_network.mode != "sriov" or not sites.is_one_pool(spec):
        return
    name, first, why = spec.rails[0].resource, spec.rails[0].vlan, list[tuple[str, Place]]()
    for rail, here in [each for each in walk(spec, "rails.*", Rail) if each[0].vlan != first][:1]:
        why += [(f"{rail.name} is in VLAN {rail.vlan} and not in {first}", *here("vlan"))]
    wrong = [nic for nic in list_nics(spec) if nic.host.role == "worker" and nic.nic.vfs > 1]
    if wrong:
        count = f"{len(wrong)} cards have" if len(wrong) > 1 else f"{wrong[0]} has"
        why += [(f"{count} {wrong[0].nic.vfs} VFs", *wrong[0].at("vfs"))]
    if spec.acceptance.perftest:
        why += [("perftest cases need a rail to run on", at(("acceptance", "perftest")))]
    if why:
        reasons = ", and ".join(text for text, _ in why)
        where = (*places(spec, "rails.0.resource"), *(place for _, place in why))
        yield find("resource-name", *where, name=name, reasons=reasons)


def check_node_address(spec: ClusterSpec) -> Findings:
    """Each node has an IPv4 address in the cluster: `node_ip`, or its SSH address."""
    for host, here in walk(spec, "hosts.*", Host):
        address = "" if host.node_ip is not None else host.address
        if address and not has_placeholder(address) and not is_machine_ipv4(address):
            yield find("node-address", *here("ssh.address"), host=host, address=address)


def check_duplicate_address(spec: ClusterSpec) -> Findings:
    """No two devices answer at one address and port, and no two nodes share an address."""
    doors: list[tuple[str, str, SpecPath]] = []
    for name, ssh, path in sites.each_ssh(spec):
        if path[0] in {"switches", "hosts"}:
            names = sites.default_way(spec, path) if ssh.jump is None else ssh.jump
            way = f" by {', '.join(names)}" if names else ""  # another network may contain it too
            doors.append((f"{ssh.address} port {ssh.port}{way}", name, (*path, "address")))
    nodes: list[tuple[str, str, SpecPath]] = [
        (host.address, host.name, ("hosts", h, *(["node_ip"] if host.node_ip else _OF_SSH)))
        for h, host in enumerate(spec.hosts)
        if host.address
    ]
    pairs = twins(nodes, itemgetter(0))
    unlike = (pair for pair in pairs if {each[2][-1] for each in pair} != {"address"})
    for (address, name, path), (_, other, there) in (*twins(doors, itemgetter(0)), *unlike):
        if other != name:
            what = f"{other} and {name} have the same address: {address}."
            shown = address.partition(" ")[0]
            yield Finding(what, (at(path, shown), at(there, shown)), "correct one of the two.")


class _Net(NamedTuple):
    name: str
    network: IPv4Network
    path: SpecPath


def check_subnet_overlap(spec: ClusterSpec) -> Findings:
    """Rails, pods, services and the nodes' own addresses do not overlap.

    Rails can share one subnet only if all of them are one network: with one VLAN, one gateway, and
    trunks between all leaves. Networks whose addresses Linux accepts from no cable are refused too:
    0.0.0.0/8, 127.0.0.0/8, and 224.0.0.0 and above.
    """
    networks = [
        _Net(f"the subnet of {rail.name}", rail.subnet, (*here.path, "subnet"))
        for rail, here in walk(spec, "rails.*", Rail)
    ]
    networks += [
        _Net(f"the {each.key.removesuffix('_cidr')} network", each.value, each.path)
        for each in values(spec, "kubernetes.pod_cidr kubernetes.service_cidr")
    ]
    same = len(spec.rails) > 1 and len({rail.subnet for rail in spec.rails}) == 1
    if same:
        yield from _no_flat_fabric(spec)
    for one, two in combinations(networks, 2):
        rails = same and one.path[0] == two.path[0] == "rails"
        if one.network.overlaps(two.network) and not rails:
            where = (at(one.path, one.network), at(two.path, two.network))
            yield find("subnet-overlap-networks", *where, one=one, two=two)
    for net, never in product(networks, _NEVER):
        if net.network.subnet_of(never):
            yield find("subnet-overlap-devices", at(net.path, net.network), net=net, never=never)
    named = [
        (name, ssh.address, (*path, "address"))
        for name, ssh, path in sites.each_ssh(spec)
        if path[0] in {"switches", "hosts"}
    ]
    named += [(each.owner, each.value, each.path) for each in values(spec, "hosts.*.node_ip")]
    shared = values(spec, "kubernetes.virtual_address.address")
    named += [("the balancers", str(each.value), each.path) for each in shared]
    addresses = [(name, as_ipv4(text), path) for name, text, path in named]
    for (name, address, path), net in product(addresses, networks):
        if address is not None and address in net.network:
            wrong = net.name.removeprefix("the subnet of ")
            where = (at(path, address), at(net.path, net.network))
            fix = f"keep the management network apart: give {wrong} another subnet."
            yield Finding(f"{address} of {name} is in {net.name}, {net.network}.", where, fix)


def _no_flat_fabric(spec: ClusterSpec) -> Findings:
    """Explain why rails with one subnet are not one network; yield nothing for several subnets."""
    first, vlans = spec.rails[0], sorted({rail.vlan for rail in spec.rails})
    holders = [name for names in switches_of_rails(spec).values() for name in names]
    joined = [reachable(spec, rail.name, holders[0]) for rail in spec.rails if holders]
    far = next((name for name in holders if not any(name in each for each in joined)), None)
    if len(vlans) > 1 and sites.shares_resource(spec):
        return  # `resource-name` reports it
    if len(vlans) > 1:
        what = f"but the VLANs {', '.join(map(str, vlans))}"
        fix = f"write vlan: {vlans[0]} for all rails"
    elif any(rail.leaves for rail in spec.rails):
        what, fix = "and some have leaves", "remove leaves"
    elif len({rail.gateway for rail in spec.rails}) > 1:
        what, fix = "but different gateways", "write one gateway for all rails"
    elif far:
        what = f"but no trunk for VLAN {first.vlan} joins {holders[0]} and {far}, which have cards"
        fix = f"add links between the switches that carry VLAN {first.vlan}"
    else:
        return
    what = f"all {len(spec.rails)} rails have the subnet {first.subnet}, {what}."
    yield Finding(what, _subnets(spec), f"{fix}, or give each rail a separate VLAN and subnet.")


def _subnets(spec: ClusterSpec) -> tuple[Place, ...]:
    return tuple(at(("rails", r, "subnet"), rail.subnet) for r, rail in enumerate(spec.rails))


def check_flat_fabric(spec: ClusterSpec) -> Findings:
    """Each rail is a separate network; all rails in one VLAN and subnet are a warning.

    Such a flat fabric works, but a loop or a flood stops every rail at once, and traffic between
    two cards can leave its rail. Hosts and pods get `arp_ignore` 1, `arp_announce` 2 and
    `rp_filter` 2 on each card: else any card answers for all addresses of its machine. Jobs omit
    `NCCL_CROSS_NIC`, which leaves NCCL's own default.
    """
    if sites.is_flat(spec) and not [*_no_flat_fabric(spec)]:
        first = spec.rails[0]
        yield find("flat-fabric", *_subnets(spec), count=len(spec.rails), first=first)


def check_subnet_size(spec: ClusterSpec) -> Findings:
    """A rail's subnet has enough addresses.

    It needs one for each VF, or with shared cards for each worker and the bandwidth test's server,
    and those of the gateway and of cards with `address`.
    """
    shared = spec.pod_network.mode == "rdma_shared" and not spec.pod_network.host_network
    cards: dict[sites.RailSubnet, list[Nic]] = {}
    for placed in list_nics(spec):
        rail = spec.rail(placed.nic.rail)
        subnet = sites.subnet_of(spec, rail, placed.host) if rail is not None else None
        if subnet is not None:
            subnet = replace(subnet, rail=spec.rails[0].name) if sites.is_flat(spec) else subnet
            cards.setdefault(subnet, []).append(placed.nic)
    for r, rail in enumerate(spec.rails[:1] if sites.is_flat(spec) else spec.rails):
        for subnet in sites.subnets_of(rail):
            found = cards.get(subnet, [])
            workers = len(found) if subnet.leaf else len(spec.workers)
            # Pods on shared cards; None if each has a VF.
            pods = workers if shared and found and spec.kubernetes is not None else None
            own = sum(card.address is not None for card in found)
            # `vf-limit` reports a card with more VFs than its limit.
            vfs = sum(min(card.vfs, card.vf_limit or card.vfs) for card in found)
            needed = {
                f"{vfs} VFs" if pods is None else f"{pods} pods": vfs if pods is None else pods,
                "the bandwidth test": int(pods is not None),
                f"{own} card{'s' * (own > 1)}": own,
                "the gateway": int(subnet.gateway is not None),
            }
            # Hosts cannot use the network's own address and its broadcast address.
            free = max(subnet.network.num_addresses - 2, 0)
            if free < (total := sum(needed.values())):
                leaf = f" on {subnet.leaf}" if subnet.leaf else ""
                what = f"{subnet.network} of {subnet.rail}{leaf} has {free} addresses for {total}: "
                what += f"{', '.join(words for words, count in needed.items() if count)}."
                fix = "choose a larger subnet, or fewer VFs."
                yield Finding(what, (_at_subnet(r, subnet),), fix)


def check_cluster_networks(spec: ClusterSpec) -> Findings:
    """The pod network has a /24 for each node; for kubespray see kubespray-nodes."""
    for each in values(spec, "kubernetes.pod_cidr") if spec.kubespray is None else ():
        nodes = each.value.num_addresses // _PODS_PER_NODE
        if nodes < len(spec.hosts):
            what = f"pod_cidr {each.value} has room for {nodes} of {len(spec.hosts)} nodes."
            yield Finding(what, (each.place,), "choose a larger one; each node takes a /24.")


def _at_subnet(r: int, subnet: sites.RailSubnet) -> Place:
    key: SpecPath = ("leaves", subnet.leaf, "subnet") if subnet.leaf else ("subnet",)
    return at(("rails", r, *key), subnet.network)


def check_pf_address(spec: ClusterSpec) -> Findings:
    """A card's own address is a free one of its rail's subnet.

    With an address outside of it, the host would send to its neighbours through a router that does
    not exist.
    """
    pools = [pool for each in pools_of(spec).values() for pool in each]
    probes = spec.kubernetes is not None and not spec.pod_network.host_network
    for nic in list_nics(spec):
        rail, address = spec.rail(nic.nic.rail), nic.nic.address
        # `nic-rail`, `rail-leaf` and `routed-port` report the other cards.
        place = sites.subnet_of(spec, rail, nic.host) if rail is not None else None
        if rail is None or place is None or address is None:
            continue
        if (nic.host.name, rail.name) in sites.routed_cards(spec):
            continue
        own, subnet, where = IPv4Address(address), place.network, nic.at("address")
        ends = (subnet.network_address, subnet.broadcast_address)
        if subnet.prefixlen >= _NO_MACHINES:
            where = (*where, _at_subnet(spec.rails.index(rail), place))
            what = f"{rail.name}'s subnet {subnet} is too small for {nic}."
            fix = "choose a larger subnet; /24 is usual."
        elif probes and any(pool.network == subnet and pool.probe == own for pool in pools):
            what = f"{own} of {nic}, the last of {rail.name}, belongs to the bandwidth test."
            fix = "give the card another address."
        elif own not in subnet or own in ends:
            on_leaf = f" on {place.leaf}" if place.leaf else ""
            what = f"{own} of {nic} is not usable in {rail.name}'s {subnet}{on_leaf}."
            fix = f"write an IPv4 address from {ends[0] + 1} to {ends[1] - 1}, without a prefix "
            fix += "length."
        else:
            continue
        yield Finding(what, where, fix)


def check_renamed(spec: ClusterSpec) -> Findings:
    """Each entry of `renamed` gives the former name of a device in the file.

    `railyard rename` writes it. Remove an entry before another device gets the former name.
    """
    for group, devices in (("hosts", spec.hosts), ("switches", spec.switches)):
        names, first = {each.name for each in devices}, dict[str, str]()
        for new, old in getattr(spec.renamed, group).items():
            what = fix = ""
            if new not in names:
                what = f"{new} is renamed from {old}, but {group} lacks it."
                fix = "remove the entry, or correct the name."
            elif old in names:
                what = f"{new} is renamed from {old}, but {old} is still in {group}."
                fix = "remove the entry if an update renamed it already; else choose another name."
            elif first.setdefault(old, new) != new:
                what = f"{new} and {first[old]} are both renamed from {old}."
                fix = "remove one of the entries."
            if what:
                yield Finding(what, (at(("renamed", group, new), old),), fix)


@needs("names", "rails", "hosts")
def check_unused_rail(spec: ClusterSpec) -> Findings:
    """The site has a rail, and each rail has a NIC: jobs would wait for VFs of an empty rail.

    An InfiniBand site needs no `rails`.
    """
    if not spec.rails and spec.rdma.transport == "roce":
        yield find("unused-rail-site", *places(spec, "rails"))
    used = {nic.nic.rail for nic in list_nics(spec)}
    for rail, here in walk(spec, "rails.*", Rail):
        if rail.name not in used:
            yield find("unused-rail-nics", *here("name"), rail=rail)


def check_rail_names(spec: ClusterSpec) -> Findings:
    """A name that Railyard writes differs from other cards' names and from the kernel's.

    If another device has the name at boot, the card keeps its old one. In switchdev mode the
    devices of VFs share the card's address, and would also get its name.
    """
    names = "hosts.*.nics.*.netdev hosts.*.nics.*.rdma"
    for each in values(spec, names) if spec.host_defaults.rail_names else ():
        if _KERNELS_OWN.fullmatch(each.value):
            yield find("rail-names", each.place, each=each)
