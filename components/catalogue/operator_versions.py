"""The compatibility catalogue: known versions of drivers and operators, with their sources.

Sources: lab/sources.md#rdma-driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

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
"""Numbers after the dash; DOCA's `ofed_info` leaves out a last 0."""

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
"""The last line of MLNX_OFED as a separate product: NVIDIA's transition guide."""
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
    """The output of `ofed_info -s` without its prefix; None for a DOCA release, which names only a
    line."""
    family: str | None = None
    """`mlnx_ofed` or `doca_ofed`, if the spelling shows it."""
    system: str | None = None
    """The distribution in a package's name, as `ubuntu20.04`."""

    @property
    def numbers(self) -> tuple[int, int]:
        """The line to compare: (25, 10)."""
        major, minor = self.line.split(".")
        return int(major), int(minor)


def parse_driver_version(text: str) -> DriverVersion | None:
    """Read `5.4-1.0.3.0`, `MLNX_OFED_LINUX-…`, `OFED-internal-…`, a DOCA release or its package.

    None if it has another form, or is an unknown DOCA release.
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


AS_OF: Final = date(2026, 11, 29)
"""When the catalogue was last compared with its sources: change it with every such comparison."""
STALE_DAYS: Final = 90
"""After so many days a new line of each operator is due: NVIDIA makes one every three months."""

_NUMBERS = re.compile(r"\d+")
_K3S = re.compile(r"^v(\d+)\.(\d+)\.(\d+)\+k3s(\d+)$")


@dataclass(frozen=True, slots=True)
class KubernetesRange:
    """The Kubernetes minors that one release line of a component works with."""

    line: tuple[int, int]
    """First two numbers of the component's version."""
    lowest: tuple[int, int]
    highest: tuple[int, int] | None
    """None: no upper end is stated."""
    source: str
    status: Literal["supported", "deprecated", "ended"] = "supported"
    """The status of the line on the newest page of its maker that we read."""

    def holds(self, minor: tuple[int, int]) -> bool:
        """Whether a Kubernetes minor is in the range."""
        return self.lowest <= minor and (self.highest is None or minor <= self.highest)

    def describe(self) -> str:
        """Write the range as `1.32 to 1.36` or `1.32 and later`."""
        if self.highest is None:
            return f"{show_version(self.lowest)} and later"
        return f"{show_version(self.lowest)} to {show_version(self.highest)}"


GPU_OPERATOR: Final = (
    KubernetesRange(
        (26, 7),
        (1, 32),
        (1, 37),
        "GPU operator documentation 26.7, platform support (1.32 on Ubuntu 24.04 only), "
        "since NVIDIA/cloud-native-docs#488 with 1.37",
    ),
    KubernetesRange(
        (26, 3),
        (1, 32),
        (1, 36),
        "GPU operator documentation 26.3 (1.32 to 1.35); "
        "Cloud Native Stack 26.6.0 ships 26.3.2 with Kubernetes 1.36.2",
        "deprecated",
    ),
)
"""Newest line first."""

GPU_DRIVER_LEAST: Final[Mapping[tuple[int, ...], int]] = {(26, 7): 535, (26, 3): 535}
"""GPU operator line to the oldest driver branch that its component matrix lists.

26.7.0: 610, 595, 580, 535; 26.3.0 to 26.3.3: 595, 590, 580, 570, 535 (NVIDIA/cloud-native-docs,
`gpu-operator/life-cycle-policy.rst`, 187a4a5b and ee488781). The matrix is that of the driver
container; that it holds for a driver of the host is inferred, so it is a warning.
"""

NETWORK_OPERATOR: Final = (
    KubernetesRange(
        (26, 7), (1, 32), None, "network operator 26.7 chart, kubeVersion; no upper end is stated"
    ),
    KubernetesRange(
        (26, 4),
        (1, 31),
        (1, 35),
        "network operator documentation 26.4, platform support",
        "deprecated",
    ),
    KubernetesRange(
        (26, 1), (1, 31), (1, 35), "network operator documentation 26.1, platform support", "ended"
    ),
)
"""Newest line first. From 24.10 on the chart no longer makes a NicClusterPolicy; older ones are not
here."""

