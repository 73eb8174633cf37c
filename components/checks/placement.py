"""Rules on where cards and GPUs sit: their PCIe links, and the way between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from components.checks.gpu_drivers import written_gpu_path
from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec

_TWO: Final = 2
_OLD_CODING: Final = 0.8
"""Data bits of ten on a link of PCIe generation 1 or 2 (8b/10b, PCI Express Base 2.0)."""
_CODING: Final = 128 / 130
"""The same from generation 3 on (128b/130b, PCI Express Base 3.0)."""
_OLD_GT_S: Final = 5.0
"""The highest speed with the old coding."""


def check_gpu_path(spec: ClusterSpec) -> Iterator[Finding]:
    """A GPU and the card that it sends through are on one NUMA node, best below one switch chip.

    GPUDirect RDMA from one processor to the other (SYS) is slower than without; between the host
    bridges of one NUMA node (NODE) it loses bandwidth. `railyard discover` finds nearer pairs.
    """
    for nic in list_nics(spec):
        path = nic.nic.gpu_path
        direct = nic.host.gpus > 0 and spec.settings_of(nic.host).gpu_path != "none"
        if path not in {"SYS", "NODE"} or not direct:
            continue
        crosses = path == "SYS"
        word = written_gpu_path(spec, nic.host)[0][-1]
        off = "peermem: false" if word == "peermem" else "gpu_direct: none"
        yield Finding(
            f"the GPUs of {nic.host.name} {nic.nic.netdev} reach the card only "
            f"{'from the other NUMA node' if crosses else 'over another host bridge'} ({path}).",
            (at((*nic.path, "gpu_path"), path),),
            "give them to a nearer card (`railyard discover` shows which), move the card, or "
            f"switch GPUDirect RDMA off with {off}.",
            "error" if crosses else "warning",
        )


def check_gpu_pair(spec: ClusterSpec) -> Iterator[Finding]:
    """A GPU sends through one card, and no more GPUs are named than the host has.

    Where there are more cards than GPUs, a GPU may have several.
    """
    for h, host in enumerate(spec.hosts):
        named = [(pci, n) for n, nic in enumerate(host.nics) for pci in nic.gpu_pci]
        for (pci, n), count in Counter(named).items():
            if count > 1:
                yield Finding(
                    f"the GPU at {pci} is {'twice' if count == _TWO else f'{count} times'} in "
                    f"gpu_pci of {host.name} {host.nics[n].netdev}.",
                    (at(_gpus(h, n), pci),),
                    f"remove {'one of the two' if count == _TWO else 'all but one'}.",
                )
        for pci, count in Counter(pci for pci, _ in dict.fromkeys(named)).items():
            if count > 1 and len(host.nics) <= host.gpus:
                places = [n for each, n in named if each == pci]
                yield Finding(
                    f"the GPU at {pci} of {host.name} is given to {count} cards.",
                    tuple(at(_gpus(h, n), pci) for n in dict.fromkeys(places)),
                    "name it at the nearest card alone; `railyard discover` shows which that is.",
                )
        unlike = len({pci for pci, _ in named})
        if named and unlike > host.gpus:
            yield Finding(
                f"{unlike} GPUs of {host.name} are named by their cards, and gpus is {host.gpus}.",
                (at(("hosts", h, "gpus"), host.gpus), at(_gpus(h, named[0][1]))),
                f"set gpus to {unlike}, or correct gpu_pci.",
            )


def _gpus(host: int, nic: int) -> SpecPath:
    return ("hosts", host, "nics", nic, "gpu_pci")


def check_pcie_rate(spec: ClusterSpec) -> Iterator[Finding]:
    """The PCIe link of a card carries its port's line rate, where the file says what the link is.

    A card of 200 Gbit/s in a slot of generation 3 with 16 lanes gets 126: no test can be faster.
    """
    for nic in list_nics(spec):
        speed, width = nic.nic.link_gt_s, nic.nic.link_width
        if speed is None or width is None:
            continue
        limit = speed * width * (_OLD_CODING if speed <= _OLD_GT_S else _CODING)
        if limit < nic.nic.speed_gbit_s:
            yield Finding(
                f"the PCIe link of {nic.host.name} {nic.nic.netdev} carries {limit:.0f} Gbit/s, "
                f"and its port runs at {nic.nic.speed_gbit_s}.",
                (
                    at((*nic.path, "link_width"), width),
                    at((*nic.path, "link_gt_s"), speed),
                    at((*nic.path, "speed_gbit_s"), nic.nic.speed_gbit_s),
                ),
                "put the card into a wider or newer slot; what is proven cannot pass "
                f"{limit:.0f} Gbit/s.",
                "warning",
            )
