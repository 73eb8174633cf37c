"""How pods get onto the rails: plugins, Multus, addresses, one attachment per rail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import (
    Body,
    Manifest,
    load_vendored,
    login_manifests,
    make_manifest,
    pulling,
)
from components.model.cluster import ClusterSpec
from components.model.owners import (
    cni_check_image,
    cni_paths,
    cni_programs,
    installs,
    part_of_program,
    pool_files_image,
    vfs_by_operator,
    way_of,
)
from components.pod_network import manifests as parts
from components.pod_network import programs
from components.pod_network.manifests import (
    JsonObject,
    config_name,
    daemon_set,
    host_path,
    mount,
    resources,
)
from components.pod_network.matrix import Refused, cell_of
from components.pod_network.networks import (
    PLUGIN,
    PLUGIN_CONFIG,
    macvlan_attachment,
    pool_file,
    shared_plugin_config,
    shared_plugin_daemon_set,
)
from components.pod_network.pools import link_pools, plan_pools, pool_manifest
from components.pod_network.rails import ib_rails, pools_of
from components.pod_network.sriov import (
    function_plugin_config,
    ib_sriov_attachment,
    ipoib_attachment,
    node_policies,
    sriov_attachment,
    sriov_networks,
)

_NAMES: Final = {"whereabouts": "rail-pools", "nv-ipam": "nv-ipam-pools"}
"""Names of the DaemonSet. The engine makes a new resource before it deletes the old one, so a site
that changes its `ipam` must not have one object under two resource names."""
_SCRIPT: Final = """set -eu
while read -r node rail leaf; do
  [ "$node" = "$NODENAME" ] || continue
  file=/host/{file}
  mkdir -p "${{file%/*}}"
  cp "/pools/$rail.$leaf.conf" "${{file%/*}}/.$rail.new"
  mv -f "${{file%/*}}/.$rail.new" "$file"
done </pools/nodes
exec sleep infinity
"""
_FILES: Final = {
    "whereabouts": "whereabouts.d/$rail.conf",
    "nv-ipam": "nv-ipam.d/$rail/nv-ipam.conf",
}
"""The file from which each IPAM reads its node's part of a rail, in the folder of networks."""


def has_pool_files(spec: ClusterSpec) -> bool:
    """Whether a node's leaf decides the addresses of its pods."""
    return pool_files_image(spec) is not None


def _files(spec: ClusterSpec) -> dict[str, str]:
    """The table of all nodes, and a file for each leaf of a rail."""
    found = pools_of(spec)
    pools = [(rail, pool) for rail in spec.rails for pool in found[rail.name] if pool.leaf]
    nodes = (f"{node} {pool.rail} {pool.leaf}\n" for _, pool in pools for node in pool.nodes)
    files = {f"{pool.rail}.{pool.leaf}.conf": pool_file(spec, rail, pool) for rail, pool in pools}
    return {"nodes": "".join(nodes), **files}


def _name(spec: ClusterSpec, files: dict[str, str]) -> str:
    return config_name(_NAMES[spec.pod_network.ipam], "\n".join(files.values()))


def pool_files_map(spec: ClusterSpec) -> Body:
    """The files; a changed text makes a new object, which replaces the pods with the old one."""
    files = _files(spec)
    data: JsonObject = {**files}
    return parts.config_map(_name(spec, files), data, immutable=True)


