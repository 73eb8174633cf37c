"""Rules on the names that cards and their RDMA devices shall get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.checks.topology import PlacedNic, list_nics
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec

_KERNELS_OWN: Final = re.compile(r"(eth|ib|wlan|mlx\d_)\d+")
"""Names that the kernel itself gives out, in the order in which devices come up."""


def check_rail_names(spec: ClusterSpec) -> Iterator[Finding]:
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
                f"{each.host.name} {each.nic.netdev} is in switchdev mode, where the name of the "
                "card would go to its VFs' devices as well.",
                (at((*each.path, "sriov", "eswitch"), "switchdev"),),
                "name these cards by hand (phys_port_name), and set rail_names to false.",
            )


def _unwritten(spec: ClusterSpec) -> Iterator[Finding]:
    for each in list_nics(spec):
        if each.nic.rdma is not None:
            yield Finding(
                f"{each.host.name} {each.nic.netdev} shall have the RDMA device {each.nic.rdma}, "
                "and names are not written.",
                (at((*each.path, "rdma"), each.nic.rdma),),
                "set host_defaults.rail_names to true, or remove rdma.",
            )


def _kernels_own(each: PlacedNic) -> Iterator[Finding]:
    for key, name in (("netdev", each.nic.netdev), ("rdma", each.nic.rdma)):
        if name is not None and _KERNELS_OWN.fullmatch(name):
            yield Finding(
                f"the kernel itself gives out names like {name}, so udev may not be able to.",
                (at((*each.path, key), name),),
                "choose a name of your own, for example rail0.",
            )
