"""How pods get onto the rails: plugins, Multus, addresses, one attachment per rail."""

from __future__ import annotations

from typing import Final, TypeAlias

from components.core.errors import SpecError
from components.core.record import record
from components.kubernetes import manifest
from components.model import owners
from components.model.cluster import ClusterSpec
from components.pod_network import manifests as parts
from components.pod_network import networks
from components.pod_network.manifests import JsonObject, config_name
from components.pod_network.matrix import refused
from components.pod_network.pools import link_pools, plan_pools, pool_manifest
from components.pod_network.rails import ib_rails, pools_of

_NAMES: Final = {"whereabouts": "rail-pools", "nv-ipam": "nv-ipam-pools"}
"""Names of the DaemonSet. The engine makes a new resource before it deletes the old one, so a site
that changes its `ipam` must not have one object under two resource names."""
_FILES: Final = {
    "whereabouts": "whereabouts.d/$rail.conf",
    "nv-ipam": "nv-ipam.d/$rail/nv-ipam.conf",
}
"""The file from which each IPAM reads its node's part of a rail, in the folder of networks."""
_ROOM = "components.pod_network"
_CONTROLLER: Final = "nv-ipam-controller"
_NODE: Final = "nv-ipam-node"
_NV_IPAM_CRDS: Final = "nv-ipam-crds-v0.4.0.json.gz"
_SHARED_CONFIG: Final = "rdma-devices"
_Group: TypeAlias = list[tuple[str, manifest.Body]]
"""Objects that may be made together, each with its component."""


def _pool_files(spec: ClusterSpec) -> tuple[manifest.Body, manifest.Body] | None:
    """The files, and the DaemonSet that writes on each node those of its leaves; None without any.

    The files are a table of all nodes, and one for each leaf of a rail. A changed text makes a new
    object of files, which replaces the pods with the old one.
    """
    key = owners.pool_files_image(spec)
    if key is None:
        return None
    ipam, found = spec.pod_network.ipam, pools_of(spec)
    pools = [(rail, pool) for rail in spec.rails for pool in found[rail.name] if pool.leaf]
    nodes = (f"{node} {pool.rail} {pool.leaf}\n" for _, pool in pools for node in pool.nodes)
    files = {"nodes": "".join(nodes)}
    files |= {
        f"{pool.rail}.{pool.leaf}.conf": networks.pool_file(spec, rail, pool)
        for rail, pool in pools
    }
    config, data = config_name(_NAMES[ipam], "\n".join(files.values())), JsonObject(files)
    words = {"of": "pool-files", "file": _FILES[ipam], "config": config}
    writer = parts.program(
        _NAMES[ipam], getattr(spec.sources.images, key), owners.cni_paths(spec), **words
    )
    return parts.config_map(config, data, immutable=True), writer


@record
class PodNetworkPlan:
    """The objects of the pod network in their order: definitions, DaemonSets, attachments."""

    manifests: tuple[manifest.Manifest, ...]


def plan_pod_network(spec: ClusterSpec) -> PodNetworkPlan:
    """Plan the pod network; without Kubernetes it is empty.

    It is also empty if the network operator's policy publishes the HCAs: then a pod gets them
    without an interface or an address. Else each pod gets its own devices, or a share of all. Whole
    HCAs need no attachment, nor do shared cards without an interface.
    """
    mode, way = spec.pod_network.mode, owners.way_of(spec)
    if spec.kubernetes is None:
        return PodNetworkPlan(())
    if cell := refused(spec, way):
        raise SpecError(f"{cell.why}. {cell.instead[:1].upper()}{cell.instead[1:]}")
    if way == "host_device" and spec.operators.network is not None:
        return PodNetworkPlan(())
    config, plugin = _device_plugin(spec, shared=mode == "rdma_shared")
    groups = [config, plugin]
    if way == "host_device":
        groups = [*_cni_check(spec), *groups, []]
    elif way not in {"host", "none"}:
        by_operator = mode == "sriov" and owners.vfs_by_operator(spec)
        policies = networks.node_policies(spec) if by_operator else []
        # The attachments take addresses from the pools.
        pools = [(pool.rail, pool_manifest(spec, pool)) for pool in plan_pools(spec)]
        attachments = [*pools, *link_pools(spec), *_networks(spec)]
        programs = [*_attachers(spec), *plugin, *policies]
        groups = [*_cni_check(spec), [*_attaching(spec), *config], programs, attachments]
    login = manifest.login_manifests(spec, "pod-network", parts.NAMESPACE, 0)
    first = int(bool(login) and owners.cni_check_image(spec) is not None)  # whose pods pull at once
    return PodNetworkPlan(
        login
        + tuple(
            manifest.make_manifest(owner, manifest.pulling(spec, body), number)
            for number, group in enumerate(groups, first)
            for owner, body in group
        )
    )


