"""What udev calls network and RDMA devices at a boot: systemd.link(5), and rdma-core's rdma_rename.

A device keeps its name while the host runs: emulated `udevadm trigger` renames nothing, as udev
does with an interface that is up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lab.views import NicConfig

_OTHERS: Final = ("lo", "eno1")
"""Network devices of every lab host that are no cards."""
_RULE: Final = re.compile(
    r'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="(?P<pci>[^"]+)", '
    r'PROGRAM="rdma_rename %k NAME_FIXED (?P<name>[^" ]+)"'
)


def named_by_udev(root: Path, nics: Sequence[NicConfig]) -> tuple[NicConfig, ...]:
    """The cards with the names of this boot; a name that another device has is not given twice."""
    links, rules = _links(root), _rules(root)
    named = list(nics)
    for number, nic in enumerate(named):
        others = [other for other in named if other is not nic]
        netdev = links.get(nic.pci, nic.netdev)
        if netdev in {*_OTHERS, *(other.netdev for other in others)}:
            netdev = nic.netdev  # "Failed to rename network interface: File exists"
        rdma = rules.get(nic.pci, nic.rdma)
        if rdma in {other.rdma for other in others}:
            rdma = nic.rdma
        named[number] = replace(nic, netdev=netdev, rdma=rdma, path_name=nic.netdev)
    return tuple(named)


def _links(root: Path) -> Mapping[str, str]:
    """PCI address to name; of several files that match, the first by name counts."""
    found: dict[str, str] = {}
    for path in sorted((root / "etc/systemd/network").glob("*.link")):
        lines = path.read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines if "=" in line)
        place, name = settings.get("Path", "").removeprefix("pci-"), settings.get("Name")
        if place and name:
            found.setdefault(place, name)
    return found


def _rules(root: Path) -> Mapping[str, str]:
    """PCI address to the name of the RDMA device; the last rule counts."""
    files = sorted((root / "etc/udev/rules.d").glob("*.rules"))
    matches = (_RULE.match(line) for path in files for line in path.read_text().splitlines())
    return {match["pci"]: match["name"] for match in matches if match}
