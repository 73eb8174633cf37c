"""Rules on an InfiniBand fabric of own switches: its manager, its ports and its links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.switches import MODELS
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.catalogue.switches.without_login import list_plain
from components.checks.partitions import list_partitions
from components.checks.rule import Finding, Findings, at, places, unique
from components.core.problem import Place, SpecPath
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.once import once
from components.model.places import IbSwitch, list_ib_switches
from components.reading.wording import did_you_mean

_BLOCK: SpecPath = ("infiniband",)


def _manager(value: str) -> Place:
    return at((*_BLOCK, "subnet_manager"), value)


def check_switch_transport(spec: ClusterSpec) -> Findings:
    """Each switch carries the transport of the site: MLNX-OS InfiniBand, the others RoCE."""
    for s, switch in enumerate(spec.switches):
        if switch.carries != spec.rdma.transport:
            fitting = [
                name
                for name, entry in SWITCH_SYSTEMS.items()
                if entry.carries == spec.rdma.transport
            ]
            yield Finding(
                f"{switch.name} ({switch.os}) carries {switch.carries}, not {spec.rdma.transport}.",
                places(spec, f"switches.{s}.os", "rdma.transport"),
                f"move it to other_switches if it carries management or storage: it is left alone "
                f"there. Else set rdma.transport to {switch.carries}, or use a switch whose os is "
                f"one of: {', '.join(fitting)}.",
            )


def check_subnet_manager(spec: ClusterSpec) -> Findings:
    """The fabric has a subnet manager, and the file decides which one is master.

    Without one no port becomes active. If two have equal priority, the lower GUID wins: a
    replacement can change which switch that is. If UFM or opensm on a host manages the subnet, a
    switch that also runs one may take over with other partitions.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    running = [(s, each) for s, each in enumerate(spec.switches) if each.sm_priority is not None]
    if fabric.subnet_manager == "switch" and not running:
        what = "no switch runs the subnet manager, so no port of the fabric becomes active."
        fix = "give one switch sm_priority: 14, or set subnet_manager to external."
        yield Finding(what, (_manager("switch"), at(("switches",))), fix)
    if fabric.subnet_manager == "external":
        for s, switch in running:
            what = f"the subnet manager is external, and {switch.name} runs one too."
            where = (at(("switches", s, "sm_priority"), switch.sm_priority), _manager("external"))
            yield Finding(what, where, "remove sm_priority, or set subnet_manager to switch.")
    first: dict[int, int] = {}
    for s, switch in running:
        other = first.setdefault(switch.sm_priority or 0, s)
        if other != s:
            yield Finding(
                f"{switch.name} and {spec.switches[other].name} run the subnet manager with "
                f"priority {switch.sm_priority}: which one is master is then decided by GUID.",
                (
                    at(("switches", s, "sm_priority"), switch.sm_priority),
                    at(("switches", other, "sm_priority"), switch.sm_priority),
                ),
                "give the one that is to be master the higher number, for example 14 and 13.",
            )


def check_sm_switch(spec: ClusterSpec) -> Findings:
    """Only a switch with MLNX-OS has `sm_priority`."""
    for s, switch in enumerate(spec.switches):
        if switch.sm_priority is not None and switch.carries != "infiniband":
            what = f"{switch.name} runs {switch.os}, which has no subnet manager."
            yield Finding(what, places(spec, f"switches.{s}.sm_priority"), "remove sm_priority.")


def check_adaptive_routing(spec: ClusterSpec) -> Findings:
    """Only an external subnet manager is asked for adaptive routing.

    The one on MLNX-OS switches does not support it (the vendor's manual, 3.10 to 3.12).
    """
    fabric = spec.infiniband
    if fabric is not None and fabric.adaptive_routing and fabric.subnet_manager == "switch":
        what = "adaptive routing is on, and the subnet manager of the switches has none."
        where = (at((*_BLOCK, "adaptive_routing"), value=True), _manager("switch"))
        fix = "turn it off, or run UFM or opensm (ar_updn) and set subnet_manager to external."
        yield Finding(what, where, fix)


