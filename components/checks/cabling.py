"""Rules on the cables of switch ports, and on the ports' settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from components.checks.rows import known, rule
from components.checks.rule import Finding, Findings, at
from components.checks.topology import PlacedNic, PlacedPort, list_cables, list_nics, list_ports
from components.core.judge import needs
from components.core.problem import Place, SpecPath
from components.fabric.links import reachable
from components.fabric.ports import splits_of
from components.fabric.systems import system_of
from components.model.cluster import RESERVED, ClusterSpec
from components.reading.wording import did_you_mean


@needs("names", "rails", "hosts")
def check_port_target(spec: ClusterSpec) -> Findings:
    """Each switch port names a host of the file and a rail on which that host has a NIC."""
    for port in list_ports(spec):
        reason = _why_nowhere(spec, port)
        # If a switch has another transport than the site, `switch-transport` reports the cause.
        if reason is not None and port.switch.carries == spec.rdma.transport:
            yield Finding(
                f"{port.switch.name} has a port to {reason}",
                (port.place,),
                "name a host and its rail as <host>/<rail>; remove ports of management or storage.",
            )


def _why_nowhere(spec: ClusterSpec, port: PlacedPort) -> str | None:
    """Explain why a port's other end does not exist, with the same words for all such ports."""
    host = spec.host(port.host)
    if host is None:
        names = [known.name for known in spec.hosts]
        return f"host {port.host!r}, which the file lacks.{did_you_mean(port.host, names)}"
    if spec.rail(port.rail) is None:
        names = [rail.name for rail in spec.rails]
        return f"rail {port.rail!r}, which the file lacks.{did_you_mean(port.rail, names)}"
    if all(nic.rail != port.rail for nic in host.nics):
        return f"{port.port.to}, but {port.host} lacks a NIC on {port.rail}."
    return None


@needs("names", "hosts", "switches")
def check_nic_cabling(spec: ClusterSpec) -> Findings:
    """If the file has switches, each NIC is plugged into exactly one port.

    A port outside of the file keeps its defaults: no VLAN of the rail, trust on L2, MTU 1500.
    """
    if not spec.switches:
        return
    plugged: dict[SpecPath, list[PlacedPort]] = defaultdict(list)
    for cable in list_cables(spec):
        plugged[cable.nic.path].append(cable.port)
    rails = {rail.name for rail in spec.rails}
    nics = [nic for nic in list_nics(spec) if nic.nic.rail in rails]
    # Ports that lead nowhere probably belong to unplugged NICs: `port-target` reports them.
    # A second port of one NIC was probably meant for a NIC without a port.
    lost = sum(_why_nowhere(spec, port) is not None for port in list_ports(spec))
    lost += sum(len(ports) - 1 for ports in plugged.values())
    unplugged = sum(not plugged[nic.path] for nic in nics)
    for nic in nics:
        ports = plugged[nic.path]
        target = f"{nic.host.name}/{nic.nic.rail}"
        if not ports and unplugged > lost:
            what = f"no switch port names NIC {nic.nic.netdev} of {nic.host.name}."
            fix = f"add its port to a switch, {_example(spec, target)}."
            yield Finding(what, (nic.at("rail"),), fix)
        for port in ports[1:]:
            where = (port.place, at(ports[0].path, ports[0].port.to))
            fix = "keep the port with the cable."
            yield Finding(f"{target} is plugged into two ports: {ports[0]} and {port}.", where, fix)


def _example(spec: ClusterSpec, target: str) -> str:
    """Write the line for a NIC with an unused port of a switch, or the form of the line."""
    for switch in spec.switches:
        model, used = switch.hardware, set(switch.ports)
        if model is None or switch.os not in model.ports:
            continue
        used |= {model.whole_port(switch.os, name) or name for name in switch.ports}
        gone = {
            model.blocked_by(switch.os, each.whole, each.count)
            for each in splits_of(switch).values()
        }
        for name in model.ports[switch.os]:
            if name not in used | gone and name not in switch.breakouts:
                written = name if name.isalnum() else f'"{name}"'
                return f"for example {written}: {target} on {switch.name}"
    return f"as PORT: {target}"


def check_vlan_rail(spec: ClusterSpec) -> Findings:
    """A switch port carries the VLAN of its rail.

    A port without that VLAN drops all frames of the pods.
    """
    for port in list_ports(spec):
        rail = spec.rail(port.rail)
        if rail is None or port.port.vlan in {None, rail.vlan}:
            continue
        where = ("rails", spec.rails.index(rail), "vlan")
        what = f"{port} carries VLAN {port.port.vlan}, but {rail.name} is VLAN {rail.vlan}."
        fix = f"remove the port's vlan (it follows the rail), or set it to {rail.vlan}."
        yield Finding(what, (port.at("vlan"), at(where, rail.vlan)), fix)


