"""Rules on pairs of switches: no loop of trunks, and MLAG peers that name each other."""

from __future__ import annotations

from components.checks.links import list_pairs
from components.checks.rule import Finding, Findings, at
from components.checks.topology import PlacedPort
from components.fabric.systems import driver_of, system_of
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean


def check_link_loop(spec: ClusterSpec) -> Findings:
    """The trunks between switches form no loop.

    Spanning tree would block one link of each loop: its bandwidth is lost, and which one it is
    changes with the root. Routed links are for several paths at once.
    """
    group = {switch.name: switch.name for switch in spec.switches}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for one, other in list_pairs(spec):
        if "routed" in {one.port.mode, other.port.mode}:
            continue
        first, second = root(one.switch.name), root(other.switch.name)
        if first != second:
            group[second] = first
            continue
        yield Finding(
            f"the trunk from {one.switch.name} {one.name} to {other.switch.name} {other.name} "
            "closes a loop, and spanning tree would block a link of it.",
            (one.place, other.place),
            _fix(one, other),
        )


def _fix(one: PlacedPort, other: PlacedPort) -> str:
    fixed = next((each for each in (one, other) if not _can_route(each)), None)
    if fixed is None:
        return "remove one link of the loop, or make the links routed: mode: routed at both ends."
    title = driver_of(fixed.switch.os).title
    return f"remove one link of the loop: {title} is not routed."


def _can_route(port: PlacedPort) -> bool:
    return not isinstance(system_of(port.switch.os).routing, str)


def check_mlag_peer(spec: ClusterSpec) -> Findings:
    """Both switches of an MLAG pair name each other.

    Only then are the two known to stand in for each other, and change in different waves.
    """
    peers = {switch.name: switch.mlag_peer for switch in spec.switches}
    for s, switch in enumerate(spec.switches):
        peer = switch.mlag_peer
        if peer is None or (peer != switch.name and peers.get(peer) == switch.name):
            continue
        if peer not in peers or peer == switch.name:
            others = [name for name in peers if name != switch.name]
            why = f"and no other switch of the file has that name.{did_you_mean(peer, others)}"
            fix = "name the other switch of the pair, or remove mlag_peer."
        else:
            far = peers[peer]
            why = f"which has {'no mlag_peer' if far is None else f'mlag_peer: {far}'}."
            fix = f"write mlag_peer: {switch.name} on {peer}, or correct it here."
        yield Finding(
            f"{switch.name} is an MLAG pair with {peer}, {why}",
            (at(("switches", s, "mlag_peer"), peer),),
            fix,
        )
