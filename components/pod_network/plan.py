"""How a pod gets onto the rails: Multus, SR-IOV, addresses, one attachment per rail."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import SpecError
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.pod_network import manifests as parts
from components.pod_network.sriov import attachment, device_plugin_config, probe_attachment

_ROOM = "components.pod_network"


@dataclass(frozen=True, slots=True)
class PodNetworkPlan:
    """The objects of the pod network in their order: definitions, DaemonSets, attachments."""

    manifests: tuple[Manifest, ...]


def plan_pod_network(spec: ClusterSpec) -> PodNetworkPlan:
    """Plan the pod network.

    Raises:
        SpecError: The site wants something that the pod network cannot give; the text says what.
    """
    if spec.pod_network.ipam == "dhcp":
        raise SpecError(
            "pod_network.ipam is dhcp, which Railyard does not install yet: it needs the CNI "
            "DHCP daemon on every node. Write ipam: whereabouts; no DHCP server is needed then"
        )
    groups = (_foundations(spec), _daemon_sets(spec), _attachments(spec))
    return PodNetworkPlan(
        tuple(
            make_manifest(owner, body, number)
            for number, group in enumerate(groups)
            for owner, body in group
        )
    )


def _foundations(spec: ClusterSpec) -> list[tuple[str, Body]]:
    crds = [("multus", body) for body in load_vendored(_ROOM, "multus-crd-v4.3.0.json.gz")]
    crds += [
        ("whereabouts", body) for body in load_vendored(_ROOM, "whereabouts-crds-v0.9.4.json.gz")
    ]
    return [
        *crds,
        ("multus", parts.service_account("multus")),
        ("multus", parts.cluster_role("multus", parts.multus_rules())),
        ("multus", parts.cluster_role_binding("multus")),
        ("whereabouts", parts.service_account("whereabouts")),
        ("whereabouts", parts.cluster_role("whereabouts", parts.whereabouts_rules())),
        ("whereabouts", parts.cluster_role_binding("whereabouts")),
        ("sriov-device-plugin", parts.service_account("sriov-device-plugin")),
        ("sriov-device-plugin", parts.plugin_config_map(device_plugin_config(spec))),
    ]


def _daemon_sets(spec: ClusterSpec) -> list[tuple[str, Body]]:
    plugin = parts.device_plugin_daemon_set(
        device_plugin_config(spec), spec.pod_network.resource_prefix
    )
    return [
        ("multus", parts.multus_daemon_set()),
        ("whereabouts", parts.whereabouts_daemon_set()),
        ("sriov-cni", parts.sriov_cni_daemon_set()),
        ("sriov-device-plugin", plugin),
    ]


def _attachments(spec: ClusterSpec) -> list[tuple[str, Body]]:
    return [
        (rail.name, make(spec, rail))
        for rail in spec.rails
        for make in (attachment, probe_attachment)
    ]
