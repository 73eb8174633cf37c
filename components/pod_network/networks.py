"""Attachments of a rail: their frame, their addresses, and the one kept for a probe's server."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from typing import Final

from pydantic import JsonValue

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths
from components.model.fabric import Rail

CNI_VERSION: Final = "1.0.0"
_RESOURCE_NAME: Final = "k8s.v1.cni.cncf.io/resourceName"


def probe_network(rail: Rail) -> str:
    """Name of the attachment whose one address the perftest server of a rail gets."""
    return f"{rail.network}-probe"


def probe_address(rail: Rail) -> IPv4Address:
    """The address kept for the perftest server: the last one of the rail's subnet."""
    return rail.subnet[-2]


def job_addresses(spec: ClusterSpec, rail: Rail) -> dict[str, JsonValue]:
    """Address management of the attachment that jobs use: all but probe, gateway and cards."""
    nics = (nic for host in spec.hosts for nic in host.nics if nic.rail == rail.name)
    cards = [nic.address for nic in nics if nic.address is not None]
    kept = [probe_address(rail), *([rail.gateway] if rail.gateway else []), *cards]
    exclude: dict[str, JsonValue] = {"exclude": [f"{address}/32" for address in kept]}
    return _whereabouts(spec, rail) | exclude


def server_addresses(spec: ClusterSpec, rail: Rail) -> dict[str, JsonValue]:
    """Address management with one fixed address, so that a client knows its server."""
    address = str(probe_address(rail))
    return _whereabouts(spec, rail) | {"range_start": address, "range_end": address}


def _whereabouts(spec: ClusterSpec, rail: Rail) -> dict[str, JsonValue]:
    return {
        "type": "whereabouts",
        "range": str(rail.subnet),
        "configuration_path": cni_paths(spec).whereabouts_config,
    }


def make_attachment(
    namespace: str, name: str, plugins: list[dict[str, JsonValue]], resource: str | None = None
) -> Body:
    """Make the NetworkAttachmentDefinition of a chain of CNI plugins.

    Args:
        namespace: Where the jobs are.
        name: Name of the attachment.
        plugins: The plugin that makes the interface, and those chained behind it.
        resource: With it Multus hands the first plugin a device of that resource.
    """
    head: dict[str, JsonValue] = {"cniVersion": CNI_VERSION, "name": name}
    config = head | (plugins[0] if len(plugins) == 1 else {"plugins": [*plugins]})
    metadata: dict[str, JsonValue] = {"name": name, "namespace": namespace}
    if resource is not None:
        metadata["annotations"] = {_RESOURCE_NAME: resource}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata,
        "spec": {"config": json.dumps(config, indent=1, sort_keys=True)},
    }
