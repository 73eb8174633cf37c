"""Rules on names: unique, and such that Kubernetes takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec


def repeated(named: Iterable[tuple[str, SpecPath]]) -> Iterator[tuple[str, SpecPath, SpecPath]]:
    """Each name that comes again, its place, and the place where it came first."""
    first: dict[str, SpecPath] = {}
    for name, path in named:
        if first.setdefault(name, path) != path:
            yield name, path, first[name]


def check_duplicate_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Devices have unique names, and so have rails.

    A device's name is part of the identity of its resources: two devices of one name would be one.
    """
    devices: list[tuple[str, SpecPath]] = [
        *((switch.name, ("switches", s, "name")) for s, switch in enumerate(spec.switches)),
        *((each.name, ("other_switches", s, "name")) for s, each in enumerate(spec.other_switches)),
        *((host.name, ("hosts", h, "name")) for h, host in enumerate(spec.hosts)),
    ]
    for s, plain in enumerate(spec.infiniband.switches if spec.infiniband else ()):
        devices.append((plain.name, ("infiniband", "switches", s, "name")))
    if spec.infiniband is not None and spec.infiniband.ufm is not None:
        devices.append((spec.infiniband.ufm.name, ("infiniband", "ufm", "name")))
    rails = [(rail.name, ("rails", r, "name")) for r, rail in enumerate(spec.rails)]
    for kind, named in (("devices", devices), ("rails", rails)):
        for name, path, other in repeated(named):
            yield Finding(
                f"two {kind} are called {name}.",
                (at(path, name), at(other, name)),
                "rename one of them.",
            )


def check_renamed(spec: ClusterSpec) -> Iterator[Finding]:
    """Each entry of `renamed` says which former device one of the file is.

    `railyard rename` writes it. An entry may stay, until another device gets the former name: the
    resources of two devices would then be claimed by one.
    """
    groups = {"hosts": spec.hosts, "switches": spec.switches}
    for group, devices in groups.items():
        names = {each.name for each in devices}
        first: dict[str, str] = {}
        for new, old in getattr(spec.renamed, group).items():
            where = (at(("renamed", group, new), old),)
            if new not in names:
                what = f"{new} is renamed from {old}, and is not in {group}."
                yield Finding(what, where, "remove the entry, or correct the name.")
            elif old in names:
                what = f"{new} is renamed from {old}, and {old} is in {group} too."
                fix = "remove the entry if an update renamed it already; else choose another name."
                yield Finding(what, where, fix)
            elif first.setdefault(old, new) != new:
                what = f"{new} and {first[old]} are both renamed from {old}."
                yield Finding(what, where, "remove one of the entries.")


def check_resource_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Each rail has an extended resource of its own.

    Two rails of one name would be one pool, and a pod could get two VFs of one rail; case
    makes no difference, since the plugin hands a pod its VFs in variables of upper case. With
    `rdma_shared` one unit gives a pod all cards, and rails may share a resource.
    """
    written: dict[SpecPath, str] = {
        ("rails", r, "resource"): rail.resource for r, rail in enumerate(spec.rails)
    }
    if spec.pod_network.mode != "sriov":
        return
    for _, path, other in repeated((name.lower(), path) for path, name in written.items()):
        yield Finding(
            f"two rails share the resource {written[path]}.",
            (at(path, written[path]), at(other, written[other])),
            "give each rail a resource of its own.",
        )


def check_network_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Each rail has a network attachment of its own."""
    named = ((rail.network, ("rails", r, "network")) for r, rail in enumerate(spec.rails))
    for name, path, other in repeated(named):
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
    for vlan, path, other in repeated(named):
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
