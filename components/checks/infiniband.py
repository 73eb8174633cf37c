"""Rules on an InfiniBand fabric of own switches: its manager, its ports and its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Final

from components.catalogue.switches import MODELS, list_plain
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, walk
from components.core.judge import needs
from components.core.problem import Place
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.hosts import Host
from components.model.infiniband import IbPartition, InfiniBand
from components.model.once import once
from components.model.places import list_ib_switches
from components.reading.wording import did_you_mean

_MOST: Final = 0.9
_FEW: Final = 0.05
"""opensm's own thresholds: a root has more than 90 % of all HCAs at one distance, and at no other
distance more than 5 % (opensm, osm_ucast_updn.c; `tests/lab/test_ib_routes.py` asks it)."""
_KEY_TABLE: Final = 128
"""Entries in the key table of a ConnectX port, including one for Default (sources.md)."""


def check_switch_transport(spec: ClusterSpec) -> Findings:
    """Each switch carries the transport of the site: MLNX-OS InfiniBand, the others RoCE."""
    wanted = spec.rdma.transport
    fitting = ", ".join(name for name, each in SWITCH_SYSTEMS.items() if each.carries == wanted)
    for switch, here in walk(spec, "switches.*", Switch):
        if switch.carries != wanted:
            where = here("os") + places(spec, "rdma.transport")
            yield find("switch-transport", *where, switch=switch, needed=wanted, fitting=fitting)


def check_ib_hcas(spec: ClusterSpec) -> Findings:
    """Every worker has as many HCAs as `infiniband` states, and no host has RoCE cards.

    A worker without GPUs may have none. A pod of a job is never placed on a worker with fewer.
    """
    for fabric, ib in walk(spec, "infiniband", InfiniBand):
        for host, here in walk(spec, "hosts.*", Host):
            is_user = host.hcas or host.gpus
            if host.role == "worker" and is_user and host.hcas != fabric.hcas:
                yield find("ib-hcas-workers", *here("hcas"), *ib("hcas"), host=host, fabric=fabric)
            if host.nics:
                yield find("ib-hcas-nics", *here("nics"), host=host)


def check_subnet_manager(spec: ClusterSpec) -> Findings:
    """The fabric has a subnet manager, and the file decides which one is master.

    Without one no port becomes active. If two have equal priority, the lower GUID wins. If UFM or
    opensm on a host manages the subnet, a switch that also runs one may take over with other
    partitions.
    """
    manager = spec.infiniband.subnet_manager if spec.infiniband else None
    running = [each for each in walk(spec, "switches.*", Switch) if each[0].sm_priority is not None]
    if manager == "switch" and not running:
        yield find("subnet-manager-switch", *places(spec, "infiniband.subnet_manager", "switches"))
    for switch, here in running if manager == "external" else ():
        where = here("sm_priority") + places(spec, "infiniband.subnet_manager")
        yield find("subnet-manager-external", *where, switch=switch)


def check_external_partition(spec: ClusterSpec) -> Findings:
    """With an external subnet manager the file sets no routing engine, and partitions only in UFM.

    Other partitions are a warning: set them at the manager.
    """
    fabric = spec.infiniband
    unset = fabric is not None and fabric.subnet_manager == "external" and not fabric.ufm
    for partition, here in _partitions(spec) if unset else ():
        what = f"the external subnet manager must make the partition {partition.name}."
        where = here("name") + places(spec, "infiniband.subnet_manager")
        fix = f"write infiniband.ufm, or add {show_pkey(partition.pkey)} to opensm's partitions."
        yield Finding(what, where, fix, "warning")


def check_hca_guid(spec: ClusterSpec) -> Findings:
    """`hca_guids` lists each HCA of a host once, and no GUID is listed at two hosts."""
    for host, here in walk(spec, "hosts.*", Host):
        if host.hca_guids and len(host.hca_guids) != host.hcas:
            yield find("hca-guid", *here("hca_guids", "hcas"), host=host, count=len(host.hca_guids))


def check_ib_rate(spec: ClusterSpec) -> Findings:
    """The ports of every switch support the fabric's rate."""
    rate = spec.infiniband.rate_gbit_s if spec.infiniband else 0
    for switch in list_ib_switches(spec) if rate else ():
        if switch.speeds_gbit_s and rate not in switch.speeds_gbit_s:
            rates = ", ".join(map(str, switch.speeds_gbit_s))
            where = places(spec, "infiniband.rate_gbit_s") + Here(switch, switch.path)("model")
            yield find("ib-rate", *where, rate=rate, switch=switch, rates=rates)


