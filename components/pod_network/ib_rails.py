"""The rails of an InfiniBand fabric: which HCA of each worker is which."""

from __future__ import annotations

from collections.abc import Mapping

from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.infiniband import IbRail


def ib_rails(spec: ClusterSpec) -> tuple[IbRail, ...]:
    """The rails of a fabric of own switches; a cloud's has none: its HCAs have no fixed places."""
    return spec.infiniband.rails if spec.infiniband else ()


def rail_ports(host: Host, rail: IbRail) -> tuple[HcaPf, ...]:
    """The ports of a host that are on a rail: one, or the site is refused."""
    return tuple(port for port in host.hca_sriov if port.rail == rail.name)


def rail_resources(spec: ClusterSpec) -> Mapping[str, int]:
    """One of each rail, by the names of their resources."""
    prefix = spec.pod_network.resource_prefix
    return {f"{prefix}/{rail.resource}": 1 for rail in ib_rails(spec)}
