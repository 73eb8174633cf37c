"""Versions of components together: pairs known to fail, and maintained sets.

Each datum names its source. If that is only a third party or an unreleased branch, the datum is
marked as not confirmed, and no verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from components.catalogue import upstream
from components.catalogue.operator_versions import parse_numbers, show_version

Component = Literal["kubernetes", "gpu-operator", "network-operator", "nvidia-device-plugin"]
"""By the name of the Helm release; Kubernetes by its minor."""
TITLES: Final[Mapping[Component, str]] = {
    "kubernetes": "Kubernetes",
    "gpu-operator": "GPU operator",
    "network-operator": "network operator",
    "nvidia-device-plugin": "GPU device plugin",
}
"""The name of a component for people."""
VersionSetName = Literal["conservative", "current"]

CLOUD_NATIVE_STACK: Final = (
    "Cloud Native Stack 26.6.0, README, note below the component matrix (76b29b9)"
)
_GPU_26_3_3: Final = "GPU operator documentation 26.7, release notes of 26.3.3"


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of a component from one on and up to, but without, another."""

    component: Component
    first: tuple[int, ...]
    below: tuple[int, ...]

    def holds(self, version: str) -> bool:
        """Whether a release is in this range; a pre-release counts as its release."""
        return self.first <= parse_numbers(version)[: len(self.below)] < self.below

    def describe(self) -> str:
        """Write the releases as `26.4.0`, `before 26.3.3` or `26.3.0 to before 26.3.3`."""
        first, below = show_version(self.first), show_version(self.below)
        if self.below == (*self.first[:-1], self.first[-1] + 1):
            return first
        return f"{first} to before {below}" if any(self.first) else f"before {below}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Releases of two components known to fail together, or of one that fails alone."""

    one: Releases
    other: Releases | None
    """None: it fails with anything."""
    reason: str
    """The failure, as the end of the sentence `A and B …`."""
    fix: str
    source: str
    severity: Literal["error", "warning"] = "error"
    """`warning` if the source names a neighbour of the release, and the rest is inferred."""
    with_container: bool = False
    """It fails only if the network operator brings the RDMA driver in a container."""


CONFLICTS: Final = (
    Conflict(
        Releases("gpu-operator", (0, 0, 0), (26, 3, 3)),
        Releases("network-operator", (26, 4, 0), (26, 4, 1)),
        "do no GPUDirect RDMA together: its maker says that it needs a later GPU operator",
        "take network operator 26.1.2, or GPU operator 26.3.3 or later.",
        CLOUD_NATIVE_STACK,
    ),
    Conflict(
        Releases("gpu-operator", (0, 0, 0), (26, 3, 3)),
        Releases("network-operator", (26, 4, 1), (27, 0, 0)),
        "may do no GPUDirect RDMA together: network operator 26.4.0 needs a later GPU operator",
        "take GPU operator 26.3.3 or later, or network operator 26.1.2.",
        f"{CLOUD_NATIVE_STACK}; later releases of the network operator are inferred",
        "warning",
    ),
    Conflict(
        Releases("gpu-operator", (26, 3, 0), (26, 3, 3)),
        None,
        "gives each pod with a GPU every RDMA device of its node, also those of other pods",
        "take GPU operator 26.3.3 or later.",
        _GPU_26_3_3,
        "warning",
    ),
    Conflict(
        Releases("gpu-operator", (26, 7, 0), (26, 8, 0)),
        Releases("network-operator", (26, 1, 0), (26, 5, 0)),
        "need different releases of node feature discovery: 0.19.0 comes with the GPU operator, "
        "and the network operator states 0.15.6 to 0.17.0",
        "take network operator 26.7, or try it first on one node.",
        "GPU operator v26.7.0, Chart.yaml; network operator documentation 26.1 and 26.4, "
        "platform support",
        "warning",
    ),
    Conflict(
        Releases("network-operator", (0, 0, 0), (26, 7, 1)),
        None,
        "may start a node's device plugin before its RDMA driver after a reboot: jobs then get "
        "cards that do not work",
        "take network operator 26.7.1 or later, or let the hosts own the RDMA driver.",
        "Mellanox/network-operator#2954, mended by #3390 in v26.7.1",
        "warning",
        with_container=True,
    ),
    Conflict(
        Releases("gpu-operator", (24, 9, 0), (24, 9, 1)),
        None,
        "brings a container toolkit that cannot set up the containerd of K3s and RKE2",
        "take GPU operator 24.9.1 or later.",
        "GPU operator release notes 24.9.0 and 24.9.1; NVIDIA/gpu-operator#1099",
        "warning",
    ),
)
"""Pairs known to fail, the certain ones first."""


