"""Rules on names: unique, and valid in Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, Findings, at, places, repeated, unique
from components.checks.topology import PlacedNic, list_nics, nics_by_host
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.places import is_flat, shares_resource
from components.reading.wording import did_you_mean


def check_duplicate_name(spec: ClusterSpec) -> Findings:
    """Devices have unique names, and so have rails.

    A device's name is part of the identity of its resources: two devices of one name would be one.
    """
    devices: list[tuple[str, SpecPath]] = [
        *((switch.name, ("switches", s)) for s, switch in enumerate(spec.switches)),
        *((each.name, ("other_switches", s)) for s, each in enumerate(spec.other_switches)),
        *((host.name, ("hosts", h)) for h, host in enumerate(spec.hosts)),
    ]
    for s, plain in enumerate(spec.infiniband.switches if spec.infiniband else ()):
        devices.append((plain.name, ("infiniband", "switches", s)))
    if spec.infiniband is not None and spec.infiniband.ufm is not None:
        devices.append((spec.infiniband.ufm.name, ("infiniband", "ufm")))
    rails = [(rail.name, ("rails", r)) for r, rail in enumerate(spec.rails)]
    for kind, named in (("devices", devices), ("rails", rails)):
        values = ((name, at((*path, "name"), name)) for name, path in named)
        yield from unique(values, f"two {kind} are called {{}}.", "rename one of them.")


def check_renamed(spec: ClusterSpec) -> Findings:
    """Each entry of `renamed` gives the former name of a device in the file.

    `railyard rename` writes it. An entry can stay until another device gets the former name: one
    device would then claim the resources of two.
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
    """Each rail has a separate extended resource, or all rails of a flat fabric share one.

    A pod gets VFs of any card from one resource. So all rails must be one network, and each card
    has one VF: a pod that asks for as many as there are rails then has one of each. A bandwidth
    test of one rail cannot choose its card there, and is left out. Case makes no difference, since
    the plugin passes a pod its VFs in variables of upper case. With `rdma_shared` one unit gives a
    pod all cards, and rails may share a resource.
    """
    if spec.pod_network.mode != "sriov":
        return
    if not shares_resource(spec) or len({rail.subnet for rail in spec.rails}) > 1:
        fix = "give each rail a resource of its own, or all rails of a flat fabric the same one."
        yield from unique(_of_rails(spec, "resource"), "two rails share the resource {}.", fix)
        return
    why = [*_why_not_one_pool(spec)]
    if why:
        name, count = spec.rails[0].resource, len(spec.rails)
        yield Finding(
            f"all rails share the resource {name}, of which a pod gets VFs of any card, but "
            f"{', and '.join(text for text, _ in why)}.",
            (at(("rails", 0, "resource"), name), *(place for _, place in why)),
            f"give each rail a resource, a VLAN and a subnet of its own. Or keep one resource, "
            f"and write the same vlan for all rails, vfs: 1 for each card (a pod that "
            f"takes {count} then has one of each rail) and no acceptance.perftest.",
        )


def _why_not_one_pool(spec: ClusterSpec) -> Iterator[tuple[str, Place]]:
    """Yield reasons why the VFs of one resource differ, each with its place."""
    first = spec.rails[0].vlan
    for r, rail in enumerate(spec.rails):
        if rail.vlan != first:
            place = at(("rails", r, "vlan"), rail.vlan)
            yield f"{rail.name} is in VLAN {rail.vlan} and not in {first}", place
            break
    wrong = [nic for nic in list_nics(spec) if nic.host.role == "worker" and nic.nic.vfs > 1]
    if wrong:
        count = f"{len(wrong)} cards have" if len(wrong) > 1 else f"{wrong[0]} has"
        yield f"{count} {wrong[0].nic.vfs} VFs", wrong[0].at("vfs")
    if spec.acceptance.perftest:
        yield "perftest cases need a rail to run on", at(("acceptance", "perftest"))


def _of_rails(spec: ClusterSpec, key: str) -> Iterator[tuple[str, Place]]:
    for r, rail in enumerate(spec.rails):
        value = getattr(rail, key)
        yield str(value).lower(), at(("rails", r, key), value)


