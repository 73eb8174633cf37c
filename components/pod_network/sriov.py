"""VFs as resources of nodes, and the attachment of a pod to a rail: the SR-IOV part.

Sources: README of sriov-network-device-plugin v3.11.0 and the configuration reference of sriov-cni
v2.10.0. `isRdma` counts only inside of `selectors`; elsewhere it is ignored, and the pod gets no
`/dev/infiniband`.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.places import pod_links
from components.pod_network.attachment import MELLANOX
from components.pod_network.leaf_pools import Pool
from components.pod_network.networks import (
    job_addresses,
    make_attachment,
    make_chain,
    probe_network,
    server_addresses,
)


def device_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the device plugin: one resource per rail, or one for all of them.

    Raises:
        SpecError: One PF name means different rails on different hosts; the plugin's
            configuration is the same on all nodes, so it could not tell them apart.
    """
    _check_pf_names(spec)
    named = {
        rail.resource: [each.name for each in spec.rails if each.resource == rail.resource]
        for rail in spec.rails
    }
    resources: list[JsonValue] = [_resource(spec, *each) for each in named.items()]
    return json.dumps({"resourceList": resources}, indent=1, sort_keys=True) + "\n"


def _check_pf_names(spec: ClusterSpec) -> None:
    rails: dict[str, str] = {}
    for host in spec.workers:
        for nic in host.nics:
            rail = rails.setdefault(nic.netdev, nic.rail)
            if rail != nic.rail:
                raise SpecError(
                    f"{nic.netdev} is {nic.rail} on {host.name} and {rail} on another host: the "
                    "SR-IOV device plugin selects by PF name on all nodes alike. Name the PFs so "
                    "that a name means one rail (systemd .link files by PCI path)"
                )


def _resource(spec: ClusterSpec, name: str, rails: Collection[str]) -> JsonValue:
    nics = [nic for host in spec.workers for nic in host.nics if nic.rail in rails]
    # 101e is the VF of several models: `pfNames` tell the rails apart.
    devices = {nic.vf_device for nic in nics}
    known = sorted(device for device in devices if device is not None)
    # A card whose VFs have no known id is selected by its name alone.
    chosen: dict[str, JsonValue] = {"devices": [*known]} if None not in devices else {}
    names = sorted({nic.netdev for nic in nics})
    return {
        "resourceName": name,
        "resourcePrefix": spec.pod_network.resource_prefix,
        "selectors": [
            {
                "vendors": [MELLANOX],
                **chosen,
                "pfNames": [*names],
                "isRdma": True,
            }
        ],
    }


def attachment(spec: ClusterSpec, rail: Rail) -> Body:
    """The NetworkAttachmentDefinition of a rail: what jobs use."""
    return _attachment(spec, rail, rail.network, job_addresses(spec, rail))


def probe_attachment(spec: ClusterSpec, rail: Rail, pool: Pool) -> Body:
    """The same rail with one fixed address, so that a perftest client knows its server."""
    name = probe_network(rail, pool.leaf)
    return _attachment(spec, rail, name, server_addresses(spec, pool))


def _attachment(spec: ClusterSpec, rail: Rail, name: str, ipam: dict[str, JsonValue]) -> Body:
    plugins = sriov_chain(spec, rail, ipam)
    resource = f"{spec.pod_network.resource_prefix}/{rail.resource}"
    return make_attachment(spec.pod_network.namespace, name, plugins, resource)


def sriov_chain(
    spec: ClusterSpec, rail: Rail, ipam: dict[str, JsonValue]
) -> list[dict[str, JsonValue]]:
    """The plugins that give a pod a VF of a rail, with an address by `ipam`."""
    sriov: dict[str, JsonValue] = {
        "type": "sriov",
        # No vlanQoS: the DSCP alone decides the priority, at every hop, tagged or routed.
        # A routed port takes no tag: 0 is none (sriov-cni v2.10.0, configuration reference).
        "vlan": 0 if rail.name in pod_links(spec) else rail.vlan,
        "spoofchk": "off",
        "trust": "on",
    }
    return make_chain(spec, sriov, ipam, sets_mtu=False)
