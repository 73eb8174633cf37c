"""Rules on the links between InfiniBand switches: both ends, one subnet, and what routes need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.ib_switches import IbSwitch, list_ib_switches
from components.model.once import once
from components.reading.wording import did_you_mean

_MOST: Final = 0.9
_FEW: Final = 0.05
"""opensm's own thresholds: a root has more than 90 % of all HCAs at one distance, and at no other
distance more than 5 % (opensm, osm_ucast_updn.c; `tests/lab/test_ib_routes.py` asks it)."""


def check_ib_link_ends(spec: ClusterSpec) -> Findings:
    """Each end of a link between InfiniBand switches is named by the other end.

    The lab cables its fabric by them, and `ib-routing-engine` and `ib-one-subnet` count on them.
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
            yield Finding(
                f"port {name} of {switch.name} is a link to {to}, and {_why(peer, named)}",
                (at(path, to),),
                f"write both ends: on {far} the port {far_port} as {switch.name}:{name}.",
            )


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

    Switches without a path to each other have a master each, and their hosts never meet.
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

    A root is a switch that has all HCAs at one distance, as a spine has, or the only switch, which
    is enough for `updn` and not for `ftree`. Without one opensm says so in its log, takes minhop,
    and manages on. That the switches' own subnet manager does the same is a guess, so this is a
    warning.
    """
    fabric = spec.infiniband
    engine = fabric.routing_engine if fabric else None
    if engine not in {"updn", "ftree"} or any(check_ib_one_subnet(spec)):
        return
    alone = engine == "ftree" and len(list_ib_switches(spec)) == 1
    if alone or not _roots(spec):
        why = "one switch is no tree" if alone else "no switch has all HCAs at one distance"
        yield Finding(
            f"{engine} has no root here: {why}, so the subnet manager falls back to minhop.",
            places(spec, "infiniband.routing_engine"),
            "write routing_engine: minhop, or cable the leaves to spines.",
            "warning",
        )


@once
def _hops(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """Switch to each switch that it has a path to, and the links on the shortest."""
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