NEWER: Final[Mapping[str, tuple[str, str]]] = {
    "Kubernetes": ("v1.37.1+k3s1", "it is of 30 September 2026; K3s' stable channel was at 1.36"),
    "GPU operator": ("v26.7.1", "it is of 23 September 2026; the package contains v26.7.0"),
    "network operator": ("26.10.0", "its documentation is out, its chart and range were not seen"),
    "GPU device plugin": ("0.20.1", "it is of GPU operator v26.7.1"),
}
"""The newest release of each component in a public source, and why no set has it. The source of
network operator 26.10.0 is docs.nvidia.com/networking/display/kubernetes26100, pages of 22 November
2026. By its maker's policy 26.7 is deprecated from then on; we saw no page about that."""

GPU_DEVICE_PLUGIN: Final = (
    KubernetesRange((0, 20), (1, 10), None, "k8s-device-plugin README, prerequisites"),
    KubernetesRange((0, 19), (1, 10), None, "k8s-device-plugin README, prerequisites"),
)
"""Newest line first."""

MPI_OPERATOR: Final = "v0.8.2"
"""The one release we install. 0.8.0 recreated finished launchers; 0.8.1 and 0.8.2 mended that.

It states no Kubernetes range: it is built with client libraries 0.35.6 (its go.mod).
"""


_NRI: Final[Mapping[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]]] = {
    "containerd": (((1, 7, 30), (1, 8)), ((2, 1), (3,))),
    "cri-o": (((1, 34), (2,)),),
}
"""Runtime to the first release of each range with which the GPU operator's toolkit works through
NRI, and the first beyond it: NVIDIA/cloud-native-docs, `gpu-operator/cdi.rst`, "Enabling the NRI
Plugin" (52dcb7b8). containerd 2.0 is in no range."""


CONTAINERD: Final[Mapping[str, Mapping[str, str]]] = {
    "K3s": {"1.32": "1.7.23", "1.32.2": "2.0", "1.32.9": "2.1", "1.33": "2.0", "1.33.5": "2.1"},
    "kubespray": {"2.27": "1.7.27", "2.28": "2.0", "2.29": "2.1"},
}
"""Installer to the containerd that its releases bring from each on; later ones bring no older one.

docs.k3s.io, release notes v1.32.X and v1.33.X (e09f43cd, 143463bb) and v1.37.X (2.3.4); kubespray's
`checksums.yml` at v2.27.1, v2.28.0, v2.29.0 and v2.31.0 (2.2.3).
"""


def containerd_of(installer: str, release: str) -> str | None:
    """The containerd that a release of an installer brings; None: it is older than the table."""
    numbers, rows = parse_numbers(release)[:3], CONTAINERD[installer]
    return next((rows[each] for each in [*rows][::-1] if parse_numbers(each) <= numbers), None)


def nri_works(runtime: str) -> bool:
    """Whether a runtime, `containerd://2.1.4-k3s1`, is in a range for NRI; unknown ones are."""
    name, _, version = runtime.partition("://")
    numbers = parse_numbers(version)[:3]
    ranges = _NRI.get(name)
    return ranges is None or not numbers or any(a <= numbers < b for a, b in ranges)


def parse_numbers(version: str) -> tuple[int, ...]:
    """Read all numbers of a version: `v26.3.3` is (26, 3, 3). Empty without any."""
    return tuple(int(number) for number in _NUMBERS.findall(version)[:4])


def parse_k3s(version: str) -> tuple[int, int, int, int] | None:
    """Read `v1.36.3+k3s1` as (1, 36, 3, 1); None when it is not of that form."""
    match = _K3S.match(version)
    if match is None:
        return None
    major, minor, patch, build = (int(part) for part in match.groups())
    return major, minor, patch, build


def show_version(numbers: tuple[int, ...]) -> str:
    """Write (1, 36) as `1.36`."""
    return ".".join(str(number) for number in numbers)


def why_unknown(component: str, version: str, catalogue: tuple[KubernetesRange, ...]) -> str:
    """Say that the catalogue lacks a release, with the known facts about it."""
    newest, why = NEWER[component]
    if parse_numbers(version)[:2] != parse_numbers(newest)[:2]:
        why = f"its lines are {', '.join(show_version(entry.line) for entry in catalogue)}"
    return f"{component} {version} is not in the catalogue of {AS_OF:%-d %B %Y}: {why}"


def find_line(version: str, catalogue: tuple[KubernetesRange, ...]) -> KubernetesRange | None:
    """Find the release line of a version in the catalogue, or None."""
    line = parse_numbers(version)[:2]
    return next((entry for entry in catalogue if entry.line == line), None)
