"""Rules on an InfiniBand fabric of own switches: its manager, its ports and its links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.catalogue.switches import MODELS, list_plain
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.rows import at_most, requires, rule, unique
from components.checks.rule import Finding, Findings, at, places
from components.core.judge import needs
from components.core.problem import Place, SpecPath
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.infiniband import IbPartition, InfiniBand
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
                "move it to other_switches if it only carries management or storage; else set "
                "rdma.transport "
                f"to {switch.carries}, or use a switch whose os is one of: {', '.join(fitting)}.",
            )


def _managers(spec: ClusterSpec) -> Findings:
    fabric = spec.infiniband
    if fabric is None:
        return
    running = [(s, each) for s, each in enumerate(spec.switches) if each.sm_priority is not None]
    if fabric.subnet_manager == "switch" and not running:
        what = "no switch runs the subnet manager, so all ports of the fabric stay down."
        fix = "give one switch sm_priority: 14, or set subnet_manager to external."
        yield Finding(what, (_manager("switch"), at(("switches",))), fix)
    if fabric.subnet_manager == "external":
        for s, switch in running:
            what = f"the subnet manager is external, but {switch.name} also runs one."
            where = (at(("switches", s, "sm_priority"), switch.sm_priority), _manager("external"))
            yield Finding(what, where, "remove sm_priority, or set subnet_manager to switch.")


def _unmade_partitions(spec: ClusterSpec) -> Findings:
    fabric = spec.infiniband
    if fabric is None or fabric.subnet_manager == "switch":
        return
    looked_for = () if fabric.ufm else list_partitions(fabric)
    for partition, path in looked_for:
        what = f"the external subnet manager must make the partition {partition.name}."
        where = (at((*path, "name"), partition.name), _manager("external"))
        fix = f"write infiniband.ufm, or add {show_pkey(partition.pkey)} to opensm's partitions."
        yield Finding(what, where, fix, "warning")


def _guid_counts(spec: ClusterSpec) -> Findings:
    for h, host in enumerate(spec.hosts):
        path: SpecPath = ("hosts", h, "hca_guids")
        if host.hca_guids and len(host.hca_guids) != host.hcas:
            what = f"{host.name} has {host.hcas} HCAs, but {len(host.hca_guids)} port GUIDs."
            where = (at(path), at(("hosts", h, "hcas"), host.hcas))
            yield Finding(what, where, "list the Port GUID of every HCA, and of no Ethernet card.")


def check_ib_hcas(spec: ClusterSpec) -> Findings:
    """Every worker has as many HCAs as `infiniband` states, and no host has RoCE cards.

    A worker without GPUs may have none. A pod of a job is never placed on a worker with fewer.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    for h, host in enumerate(spec.hosts):
        is_user = host.hcas or host.gpus
        if host.role == "worker" and is_user and host.hcas != fabric.hcas:
            what = f"{host.name} has {host.hcas} HCAs, but workers of the fabric {fabric.hcas}."
            fix = "correct the wrong number."
            yield Finding(what, places(spec, f"hosts.{h}.hcas", "infiniband.hcas"), fix)
        if host.nics:
            what = f"{host.name} has NICs on rails, but the fabric is InfiniBand."
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
                f"rate_gbit_s is {fabric.rate_gbit_s}, but {switch.described}'s ports have "
                f"{rates}.",
                (
                    at((*_BLOCK, "rate_gbit_s"), fabric.rate_gbit_s),
                    at((*switch.path, "model"), switch.model),
                ),
                "write the real rate of the links: acceptance judges bandwidth by it.",
            )


def check_ib_switch(spec: ClusterSpec) -> Findings:
    """Each switch of `infiniband.switches` has a known model, and is one switch.

    Write an entry for each of two switches in one housing: no link joins them.
    """
    managed = [name for name, model in MODELS.items() if "mlnxos" in model.ports]
    for switch in list_ib_switches(spec):
        if switch.path[0] == "switches":
            continue  # `switch-model` reports those
        if not switch.names:
            what = f"Railyard does not know the InfiniBand switch model {switch.model}."
            fix = f"use one of: {', '.join((*list_plain(), *managed))}."
            yield Finding(what, (at((*switch.path, "model"), switch.model),), fix)
        used = [half for half in switch.halves if {*half} & {*switch.ports}]
        if used[1:]:
            what = f"{switch.name} has ports of both switches in the housing of {switch.described}."
            fix = f"write an entry for each: their ports are {switch.describe_ports()}."
            yield Finding(what, (at((*switch.path, "model"), switch.model),), fix)