def pool_files_daemon_set(spec: ClusterSpec) -> Body:
    """Write on each node the files of its own leaves."""
    paths, files = cni_paths(spec), _files(spec)
    node: JsonValue = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    key = pool_files_image(spec)
    assert key is not None  # noqa: S101 - else there are no files
    main: JsonObject = {
        "name": _NAMES[spec.pod_network.ipam],
        "image": getattr(spec.sources.images, key),
        "command": ["/bin/sh", "-c", _SCRIPT.format(file=_FILES[spec.pod_network.ipam])],
        "env": [{"name": "NODENAME", "valueFrom": node}],
        "resources": resources("10m", "15Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("cni", "/host"), mount("pools", "/pools", readOnly=True)],
    }
    pod: JsonObject = {
        "containers": [main],
        "volumes": [
            host_path("cni", paths.net_d),
            {"name": "pools", "configMap": {"name": _name(spec, files)}},
        ],
    }
    return daemon_set(_NAMES[spec.pod_network.ipam], pod)


_ROOM = "components.pod_network"
_Group: TypeAlias = list[tuple[str, Body]]
"""Objects that may be made together, each with its component."""


@dataclass(frozen=True, slots=True)
class PodNetworkPlan:
    """The objects of the pod network in their order: definitions, DaemonSets, attachments."""

    manifests: tuple[Manifest, ...]


def plan_pod_network(spec: ClusterSpec) -> PodNetworkPlan:
    """Plan the pod network; without Kubernetes it is empty.

    It is also empty if the network operator's policy publishes the HCAs: then a pod gets them
    without an interface or an address.
    """
    if spec.kubernetes is None:
        return PodNetworkPlan(())
    cell = cell_of(spec)
    if isinstance(cell, Refused):
        raise SpecError(f"{cell.why}. {cell.instead[:1].upper()}{cell.instead[1:]}")
    if way_of(spec) == "host_device" and spec.operators.network is not None:
        return PodNetworkPlan(())
    groups = _shared(spec) if spec.pod_network.mode == "rdma_shared" else _functions(spec)
    login = login_manifests(spec, "pod-network", parts.NAMESPACE, 0)
    first = int(bool(login) and cni_check_image(spec) is not None)  # whose pods pull at once
    return PodNetworkPlan(
        login
        + tuple(
            make_manifest(owner, pulling(spec, body), number)
            for number, group in enumerate(groups, first)
            for owner, body in group
        )
    )


def _functions(spec: ClusterSpec) -> tuple[_Group, ...]:
    """Devices of which each pod gets its own: VFs, or whole HCAs, which need no attachment."""
    attached = spec.pod_network.mode == "sriov"
    foundation, plugin = _function_plugin(spec)
    foundations = [*(_attaching(spec) if attached else []), *foundation]
    daemon_sets = [*(_attachers(spec) if attached else []), *plugin]
    policies = node_policies(spec) if vfs_by_operator(spec) else []
    attachments = _attachments(spec) if attached else []
    return *_cni_check(spec), foundations, [*daemon_sets, *policies], attachments


def _function_plugin(spec: ClusterSpec) -> tuple[_Group, _Group]:
    """The device plugin, after its prerequisites; empty if an operator brings its own."""
    if not installs(spec, "sriov_device_plugin"):
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
    if installs(spec, "shared_device_plugin"):
        config = [(PLUGIN, parts.plugin_config_map(PLUGIN_CONFIG, shared_plugin_config(spec)))]
        plugin = [(PLUGIN, shared_plugin_daemon_set(spec))]
    if way_of(spec) in {"host", "none"}:
        return config, plugin
    made = [*_attaching(spec), *config], [*_attachers(spec), *plugin], _attachments(spec)
    return *_cni_check(spec), *made


def _cni_check(spec: ClusterSpec) -> tuple[_Group, ...]:
    """Check every node of a cluster that is not our K3s, before anything is installed."""
    key = cni_check_image(spec)
    if key is None:
        return ()
    image = getattr(spec.sources.images, key)
    return ([("cni-folders", parts.cni_check_daemon_set(image, cni_paths(spec)))],)


def _attaching(spec: ClusterSpec) -> _Group:
    """Multus and whereabouts, unless the cluster has them: definitions and permissions."""
    found: _Group = []
    if installs(spec, "multus") and spec.operators.network is None:
        # The network operator's chart brings the same definition, and upgrades it.
        found += [("multus", body) for body in load_vendored(_ROOM, "multus-crd-v4.3.0.json.gz")]
    if installs(spec, "whereabouts"):
        crds = load_vendored(_ROOM, "whereabouts-crds-v0.9.4.json.gz")
        found += [("whereabouts", body) for body in crds]
    if installs(spec, "multus"):
        found += _permissions("multus", parts.multus_rules())
    if installs(spec, "whereabouts"):
        found += _permissions("whereabouts", parts.whereabouts_rules())
        found.append(("whereabouts", programs.reconciler_config_map()))
    if installs(spec, "nv_ipam"):
        found += [("nv-ipam", body) for body in load_vendored(_ROOM, programs.CRDS)]
        found += _permissions(programs.CONTROLLER, programs.controller_rules())
        found += _permissions(programs.NODE, programs.node_rules())
    if has_pool_files(spec):
        found.append((spec.pod_network.ipam, pool_files_map(spec)))
    return found


def _permissions(name: str, rules: list[JsonValue]) -> _Group:
    return [
        (name, parts.service_account(name)),
        (name, parts.cluster_role(name, rules)),
        (name, parts.cluster_role_binding(name)),
    ]


def _attachers(spec: ClusterSpec) -> _Group:
    """The programs in the attachments, each installed by a DaemonSet."""
    images, paths = spec.sources.images, cni_paths(spec)
    attachers: _Group = []
    if installs(spec, "multus"):
        attachers.append(("multus", parts.multus_daemon_set(images.multus, paths)))
    by_leaf = has_pool_files(spec)
    if installs(spec, "whereabouts"):
        daemons = programs.whereabouts_daemon_set(images.whereabouts, paths, own_path=by_leaf)
        reconciler = programs.reconciler_deployment(images.whereabouts)
        attachers += [("whereabouts", daemons), (programs.RECONCILER, reconciler)]
    attachers += [(spec.pod_network.ipam, pool_files_daemon_set(spec))] if by_leaf else []
    if installs(spec, "nv_ipam"):
        controller = programs.controller_deployment(images.nv_ipam)
        node = programs.node_daemon_set(images.nv_ipam, paths)
        attachers += [(programs.CONTROLLER, controller), (programs.NODE, node)]
    brought = (name for name in cni_programs(spec) if installs(spec, part_of_program(name)))
    return attachers + [(f"{name}-cni", _program(spec, name)) for name in brought]


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
    """The pools, and the attachments that take addresses from them."""
    pools = [(pool.rail, pool_manifest(spec, pool)) for pool in plan_pools(spec)]
    return [*pools, *link_pools(spec), *_networks(spec)]


def _networks(spec: ClusterSpec) -> _Group:
    """The attachments of jobs, unless the cluster has them; those of probes are always made."""
    ours = installs(spec, "attachments")
    if vfs_by_operator(spec):
        return sriov_networks(spec)
    if spec.rdma.transport == "infiniband":
        made = ib_sriov_attachment if spec.pod_network.mode == "sriov" else ipoib_attachment
        return [(rail.name, made(spec, rail)) for rail in ib_rails(spec) if ours]
    make = sriov_attachment if spec.pod_network.mode == "sriov" else macvlan_attachment
    return [
        (rail.name, make(spec, rail, pool))
        for rail in spec.rails
        for pool in (*([None] if ours else []), *pools_of(spec)[rail.name])
    ]