def conflicts_of(
    versions: Mapping[Component, str], *, container: bool = False
) -> tuple[Conflict, ...]:
    """The known conflicts of a site's versions; `container`: an operator brings the RDMA driver."""
    return tuple(
        conflict
        for conflict in CONFLICTS
        if (container or not conflict.with_container)
        and all(
            each.component in versions and each.holds(versions[each.component])
            for each in (conflict.one, conflict.other)
            if each is not None
        )
    )


@dataclass(frozen=True, slots=True)
class VersionSet:
    """Releases maintained together; we tried none on hardware."""

    kubernetes: str
    """Of K3s; an existing cluster has its own."""
    gpu_operator: str
    network_operator: str
    device_plugin: str
    source: str


VERSION_SETS: Final[Mapping[VersionSetName, VersionSet]] = {
    "conservative": VersionSet(
        "v1.35.6+k3s1",
        upstream.GPU_OPERATOR_RELEASE,
        upstream.NETWORK_OPERATOR_RELEASE,
        upstream.GPU_DEVICE_PLUGIN_RELEASE,
        "the Kubernetes minor before that of `current`; the operators are the same, since their "
        "makers call each older line deprecated or ended",
    ),
    "current": VersionSet(
        upstream.K3S_RELEASE,
        upstream.GPU_OPERATOR_RELEASE,
        upstream.NETWORK_OPERATOR_RELEASE,
        upstream.GPU_DEVICE_PLUGIN_RELEASE,
        "the minor of K3s' stable channel of August 2026 (k3s-io/k3s#14553), the first release of "
        "the GPU operator's supported line with its device plugin, and the newest chart of the "
        "network operator's; the GPU operator's table of GPUDirect RDMA does not list it yet",
    ),
}
"""The sets from which `versions` of a site picks."""


@dataclass(frozen=True, slots=True)
class DriverTag:
    """The driver container that a release of the network operator was made with."""

    tag: str
    source: str
    confirmed: bool = True
    """Whether the maker's own release names it; if not, the site must name its tag."""


DRIVER_TAGS: Final[Mapping[str, DriverTag]] = {
    "26.7.0": DriverTag(
        "doca3.5.0-26.07-0.7.7.0-0",
        "third parties that quote the documentation of 26.7; branch v26.7.x had 0.7.3.0-0 before",
        confirmed=False,
    ),
    "26.4.1": DriverTag("doca3.4.1-26.04-1.1.0.0-1", "Mellanox/network-operator v26.4.1"),
    "26.4.0": DriverTag("doca3.4.0-26.04-0.8.6.0-0", "Mellanox/network-operator v26.4.0"),
    "26.1.2": DriverTag(
        "doca3.3.0-26.01-1.0.0.0-0",
        "Mellanox/network-operator v26.1.2, whose last commit takes back 1.0.0.0-6 (a92cd069)",
    ),
    "26.1.1": DriverTag("doca3.3.0-26.01-1.0.0.0-4", "Mellanox/network-operator v26.1.1"),
    "26.1.0": DriverTag("doca3.3.0-26.01-1.0.0.0-0", "Mellanox/network-operator v26.1.0"),
}
"""Release to tag, newest first: `hack/release.yaml` and `example/crs` of each release.

26.7.1 is not here: its notes say that the container changed (#3348), and not to what.
"""


def driver_tag(release: str) -> str | None:
    """The tag that the maker's release itself names; None if that is not known."""
    found = DRIVER_TAGS.get(release.removeprefix("v"))
    return found.tag if found is not None and found.confirmed else None