def check_ib_port(spec: ClusterSpec) -> Findings:
    """Each port of an InfiniBand switch is on its model, and leads to an HCA, once, or a switch.

    It has no settings: the subnet manager decides MTU and routes.
    """
    for s, managed in enumerate(spec.switches):
        if managed.carries == "infiniband":
            yield from _ethernet_settings(s, managed)
    for switch in list_ib_switches(spec):
        for name, to in switch.ports.items() if switch.names else ():
            if not switch.has_port(name):
                where = (at((*switch.path, "ports", name), to),)
                fix = f"its ports are {switch.describe_ports()}."
                yield Finding(f"{switch.described} lacks port {name}.", where, fix)
    yield from _targets(spec)


def _targets(spec: ClusterSpec) -> Findings:
    plugged: dict[str, Place] = {}
    for switch in list_ib_switches(spec):
        for name, to in switch.ports.items() if switch.names else ():
            place = at((*switch.path, "ports", name), to)
            if switch.peer(name) is not None:
                continue
            if not _leads_to_hca(spec, to):
                what = f"port {name} of {switch.name} leads to {to}, which is not an HCA of a host."
                fix = "write <host>/hca-<n>, counted from 0, or <switch>:<port> for a link."
                yield Finding(what, (place,), fix)
            elif (other := plugged.setdefault(to, place)) is not place:
                what, fix = f"{to} is plugged into two ports.", "keep the port with the cable."
                yield Finding(what, (place, other), fix)


def _ethernet_settings(index: int, switch: Switch) -> Findings:
    if switch.routing is not None:
        where = (at(("switches", index, "routing", "asn"), switch.routing.asn),)
        fix = "remove routing."
        yield Finding(f"{switch.name} is an InfiniBand switch, which cannot run BGP.", where, fix)
    if switch.edge_ports:
        what = f"{switch.name} is an InfiniBand switch, which cannot run spanning tree."
        fix = "remove edge_ports."
        yield Finding(what, (at(("switches", index, "edge_ports"), switch.edge_ports),), fix)
    for name, port in switch.ports.items():
        for key, field in SwitchPort.model_fields.items():
            if key == "to" or getattr(port, key) == field.default:
                continue
            what = f"port {name} of {switch.name} is InfiniBand, which does not support {key}."
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

    `ib-routing-engine` and `ib-one-subnet` rely on them.
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
            what = f"port {name} of {switch.name} is a link to {to}, but {_why(peer, named)}"
            fix = f"write both ends: on {far} the port {far_port} as {switch.name}:{name}."
            yield Finding(what, (at(path, to),), fix)


def _why(peer: tuple[str, str], named: Mapping[str, IbSwitch]) -> str:
    far, far_port = peer
    if far not in named:
        return f"the file lacks an InfiniBand switch {far!r}.{did_you_mean(far, [*named])}"
    other = named[far].ports.get(far_port)
    if other is None:
        return f"{far} lacks port {far_port} in the file."
    return f"{far} names {other} there."


def check_ib_one_subnet(spec: ClusterSpec) -> Findings:
    """The cables of the file join all InfiniBand switches: one file is one subnet.

    Otherwise each part has its own master.
    """
    switches = list_ib_switches(spec)
    others = any(each.carries != "infiniband" for each in spec.switches)
    if spec.infiniband is None or not switches or others:
        return  # `switch-transport` reports the others
    near = _hops(spec)[switches[0].name]
    for switch in switches[1:]:
        if switch.name not in near:
            what = f"no cable joins {switches[0].name} and {switch.name}: they are two subnets."
            fix = f'write the cables at both ends, for example "1/31/1": {switches[0].name}:1/31/1.'
            yield Finding(what, (at((*switch.path, "name"), switch.name),), fix, "warning")


def check_ib_routing_engine(spec: ClusterSpec) -> Findings:
    """`updn` and `ftree` have a root to start from.

    A root is a switch with all HCAs at one distance, such as a spine; for `updn` the only switch is
    one too. Without a root opensm continues with minhop, and the switches' own subnet manager
    probably too: this is a warning.
    """
    fabric = spec.infiniband
    engine = fabric.routing_engine if fabric else None
    if engine not in {"updn", "ftree"} or any(check_ib_one_subnet(spec)):
        return
    alone = engine == "ftree" and len(list_ib_switches(spec)) == 1
    if alone or not _roots(spec):
        why = "one switch is no tree" if alone else "one switch is not a tree"
        what = f"{engine} lacks a root: {why}, so the subnet manager uses minhop."
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


_KEY_TABLE: Final = 128
"""Entries in the key table of a ConnectX port, including one for Default (sources.md)."""