def _device_plugin(spec: ClusterSpec, *, shared: bool) -> tuple[_Group, _Group]:
    """The device plugin, after its prerequisites; empty if an operator brings its own."""
    if not owners.installs(spec, "shared_device_plugin" if shared else "sriov_device_plugin"):
        return [], []
    if shared:
        config, name = networks.shared_plugin_config(spec), "rdma-shared-dp-ds"
        settings = parts.plugin_config_map(_SHARED_CONFIG, config)
        image, named = spec.pod_network.shared_plugin, config_name(_SHARED_CONFIG, config)
        pod = parts.tolerations(spec) | parts.make(name, image=image, config=named)
        return [(name, settings)], [(name, parts.make("shared-plugin", pod=pod))]
    config, prefix = networks.function_plugin_config(spec), spec.pod_network.resource_prefix
    foundation: _Group = [
        ("sriov-device-plugin", parts.make("account", name="sriov-device-plugin")),
        ("sriov-device-plugin", parts.plugin_config_map(parts.PLUGIN_CONFIG, config)),
    ]
    words = {"prefix": prefix, "config": config_name(parts.PLUGIN_CONFIG, config)}
    image = spec.sources.images.sriov_device_plugin
    plugin = parts.program("sriov-device-plugin", image, owners.cni_paths(spec), **words)
    return foundation, [("sriov-device-plugin", plugin)]


def _cni_check(spec: ClusterSpec) -> tuple[_Group, ...]:
    """Check every node of a cluster that is not our K3s, before anything is installed."""
    key = owners.cni_check_image(spec)
    if key is None:
        return ()
    image = getattr(spec.sources.images, key)
    return ([("cni-folders", parts.program("cni-folders", image, owners.cni_paths(spec)))],)


def _attaching(spec: ClusterSpec) -> _Group:
    """Multus and whereabouts, unless the cluster has them: definitions and permissions."""
    found: _Group = []
    if owners.installs(spec, "multus") and spec.operators.network is None:
        # The network operator's chart brings the same definition, and upgrades it.
        found += [
            ("multus", body) for body in manifest.load_vendored(_ROOM, "multus-crd-v4.3.0.json.gz")
        ]
    if owners.installs(spec, "whereabouts"):
        crds = manifest.load_vendored(_ROOM, "whereabouts-crds-v0.9.4.json.gz")
        found += [("whereabouts", body) for body in crds]
    if owners.installs(spec, "multus"):
        found += parts.permissions("multus")
    if owners.installs(spec, "whereabouts"):
        found += parts.permissions("whereabouts")
        schedule = parts.config_map(parts.RECONCILED, {"cron-expression": parts.SCHEDULE})
        found.append(("whereabouts", schedule))
    if owners.installs(spec, "nv_ipam"):
        found += [("nv-ipam", body) for body in manifest.load_vendored(_ROOM, _NV_IPAM_CRDS)]
        found += [*parts.permissions(_CONTROLLER), *parts.permissions(_NODE)]
    if files := _pool_files(spec):
        found.append((spec.pod_network.ipam, files[0]))
    return found


def _attachers(spec: ClusterSpec) -> _Group:
    """The programs in the attachments, each installed by a DaemonSet."""
    images, paths, files = spec.sources.images, owners.cni_paths(spec), _pool_files(spec)
    attachers: _Group = []
    if owners.installs(spec, "multus"):
        attachers.append(("multus", parts.program("multus", images.multus, paths)))
    if owners.installs(spec, "whereabouts"):
        daemons = parts.whereabouts(images.whereabouts, paths, own_path=files is not None)
        # Two would do the work twice, since neither leads: an update ends the old one first.
        reconciler = parts.deployment(parts.RECONCILER, images.whereabouts, strategy="Recreate")
        attachers += [("whereabouts", daemons), (parts.RECONCILER, reconciler)]
    attachers += [(spec.pod_network.ipam, files[1])] if files else []
    if owners.installs(spec, "nv_ipam"):
        node = parts.make(_NODE, image=images.nv_ipam, paths=paths)
        attachers.append((_CONTROLLER, parts.deployment(_CONTROLLER, images.nv_ipam)))
        attachers.append((_NODE, parts.daemon_set(_NODE, node, host_network=False)))
    own = {
        "sriov": images.sriov_cni,
        "ib-sriov": images.ib_sriov_cni,
        "ipoib": images.ipoib_cni,
        "rdma": images.rdma_cni,
    }
    for name in owners.cni_programs(spec):
        if not owners.installs(spec, owners.part_of_program(name)):
            continue
        title = f"{name}-cni"
        if name in own:
            of = "sriov-cni" if name == "sriov" else "cni"
            attachers.append((title, parts.program(title, own[name], paths, of=of)))
        else:
            keep = spec.k3s is None and name not in {"macvlan", "tuning"}
            attachers.append(
                (title, parts.reference_cni(name, images.cni_plugins, paths, keep=keep))
            )
    return attachers


def _networks(spec: ClusterSpec) -> _Group:
    """The attachments of jobs, unless the cluster has them; those of probes are always made."""
    ours = owners.installs(spec, "attachments")
    if owners.vfs_by_operator(spec):
        return [
            (each[0].name, networks.sriov_network(spec, *each))
            for each in networks.rail_chains(spec)
        ]
    if spec.pod_network.mode == "sriov":
        return [
            (rail.name, networks.make_attachment(spec, name, chain, rail.resource))
            for rail, name, chain in networks.rail_chains(spec, jobs=ours)
        ]
    if spec.rdma.transport == "infiniband":
        return [
            (rail.name, networks.ipoib_attachment(spec, rail)) for rail in ib_rails(spec) if ours
        ]
    return [
        (rail.name, body)
        for rail in spec.rails
        for body in networks.macvlan_attachments(spec, rail, jobs=ours)
    ]