def check_ib_switch(spec: ClusterSpec) -> Findings:
    """Each switch of `infiniband.switches` has a known model, and is one switch.

    Write an entry for each of two switches in one housing: no link joins them.
    """
    # `switch-model` reports those in `switches`.
    for switch in [each for each in list_ib_switches(spec) if each.path[0] != "switches"]:
        where = Here(switch, switch.path)("model")
        if not switch.names:
            what = f"Railyard does not know the InfiniBand switch model {switch.model}."
            managed = [name for name, model in MODELS.items() if "mlnxos" in model.ports]
            yield Finding(what, where, f"use one of: {', '.join((*list_plain(), *managed))}.")
        if len([half for half in switch.halves if {*half} & {*switch.ports}]) > 1:
            yield find("ib-switch-ports", *where, switch=switch, ports=switch.describe_ports())


def check_ib_port(spec: ClusterSpec) -> Findings:
    """Each port of an InfiniBand switch is on its model, and leads to an HCA, once, or a switch.

    It has no settings: the subnet manager decides MTU and routes.
    """
    yield from _ethernet_settings(spec)
    plugged: dict[str, Place] = {}
    for switch in list_ib_switches(spec):
        for name, to in switch.ports.items() if switch.names else ():
            place = at((*switch.path, "ports", name), to)
            if not switch.has_port(name):
                fix = f"its ports are {switch.describe_ports()}."
                yield Finding(f"{switch.described} lacks port {name}.", (place,), fix)
            if switch.peer(name) is not None:
                continue
            owner, _, hca = to.partition("/hca-")
            # `ib-hcas` reports a worker with fewer HCAs than the fabric's number.
            host = spec.host(owner)
            fabric = spec.infiniband.hcas if spec.infiniband else 0
            most = max(host.hcas, fabric if host.role == "worker" else 0) if host else 0
            if not hca.isdigit() or int(hca) >= most:
                yield find("ib-port-leads", place, name=name, switch=switch, to=to)
            elif (other := plugged.setdefault(to, place)) is not place:
                yield find("ib-port-twice", place, other, to=to)


def _ethernet_settings(spec: ClusterSpec) -> Findings:
    for switch, here in walk(spec, "switches.*", Switch):
        ports = switch.ports if switch.carries == "infiniband" else {}
        for key, cannot in (("routing.asn", "run BGP"), ("edge_ports", "run spanning tree")):
            top = key.partition(".")[0]
            if switch.carries == "infiniband" and getattr(switch, top):
                yield find("ib-port-setting", *here(key), switch=switch, cannot=cannot, top=top)
        for (name, port), (key, field) in product(ports.items(), SwitchPort.model_fields.items()):
            if key != "to" and getattr(port, key) != field.default:
                where = (at((*here.path, "ports", name, key), getattr(port, key)),)
                yield find("ib-port-key", *where, name=name, switch=switch, key=key)


