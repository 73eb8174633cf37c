"""How a pod gets onto the rails: plugins, Multus, addresses, one attachment per rail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.login import login_manifests
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.pods import pulling
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths, cni_programs, gives_addresses, way_of
from components.pod_network import manifests as parts
from components.pod_network import programs
from components.pod_network.attachment import (
    PodAttachment,
    expected_allocatable,
    pod_attachment,
    rail_attachment,
    server_address,
)
from components.pod_network.ib_rails import ib_rails
from components.pod_network.infiniband import (
    function_plugin_config,
    ib_sriov_attachment,
    ipoib_attachment,
)
from components.pod_network.matrix import Refused, cell_of
from components.pod_network.pool_files import (
    has_pool_files,
    pool_files_daemon_set,
    pool_files_map,
)
from components.pod_network.pools import pools_of
from components.pod_network.shared import (
    PLUGIN,
    PLUGIN_CONFIG,
    macvlan_attachment,
    macvlan_probe_attachment,
    shared_plugin_config,
    shared_plugin_daemon_set,
)
from components.pod_network.sriov import attachment, probe_attachment

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

    It is empty too where the network operator's policy publishes the HCAs: a pod has them without
    any interface or address.

    Raises:
        SpecError: The site wants something that the pod network cannot give; the text says what.
    """
    if spec.kubernetes is None:
        return PodNetworkPlan(())
    cell = cell_of(spec)
    if isinstance(cell, Refused):
        raise SpecError(f"{cell.why}. {cell.instead[:1].upper()}{cell.instead[1:]}")
    if way_of(spec) == "host_device" and spec.operators.network is not None:
        return PodNetworkPlan(())
    groups = _shared(spec) if spec.pod_network.mode == "rdma_shared" else _functions(spec)
    return PodNetworkPlan(
        login_manifests(spec, "pod-network", parts.NAMESPACE, 0)
        + tuple(
            make_manifest(owner, pulling(spec, body), number)
            for number, group in enumerate(groups)
            for owner, body in group
        )
    )


def _functions(spec: ClusterSpec) -> tuple[_Group, ...]:
    """Devices that one pod has alone: VFs, or whole HCAs, which need no attachment."""
    attached = spec.pod_network.mode == "sriov"
    foundation, plugin = _function_plugin(spec)
    foundations = [*(_attaching(spec) if attached else []), *foundation]
    daemon_sets = [*(_attachers(spec) if attached else []), *plugin]
    return foundations, daemon_sets, _attachments(spec) if attached else []


def _function_plugin(spec: ClusterSpec) -> tuple[_Group, _Group]:
    """The device plugin: what it needs, and itself; the network operator brings its own."""
    if spec.operators.network is not None:
        return [], []
    config, prefix = function_plugin_config(spec), spec.pod_network.resource_prefix
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
    if way_of(spec) in {"host", "none"}:
        return config, plugin
    return [*_attaching(spec), *config], [*_attachers(spec), *plugin], _attachments(spec)


def _installs_multus(spec: ClusterSpec) -> bool:
    return spec.pod_network.multus == "install"


def _attaching(spec: ClusterSpec) -> _Group:
    """Multus, unless it is there, and whereabouts: definitions and permissions."""
    found: _Group = []
    if _installs_multus(spec):
        found += [("multus", body) for body in load_vendored(_ROOM, "multus-crd-v4.3.0.json.gz")]
    if gives_addresses(spec):
        crds = load_vendored(_ROOM, "whereabouts-crds-v0.9.4.json.gz")
        found += [("whereabouts", body) for body in crds]
    if _installs_multus(spec):
        found += _permissions("multus", parts.multus_rules())
    if gives_addresses(spec):
        found += _permissions("whereabouts", parts.whereabouts_rules())
    if has_pool_files(spec):
        found.append(("whereabouts", pool_files_map(spec)))
    return found


def _permissions(name: str, rules: list[JsonValue]) -> _Group:
    return [
        (name, parts.service_account(name)),
        (name, parts.cluster_role(name, rules)),
        (name, parts.cluster_role_binding(name)),
    ]


def _attachers(spec: ClusterSpec) -> _Group:
    """The programs that the attachments name, each brought by a DaemonSet."""
    images, paths, foreign = spec.sources.images, cni_paths(spec), spec.k3s is None
    attachers: _Group = []
    if _installs_multus(spec):
        attachers.append(("multus", parts.multus_daemon_set(images.multus, paths)))
    if gives_addresses(spec):
        by_leaf = has_pool_files(spec)
        whereabouts = parts.whereabouts_daemon_set(
            images.whereabouts, paths, check=foreign, own_path=by_leaf
        )
        attachers.append(("whereabouts", whereabouts))
        attachers += [("whereabouts", pool_files_daemon_set(spec))] if by_leaf else []
    return attachers + [(f"{name}-cni", _program(spec, name)) for name in cni_programs(spec)]


def _program(spec: ClusterSpec, name: str) -> Body:
    images, paths, foreign = spec.sources.images, cni_paths(spec), spec.k3s is None
    own = {"ib-sriov": images.ib_sriov_cni, "ipoib": images.ipoib_cni, "rdma": images.rdma_cni}
    if name == "sriov":
        return programs.sriov_cni_daemon_set(images.sriov_cni, paths)
    if name in own:
        return programs.program_daemon_set(f"{name}-cni", own[name], paths)
    if name == "dhcp":
        return programs.dhcp_daemon_set(images.cni_plugins, paths, keep=foreign)
    keep = foreign and name not in {"macvlan", "tuning"}
    return programs.reference_cni_daemon_set(name, images.cni_plugins, paths, keep=keep)


def _attachments(spec: ClusterSpec) -> _Group:
    if spec.rdma.transport == "infiniband":
        make = ib_sriov_attachment if spec.pod_network.mode == "sriov" else ipoib_attachment
        return [(rail.name, make(spec, rail)) for rail in ib_rails(spec)]
    on_functions = spec.pod_network.mode == "sriov"
    of_jobs = attachment if on_functions else macvlan_attachment
    of_probes = probe_attachment if on_functions else macvlan_probe_attachment
    return [
        (rail.name, body)
        for rail in spec.rails
        for body in (
            of_jobs(spec, rail),
            *(of_probes(spec, rail, pool) for pool in pools_of(spec)[rail.name]),
        )
    ]
