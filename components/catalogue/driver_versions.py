"""The RDMA driver's versions in all their spellings, and what is known of each line.

Sources: lab/sources.md#rdma-driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_STACK: Final = re.compile(
    r"(?:(?P<family>MLNX_OFED_LINUX|MLNX_OFED|OFED-internal)-)?"
    r"(?P<line>\d+\.\d+)-(?P<rest>\d+(?:\.\d+){2,4})"
    r"(?:-(?P<system>[a-z]+[0-9.]+(?:sp\d+)?))?(?:-(?:x86_64|aarch64))?(?:\.tgz|\.iso)?"
)
_DOCA: Final = re.compile(r"(?:doca[-_]?)?(?P<release>\d+\.\d+)\.\d+")
_DOCA_HOST: Final = re.compile(
    r"doca-host[-_]\d+(?:\.\d+)+-\d+[-_](?P<line>\d+\.\d+)[-_]"
    r"(?P<system>[a-z]+\d+(?:sp\d+)?)[._].*"
)
"""As `doca-host_3.2.0-125000-25.10-ubuntu2204_amd64.deb`, and of Red Hat
`doca-host-3.2.0-125000_25.10_rhel9.x86_64.rpm`."""
_FULL: Final = 4
"""Numbers after the dash; DOCA's `ofed_info` leaves out a last one that is 0."""

DOCA_LINES: Final[Mapping[str, str]] = {
    "2.9": "24.10",
    "2.10": "25.01",
    "3.0": "25.04",
    "3.1": "25.07",
    "3.2": "25.10",
    "3.3": "26.01",
    "3.4": "26.04",
    "3.5": "26.07",
}
"""First two numbers of a DOCA release to the line of its driver: doca-driver-build 445df1e8, its
release manifests 2.9.0 to 3.5.0, and the network operator's tags (3.2.2, 3.4.1).

Only the line is taken from there: the manifests are those of the container, and packages of one
release have carried other last numbers (25.10-1.7.1 on hosts). That a third number never changes
the line is seen in 2.9 and 3.2, and inferred for the others.
"""
MLNX_OFED_LAST: Final = (24, 10)
"""The last line of MLNX_OFED as a product of its own: NVIDIA's transition guide."""
NV_PEER_MEM_LEAST: Final = (5, 1)
"""First MLNX_OFED that nv_peer_mem 1.3, its last release, works with: its README (a15f0f66)."""
PEERMEM_LEAST: Final = 470
"""First GPU driver that brings nvidia_peermem: README of nv_peer_memory (a15f0f66)."""
OPEN_MODULES_LEAST: Final = 515
"""First GPU driver with open kernel modules, which DMA-BUF needs (open-gpu-kernel-modules)."""
SYSTEMS: Final[Mapping[str, tuple[str, ...]]] = {
    "24.10": ("ubuntu20.04", "ubuntu22.04", "ubuntu24.04"),
    "25.01": ("ubuntu22.04", "ubuntu24.04"),
    "25.04": ("ubuntu22.04", "ubuntu24.04"),
    "25.07": ("ubuntu22.04", "ubuntu24.04"),
    "25.10": ("ubuntu22.04", "ubuntu24.04"),
    "26.01": ("ubuntu22.04", "ubuntu24.04"),
    "26.04": ("ubuntu22.04", "ubuntu24.04"),
    "26.07": ("ubuntu22.04", "ubuntu24.04", "ubuntu26.04"),
}
"""Line to the Ubuntu releases that its driver container is built for (the same manifests).

That the host's packages are for the same ones is inferred, so it is a warning and refuses nothing.
"""


@dataclass(frozen=True, slots=True)
class DriverVersion:
    """A version, read."""

    line: str
    """The first two numbers, as `25.10`."""
    exact: str | None = None
    """As `ofed_info -s` says it without its prefix; None of a DOCA release, which names no more
    than a line."""
    family: str | None = None
    """`mlnx_ofed` or `doca_ofed`, where the spelling says it."""
    system: str | None = None
    """The distribution in a package's name, as `ubuntu20.04`."""

    @property
    def numbers(self) -> tuple[int, int]:
        """The line to compare: (25, 10)."""
        major, minor = self.line.split(".")
        return int(major), int(minor)


def parse_driver_version(text: str) -> DriverVersion | None:
    """Read `5.4-1.0.3.0`, `MLNX_OFED_LINUX-…`, `OFED-internal-…`, a DOCA release or its package.

    Returns:
        None when it is none of them, or a DOCA release that is not known here.
    """
    text = text.removesuffix(":")  # `ofed_info -s` ends its answer with one
    if stack := _STACK.fullmatch(text):
        family = stack["family"]
        rest = stack["rest"]
        rest += ".0" if rest.count(".") < _FULL - 1 else ""
        kind = None if family is None else "mlnx_ofed" if "MLNX" in family else "doca_ofed"
        return DriverVersion(stack["line"], f"{stack['line']}-{rest}", kind, stack["system"])
    if package := _DOCA_HOST.fullmatch(text):
        system = re.sub(r"^(ubuntu\d\d)(\d\d)$", r"\1.\2", package["system"])
        return DriverVersion(package["line"], family="doca_ofed", system=system)
    doca = _DOCA.fullmatch(text)
    line = DOCA_LINES.get(doca["release"]) if doca else None
    return DriverVersion(line, family="doca_ofed") if line else None


def gpu_branch(version: str) -> int | None:
    """The branch of a GPU driver: 580 of `580.126.20`."""
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else None