def check_ib_link_ends(spec: ClusterSpec) -> Findings:
    """Each end of a link between InfiniBand switches is named by the other end.

    `ib-routing-engine` and `ib-one-subnet` rely on them.
    """
    named = {each.name: each for each in list_ib_switches(spec)}
    ethernet = {each.name for each in spec.switches} - {*named}  # `switch-transport` reports them
    for switch in named.values():
        for name, to in switch.ports.items():
            far, far_port = switch.peer(name) or ("", "")
            other = named[far].ports.get(far_port) if far in named else None
            if not far or far in ethernet:
                continue
            if far not in named:
                why = f"the file lacks an InfiniBand switch {far!r}.{did_you_mean(far, [*named])}"
            elif other is None:
                why = f"{far} lacks port {far_port} in the file."
            elif far == switch.name or named[far].peer(far_port) != (switch.name, name):
                why = f"{far} names {other} there."
            else:
                continue
            what = f"port {name} of {switch.name} is a link to {to}, but {why}"
            fix = f"write both ends: on {far} the port {far_port} as {switch.name}:{name}."
            yield Finding(what, (at((*switch.path, "ports", name), to),), fix)


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
            where = (at((*switch.path, "name"), switch.name),)
            yield find("ib-one-subnet", *where, switches=switches, switch=switch)


def check_ib_routing_engine(spec: ClusterSpec) -> Findings:
    """`updn` and `ftree` have a root to start from.

    A root is a switch with all HCAs at one distance, such as a spine; for `updn` the only switch is
    one too. Without a root opensm continues with minhop, and the switches' own subnet manager
    probably too: this is a warning.
    """
    engine = spec.infiniband.routing_engine if spec.infiniband else None
    if engine not in {"updn", "ftree"} or any(check_ib_one_subnet(spec)):
        return
    switches = list_ib_switches(spec)
    alone = engine == "ftree" and len(switches) == 1
    hcas = {each.name: sum(each.peer(port) is None for port in each.ports) for each in switches}
    limits = [limit * sum(hcas.values()) for limit in (_MOST, _FEW)]
    bars = (  # distance to the number of HCAs there
        Counter(hops for far, hops in each.items() for _ in range(hcas[far]))
        for each in _hops(spec).values()
    )
    counts = ([sum(count > limit for count in bar.values()) for limit in limits] for bar in bars)
    if alone or [1, 1] not in counts:
        why = "one switch is no tree" if alone else "one switch is not a tree"
        where = places(spec, "infiniband.routing_engine")
        yield find("ib-routing-engine", *where, engine=engine, why=why)


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


def _partitions(spec: ClusterSpec) -> Iterator[tuple[IbPartition, Here]]:
    return walk(spec, "infiniband.partitions.*", IbPartition)


@needs("hosts", "roles")
def check_partition_member(spec: ClusterSpec) -> Findings:
    """Each member of a partition is a host of the file with known port GUIDs.

    A partition needs a full member: limited ones do not reach each other.
    """
    for partition, here in _partitions(spec):
        members = () if partition.members == "all" else partition.members
        if not partition.members:
            yield find("partition-empty", at((*here.path, "members"), "[]"), partition=partition)
        kinds, where = {partition.membership_of(each.host) for each in members}, here("members")
        fix = "make one member full."
        if partition.members == "all":
            kinds, where = {partition.membership}, (at((*here.path, "membership"), "limited"),)
            fix = "remove membership: full is the default."
        if kinds == {"limited"}:
            yield find("partition-member-limited", *where, partition=partition, fix=fix)
        yield from _wrong_members(spec, partition, here)


def _wrong_members(spec: ClusterSpec, partition: IbPartition, here: Here) -> Findings:
    seen: set[str] = set()
    for m, member in enumerate(() if partition.members == "all" else partition.members):
        host, name = spec.host(member.host), member.host
        count, beyond = len(host.hca_guids) if host else 0, max(member.hcas or (0,))
        if host is None:
            hint = did_you_mean(name, [each.name for each in spec.hosts])
            what, fix = f"there is no host {name!r}.{hint}", "name a host of this file."
        elif not host.hca_guids:
            what = f"the port GUIDs of {name} are not known."
            fix = "list them as hca_guids of the host; ibstat prints them as Port GUID."
        elif beyond >= count:
            what = f"{name} has {count} port GUIDs, but the file names HCA {beyond}."
            fix = f"count from 0: the last one is {count - 1}."
        elif name in seen:
            what, fix = f"{name} is in it twice.", "name it once."
        else:
            seen.add(name)
            continue
        where = (at((*here.path, "members", m), name),)
        yield Finding(f"partition {partition.name}: {what}", where, fix)