def list_partitions(fabric: InfiniBand | None) -> Iterator[tuple[IbPartition, SpecPath]]:
    """List the partitions with their paths, in the order of the file."""
    for p, partition in enumerate(fabric.partitions if fabric else ()):
        yield partition, (*_BLOCK, "partitions", p)


@needs("hosts", "roles")
def check_partition_member(spec: ClusterSpec) -> Findings:
    """Each member of a partition is a host of the file with known port GUIDs.

    A partition needs a full member: limited ones do not reach each other.
    """
    for partition, path in list_partitions(spec.infiniband):
        if not partition.members:
            where = (at((*path, "members"), "[]"),)
            fix = "name its hosts, write all, or remove the partition."
            yield Finding(f"partition {partition.name} lacks members.", where, fix)
        if partition.members == "all":
            kinds, key = {partition.membership}, "membership"
        else:
            kinds, key = {partition.membership_of(each.host) for each in partition.members}, ""
        if kinds == {"limited"}:
            what = f"all members of partition {partition.name} are limited: none reaches another."
            where = (at((*path, key), "limited") if key else at((*path, "members")),)
            fix = "make one member full." if not key else "remove membership: full is the default."
            yield Finding(what, where, fix)
        yield from _wrong_members(spec, partition, path)


def _wrong_members(spec: ClusterSpec, partition: IbPartition, path: SpecPath) -> Findings:
    members = () if partition.members == "all" else partition.members
    seen: set[str] = set()
    for m, member in enumerate(members):
        host, where = spec.host(member.host), at((*path, "members", m), member.host)
        if host is None:
            names = [each.name for each in spec.hosts]
            hint = did_you_mean(member.host, names)
            what, fix = (
                f"there is no host {member.host!r}.{hint}",
                "the file lacks a host {member.host!r}.{hint}",
            )
        elif not host.hca_guids:
            what = f"the port GUIDs of {member.host} are not known."
            fix = "list them as hca_guids of the host; ibstat prints them as Port GUID."
        elif (beyond := max(member.hcas or (0,))) >= len(host.hca_guids):
            what = (
                f"{member.host} has {len(host.hca_guids)} port GUIDs, but the file names HCA "
                f"{beyond}."
            )
            fix = f"count from 0: the last one is {len(host.hca_guids) - 1}."
        elif member.host in seen:
            what, fix = f"{member.host} is in it twice.", "name it once."
        else:
            seen.add(member.host)
            continue
        yield Finding(f"partition {partition.name}: {what}", (where,), fix)


def check_partition_count(spec: ClusterSpec) -> Findings:
    """A host's partitions fit into the key table of its ports, next to Default.

    The table of a ConnectX card has 128 entries.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    counts = {
        host.name: sum(each.membership_of(host.name) is not None for each in fabric.partitions)
        for host in spec.workers
    }
    over = [name for name, count in counts.items() if count >= _KEY_TABLE]
    if over:
        others = f", and {len(over) - 1} more hosts in too many" if over[1:] else ""
        yield Finding(
            f"{over[0]} is in {counts[over[0]]} partitions{others}; a port holds {_KEY_TABLE} "
            "keys.",
            (at((*_BLOCK, "partitions")),),
            f"put a host into {_KEY_TABLE - 1} at most.",
        )


def check_partition_name(spec: ClusterSpec) -> Findings:
    """No two partitions have names that differ in case only.

    It is not published whether MLNX-OS distinguishes them.
    """
    first: dict[str, Place] = {}
    for each, path in list_partitions(spec.infiniband):
        place = at((*path, "name"), each.name)
        other = first.setdefault(each.name.lower(), place)
        if other.value != each.name:
            what = f"the partitions {other.value} and {each.name} differ only in case."
            yield Finding(what, (place, other), "rename one.", "warning")


def check_ufm_partition(spec: ClusterSpec) -> Findings:
    """Partitions in UFM list their members, and use only settings that its API has for members.

    The API takes port GUIDs, not all at once; it sets MTU and rate only with a service level, which
    the file lacks. Only UFM can put a key first in a port's table, and only one.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    first: dict[str, tuple[str, SpecPath]] = {}
    for partition, path in list_partitions(fabric):
        if fabric.ufm is not None:
            yield from _unsettable(partition, path)
        elif partition.index0:
            what = f"only UFM can put the key of partition {partition.name} at index 0."
            fix = "remove index0, or say in infiniband.ufm how UFM is reached."
            yield Finding(what, (at((*path, "index0"), value=True),), fix)
        hosts = () if partition.members == "all" else partition.members
        for m, member in enumerate(hosts if partition.index0 else ()):
            for guid in member.ports_of(host.hca_guids if (host := spec.host(member.host)) else ()):
                where: SpecPath = (*path, "members", m)
                other, there = first.setdefault(guid, (partition.name, where))
                if there != where:
                    what = f"{partition.name} and {other} both want index 0 of {member.host}."
                    fix = "remove index0 from one."
                    yield Finding(what, (at(where, member.host), at(there, member.host)), fix)


