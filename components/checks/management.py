"""Rules that keep our own session with a switch alive."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.checks.topology import list_all_ports
from components.core.problem import SpecPath
from components.fabric.systems import driver_of, system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Inband, Switch
from components.model.rail_subnets import subnets_of

_KEEP = "give the switch its management port, or another port and VLAN for the session."


def check_management_port(spec: ClusterSpec) -> Iterator[Finding]:
    """What carries the session to a switch is nothing that the file sets.

    The management port, and the VRF that it is in, cannot be written here at all. A switch that is
    managed in-band says so with `inband`, and that port and its VLAN are left alone: shut for a new
    MTU, taken out of a VLAN, or flapped by a one-shot, they would cut the session in the middle of
    a change, and the undo could not come in either. Addresses of the fabric are not those by which
    a switch is reached. That the management network overlaps no rail is the rule `subnet-overlap`.
    """
    for s, switch in enumerate(spec.switches):
        yield from _addresses(spec, s, switch)
        if switch.inband is not None:
            path: SpecPath = ("switches", s, "inband")
            yield from _ports(spec, switch, switch.inband, path)
            yield from _vlans(spec, switch, switch.inband, path)
            yield from _one_shot(spec, switch, switch.inband, path)


def _ports(spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath) -> Iterator[Finding]:
    model = switch.hardware
    if model is not None and not model.has_port(switch.os, inband.port):
        yield Finding(
            f"the session of {switch.name} comes in by port {inband.port}, which "
            f"{model.described} has not.",
            (at((*path, "port"), inband.port),),
            _KEEP,
        )
    for port in list_all_ports(spec):
        if port.switch.name != switch.name or model is None:
            continue
        names = {name: model.whole_port(switch.os, name) for name in (port.name, inband.port)}
        if names[port.name] is not None and names[port.name] == names[inband.port]:
            yield Finding(
                f"port {port.name} of {switch.name} carries our own session, and the file would "
                "set its mode, its MTU and its queues.",
                (at(port.path, port.port.to), at((*path, "port"), inband.port)),
                _KEEP,
            )


def _vlans(spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath) -> Iterator[Finding]:
    for r, rail in enumerate(spec.rails):
        if rail.vlan == inband.vlan:
            yield Finding(
                f"VLAN {inband.vlan} carries our own session with {switch.name} and is that of "
                f"{rail.name}, which an undo takes away.",
                (at(("rails", r, "vlan"), rail.vlan), at((*path, "vlan"), inband.vlan)),
                _KEEP,
            )


def _one_shot(
    spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath
) -> Iterator[Finding]:
    system, mode = system_of(switch.os), spec.rdma.mode
    title = driver_of(switch.os).title
    if system.one_shot_flaps and mode in system.one_shot_modes:
        yield Finding(
            f"{mode} is one command for the whole switch on {title}, which may flap every port, "
            f"also {inband.port}, by which our own session with {switch.name} comes in.",
            (at(("rdma", "mode"), mode), at((*path, "port"), inband.port)),
            "reach the switch by its management port.",
        )


def _addresses(spec: ClusterSpec, index: int, switch: Switch) -> Iterator[Finding]:
    place = at(("switches", index, "ssh", "address"), switch.ssh.address)
    if switch.routing is not None and str(switch.routing.router_id) == switch.ssh.address:
        yield Finding(
            f"{switch.name} is reached at {switch.ssh.address}, which is also its router_id: undo "
            "takes that address away.",
            (place, at(("switches", index, "routing", "router_id"), switch.routing.router_id)),
            "choose a router_id that is no address of the management network.",
        )
    for r, rail in enumerate(spec.rails):
        for subnet in subnets_of(rail):
            if str(subnet.gateway) != switch.ssh.address:
                continue
            key: SpecPath = ("leaves", subnet.leaf, "gateway") if subnet.leaf else ("gateway",)
            yield Finding(
                f"{switch.name} is reached at {switch.ssh.address}, which is the gateway of "
                f"{rail.name}: undo takes that address away.",
                (place, at(("rails", r, *key), subnet.gateway)),
                "reach the switch by an address of the management network.",
            )