def check_partition_count(spec: ClusterSpec) -> Findings:
    """A host's partitions fit into the key table of its ports, next to Default.

    The table of a ConnectX card has 128 entries.
    """
    pairs = product((each for each, _ in _partitions(spec)), spec.workers)
    counts = Counter(host.name for each, host in pairs if each.membership_of(host.name) is not None)
    over = [host.name for host in spec.workers if counts[host.name] >= _KEY_TABLE]
    if over:
        others = f", and {len(over) - 1} more hosts in too many" if over[1:] else ""
        what = f"{over[0]} is in {counts[over[0]]} partitions{others}; a port holds {_KEY_TABLE} "
        fix = f"put a host into {_KEY_TABLE - 1} at most."
        yield Finding(f"{what}keys.", places(spec, "infiniband.partitions"), fix)


def check_partition_name(spec: ClusterSpec) -> Findings:
    """No two partitions have names that differ in case only.

    It is not published whether MLNX-OS distinguishes them.
    """
    for (each, here), (other, there) in twins(_partitions(spec), lambda part: part[0].name.lower()):
        if other.name != each.name:
            yield find("partition-name", *here("name"), *there("name"), other=other, each=each)


def check_ufm_partition(spec: ClusterSpec) -> Findings:
    """Partitions in UFM list their members, and use only settings that its API has for members.

    The API takes port GUIDs, not all at once; it sets MTU and rate only with a service level, which
    the file lacks. Only UFM can put a key first in a port's table, and only one.
    """
    first: dict[str, tuple[str, Place]] = {}
    for partition, here in _partitions(spec):
        if spec.infiniband is not None and spec.infiniband.ufm is not None:
            yield from _unsettable(partition, here)
        elif partition.index0:
            yield find("ufm-partition-index", *here("index0"), partition=partition)
        hosts = () if partition.members == "all" or not partition.index0 else partition.members
        for m, member in enumerate(hosts):
            place = at((*here.path, "members", m), member.host)
            for guid in member.ports_of(host.hca_guids if (host := spec.host(member.host)) else ()):
                other, there = first.setdefault(guid, (partition.name, place))
                if there != place:
                    what = f"{partition.name} and {other} both want index 0 of {member.host}."
                    there = at(there.path, member.host)
                    yield Finding(what, (place, there), "remove index0 from one.")


def _unsettable(partition: IbPartition, here: Here) -> Findings:
    name = partition.name
    if partition.members == "all":
        yield find("ufm-partition-ports", *here("members"), name=name)
    for key in ("mtu_bytes", "rate_gbit_s"):
        value = getattr(partition, key)
        if value is not None:
            yield find("ufm-partition-setting", *here(key), name=name, key=key, value=value)


def check_sm_switch(spec: ClusterSpec) -> Findings:
    """Only a switch with MLNX-OS has `sm_priority`."""
    for switch, here in walk(spec, "switches.*", Switch):
        if switch.sm_priority is not None and switch.carries != "infiniband":
            yield find("sm-switch", *here("sm_priority"), switch=switch)


def check_partition_key(spec: ClusterSpec) -> Findings:
    """Each partition has a unique key and a unique name."""
    for (each, here), (_, there) in twins(_partitions(spec), lambda part: part[0].pkey):
        key = show_pkey(each.pkey)
        where = (at((*here.path, "pkey"), key), at((*there.path, "pkey"), key))
        yield find("partition-key", *where, key=key)
