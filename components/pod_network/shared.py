"""The RDMA shared device plugin, and macvlan attachments for pods that share the host's cards.

Objects as in the plugin's own deployment (k8s-rdma-shared-dev-plugin v1.5.3), image pinned.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.pod_network import SharedDevice
from components.pod_network.leaf_pools import Pool
from components.pod_network.manifests import NAMESPACE, config_name, host_path, mount
from components.pod_network.networks import (
    job_addresses,
    make_attachment,
    make_chain,
    probe_network,
    server_addresses,
)
from components.pod_network.tolerations import tolerations

PLUGIN: Final = "rdma-shared-dp-ds"
PLUGIN_CONFIG: Final = "rdma-devices"
_DEFAULT_PREFIX: Final = "rdma"
_SOCKETS: Final = {
    "device-plugin": "/var/lib/kubelet/device-plugins",
    "plugins-registry": "/var/lib/kubelet/plugins_registry",
}
"""The two folders in which the plugin meets the kubelet: it needs none of the pods' own."""


def shared_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the plugin: what it publishes, and which cards each resource takes."""
    entries: list[JsonValue] = [_entry(spec, device) for device in spec.pod_network.shared_devices]
    config = {
        "periodicUpdateInterval": spec.pod_network.periodic_update_s,
        "configList": entries,
    }
    return json.dumps(config, indent=1) + "\n"


def _entry(spec: ClusterSpec, device: SharedDevice) -> JsonValue:
    prefix = spec.pod_network.resource_prefix
    lists: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("vendors", device.vendors),
        ("deviceIDs", device.device_ids),
        ("ifNames", device.interfaces),
        ("linkTypes", device.link_types),
    )
    selectors: dict[str, JsonValue] = {key: [*values] for key, values in lists if values}
    entry: dict[str, JsonValue] = {
        "resourceName": device.resource,
        "rdmaHcaMax": device.hca_max,
        "selectors": selectors,
    }
    if prefix != _DEFAULT_PREFIX:
        entry["resourcePrefix"] = prefix
    return entry


def shared_plugin_daemon_set(spec: ClusterSpec) -> Body:
    """The plugin on every node; a node without a matching card publishes nothing."""
    container: dict[str, JsonValue] = {
        "name": "k8s-rdma-shared-dp-ds",
        "image": spec.pod_network.shared_plugin,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"privileged": True},
        "volumeMounts": [
            *(mount(name, path) for name, path in _SOCKETS.items()),
            mount("config", "/k8s-rdma-shared-dev-plugin"),
            mount("devs", "/dev/"),
        ],
    }
    config: dict[str, JsonValue] = {
        "name": config_name(PLUGIN_CONFIG, shared_plugin_config(spec)),
        "items": [{"key": "config.json", "path": "config.json"}],
    }
    labels: dict[str, JsonValue] = {"name": PLUGIN}
    pod: dict[str, JsonValue] = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        **tolerations(spec),
        "containers": [container],
        "volumes": [
            *(host_path(name, path) for name, path in _SOCKETS.items()),
            {"name": "config", "configMap": config},
            host_path("devs", "/dev/"),
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": PLUGIN, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def macvlan_attachment(spec: ClusterSpec, rail: Rail) -> Body:
    """The NetworkAttachmentDefinition of a rail: what jobs use."""
    return _attachment(spec, rail, rail.network, job_addresses(spec, rail))


def macvlan_probe_attachment(spec: ClusterSpec, rail: Rail, pool: Pool) -> Body:
    """The same rail with one fixed address, so that a perftest client knows its server."""
    name = probe_network(rail, pool.leaf)
    return _attachment(spec, rail, name, server_addresses(spec, pool))


def _attachment(spec: ClusterSpec, rail: Rail, name: str, ipam: dict[str, JsonValue]) -> Body:
    macvlan: dict[str, JsonValue] = {
        "type": "macvlan",
        "master": rail_master(spec, rail),
        "mode": "bridge",
        "mtu": spec.pod_network.mtu_bytes or spec.rdma.mtu_bytes,
    }
    plugins = make_chain(spec, macvlan, ipam, sets_mtu=True)
    return make_attachment(spec.pod_network.namespace, name, plugins)


def rail_master(spec: ClusterSpec, rail: Rail) -> str:
    """The network device of a rail on all workers.

    Raises:
        SpecError: It has other names on other workers, and an attachment knows only one.
    """
    names = {
        nic.netdev: host.name
        for host in reversed(spec.workers)
        for nic in host.nics
        if nic.rail == rail.name
    }
    if len(names) != 1:
        found = ", ".join(f"{netdev} on {host}" for netdev, host in sorted(names.items()))
        raise SpecError(
            f"the cards of {rail.name} are {found or 'missing'}: a macvlan attachment names one "
            "network device for all nodes. Give them one name (systemd .link files by PCI path)"
        )
    return next(iter(names))
