"""Rules on versions of components together, and on the driver container of an operator."""

from __future__ import annotations

from collections.abc import Iterator

from components.catalogue.version_pairs import (
    DRIVER_TAGS,
    TITLES,
    Component,
    conflicts_of,
    driver_tag,
)
from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.version_sets import VERSION_PATHS, versions_of
from components.operators.network import container_tag


def check_version_conflict(spec: ClusterSpec) -> Iterator[Finding]:
    """No two components are of versions that are known to fail together.

    The pairs, what fails and who says so are in components/catalogue/version_pairs.py, and
    `railyard versions` prints them. Where the source names a neighbour of the release, it is a
    warning.
    """
    versions, network = versions_of(spec), spec.operators.network
    container = network is not None and network.driver == "operator"
    for conflict in conflicts_of(versions, container=container):
        parts = (conflict.one, conflict.other) if conflict.other else (conflict.one,)
        pair: list[Component] = [each.component for each in parts]
        names = " and ".join(f"{TITLES[each]} {versions[each]}" for each in pair)
        yield Finding(
            f"{names} {conflict.reason}.",
            tuple(at(VERSION_PATHS[each], versions[each]) for each in pair),
            f"{conflict.fix} Source: {conflict.source}.",
            conflict.severity,
        )


def check_driver_tag(spec: ClusterSpec) -> Iterator[Finding]:
    """The network operator's driver container has a tag that its own release names, or the file.

    NVIDIA makes a container for each release of the operator and for no other. A tag that does not
    exist leaves each node without its RDMA driver until its image pull is looked at.
    """
    operator = spec.operators.network
    if operator is None:
        return
    path: SpecPath = ("operators", "network", "driver_tag")
    if operator.driver == "host":
        if operator.driver_tag is not None:
            yield Finding(
                f"driver_tag is {operator.driver_tag}, and the hosts own the RDMA driver.",
                (at(path, operator.driver_tag),),
                "remove driver_tag, or set operators.network.driver to operator.",
            )
        return
    if container_tag(operator) is not None:
        return
    release = operator.chart.version.removeprefix("v")
    seen = DRIVER_TAGS.get(release)
    known = ", ".join(each for each in DRIVER_TAGS if driver_tag(each) is not None)
    hint = f" Reported, and not confirmed, is {seen.tag}." if seen is not None else ""
    yield Finding(
        f"the driver container of network operator {release} is not known.{hint}",
        (
            at(("operators", "network", "chart", "version"), operator.chart.version),
            at(("operators", "network", "driver"), operator.driver),
        ),
        "write its tag as operators.network.driver_tag (catalog.ngc.nvidia.com lists them), take "
        f"a release of {known}, or set driver to host.",
    )
