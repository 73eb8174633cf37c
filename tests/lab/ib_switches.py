"""The InfiniBand switches of a site in this process, and what their fabric is made from."""

from __future__ import annotations

from pathlib import Path

from components.core.record import record
from components.model.cluster import ClusterSpec
from lab.site import lab_file
from lab.switches.mlnxos.server import MlnxosSwitch
from lab.views import HcaPort, SubnetView


@record
class Subnet:
    """Switches as from the factory, and all HCA ports with their links up."""

    switches: tuple[MlnxosSwitch, ...]
    hcas: tuple[HcaPort, ...]
    plugged: tuple[HcaPort, ...]
    """Those with a cable."""

    def look(self) -> tuple[tuple[SubnetView, ...], tuple[HcaPort, ...]]:
        return tuple(each.subnet_view() for each in self.switches), self.hcas


def make_subnet(spec: ClusterSpec, folder: Path) -> Subnet:
    lab = lab_file(spec, "ib-switches", (folder, folder, folder))
    hcas = tuple(
        HcaPort(host.name, hca.name, hca.pci, hca.guid, hca.rate_gbit_s, link_up=True)
        for host in lab.hosts
        for hca in host.hcas
    )
    cabled = {end for switch in lab.switches for end in switch.cables.values()}
    return Subnet(
        tuple(MlnxosSwitch(each, folder / f"{each.name}.json") for each in lab.switches),
        hcas,
        tuple(hca for hca in hcas if (hca.host, hca.pci) in cabled),
    )


def type_lines(switch: MlnxosSwitch, *lines: str) -> None:
    """Configure a switch at its command line."""
    for line in lines:
        assert switch.refusal_of(line) is None
