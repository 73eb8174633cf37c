"""Rules on what is asked of InfiniBand adapters, of which the file has no more than the number."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cards import HostQos
from components.model.cluster import ClusterSpec
from components.model.hosts import Host


def check_hca_settings(spec: ClusterSpec) -> Iterator[Finding]:
    """What is asked of hosts with InfiniBand adapters is what Railyard can set there.

    A card's firmware is set by PCI address, which adapters have under `hca_sriov` only. Adapters
    have no model in the file, and no RoCE. Those of a cloud come with the driver of its image.
    """
    for h, host in enumerate(spec.hosts):
        if not host.hcas:
            continue
        hcas = at(("hosts", h, "hcas"), host.hcas)
        path, driver = _written(spec, host, "driver"), spec.settings_of(host).driver
        if spec.cloud is not None and driver.is_installed:
            yield Finding(
                f"the driver package {driver.kind} would not be installed: the driver of these "
                "adapters comes with the cloud's image.",
                (at((*path, "kind"), driver.kind), hcas),
                "choose an image that has the driver, and set driver.kind to present.",
            )
        if not host.nics:
            for finding in _unset(spec, host):
                yield Finding(finding.what, (*finding.where, hcas), finding.fix)


def _unset(spec: ClusterSpec, host: Host) -> Iterator[Finding]:
    """What a host without NICs could only drop."""
    settings = spec.settings_of(host)
    path = _written(spec, host, "firmware")
    for key in ("manage", "relaxed_ordering"):
        if getattr(settings.firmware, key) and not host.hca_sriov:
            yield Finding(
                f"{key} is asked for, and the file has no PCI address of the InfiniBand adapters.",
                (at((*path, key), value=True),),
                f"remove {key}, or list the ports under hca_sriov (with vfs: 0 where they need "
                "no VFs); hosts that differ are a group of host_groups.",
            )
    if settings.firmware.min_versions:
        yield Finding(
            "min_versions goes by the cards' models, and InfiniBand adapters have none in the "
            "file.",
            (at((*path, "min_versions")),),
            "remove min_versions, or move it to a group of host_groups whose hosts have nics.",
        )
    if settings.qos != HostQos():
        yield Finding(
            "qos is RoCE's, and these hosts have InfiniBand adapters alone.",
            (at(_written(spec, host, "qos")),),
            "remove qos, or move it to a group of host_groups whose hosts have nics.",
        )


def _written(spec: ClusterSpec, host: Host, block: str) -> SpecPath:
    """Where the file has a block that holds for a host."""
    for g, group in enumerate(spec.host_groups):
        if group.name == host.group and getattr(group, block) is not None:
            return ("host_groups", g, block)
    return ("host_defaults", block)