def _unsettable(partition: IbPartition, path: SpecPath) -> Findings:
    if partition.members == "all":
        what = f"partition {partition.name} has all ports, but UFM needs a list of members."
        fix = "name its hosts; their hca_guids become the members."
        yield Finding(what, (at((*path, "members"), "all"),), fix)
    for key in ("mtu_bytes", "rate_gbit_s"):
        value = getattr(partition, key)
        if value is not None:
            what = (
                f"partition {partition.name} has {key} {value}, which Railyard does not set in UFM."
            )
            fix = f"remove {key}, and set it in UFM with the service level of the partition."
            yield Finding(what, (at((*path, key), value),), fix)


def _same_keys(spec: ClusterSpec) -> Findings:
    first: dict[str, Place] = {}
    for each, path in list_partitions(spec.infiniband):
        key = show_pkey(each.pkey)
        place = at((*path, "pkey"), key)
        if (other := first.setdefault(key, place)) is not place:
            fix = "give each partition a different pkey."
            yield Finding(f"two partitions have the pkey {key}.", (place, other), fix)


def check_sm_switch(spec: ClusterSpec) -> Findings:
    """Only a switch with MLNX-OS has `sm_priority`."""
    for s, switch in enumerate(spec.switches):
        if switch.sm_priority is not None and switch.carries != "infiniband":
            what = f"{switch.name} runs {switch.os}, which lacks a subnet manager."
            yield Finding(what, places(spec, f"switches.{s}.sm_priority"), "remove sm_priority.")


RULES: Final = (
    rule(
        "hca-guid",
        "`hca_guids` lists each HCA of a host once, and no GUID is listed at two hosts.",
        unique(
            "hosts.*.hca_guids.*",
            "read both hosts again: a GUID is unique in the world.",
            "the port GUID {value} is listed twice.",
        ),
        _guid_counts,
    ),
    rule(
        "partition-key",
        "Each partition has a unique key and a unique name.",
        unique(
            "infiniband.partitions.*.name",
            "give each partition a different name.",
            "two partitions have the name {value}.",
        ),
        _same_keys,
    ),
    rule(
        "subnet-manager",
        """The fabric has a subnet manager, and the file decides which one is master.

        Without one no port becomes active. If two have equal priority, the lower GUID wins. If UFM
        or opensm on a host manages the subnet, a switch that also runs one may take over with other
        partitions.
        """,
        unique(
            "switches.*.sm_priority",
            "give the master the higher number, for example 14 and 13.",
            "{one} and {other} share sm_priority {value}: the GUID picks the master.",
            when=lambda spec: spec.infiniband,
        ),
        _managers,
    ),
    rule(
        "ufm",
        """If the file has an address of UFM, UFM is the subnet manager.

        A switch that also runs one takes over with other partitions.
        """,
        requires(
            "infiniband.ufm.address",
            "infiniband.subnet_manager=external",
            "ufm tells how to reach UFM",
            "set subnet_manager to external, or remove ufm.",
        ),
    ),
    rule(
        "adaptive-routing",
        """Only an external subnet manager is asked for adaptive routing.

        The one on MLNX-OS switches does not support it (the vendor's manual, 3.10 to 3.12).
        """,
        requires(
            "infiniband.adaptive_routing",
            "infiniband.subnet_manager=external",
            "the switches' subnet manager does not support it",
            "turn it off, or run UFM or opensm (ar_updn) and set subnet_manager to external.",
        ),
    ),
    rule(
        "partition-limit",
        """No partition asks for a larger MTU or a higher rate than the fabric has.

        Otherwise no host can join its multicast group.
        """,
        at_most("infiniband.partitions.*.mtu_bytes", "infiniband.mtu_bytes"),
        at_most("infiniband.partitions.*.rate_gbit_s", "infiniband.rate_gbit_s"),
    ),
    rule(
        "external-partition",
        """With an external subnet manager the file sets no routing engine, and partitions only in
        UFM.

        Other partitions are a warning: set them at the manager.
        """,
        requires(
            "infiniband.routing_engine",
            "infiniband.subnet_manager=switch",
            "Railyard does not set an external one",
            "remove routing_engine, and set it at the subnet manager.",
        ),
        _unmade_partitions,
    ),
)
