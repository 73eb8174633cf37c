"""Rules on what the file asks of a switch system that has no such thing, or not in that release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.fabric.lacks import Topic, lacks
from components.fabric.systems import driver_of, system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch

_FIXES: Final[dict[Topic, str]] = {
    "roce-mode": "use mode lossless or lossy_ecn",
    "pfc-watchdog": "remove pfc_watchdog",
    "cable-length": "remove cable_length_m",
    "port-ecn": "remove the thresholds of the port, so that it follows rdma",
    "queue-setting": "remove it",
    "packet-spreading": "remove adaptive_routing, so that each flow keeps its path (ECMP)",
    "bond-system": "leave the ports out of the file, so that their bundle stays as it is",
    "routed-link": "make the link a trunk without routing, with one link between two switches, or "
    "use a switch system that is routed: cumulus, eos or sonic",
}


def _find(spec: ClusterSpec, topic: Topic) -> Iterator[Finding]:
    if spec.rdma.transport != "roce":
        return
    for s, switch in enumerate(spec.switches):
        for lack in lacks(spec.rdma, switch):
            if lack.topic != topic:
                continue
            path = _path(s, lack.place)
            yield Finding(
                f"{lack.what}: {lack.why}.",
                (at(path, _value(spec, switch, lack.place)), at(("switches", s, "os"), switch.os)),
                f"{lack.fix or _FIXES[topic]}.{_capability(switch)}",
            )


def _path(index: int, place: tuple[str, ...]) -> SpecPath:
    return place if place[0] == "rdma" else ("switches", index, *place)


def _value(spec: ClusterSpec, switch: Switch, place: tuple[str, ...]) -> object:
    if place[0] == "rdma":
        return getattr(spec.rdma, place[1])
    if place[0] == "bonds":
        return switch.bonds[place[1]].to
    if place[0] == "mlag":
        return getattr(switch.mlag, (*place, "peer")[1])
    if place[0] == "routing":
        return getattr(switch.routing, place[1])
    return getattr(switch.ports[place[1]], place[2])


def _capability(switch: Switch) -> str:
    model = switch.hardware
    return f" {model.capability_line()}." if model else ""


def check_roce_mode(spec: ClusterSpec) -> Iterator[Finding]:
    """Each switch has the mode of RoCE that the file asks for.

    `semi_lossless` lets a card pause its switch port and passes no pause on, so that a burst is
    held without a pause storm in the fabric. Onyx has it as `roce semi-lossless`.
    """
    return _find(spec, "roce-mode")


def check_pfc_watchdog(spec: ClusterSpec) -> Iterator[Finding]:
    """A PFC watchdog is asked for only where there is one, and a class that it could watch.

    It drops what a pause storm holds up on a lossless class. Cumulus has it from 5.6 on, EOS as
    lines of a port, SONiC as a row of its own.
    """
    return _find(spec, "pfc-watchdog")


def check_cable_length(spec: ClusterSpec) -> Iterator[Finding]:
    """The length of a cable is written only where headroom is computed from it.

    What is under way when a pause is sent has to fit into the buffer: light needs about 5 ns a
    metre, which is 62 bytes each way at 100 Gbit/s. Cumulus has one length for the whole switch.
    SONiC has one a port, and headroom for some lengths only, 5, 40 and 300 m on most platforms: the
    next longer one is set.
    """
    return _find(spec, "cable-length")


def check_port_ecn(spec: ClusterSpec) -> Iterator[Finding]:
    """A port has ECN thresholds of its own only where the switch system sets them by port."""
    return _find(spec, "port-ecn")


def check_queue_setting(spec: ClusterSpec) -> Iterator[Finding]:
    """Shares, probabilities, watchdog times and maps are asked for only where they can be set.

    Onyx marks every packet at the upper threshold, and no documented command moves a DSCP. Cumulus
    has the notifications of its RoCE profile in class 6.
    """
    return _find(spec, "queue-setting")


def check_packet_spreading(spec: ClusterSpec) -> Iterator[Finding]:
    """Adaptive routing is asked for only where the vendor supports it: Spectrum-4 with Cumulus.

    The chip spreads each packet over links of up to 400 Gbit/s; an 800 Gbit/s port is split for it.
    """
    return _find(spec, "packet-spreading")


def check_routed_link(spec: ClusterSpec) -> Iterator[Finding]:
    """A link is routed only between switches whose driver sets routed ports and BGP."""
    return _find(spec, "routed-link")


def check_bond_system(spec: ClusterSpec) -> Iterator[Finding]:
    """A bundle is written only where the driver sets bundles, under a name that the system takes.

    Cumulus, EOS and SONiC have bundles by LACP, and two switches of Cumulus or EOS share one as a
    pair (MLAG).
    Elsewhere bundles stay what they are: ports that are not in the file are left alone.
    """
    return _find(spec, "bond-system")


def check_reserved_vlan(spec: ClusterSpec) -> Iterator[Finding]:
    """No rail has a VLAN that the switching chip uses itself.

    Cumulus Linux keeps 3725 to 3999 by default, and refuses or silently loses a bridge VLAN there.
    """
    for r, rail in enumerate(spec.rails):
        for s, switch in enumerate(spec.switches):
            kept = system_of(switch.os).reserved_vlans
            if rail.vlan in kept:
                yield Finding(
                    f"{rail.name} is VLAN {rail.vlan}, and {driver_of(switch.os).title} on "
                    f"{switch.name} keeps {kept.start} to {kept.stop - 1} for itself.",
                    (at(("rails", r, "vlan"), rail.vlan), at(("switches", s, "os"), switch.os)),
                    "choose a VLAN outside of that range.",
                )
                break
