"""Versions of components together: pairs known to fail, and maintained sets.

Each datum names its source. If that is only a third party or an unreleased branch, the datum is
marked as not confirmed, and no verdict depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from components.catalogue import upstream
from components.catalogue.operator_versions import parse_numbers, show_version
from components.core.templates import typed_table

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


class Releases(NamedTuple):
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


class Conflict(NamedTuple):
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


CONFLICTS: Final = typed_table(tuple[Conflict, ...], __file__, "conflicts")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSet:
    """Releases maintained together; we tried none on hardware."""

    kubernetes: str = upstream.K3S_RELEASE
    """Of K3s; an existing cluster has its own."""
    gpu_operator: str = upstream.GPU_OPERATOR_RELEASE
    network_operator: str = upstream.NETWORK_OPERATOR_RELEASE
    device_plugin: str = upstream.GPU_DEVICE_PLUGIN_RELEASE
    source: str


VERSION_SETS: Final = typed_table(dict[VersionSetName, VersionSet], __file__, "version_sets")
"""The sets from which `versions` of a site picks."""


class DriverTag(NamedTuple):
    """The driver container that a release of the network operator was made with."""

    tag: str
    source: str
    confirmed: bool = True
    """Whether the maker's own release names it; if not, the site must name its tag."""


DRIVER_TAGS: Final = typed_table(dict[str, DriverTag], __file__, "driver_tags")
"""Release to tag, newest first."""


def driver_tag(release: str) -> str | None:
    """The tag that the maker's release itself names; None if that is not known."""
    found = DRIVER_TAGS.get(release.removeprefix("v"))
    return found.tag if found is not None and found.confirmed else None
