"""How a pod gets onto the rails: plugins, Multus, addresses, one attachment per rail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from components.core.errors import SpecError
from components.kubernetes.login import login_manifests
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.pods import pulling
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths, lacks_tuning
from components.model.fabric import Rail
from components.pod_network import manifests as parts
from components.pod_network.attachment import (
    PodAttachment,
    expected_allocatable,
    pod_attachment,
    rail_attachment,
    server_address,
)
from components.pod_network.shared import (
    PLUGIN,
    PLUGIN_CONFIG,
    macvlan_attachment,
    macvlan_probe_attachment,
    shared_plugin_config,
    shared_plugin_daemon_set,
)
from components.pod_network.sriov import attachment, device_plugin_config, probe_attachment

__all__ = [
    "PodAttachment",
    "PodNetworkPlan",
    "expected_allocatable",
    "plan_pod_network",
    "pod_attachment",
    "rail_attachment",
    "server_address",
]

_ROOM = "components.pod_network"
_Group: TypeAlias = list[tuple[str, Body]]
"""Objects that may be made together, each with the component that it belongs to."""


@dataclass(frozen=True, slots=True)
class PodNetworkPlan:
    """The objects of the pod network in their order: definitions, DaemonSets, attachments."""

    manifests: tuple[Manifest, ...]


def plan_pod_network(spec: ClusterSpec) -> PodNetworkPlan:
    """Plan the pod network; without Kubernetes it is empty.

    With `host_device` it is empty too: the network operator's policy publishes the HCAs, and a pod
    has them without any interface or address.

    Raises:
        SpecError: The site wants something that the pod network cannot give; the text says what.
    """
    network = spec.pod_network
    if spec.kubernetes is None or network.mode == "host_device":
        return PodNetworkPlan(())
    if network.ipam == "dhcp":
        raise SpecError(
            "pod_network.ipam is dhcp, which Railyard does not install yet: it needs the CNI "
            "DHCP daemon on every node. Write ipam: whereabouts; no DHCP server is needed then"
        )
    groups = _sriov(spec) if network.mode == "sriov" else _shared(spec)
    return PodNetworkPlan(
        login_manifests(spec, "pod-network", parts.NAMESPACE, 0)
        + tuple(
            make_manifest(owner, pulling(spec, body), number)
            for number, group in enumerate(groups)
            for owner, body in group
        )
    )


def _sriov(spec: ClusterSpec) -> tuple[_Group, ...]:
    foundation, plugin = _sriov_plugin(spec)
    images = spec.sources.images
    tuning = parts.reference_cni_daemon_set("tuning", images.cni_plugins, cni_paths(spec))
    daemon_sets = [
        *_attachers(spec),
        *([("tuning-cni", tuning)] if lacks_tuning(spec) else []),
        ("sriov-cni", parts.sriov_cni_daemon_set(images.sriov_cni, cni_paths(spec))),
        *plugin,
    ]
    rails = _attachments(spec, (attachment, probe_attachment))
    return [*_attaching(spec), *foundation], daemon_sets, rails


def _sriov_plugin(spec: ClusterSpec) -> tuple[_Group, _Group]:
    """The device plugin: what it needs, and itself; the network operator brings its own."""
    if spec.operators.network is not None:
        return [], []
    config, prefix = device_plugin_config(spec), spec.pod_network.resource_prefix
    image = spec.sources.images.sriov_device_plugin
    foundation: _Group = [
        ("sriov-device-plugin", parts.service_account("sriov-device-plugin")),
        ("sriov-device-plugin", parts.plugin_config_map(parts.PLUGIN_CONFIG, config)),
    ]
    plugin = parts.device_plugin_daemon_set(image, config, prefix)
    return foundation, [("sriov-device-plugin", plugin)]


def _shared(spec: ClusterSpec) -> tuple[_Group, ...]:
    config: _Group = []
    plugin: _Group = []
    if spec.operators.network is None:  # which brings its own
        config = [(PLUGIN, parts.plugin_config_map(PLUGIN_CONFIG, shared_plugin_config(spec)))]
        plugin = [(PLUGIN, shared_plugin_daemon_set(spec))]
    if spec.pod_network.host_network:
        return config, plugin
    image = spec.sources.images.cni_plugins
    daemon_sets = [
        *_attachers(spec),
        ("macvlan-cni", parts.reference_cni_daemon_set("macvlan", image, cni_paths(spec))),
        *plugin,
    ]
    rails = _attachments(spec, (macvlan_attachment, macvlan_probe_attachment))
    return [*_attaching(spec), *config], daemon_sets, rails


def _installs_multus(spec: ClusterSpec) -> bool:
    return spec.pod_network.multus == "install"


def _attaching(spec: ClusterSpec) -> _Group:
    """Multus, unless it is there, and whereabouts: definitions and permissions."""
    whereabouts = load_vendored(_ROOM, "whereabouts-crds-v0.9.4.json.gz")
    found: _Group = []
    if _installs_multus(spec):
        found += [("multus", body) for body in load_vendored(_ROOM, "multus-crd-v4.3.0.json.gz")]
    found += [("whereabouts", body) for body in whereabouts]
    if _installs_multus(spec):
        found += [
            ("multus", parts.service_account("multus")),
            ("multus", parts.cluster_role("multus", parts.multus_rules())),
            ("multus", parts.cluster_role_binding("multus")),
        ]
    return [
        *found,
        ("whereabouts", parts.service_account("whereabouts")),
        ("whereabouts", parts.cluster_role("whereabouts", parts.whereabouts_rules())),
        ("whereabouts", parts.cluster_role_binding("whereabouts")),
    ]


def _attachers(spec: ClusterSpec) -> _Group:
    images, paths, foreign = spec.sources.images, cni_paths(spec), spec.k3s is None
    whereabouts = parts.whereabouts_daemon_set(images.whereabouts, paths, check=foreign)
    attachers: _Group = [("whereabouts", whereabouts)]
    if _installs_multus(spec):
        attachers.insert(0, ("multus", parts.multus_daemon_set(images.multus, paths)))
    return attachers


def _attachments(
    spec: ClusterSpec, makers: Sequence[Callable[[ClusterSpec, Rail], Body]]
) -> _Group:
    return [(rail.name, make(spec, rail)) for rail in spec.rails for make in makers]
