"""The versions of a site: what its file says, and what a maintained set fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from components.catalogue.version_pairs import VERSION_SETS, Component, VersionSet
from components.core.problem import SpecPath

if TYPE_CHECKING:
    from components.model.cluster import ClusterSpec

VERSION_PATHS: Final[Mapping[Component, SpecPath]] = {
    "kubernetes": ("kubernetes", "version"),
    "gpu-operator": ("operators", "gpu", "chart", "version"),
    "network-operator": ("operators", "network", "chart", "version"),
    "nvidia-device-plugin": ("operators", "gpu_device_plugin", "chart", "version"),
}
"""Where a file says the version of a component."""


def versions_of(spec: ClusterSpec) -> dict[Component, str]:
    """The versions that a site uses; nothing without Kubernetes."""
    if spec.kubernetes is None:
        return {}
    found: dict[Component, str] = {"kubernetes": spec.kubernetes.version}
    operators = spec.operators
    if operators.gpu is not None:
        found["gpu-operator"] = operators.gpu.chart.version
    if operators.network is not None:
        found["network-operator"] = operators.network.chart.version
    if operators.gpu_device_plugin is not None:
        found["nvidia-device-plugin"] = operators.gpu_device_plugin.chart.version
    return found


def with_version_set(site: object) -> object:
    """The site with the versions of its set, where it writes none; anything else as it is.

    A chart of the site's own has releases of its own, and so has a cluster that is there: of these
    the set says nothing.
    """
    if not isinstance(site, Mapping):
        return site
    whole = cast("Mapping[str, object]", site)
    name = whole.get("versions")
    chosen = next((each for key, each in VERSION_SETS.items() if key == name), None)
    if chosen is None:
        return whole
    changes: dict[str, object] = {}
    plane, operators = whole.get("kubernetes"), whole.get("operators")
    if isinstance(plane, Mapping):
        changes["kubernetes"] = _plane(cast("Mapping[str, object]", plane), chosen)
    if isinstance(operators, Mapping):
        changes["operators"] = _operators(cast("Mapping[str, object]", operators), chosen)
    return {**whole, **changes}


def _plane(plane: Mapping[str, object], chosen: VersionSet) -> Mapping[str, object]:
    if plane.get("plane") != "k3s" or "version" in plane:
        return plane
    return {**plane, "version": chosen.kubernetes}


def _operators(operators: Mapping[str, object], chosen: VersionSet) -> dict[str, object]:
    versions = {
        "gpu": chosen.gpu_operator,
        "network": chosen.network_operator,
        "gpu_device_plugin": chosen.device_plugin,
    }
    return {
        key: _chart(cast("Mapping[str, object]", operator), versions[key])
        if isinstance(operator, Mapping) and key in versions
        else operator
        for key, operator in operators.items()
    }


def _chart(operator: Mapping[str, object], version: str) -> Mapping[str, object]:
    chart: object = operator.get("chart", {})
    if not isinstance(chart, Mapping) or "chart" in chart or "version" in chart:
        return operator
    return {**operator, "chart": {**cast("Mapping[str, object]", chart), "version": version}}