def check_port_mode(spec: ClusterSpec) -> Findings:
    """A port of an SR-IOV rail is a trunk, since the VFs send tagged frames.

    An access port drops tagged frames: RDMA connections time out.
    """
    if spec.kubernetes is None or spec.pod_network.mode != "sriov":
        return
    for port in list_ports(spec):
        host = spec.host(port.host)
        if host is not None and host.is_outside:
            continue  # without VFs for pods its card sends on the rail itself
        if port.port.mode == "access":
            what = f"{port} is an access port: it drops the tagged frames of {port.rail}'s pods."
            where = (port.at("mode"), at(("pod_network", "mode"), spec.pod_network.mode))
            yield Finding(what, where, "set the port's mode to trunk.")


def check_port_untagged(spec: ClusterSpec) -> Findings:
    """An untagged VLAN is on a trunk to a host, in addition to the rail's, which is tagged.

    Untagged frames in a rail's VLAN would mix with those of its pods.
    """
    rails = {rail.vlan: (r, rail.name) for r, rail in enumerate(spec.rails)}
    every = (
        PlacedPort(switch, name, port, ("switches", s, "ports", name))
        for s, switch in enumerate(spec.switches)
        for name, port in switch.ports.items()
    )
    for port in every:
        vlan, named = port.port.untagged, f"{port}"
        if vlan is None:
            continue
        place = at((*port.path, "untagged"), vlan)
        kept, title = system_of(port.switch.os).reserved_vlans, system_of(port.switch.os).title
        if (why := _why_no_untagged(port)) is not None:
            fix = "remove untagged, or write it at a trunk to a host."
            yield Finding(f"{named} {why}, but sets untagged: {vlan}.", (place,), fix)
        elif vlan in rails:
            index, rail = rails[vlan]
            where = (place, at(("rails", index, "vlan"), vlan))
            fix = "choose another VLAN, or mode: access if the rail itself is untagged."
            yield Finding(f"{named} has VLAN {vlan} of {rail} untagged.", where, fix)
        elif vlan in kept:
            yield Finding(
                f"{named} has VLAN {vlan} untagged, but {title} reserves "
                f"{kept.start}-{kept.stop - 1}.",
                (place,),
                "choose a VLAN outside of that range.",
            )


def _why_no_untagged(port: PlacedPort) -> str | None:
    if port.switch.carries != "roce":
        return "is on an InfiniBand switch"
    if port.port.peer is not None:
        return "is a link between switches, which carries rails"
    kinds = {"access": "is an access port", "routed": "is routed"}
    return kinds.get(port.port.mode)


def check_lacp_rail(spec: ClusterSpec) -> Findings:
    """No port of a rail is in a link bundle. Bundles of other networks stay out of `switches`.

    The DeepOps RoCE guide advises against LACP under RoCE: the bundle's hash chooses the link, and
    a queue pair moves at a failure.
    """
    for port in list_ports(spec):
        if port.port.lacp and spec.rail(port.rail) is None:
            continue  # a bond of management or storage: `port-target` has the fix
        if port.port.lacp:
            where = (port.at("lacp"),)
            fix = "remove lacp, and give each NIC a separate rail."
            yield Finding(f"{port} is an LACP port on the RDMA rail {port.rail}.", where, fix)


@needs("switches")
def check_rail_switch(spec: ClusterSpec) -> Findings:
    """All ports of one rail are on one switch, or on switches that a link of the file joins.

    A routed link passes no VLAN. Railyard does not know links outside of the file.
    """
    first: dict[str, PlacedPort] = {}
    seen: set[tuple[str, str]] = set()
    for port in list_ports(spec):
        other, key = first.setdefault(port.rail, port), (port.rail, port.switch.name)
        if key in seen or port.switch.name in reachable(spec, port.rail, other.switch.name):
            continue
        rail = spec.rail(port.rail)
        if (port.switch.routing and other.switch.routing) or (rail is not None and rail.leaves):
            continue  # `rail-gateway` and `rail-leaf` require the subnets and the path between them
        seen.add(key)
        what = f"no link carries {port.rail}'s VLAN from {other.switch.name} to {port.switch.name}."
        fix = "plug NIC k of every host into leaf k, or write both ends of a link between them."
        yield Finding(what, (port.place, other.place), fix, "warning")


