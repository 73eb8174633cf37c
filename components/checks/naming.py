"""Rules on names: unique, and such that Kubernetes takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec

_RESOURCE: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_]*[a-zA-Z0-9])?")
"""A Kubernetes resource name, without the hyphens that the SR-IOV device plugin refuses."""
_MAX_RESOURCE: Final = 63
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_PREFIX: Final = 253
_RESERVED_HOSTS: Final = frozenset({"localhost", "kubernetes"})


def _repeated(named: Iterable[tuple[str, SpecPath]]) -> Iterator[tuple[str, SpecPath, SpecPath]]:
    first: dict[str, SpecPath] = {}
    for name, path in named:
        if first.setdefault(name, path) != path:
            yield name, path, first[name]


def check_duplicate_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Devices have unique names, and so have rails.

    A device's name is part of the identity of its resources: two devices of one name would be one.
    """
    devices = [
        *((switch.name, ("switches", s, "name")) for s, switch in enumerate(spec.switches)),
        *((host.name, ("hosts", h, "name")) for h, host in enumerate(spec.hosts)),
    ]
    rails = [(rail.name, ("rails", r, "name")) for r, rail in enumerate(spec.rails)]
    for kind, named in (("devices", devices), ("rails", rails)):
        for name, path, other in _repeated(named):
            yield Finding(
                f"two {kind} are called {name}.",
                (at(path, name), at(other, name)),
                "rename one of them.",
            )


def check_reserved_name(spec: ClusterSpec) -> Iterator[Finding]:
    """No host has a name that every hosts file already gives to something else."""
    for h, host in enumerate(spec.hosts):
        if host.name in _RESERVED_HOSTS:
            yield Finding(
                f"a host cannot be called {host.name}: the name belongs to the machine itself or "
                "to the cluster.",
                (at(("hosts", h, "name"), host.name),),
                "choose another name, for example gpu01.",
            )


def check_resource_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Each rail has an extended resource of its own, with a name that Kubernetes accepts.

    Letters, digits and inner underscores, at most 63 long; the SR-IOV device plugin refuses
    hyphens. Two rails of one name would be one pool, and a pod could get two VFs of one rail; case
    makes no difference, since the plugin hands a pod its VFs in variables of upper case. With
    `rdma_shared` one unit gives a pod all cards, and rails may share a resource.
    """
    for r, rail in enumerate(spec.rails):
        if len(rail.resource) > _MAX_RESOURCE or not _RESOURCE.fullmatch(rail.resource):
            yield Finding(
                f'"{rail.resource}" is no name for an extended resource.',
                (at(("rails", r, "resource"), rail.resource),),
                "use at most 63 letters, digits and inner underscores, without the prefix: "
                f"for example sriov_{rail.vlan}.",
            )
    written: dict[SpecPath, str] = {
        ("rails", r, "resource"): rail.resource for r, rail in enumerate(spec.rails)
    }
    if spec.pod_network.mode != "sriov":
        return
    for _, path, other in _repeated((name.lower(), path) for path, name in written.items()):
        yield Finding(
            f"two rails share the resource {written[path]}.",
            (at(path, written[path]), at(other, written[other])),
            "give each rail a resource of its own.",
        )


def check_resource_prefix(spec: ClusterSpec) -> Iterator[Finding]:
    """The prefix of the resources is a DNS name that Kubernetes does not keep for itself."""
    prefix = spec.pod_network.resource_prefix
    reserved = prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    if reserved or len(prefix) > _MAX_PREFIX or not _PREFIX.fullmatch(prefix):
        reason = "is kept by Kubernetes" if reserved else "is no DNS name"
        yield Finding(
            f'the resource prefix "{prefix}" {reason}.',
            (at(("pod_network", "resource_prefix"), prefix),),
            "use the device plugin's own prefix, intel.com, or a domain of yours.",
        )


def check_network_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Each rail has a network attachment of its own."""
    named = ((rail.network, ("rails", r, "network")) for r, rail in enumerate(spec.rails))
    for name, path, other in _repeated(named):
        yield Finding(
            f"two rails share the network attachment {name}.",
            (at(path, name), at(other, name)),
            "give each rail an attachment of its own, for example sriov111 and sriov112.",
        )


def check_duplicate_vlan(spec: ClusterSpec) -> Iterator[Finding]:
    """Each rail has a VLAN of its own.

    On a shared VLAN the answer to an address of one rail may leave through another rail's NIC.
    """
    named = ((str(rail.vlan), ("rails", r, "vlan")) for r, rail in enumerate(spec.rails))
    for vlan, path, other in _repeated(named):
        yield Finding(
            f"two rails share VLAN {vlan}.",
            (at(path, vlan), at(other, vlan)),
            "give each rail a VLAN and a subnet of its own.",
        )


def check_unused_rail(spec: ClusterSpec) -> Iterator[Finding]:
    """There is a rail, and each has a NIC: a job asking for a VF of an empty rail would wait.

    InfiniBand of a cloud has no rails of ours.
    """
    if not spec.rails and spec.rdma.transport == "roce":
        yield Finding(
            "the site has no rail, so its workers have no RDMA network.",
            (at(("rails",)),),
            "add a rail for each NIC of a worker; examples/dgx-roce/site.yaml shows two.",
        )
    used = {nic.nic.rail for nic in list_nics(spec)}
    for r, rail in enumerate(spec.rails):
        if rail.name not in used:
            yield Finding(
                f"no NIC is on {rail.name}, and a job that asks for its resource would wait for "
                "ever.",
                (at(("rails", r, "name"), rail.name),),
                "add the NICs or remove the rail.",
            )
