"""The compatibility catalogue: which versions are known to work together, and who says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
        (1, 36),
        "GPU operator documentation 26.7, platform support (1.32 on Ubuntu 24.04 only)",
    ),
    KubernetesRange(
        (26, 3),
        (1, 32),
        (1, 36),
        "GPU operator documentation 26.3 (1.32 to 1.35); "
        "Cloud Native Stack 26.6.0 ships 26.3.2 with Kubernetes 1.36.2",
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
        (26, 4), (1, 31), (1, 35), "network operator documentation 26.4, platform support"
    ),
    KubernetesRange(
        (26, 1), (1, 31), (1, 35), "network operator documentation 26.1, platform support"
    ),
)
"""Newest line first. From 24.10 on the chart makes no NicClusterPolicy; older ones are not here."""

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
Plugin" (52dcb7b8). containerd 2.0 is in none of them."""


def nri_works(runtime: str) -> bool:
    """Whether a node's runtime, `containerd://2.1.4-k3s1`, is in a range for NRI; unknown ones are.

    Args:
        runtime: `status.nodeInfo.containerRuntimeVersion` of the node.
    """
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


def find_line(version: str, catalogue: tuple[KubernetesRange, ...]) -> KubernetesRange | None:
    """Find the release line of a version in the catalogue, or None."""
    line = parse_numbers(version)[:2]
    return next((entry for entry in catalogue if entry.line == line), None)
