"""The compatibility catalogue: known versions of drivers and operators, from the YAML file beside.

Sources: the file, and lab/sources.md#rdma-driver.
"""

import re
from datetime import date
from typing import Final, Literal, NamedTuple

from components.core.templates import typed_table

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

DOCA_LINES: Final = typed_table(dict[str, str], __file__, "doca_lines")
"""First two numbers of a DOCA release to the line of its driver."""
MLNX_OFED_LAST: Final = (24, 10)
"""The last line of MLNX_OFED as a separate product: NVIDIA's transition guide."""
NV_PEER_MEM_LEAST: Final = (5, 1)
"""First MLNX_OFED that nv_peer_mem 1.3, its last release, works with: its README (a15f0f66)."""
PEERMEM_LEAST: Final = 470
"""First GPU driver that brings nvidia_peermem: README of nv_peer_memory (a15f0f66)."""
OPEN_MODULES_LEAST: Final = 515
"""First GPU driver with open kernel modules, which DMA-BUF needs (open-gpu-kernel-modules)."""
SYSTEMS: Final = typed_table(dict[str, tuple[str, ...]], __file__, "systems")
"""Line to the Ubuntu releases that its driver container is built for.

That the host's packages are for the same ones is inferred, so it is a warning and refuses nothing.
"""
AS_OF: Final = date(2026, 11, 29)
"""When the catalogue was last compared with its sources: change it with every such comparison."""
STALE_DAYS: Final = 90
"""After so many days a new line of each operator is due: NVIDIA makes one every three months."""
_NUMBERS = re.compile(r"\d+")
_K3S = re.compile(r"^v(\d+)\.(\d+)\.(\d+)\+k3s(\d+)$")
GPU_DRIVER_LEAST: Final = typed_table(dict[str, int], __file__, "gpu_driver_least")
"""GPU operator line to the oldest driver branch that its component matrix lists.

The matrix is that of the driver container; that it holds for a driver of the host is inferred, so
it is a warning.
"""
NEWER: Final = typed_table(dict[str, tuple[str, str]], __file__, "newer")
"""The newest release of each component in a public source, and why no set has it."""
MPI_OPERATOR: Final = "v0.8.2"
"""The one release we install. 0.8.0 recreated finished launchers; 0.8.1 and 0.8.2 mended that.

It states no Kubernetes range: it is built with client libraries 0.35.6 (its go.mod).
"""
_NRI: Final = typed_table(
    dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]], __file__, "nri"
)
"""Runtime to the first release of each range with which the GPU operator's toolkit works through
NRI, and the first beyond it."""
CONTAINERD: Final = typed_table(dict[str, dict[str, str]], __file__, "containerd")
"""Installer to the containerd that its releases bring from each on; later ones bring no older one.
"""


class DriverVersion(NamedTuple):
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


class KubernetesRange(NamedTuple):
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


_Ranges = tuple[KubernetesRange, ...]
GPU_OPERATOR: Final = typed_table(_Ranges, __file__, "gpu_operator")
NETWORK_OPERATOR: Final = typed_table(_Ranges, __file__, "network_operator")
GPU_DEVICE_PLUGIN: Final = typed_table(_Ranges, __file__, "gpu_device_plugin")
"""Newest line first."""


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
