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
RULES: Final = "usr/lib/udev/rules.d/60-rdma-persistent-naming.rules"
"""rdma-core's own rule, by its number in kernel-boot/CMakeLists.txt of v50.0."""
_RULE: Final = re.compile(
    r'ACTION=="add", SUBSYSTEM=="infiniband", (?:KERNELS=="(?P<pci>[^"]+)", )?'
    r'PROGRAM="rdma_rename %k (?P<mode>NAME_[A-Z]+)(?: (?P<name>[^" ]+))?"'
)


def named_by_udev(root: Path, nics: Sequence[NicConfig]) -> tuple[NicConfig, ...]:
    """The cards with the names of this boot; a name that another device has is not given twice."""
    links = _links(root)
    named = list(nics)
    for number, nic in enumerate(named):
        others = [other for other in named if other is not nic]
        netdev = links.get(nic.pci, nic.netdev)
        if netdev in {*_OTHERS, *(other.netdev for other in others)}:
            netdev = nic.netdev  # "Failed to rename network interface: File exists"
        rdma = _rdma_name(root, nic)
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


def _rdma_name(root: Path, nic: NicConfig) -> str:
    """The first rule that renames a device wins: for a later one `%k` is no device any more."""
    folders = (root / "usr/lib/udev/rules.d", root / "etc/udev/rules.d")
    files = {path.name: path for folder in folders for path in sorted(folder.glob("*.rules"))}
    for _, path in sorted(files.items()):
        for line in path.read_text().splitlines():
            match = _RULE.match(line)
            if match is None or match["pci"] not in {None, nic.pci}:
                continue
            name = {"NAME_FIXED": match["name"], "NAME_FALLBACK": _by_pci(nic)}.get(match["mode"])
            if name:
                return name
    return nic.rdma


def _by_pci(nic: NicConfig) -> str:
    """`rocep5s0`: `by_pci` of rdma_rename.c, of a device on RoCE in domain 0."""
    _, bus, rest = nic.pci.split(":")
    slot, function = rest.split(".")
    more = f"f{function}" if function != "0" else ""
    return f"rocep{int(bus, 16)}s{int(slot, 16)}{more}"
