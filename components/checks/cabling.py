"""Rules on the cables of switch ports, and on the ports' settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from components.checks import topology
from components.checks.rule import Finding, Findings, at, find, places, twins, walk
from components.core.judge import needs
from components.core.problem import Place, SpecPath
from components.fabric.links import reachable
from components.fabric.ports import splits_of
from components.fabric.systems import system_of
from components.model.cluster import RESERVED, ClusterSpec
from components.model.fabric import Switch
from components.model.owners import pods_have_vfs
from components.reading.wording import did_you_mean


@needs("names", "rails", "hosts")
def check_port_target(spec: ClusterSpec) -> Findings:
    """Each switch port names a host of the file and a rail on which that host has a NIC."""
    for port in topology.list_ports(spec):
        reason = _why_nowhere(spec, port)
        # If a switch has another transport than the site, `switch-transport` reports the cause.
        if reason is not None and port.switch.carries == spec.rdma.transport:
            yield find("port-target", port.place, port=port, reason=reason)


def _why_nowhere(spec: ClusterSpec, port: topology.PlacedPort) -> str | None:
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
    plugged: dict[SpecPath, list[topology.PlacedPort]] = defaultdict(list)
    for cable in topology.list_cables(spec):
        plugged[cable.nic.path].append(cable.port)
    nics = [nic for nic in topology.list_nics(spec) if spec.rail(nic.nic.rail) and spec.switches]
    # Ports that lead nowhere probably belong to unplugged NICs: `port-target` reports them.
    # A second port of one NIC was probably meant for a NIC without a port.
    lost = sum(_why_nowhere(spec, port) is not None for port in topology.list_ports(spec))
    lost += sum(len(ports) - 1 for ports in plugged.values())
    unplugged = sum(not plugged[nic.path] for nic in nics)
    for nic in nics:
        ports, target = plugged[nic.path], f"{nic.host.name}/{nic.nic.rail}"
        if not ports and unplugged > lost:
            yield find("nic-no-port", *nic.at("rail"), nic=nic, example=_example(spec, target))
        for port in ports[1:]:
            what = f"{target} is plugged into two ports: {ports[0]} and {port}."
            yield Finding(what, (port.place, ports[0].place), "keep the port with the cable.")


def _example(spec: ClusterSpec, target: str) -> str:
    """Write the line for a NIC with an unused port of a switch, or the form of the line."""
    for switch in spec.switches:
        model, used = switch.hardware, set(switch.ports)
        if model is None or switch.os not in model.ports:
            continue
        used |= {model.whole_port(switch.os, name) or name for name in switch.ports}
        splits = splits_of(switch).values()
        gone = {model.blocked_by(switch.os, each.whole, each.count) for each in splits}
        for name in model.ports[switch.os]:
            if name not in used | gone and name not in switch.breakouts:
                written = name if name.isalnum() else f'"{name}"'
                return f"for example {written}: {target} on {switch.name}"
    return f"as PORT: {target}"


def check_vlan_rail(spec: ClusterSpec) -> Findings:
    """A switch port carries the VLAN of its rail.

    A port without that VLAN drops all frames of the pods.
    """
    for port in topology.list_ports(spec):
        rail, vlan = spec.rail(port.rail), port.port.vlan
        if rail is not None and vlan not in {None, rail.vlan}:
            where = port.at("vlan") + places(spec, f"rails.{spec.rails.index(rail)}.vlan")
            yield find("vlan-rail", *where, port=port, vlan=vlan, rail=rail)


def check_port_mode(spec: ClusterSpec) -> Findings:
    """A port of an SR-IOV rail is a trunk, since the VFs send tagged frames.

    An access port drops tagged frames: RDMA connections time out.
    """
    for port in topology.list_ports(spec) if pods_have_vfs(spec) else ():
        host = spec.host(port.host)
        # A host outside has no VFs for pods: its card sends on the rail itself.
        if port.port.mode == "access" and not (host and host.is_outside):
            yield find("port-mode", *port.at("mode"), *places(spec, "pod_network.mode"), port=port)


def check_port_untagged(spec: ClusterSpec) -> Findings:
    """An untagged VLAN is on a trunk to a host, in addition to the rail's, which is tagged.

    Untagged frames in a rail's VLAN would mix with those of its pods.
    """
    rails = {rail.vlan: (r, rail.name) for r, rail in enumerate(spec.rails)}
    for port in topology.list_any_ports(spec):
        vlan, where = port.port.untagged, port.at("untagged")
        kept, title = system_of(port.switch.os).reserved_vlans, system_of(port.switch.os).title
        if vlan is None:
            continue
        why = {"access": "is an access port", "routed": "is routed"}.get(port.port.mode, "")
        if port.port.peer is not None:
            why = "is a link between switches, which carries rails"
        why = why if port.switch.carries == "roce" else "is on an InfiniBand switch"
        fix = "remove untagged, or write it at a trunk to a host."
        what = f"{port} {why}, but sets untagged: {vlan}."
        if not why and vlan in rails:
            what = f"{port} has VLAN {vlan} of {rails[vlan][1]} untagged."
            where += places(spec, f"rails.{rails[vlan][0]}.vlan")
            fix = "choose another VLAN, or mode: access if the rail itself is untagged."
        elif not why and vlan in kept:
            kept_range = f"{kept.start}-{kept.stop - 1}"
            what = f"{port} has VLAN {vlan} untagged, but {title} reserves {kept_range}."
            fix = "choose a VLAN outside of that range."
        elif not why:
            continue
        yield Finding(what, where, fix)


def check_lacp_rail(spec: ClusterSpec) -> Findings:
    """No port of a rail is in a link bundle. Bundles of other networks stay out of `switches`.

    The DeepOps RoCE guide advises against LACP under RoCE: the bundle's hash chooses the link, and
    a queue pair moves at a failure.
    """
    for port in topology.list_ports(spec):
        # A bond of management or storage has no rail: `port-target` has the fix.
        if port.port.lacp and spec.rail(port.rail) is not None:
            yield find("lacp-rail", *port.at("lacp"), port=port)


@needs("switches")
def check_rail_switch(spec: ClusterSpec) -> Findings:
    """All ports of one rail are on one switch, or on switches that a link of the file joins.

    A routed link passes no VLAN. Railyard does not know links outside of the file.
    """
    seen: set[tuple[str, str]] = set()
    for port, other in twins(topology.list_ports(spec), lambda port: port.rail):
        key, rail = (port.rail, port.switch.name), spec.rail(port.rail)
        if key in seen or port.switch.name in reachable(spec, port.rail, other.switch.name):
            continue
        if (port.switch.routing and other.switch.routing) or (rail is not None and rail.leaves):
            continue  # `rail-gateway` and `rail-leaf` require the subnets and the path between them
        seen.add(key)
        yield find("rail-switch", port.place, other.place, port=port, other=other)


@needs("switches")
def check_numa_leaf(spec: ClusterSpec) -> Findings:
    """NICs on one NUMA node of a host go to different leaves, if the host has cables to several.

    Then the failure of one leaf does not cut off a whole NUMA node (DeepOps RoCE guide). If two
    leaves with four rails each are intended, as in reference designs, `waive` the rule with that
    reason.
    """
    groups: dict[tuple[str, int], list[tuple[topology.PlacedNic, topology.PlacedPort]]] = (
        defaultdict(list)
    )
    reached: dict[str, set[str]] = defaultdict(set)
    for cable in topology.list_cables(spec):
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
    own devices. A switch between units is in none: two of them could change together. `spines` and
    `cluster` are the names of other stacks.
    """
    if spec.stacks is None:
        return
    if spec.environment.kind != "onprem":
        yield find("stack-units-several", at(("stacks",)), spec=spec)
        return
    switches = [switch.name for switch in spec.switches]
    first: dict[str, tuple[str, tuple[Place, ...]]] = {}
    for name, unit in spec.stacks.units.items():
        if name in RESERVED:
            yield find("stack-units-reserved", at(("stacks", "units", name)), name=name)
        for number, leaf in enumerate(unit.leaves):
            where = places(spec, f"stacks.units.{name}.leaves.{number}")
            if leaf not in switches:
                words = {"leaf": leaf, "name": name, "hint": did_you_mean(leaf, switches)}
                yield find("stack-units-switches", *where, **words)
            elif leaf in first:
                other, there = first[leaf]
                what, fix = f"{leaf} is a leaf of two units: {other} and {name}.", "in one of them"
                same = f"{leaf} is written twice in unit {name}.", "once"
                what, fix = same if other == name else (what, fix)
                yield Finding(what, where + there, f"keep it {fix}.")
            else:
                first[leaf] = name, where
    yield from _apart(spec, {leaf: unit for leaf, (unit, _) in first.items()})