def check_network_name(spec: ClusterSpec) -> Findings:
    """Each rail has a separate network attachment."""
    what = "two rails share the network attachment {}."
    fix = "give each rail an attachment of its own, for example sriov111 and sriov112."
    yield from unique(_of_rails(spec, "network"), what, fix)


def check_duplicate_vlan(spec: ClusterSpec) -> Findings:
    """Each rail has a separate VLAN.

    On a shared VLAN the answer to an address of one rail may leave through another rail's NIC. A
    flat fabric, whose rails also have one subnet, is set up for that: `flat-fabric`.
    """
    if is_flat(spec):
        return
    fix = "give each rail a VLAN and a subnet of its own."
    yield from unique(_of_rails(spec, "vlan"), "two rails share VLAN {}.", fix)


def check_unused_rail(spec: ClusterSpec) -> Findings:
    """The site has a rail, and each rail has a NIC: jobs would wait for VFs of an empty rail.

    An InfiniBand site needs no `rails`.
    """
    if not spec.rails and spec.rdma.transport == "roce":
        where = places(spec, "rails")
        fix = "add a rail for each NIC of a worker; examples/dgx-roce/site.yaml shows two."
        yield Finding("the site has no rail, so its workers have no RDMA network.", where, fix)
    used = {nic.nic.rail for nic in list_nics(spec)}
    for r, rail in enumerate(spec.rails):
        if rail.name not in used:
            what = f"no NIC is on {rail.name}: a job that asks for its resource waits for ever."
            yield Finding(what, places(spec, f"rails.{r}.name"), "add the NICs or remove the rail.")


def check_host_group(spec: ClusterSpec) -> Findings:
    """A host names a group that exists, and a group has hosts.

    A host with a misspelt group would silently keep `host_defaults`.
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
    groups = enumerate(spec.host_groups)
    named = [(each.name, at(("host_groups", g, "name"), each.name)) for g, each in groups]
    for place, other in repeated(named):
        what = f"two groups of hosts are called {place.value}."
        yield Finding(what, (place, at(other.path)), "rename one of them, or make them one.")
    used = {host.group for host in spec.hosts}
    for name, place in dict(reversed(named)).items():
        if name not in used:
            fix = f"write `group: {name}` at its hosts, or remove the group."
            yield Finding(f"no host is of the group {name}.", (place,), fix)


_KERNELS_OWN: Final = re.compile(r"(eth|ib|wlan|mlx\d_)\d+")
"""Names that the kernel itself gives out, in the order in which devices come up."""


def check_rail_names(spec: ClusterSpec) -> Findings:
    """A name that Railyard writes differs from other cards' names and from the kernel's.

    Udev renames one device after another at boot. If another device has the name by then, or the
    kernel would use it later, the card keeps its old one. In switchdev mode the devices of VFs
    share the card's own address, and would also get its name.
    """
    if not spec.host_defaults.rail_names:
        yield from _unwritten(spec)
        return
    for nics in nics_by_host(spec):
        names = [(each.nic.rdma, each.at("rdma")) for each in nics if each.nic.rdma]
        what = f"two RDMA devices of {nics[0].host.name} shall be called {{}}."
        yield from unique(names, what, "give each one a name of its own.")
    for each in list_nics(spec):
        yield from _kernels_own(each)
        if each.nic.sriov.eswitch == "switchdev":
            yield Finding(
                f"{each} is in switchdev mode: its VFs' devices would get its name too.",
                (at((*each.path, "sriov", "eswitch"), "switchdev"),),
                "name these cards by hand (phys_port_name), and set rail_names to false.",
            )


def _unwritten(spec: ClusterSpec) -> Findings:
    for each in list_nics(spec):
        if each.nic.rdma is not None:
            what = f"{each} shall have the RDMA device {each.nic.rdma}, and names are not written."
            fix = "set host_defaults.rail_names to true, or remove rdma."
            yield Finding(what, (each.at("rdma"),), fix)


def _kernels_own(each: PlacedNic) -> Findings:
    for key, name in (("netdev", each.nic.netdev), ("rdma", each.nic.rdma)):
        if name is not None and _KERNELS_OWN.fullmatch(name):
            what = f"the kernel itself gives out names like {name}, so udev may not be able to."
            fix = "choose a name of your own, for example rail0."
            yield Finding(what, (at((*each.path, key), name),), fix)