@needs("switches")
def check_numa_leaf(spec: ClusterSpec) -> Findings:
    """NICs on one NUMA node of a host go to different leaves, if the host has cables to several.

    Then the failure of one leaf does not cut off a whole NUMA node (DeepOps RoCE guide). If two
    leaves with four rails each are intended, as in reference designs, `waive` the rule with that
    reason.
    """
    groups: dict[tuple[str, int], list[tuple[PlacedNic, PlacedPort]]] = defaultdict(list)
    reached: dict[str, set[str]] = defaultdict(set)
    for cable in list_cables(spec):
        reached[cable.nic.host.name].add(cable.port.switch.name)
        if cable.nic.nic.numa >= 0:  # -1: unknown to the machine
            groups[cable.nic.host.name, cable.nic.nic.numa].append((cable.nic, cable.port))
    for (host, numa), members in groups.items():
        used = sorted({port.switch.name for _, port in members})
        leaves = len(reached[host])
        if len(used) < min(len({nic.path for nic, _ in members}), leaves):
            what = f"NICs on NUMA node {numa} of {host} share {', '.join(used)} of {leaves} leaves."
            where = (at(members[0][0].path[:2], host), *(port.place for _, port in members))
            fix = "plug them into different leaves, or waive the rule with the reason."
            yield Finding(what, where, fix, "warning")


@needs("names", "hosts", "switches")
def check_stack_units(spec: ClusterSpec) -> Findings:
    """If `stacks` splits the site, each switch with hosts is a leaf of exactly one unit.

    A host, or the two switches of an MLAG pair, cannot be in two units: each stack changes only its
    own devices. `spines` and `cluster` are the names of other stacks.
    """
    if spec.stacks is None:
        return
    if spec.environment.kind != "onprem":
        what = f"several stacks need own machines, and environment.kind is {spec.environment.kind}."
        yield Finding(what, (at(("stacks",)),), "remove `stacks`: one stack has the whole site.")
        return
    switches = {switch.name: switch for switch in spec.switches}
    places: dict[str, tuple[str, Place]] = {}
    for name, unit in spec.stacks.units.items():
        if name in RESERVED:
            what = f"a unit is called {name}, which is the name of another stack of the site."
            yield Finding(what, (at(("stacks", "units", name)),), "give the unit another name.")
        for number, leaf in enumerate(unit.leaves):
            place = at(("stacks", "units", name, "leaves", number), leaf)
            if leaf not in switches:
                what = f"the leaf {leaf!r} of unit {name} is not in `switches`."
                hint = did_you_mean(leaf, [*switches])
                yield Finding(f"{what}{hint}", (place,), "name a switch of the file.")
            elif leaf in places:
                what = f"{leaf} is a leaf of two units: {places[leaf][0]} and {name}."
                yield Finding(what, (place, places[leaf][1]), "keep it in one of them.")
            else:
                places[leaf] = name, place
    yield from _apart(spec, {leaf: unit for leaf, (unit, _) in places.items()})


def _apart(spec: ClusterSpec, units: Mapping[str, str]) -> Findings:
    """Find what must be in one unit and is not."""
    ports = (  # also those of InfiniBand switches
        PlacedPort(switch, name, port, ("switches", s, "ports", name))
        for s, switch in enumerate(spec.switches)
        for name, port in switch.ports.items()
        if port.peer is None
    )
    first: dict[str, PlacedPort] = {}
    for port in ports:
        leaf, unit = port.switch.name, units.get(port.switch.name)
        other = first.setdefault(port.host, port)
        if unit is None:
            what = f"{leaf} has ports to hosts, and it is a leaf of no unit of `stacks`."
            yield Finding(what, (port.place,), f"add {leaf} to the leaves of one unit.")
        elif units.get(other.switch.name, unit) != unit:
            both = f"{other.switch.name} of unit {units[other.switch.name]} and {leaf} of {unit}"
            fix = "put both leaves into one unit: a stack sets up its hosts with their leaves."
            what = f"{port.host} is cabled to leaves of two units: {both}."
            yield Finding(what, (port.place, other.place), fix)
    for s, switch in enumerate(spec.switches):
        peer = switch.mlag_peer or switch.name
        if switch.name in units and units.get(peer, units[switch.name]) != units[switch.name]:
            what = f"{switch.name} and its MLAG peer {peer} are in two units."
            place = at(("switches", s, "mlag_peer"), peer)
            yield Finding(what, (place,), "put both into one unit.")


RULES: Final = (
    rule(
        "nic-rail",
        "Each NIC is on a rail of the file.",
        known(
            "hosts.*.nics.*.rail",
            "rails.*.name",
            "{owner} is on rail {value!r}, which the file lacks.",
        ),
        needs=("names", "rails"),
    ),
)