def check_external_partition(spec: ClusterSpec) -> Findings:
    """With an external subnet manager the file sets no routing engine, and partitions only in UFM.

    Other partitions are a warning: set them at the manager. Acceptance proves the keys on every
    member.
    """
    fabric = spec.infiniband
    if fabric is None or fabric.subnet_manager == "switch":
        return
    looked_for = () if fabric.ufm else list_partitions(fabric)
    if fabric.routing_engine is not None:
        what = "a routing engine is named, and the subnet manager is not ours to set."
        where = (at((*_BLOCK, "routing_engine"), fabric.routing_engine), _manager("external"))
        fix = "remove routing_engine, and set it where the subnet manager runs."
        yield Finding(what, where, fix)
    for partition, path in looked_for:
        yield Finding(
            f"partition {partition.name} is only looked for: the subnet manager is external.",
            (at((*path, "name"), partition.name), _manager("external")),
            f"say in infiniband.ufm how UFM is reached, which then gets it, or make "
            f"{show_pkey(partition.pkey)} in opensm's partitions.conf.",
            "warning",
        )


def check_hca_guid(spec: ClusterSpec) -> Findings:
    """`hca_guids` lists each HCA of a host once, and no GUID is listed at two hosts."""
    for h, host in enumerate(spec.hosts):
        path: SpecPath = ("hosts", h, "hca_guids")
        if host.hca_guids and len(host.hca_guids) != host.hcas:
            what = f"{host.name} has {host.hcas} HCAs, and {len(host.hca_guids)} port GUIDs."
            where = (at(path), at(("hosts", h, "hcas"), host.hcas))
            yield Finding(what, where, "list the Port GUID of every HCA, and of no Ethernet card.")
    guids = (
        (guid, at(("hosts", h, "hca_guids", g), guid))
        for h, host in enumerate(spec.hosts)
        for g, guid in enumerate(host.hca_guids)
    )
    fix = "read both hosts again: a GUID is unique in the world."
    yield from unique(guids, "the port GUID {} is listed twice.", fix)


def check_ib_hcas(spec: ClusterSpec) -> Findings:
    """Every worker has as many HCAs as `infiniband` states, and no host has RoCE cards.

    A worker without GPUs may have none: no job of the fabric runs there. A job asks for this number
    on each worker, so a worker with GPUs and fewer HCAs would never get its pod.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    for h, host in enumerate(spec.hosts):
        is_user = host.hcas or host.gpus
        if host.role == "worker" and is_user and host.hcas != fabric.hcas:
            yield Finding(
                f"{host.name} has {host.hcas} HCAs, and workers of the fabric have {fabric.hcas}.",
                places(spec, f"hosts.{h}.hcas", "infiniband.hcas"),
                "correct the number that is wrong.",
            )
        if host.nics:
            what = f"{host.name} has NICs on rails, and the fabric is InfiniBand."
            fix = "describe InfiniBand cards by hcas and hca_guids."
            yield Finding(what, (at(("hosts", h, "nics")),), fix)


def check_ib_rate(spec: ClusterSpec) -> Findings:
    """The ports of every switch support the fabric's rate."""
    fabric = spec.infiniband
    if fabric is None:
        return
    for switch in list_ib_switches(spec):
        if switch.speeds_gbit_s and fabric.rate_gbit_s not in switch.speeds_gbit_s:
            rates = ", ".join(map(str, switch.speeds_gbit_s))
            yield Finding(
                f"links run at {fabric.rate_gbit_s} Gbit/s, {switch.described}'s ports at {rates}.",
                (
                    at((*_BLOCK, "rate_gbit_s"), fabric.rate_gbit_s),
                    at((*switch.path, "model"), switch.model),
                ),
                "write the rate at which links really run: bandwidth is judged by it.",
            )


