"""Rules on what hosts without VFs need: addresses on the cards, Docker, ATS in virtual machines."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Final

from components.checks.card_firmware import firmware_asked
from components.checks.rule import Finding, at
from components.checks.topology import PlacedNic, list_nics
from components.core.problem import SpecPath, render_path
from components.model.cluster import ClusterSpec
from components.model.rail_subnets import routed_cards, subnet_of
from components.pod_network.leaf_pools import probe_address

_NO_MACHINES: Final = 31
"""Bits of a subnet that is all network and broadcast address."""


def check_pf_address(spec: ClusterSpec) -> Iterator[Finding]:
    """A card's own address is a free one of its rail's subnet.

    The prefix length comes from the subnet; with an address of another one, the neighbours on the
    rail would be reached through a router that is not there.
    """
    seen: dict[str, SpecPath] = {}
    for nic in list_nics(spec):
        if nic.nic.address is None:
            continue
        path = (*nic.path, "address")
        other = seen.setdefault(nic.nic.address, path)
        if other != path:
            yield Finding(
                f"two cards have the address {nic.nic.address}.",
                (at(path, nic.nic.address), at(other, nic.nic.address)),
                "give each card an address of its own.",
            )
        yield from _outside(spec, nic, path)


def _outside(spec: ClusterSpec, nic: PlacedNic, path: SpecPath) -> Iterator[Finding]:
    rail = spec.rail(nic.nic.rail)
    place = subnet_of(spec, rail, nic.host) if rail is not None else None
    if rail is None or place is None or nic.nic.address is None:
        return  # `nic-rail` tells of a rail that is not there, `rail-leaf` of a leaf without it
    if (nic.host.name, rail.name) in routed_cards(spec):
        return  # `routed-port` tells of these
    address, subnet = IPv4Address(nic.nic.address), place.network
    ends = (subnet.network_address, subnet.broadcast_address)
    if subnet.prefixlen >= _NO_MACHINES:
        key: SpecPath = ("leaves", place.leaf, "subnet") if place.leaf else ("subnet",)
        yield Finding(
            f"{rail.name}'s subnet {subnet} has no address for {nic.host.name} {nic.nic.netdev}.",
            (at(path, nic.nic.address), at(("rails", spec.rails.index(rail), *key), subnet)),
            "choose a larger subnet; /24 is usual.",
        )
    elif spec.kubernetes and not spec.pod_network.host_network and address == probe_address(subnet):
        yield Finding(
            f"{address} of {nic.host.name} {nic.nic.netdev} is the last address of {rail.name}, "
            "kept for the server of the bandwidth test.",
            (at(path, nic.nic.address),),
            "give the card another address.",
        )
    elif address not in subnet or address in ends:
        on_leaf = f" on {place.leaf}" if place.leaf else ""
        yield Finding(
            f"{nic.nic.address} of {nic.host.name} {nic.nic.netdev} is no address of a machine in "
            f"{rail.name}'s subnet {subnet}{on_leaf}.",
            (at(path, nic.nic.address),),
            f"write an IPv4 address from {ends[0] + 1} to {ends[1] - 1}, without a prefix length.",
        )


def check_guest_ats(spec: ClusterSpec) -> Iterator[Finding]:
    """ATS is set in the cards of virtual machines, and only there.

    A guest's GPU and card reach each other through the hypervisor's address translation: without
    ATS every message takes the way over the processor. On bare metal there is no such translation.
    """
    for path, firmware, hosts in firmware_asked(spec):
        setting = render_path((*path, "ats"))
        place = at((*path, "ats"), firmware.ats)
        if firmware.ats and not spec.hypervisors:
            yield Finding(
                "ATS is for virtual machines on ESXi, and this site has no hypervisors.",
                (place,),
                f"remove {setting}, or describe the hypervisors with environment kind esxi.",
            )
        if spec.hypervisors and hosts and not firmware.ats:
            yield Finding(
                "the hosts are virtual machines, and ATS of their cards is off.",
                (place,),
                f"set {setting} to true, unless you measure without GPUDirect on purpose.",
                "warning",
            )


def check_docker_runtime(spec: ClusterSpec) -> Iterator[Finding]:
    """Docker is asked for where something runs in it.

    K3s has its own containerd: a Docker beside it would hold images and GPUs of containers that
    Kubernetes does not know of.
    """
    k3s = spec.k3s
    if spec.host_defaults.docker and k3s is not None and k3s.container_runtime == "containerd":
        yield Finding(
            "Docker is asked for on the hosts, and K3s runs its pods in containerd.",
            (
                at(("host_defaults", "docker"), spec.host_defaults.docker),
                at(("kubernetes", "container_runtime"), k3s.container_runtime),
            ),
            "remove host_defaults.docker, or set kubernetes.container_runtime to docker.",
        )
