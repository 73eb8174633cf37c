"""Rules on names: unique, and such that Kubernetes takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import PlacedNic, list_nics
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean


def repeated(named: Iterable[tuple[str, SpecPath]]) -> Iterator[tuple[str, SpecPath, SpecPath]]:
    """Each name that comes again, its place, and the place where it came first."""
    first: dict[str, SpecPath] = {}
    for name, path in named:
        if first.setdefault(name, path) != path:
            yield name, path, first[name]


def check_duplicate_name(spec: ClusterSpec) -> Findings:
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


def check_renamed(spec: ClusterSpec) -> Findings:
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


def check_resource_name(spec: ClusterSpec) -> Findings:
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


def check_network_name(spec: ClusterSpec) -> Findings:
    """Each rail has a network attachment of its own."""
    named = ((rail.network, ("rails", r, "network")) for r, rail in enumerate(spec.rails))
    for name, path, other in repeated(named):
        yield Finding(
            f"two rails share the network attachment {name}.",
            (at(path, name), at(other, name)),
            "give each rail an attachment of its own, for example sriov111 and sriov112.",
        )


def check_duplicate_vlan(spec: ClusterSpec) -> Findings:
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


def check_unused_rail(spec: ClusterSpec) -> Findings:
    """There is a rail, and each has a NIC: a job asking for a VF of an empty rail would wait.

    InfiniBand of a cloud has no rails of ours.
    """
    if not spec.rails and spec.rdma.transport == "roce":
        yield Finding(
            "the site has no rail, so its workers have no RDMA network.",
            places(spec, "rails"),
            "add a rail for each NIC of a worker; examples/dgx-roce/site.yaml shows two.",
        )
    used = {nic.nic.rail for nic in list_nics(spec)}
    for r, rail in enumerate(spec.rails):
        if rail.name not in used:
            yield Finding(
                f"no NIC is on {rail.name}: a job that asks for its resource waits for ever.",
                places(spec, f"rails.{r}.name"),
                "add the NICs or remove the rail.",
            )


def check_host_group(spec: ClusterSpec) -> Findings:
    """A host names a group that exists, and a group has hosts.

    A misspelt group would leave its host with `host_defaults`, and no message would say so.
    """
    known = [group.name for group in spec.host_groups]
    for h, host in enumerate(spec.hosts):
        if host.group is not None and host.group not in known:
            yield Finding(
                f"{host.name} is of the group {host.group}, which is not in host_groups.",
                places(spec, f"hosts.{h}.group"),
                "name a group of host_groups, or add this one there."
                + did_you_mean(host.group, known),
            )
    used = {host.group for host in spec.hosts}
    for g, group in enumerate(spec.host_groups):
        path = ("host_groups", g, "name")
        if group.name in known[:g]:
            yield Finding(
                f"two groups of hosts are called {group.name}.",
                (at(path, group.name), at(("host_groups", known.index(group.name), "name"))),
                "rename one of them, or make them one.",
            )
        elif group.name not in used:
            yield Finding(
                f"no host is of the group {group.name}.",
                (at(path, group.name),),
                f"write `group: {group.name}` at its hosts, or remove the group.",
            )


_KERNELS_OWN: Final = re.compile(r"(eth|ib|wlan|mlx\d_)\d+")
"""Names that the kernel itself gives out, in the order in which devices come up."""


def check_rail_names(spec: ClusterSpec) -> Findings:
    """A name that Railyard writes is no other card's, and none that the kernel gives out.

    Udev renames one device after another at boot. A name that a device has by then, or gets from
    the kernel later, is not given, and the card keeps its old one. In switchdev mode the devices of
    VFs are at the card's own address, and would be asked to take its name.
    """
    if not spec.host_defaults.rail_names:
        yield from _unwritten(spec)
        return
    seen: dict[tuple[str, str], SpecPath] = {}
    for each in list_nics(spec):
        yield from _kernels_own(each)
        place, name = (*each.path, "rdma"), each.nic.rdma
        other = seen.setdefault((each.host.name, name), place) if name else place
        if other != place:
            yield Finding(
                f"two RDMA devices of {each.host.name} shall be called {name}.",
                (at(place, name), at(other, name)),
                "give each one a name of its own.",
            )
        if each.nic.sriov.eswitch == "switchdev":
            yield Finding(
                f"{each} is in switchdev mode: its VFs' devices would get its name too.",
                (at((*each.path, "sriov", "eswitch"), "switchdev"),),
                "name these cards by hand (phys_port_name), and set rail_names to false.",
            )


def _unwritten(spec: ClusterSpec) -> Findings:
    for each in list_nics(spec):
        if each.nic.rdma is not None:
            yield Finding(
                f"{each} shall have the RDMA device {each.nic.rdma}, and names are not written.",
                (each.at("rdma"),),
                "set host_defaults.rail_names to true, or remove rdma.",
            )


def _kernels_own(each: PlacedNic) -> Findings:
    for key, name in (("netdev", each.nic.netdev), ("rdma", each.nic.rdma)):
        if name is not None and _KERNELS_OWN.fullmatch(name):
            yield Finding(
                f"the kernel itself gives out names like {name}, so udev may not be able to.",
                (at((*each.path, key), name),),
                "choose a name of your own, for example rail0.",
            )