def check_ib_switch(spec: ClusterSpec) -> Findings:
    """Each switch of `infiniband.switches` has a known model, and is one switch.

    The model limits its ports and rates. Write an entry for each of two switches in one housing: no
    link joins them.
    """
    managed = [name for name, model in MODELS.items() if "mlnxos" in model.ports]
    for switch in list_ib_switches(spec):
        if switch.path[0] == "switches":
            continue  # `switch-model` reports those
        if not switch.names:
            what = f"nothing is known of the InfiniBand switch model {switch.model}."
            fix = f"use one of: {', '.join((*list_plain(), *managed))}."
            yield Finding(what, (at((*switch.path, "model"), switch.model),), fix)
        used = [half for half in switch.halves if {*half} & {*switch.ports}]
        if used[1:]:
            what = f"{switch.name} has ports of both switches in the housing of {switch.described}."
            fix = f"write an entry for each: their ports are {switch.describe_ports()}."
            yield Finding(what, (at((*switch.path, "model"), switch.model),), fix)


def check_ib_port(spec: ClusterSpec) -> Findings:
    """Each port of an InfiniBand switch is on its model, and leads to an HCA, once, or a switch.

    It has no settings: the subnet manager decides MTU and routes, and VLANs and thresholds do not
    exist there.
    """
    for s, managed in enumerate(spec.switches):
        if managed.carries == "infiniband":
            yield from _ethernet_settings(s, managed)
    for switch in list_ib_switches(spec):
        for name, to in switch.ports.items() if switch.names else ():
            if not switch.has_port(name):
                where = (at((*switch.path, "ports", name), to),)
                fix = f"its ports are {switch.describe_ports()}."
                yield Finding(f"{switch.described} has no port {name}.", where, fix)
    yield from _targets(spec)


def _targets(spec: ClusterSpec) -> Findings:
    plugged: list[tuple[str, Place]] = []
    for switch in list_ib_switches(spec):
        for name, to in switch.ports.items() if switch.names else ():
            place = at((*switch.path, "ports", name), to)
            if switch.peer(name) is not None:
                continue
            if not _leads_to_hca(spec, to):
                yield Finding(
                    f"port {name} of {switch.name} leads to {to}, which is no HCA of a host.",
                    (place,),
                    "write <host>/hca-<n>, with n from 0 to one less than the host's hcas, or "
                    "<switch>:<port> for a link between switches.",
                )
            else:
                plugged.append((to, place))
    fix = "keep the port into which the cable really goes."
    yield from unique(plugged, "{} is plugged into two ports.", fix)


def _ethernet_settings(index: int, switch: Switch) -> Findings:
    if switch.routing is not None:
        where = (at(("switches", index, "routing", "asn"), switch.routing.asn),)
        fix = "remove routing."
        yield Finding(f"{switch.name} is an InfiniBand switch, which has no BGP.", where, fix)
    if switch.edge_ports:
        what = f"{switch.name} is an InfiniBand switch, which has no spanning tree."
        fix = "remove edge_ports."
        yield Finding(what, (at(("switches", index, "edge_ports"), switch.edge_ports),), fix)
    for name, port in switch.ports.items():
        for key, field in SwitchPort.model_fields.items():
            if key == "to" or getattr(port, key) == field.default:
                continue
            what = f"port {name} of {switch.name} is InfiniBand, which has no {key} of a port."
            where = (at(("switches", index, "ports", name, key), getattr(port, key)),)
            yield Finding(what, where, f"remove {key}.")


def _leads_to_hca(spec: ClusterSpec, target: str) -> bool:
    name, _, hca = target.partition("/hca-")
    host = spec.host(name)
    if host is None or not hca.isdigit():
        return False
    # `ib-hcas` reports a worker with fewer HCAs than the fabric's number.
    fabric = spec.infiniband.hcas if spec.infiniband and host.role == "worker" else 0
    return int(hca) < max(host.hcas, fabric)


_MOST: Final = 0.9
_FEW: Final = 0.05
"""opensm's own thresholds: a root has more than 90 % of all HCAs at one distance, and at no other
distance more than 5 % (opensm, osm_ucast_updn.c; `tests/lab/test_ib_routes.py` asks it)."""