def _apart(spec: ClusterSpec, units: Mapping[str, str]) -> Findings:
    """Find what must be in one unit and is not."""
    first: dict[str, topology.PlacedPort] = {}
    ports = [*topology.list_any_ports(spec)]
    to_hosts = [port for port in ports if port.port.peer is None]
    leaves = {port.switch.name for port in to_hosts}
    for port in to_hosts:
        leaf, unit = port.switch.name, units.get(port.switch.name)
        other = first.setdefault(port.host, port)
        if unit is None:
            yield find("stack-units-ports", port.place, leaf=leaf)
        elif units.get(other.switch.name, unit) != unit:
            both = f"{other.switch.name} of unit {units[other.switch.name]} and {leaf} of {unit}"
            fix = "put both leaves into one unit: a stack sets up its hosts with their leaves."
            what = f"{port.host} is cabled to leaves of two units: {both}."
            yield Finding(what, (port.place, other.place), fix)
    for port in (port for port in ports if port.switch.name not in leaves):
        unit, far = units.get(port.switch.name), units.get((port.port.peer or ("",))[0])
        if unit and far and far != unit:
            yield find("stack-units-links", port.place, port=port, unit=unit, far=far)
    for switch, here in walk(spec, "switches.*", Switch):
        peer, unit = switch.mlag_peer or switch.name, units.get(switch.name)
        if unit and units.get(peer, unit) != unit:
            yield find("stack-units-mlag", *here("mlag_peer"), switch=switch, peer=peer)