def check_ib_link_ends(spec: ClusterSpec) -> Findings:
    """Each end of a link between InfiniBand switches is named by the other end.

    The lab cables its fabric by them, and `ib-routing-engine` and `ib-one-subnet` rely on them.
    """
    named = {each.name: each for each in list_ib_switches(spec)}
    ethernet = {each.name for each in spec.switches} - {*named}  # `switch-transport` reports them
    for switch in named.values():
        for name, to in switch.ports.items():
            peer = switch.peer(name)
            if peer is None or peer[0] in ethernet:
                continue
            far, far_port = peer
            path: SpecPath = (*switch.path, "ports", name)
            there = far in named and far_port in named[far].ports
            if far != switch.name and there and named[far].peer(far_port) == (switch.name, name):
                continue
            what = f"port {name} of {switch.name} is a link to {to}, and {_why(peer, named)}"
            fix = f"write both ends: on {far} the port {far_port} as {switch.name}:{name}."
            yield Finding(what, (at(path, to),), fix)


def _why(peer: tuple[str, str], named: Mapping[str, IbSwitch]) -> str:
    far, far_port = peer
    if far not in named:
        return f"there is no InfiniBand switch {far!r}.{did_you_mean(far, [*named])}"
    other = named[far].ports.get(far_port)
    if other is None:
        return f"{far} has no port {far_port} in the file."
    return f"{far} says that {other} is plugged in there."


def check_ib_one_subnet(spec: ClusterSpec) -> Findings:
    """The cables of the file join all InfiniBand switches: one file is one subnet.

    Switches without a path to each other each have their own master, and their hosts cannot
    communicate.
    """
    switches = list_ib_switches(spec)
    others = any(each.carries != "infiniband" for each in spec.switches)
    if spec.infiniband is None or not switches or others:
        return  # `switch-transport` reports the others
    near = _hops(spec)[switches[0].name]
    for switch in switches[1:]:
        if switch.name not in near:
            yield Finding(
                f"no cable leads from {switches[0].name} to {switch.name}: these are two subnets.",
                (at((*switch.path, "name"), switch.name),),
                f"write the cables between switches at both ends, for example "
                f'"1/31/1": {switches[0].name}:1/31/1.',
                "warning",
            )


def check_ib_routing_engine(spec: ClusterSpec) -> Findings:
    """`updn` and `ftree` have a root to start from.

    A root is a switch with all HCAs at one distance, such as a spine, or the only switch, which is
    enough for `updn` but not for `ftree`. Without a root opensm logs an error and continues with
    minhop. It is only a guess that the switches' own subnet manager does the same, so this is a
    warning.
    """
    fabric = spec.infiniband
    engine = fabric.routing_engine if fabric else None
    if engine not in {"updn", "ftree"} or any(check_ib_one_subnet(spec)):
        return
    alone = engine == "ftree" and len(list_ib_switches(spec)) == 1
    if alone or not _roots(spec):
        why = "one switch is no tree" if alone else "no switch has all HCAs at one distance"
        what = f"{engine} has no root here: {why}, so the subnet manager falls back to minhop."
        fix = "write routing_engine: minhop, or cable the leaves to spines."
        yield Finding(what, places(spec, "infiniband.routing_engine"), fix, "warning")


@once
def _hops(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """Map each switch to each switch that it can reach, with the links on the shortest path."""
    names = {each.name for each in list_ib_switches(spec)}
    beside = {
        each.name: {peer[0] for port in each.ports if (peer := each.peer(port))} & names
        for each in list_ib_switches(spec)
    }
    found: dict[str, dict[str, int]] = {}
    for start in beside:
        distance, edge = {start: 0}, [start]
        while edge:
            edge = [far for near in edge for far in sorted(beside[near]) if far not in distance]
            distance |= dict.fromkeys(edge, max(distance.values()) + 1)
        found[start] = distance
    return found


def _roots(spec: ClusterSpec) -> list[str]:
    hcas = {
        each.name: sum(each.peer(port) is None for port in each.ports)
        for each in list_ib_switches(spec)
    }
    total = sum(hcas.values())
    roots: list[str] = []
    for name, distance in _hops(spec).items():
        bars: dict[int, int] = {}
        for far, hops in distance.items():
            bars[hops] = bars.get(hops, 0) + hcas[far]
        most = sum(count > _MOST * total for count in bars.values())
        few = sum(count > _FEW * total for count in bars.values())
        if (most, few) == (1, 1):
            roots.append(name)
    return roots
