"""Attachments of a rail: their frame and addresses, the probe's server, macvlan on shared cards.

The objects of the RDMA shared device plugin follow its own deployment (k8s-rdma-shared-dev-plugin
v1.5.3), with a pinned image.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.infiniband import IbRail
from components.model.owners import cni_paths
from components.model.places import is_flat, pod_links
from components.model.pod_network import SharedDevice
from components.pod_network.manifests import NAMESPACE, config_name, pod_of, tolerations
from components.pod_network.pools import AnyRail, pool_name
from components.pod_network.rails import Pool, pools_of, written_exclusions

CNI_VERSION: Final = "1.0.0"
Addresses = dict[str, JsonValue]
"""An object of a network configuration."""
_RESOURCE_NAME: Final = "k8s.v1.cni.cncf.io/resourceName"


def probe_network(rail: Rail, leaf: str = "") -> str:
    """Name of the attachment whose one address belongs to a rail's perftest server.

    `leaf` is the server's leaf, if the rail has several.
    """
    return "-".join((rail.network, *([leaf] if leaf else []), "probe"))


def client_address(spec: ClusterSpec, rail: Rail) -> IPv4Address:
    """Address of the perftest client with `ipam: static`: before the rail's servers."""
    (pool,) = pools_of(spec)[rail.name]
    return pool.probe - (len(spec.rails) if is_flat(spec) else 1)


def job_addresses(spec: ClusterSpec, rail: Rail) -> Addresses:
    """Address management of the attachment for jobs: all addresses that are not reserved.

    A DHCP server gives routes itself. With `static` each pod gives its own address in its
    annotation. On a rail with several leaves the attachment names a file, which on each node
    describes its leaf.
    """
    kind = spec.pod_network.ipam
    if kind == "dhcp":
        return {"type": "dhcp"}
    if kind == "nv-ipam":
        return _from_pool(spec, rail)
    if kind == "static":
        return {"type": "static"} | _routes(spec, rail.name, rail.gateway)
    if rail.leaves:
        path = cni_paths(spec).pool_config(rail.name)
        return {"type": "whereabouts", "configuration_path": path}
    (pool,) = pools_of(spec)[rail.name]
    return _whereabouts(spec, pool.network) | _job_range(pool) | _way_out(spec, pool)


def _from_pool(spec: ClusterSpec, rail: AnyRail) -> Addresses:
    """Take routes and gateway from a pool; with several leaves, a file on the node names it."""
    if isinstance(rail, Rail) and rail.leaves:
        folder = cni_paths(spec).pool_folder(rail.name)
        return {"type": "nv-ipam", "confDir": folder, "poolType": "ippool"}
    kind = "cidrpool" if rail.name in pod_links(spec) else "ippool"
    return {"type": "nv-ipam", "poolName": pool_name(spec, rail), "poolType": kind}


def pool_file(spec: ClusterSpec, rail: Rail, pool: Pool) -> str:
    """The file for the nodes of one leaf: it fills in the fields that the attachment omits.

    For nv-ipam it contains the name of a pool. whereabouts then reads only this file, so it names
    the cluster too.
    """
    if spec.pod_network.ipam == "nv-ipam":
        return json.dumps({"poolName": pool_name(spec, rail, pool.leaf)}, indent=1)
    kubeconfig: Addresses = {"kubeconfig": cni_paths(spec).whereabouts_kubeconfig}
    file: Addresses = {"kubernetes": kubeconfig, "range": str(pool.network)}
    return json.dumps(file | _job_range(pool) | _way_out(spec, pool), indent=1, sort_keys=True)


def _job_range(pool: Pool) -> Addresses:
    return {"exclude": [net for each in pool.kept for net in each.networks()]}


def server_addresses(spec: ClusterSpec, pool: Pool) -> Addresses:
    """Address management with one fixed address, which a client can know beforehand."""
    address = str(pool.probe)
    if spec.pod_network.ipam != "whereabouts":
        fixed: Addresses = {"address": f"{address}/{pool.network.prefixlen}"}
        if spec.pod_network.source_routing and pool.gateway:
            fixed["gateway"] = str(pool.gateway)
        static: Addresses = {"type": "static", "addresses": [fixed]}
        return static | _routes(spec, pool.rail, pool.gateway, pool.whole)
    return (
        _whereabouts(spec, pool.network)
        | {"range_start": address, "range_end": address}
        | _way_out(spec, pool)
    )


def named_addresses(spec: ClusterSpec, rail: Rail, pool: Pool | None) -> tuple[str, Addresses]:
    """Name and addresses of an attachment for jobs, or for the probe's server of a pool."""
    if pool is None:
        return rail.network, job_addresses(spec, rail)
    return probe_network(rail, pool.leaf), server_addresses(spec, pool)


def ipoib_addresses(spec: ClusterSpec, rail: IbRail) -> Addresses:
    """Address management of an IPoIB interface; empty if its rail has no subnet."""
    if rail.subnet is None:
        return {}
    if spec.pod_network.ipam == "nv-ipam":
        return _from_pool(spec, rail)
    if spec.pod_network.ipam == "static":
        return {"type": "static"} | _routes(spec, rail.name, None)
    exclude: list[JsonValue] = [
        net for each in written_exclusions(spec, rail.name) for net in each.networks()
    ]
    kept: Addresses = {"exclude": exclude} if exclude else {}
    return _whereabouts(spec, rail.subnet) | kept | _routes(spec, rail.name, None)


def _whereabouts(spec: ClusterSpec, subnet: IPv4Network) -> Addresses:
    return {
        "type": "whereabouts",
        "range": str(subnet),
        "configuration_path": cni_paths(spec).whereabouts_config,
    }


def _way_out(spec: ClusterSpec, pool: Pool) -> Addresses:
    """The routes of a pool; the gateway is included only for `sbr`, and creates no route."""
    own = spec.pod_network.source_routing and pool.gateway
    gateway: Addresses = {"gateway": str(pool.gateway)} if own else {}
    return gateway | _routes(spec, pool.rail, pool.gateway, pool.whole)


def _routes(
    spec: ClusterSpec, rail: str, gateway: IPv4Address | None, whole: IPv4Network | None = None
) -> Addresses:
    """The routes to other leaves, the whole rail by the gateway, and then those in the file."""
    others: list[JsonValue] = [{"dst": str(whole), "gw": str(gateway)}] if whole else []
    routes: list[JsonValue] = [
        *others,
        *(
            {"dst": str(route.to), "gw": str(route.via or gateway)}
            for route in spec.pod_network.routes
            if route.rail == rail
        ),
    ]
    return {"routes": routes} if routes else {}


def make_chain(
    spec: ClusterSpec, main: Addresses, ipam: Addresses, *, sets_mtu: bool
) -> list[Addresses]:
    """The plugin that makes an interface, and the plugins that change it afterwards.

    An interface without an address has an empty `ipam`. `sets_mtu` says that the first plugin has
    its own key for the MTU.
    """
    network = spec.pod_network
    if ipam.get("type") == "static" and "addresses" not in ipam:
        # Multus passes the address in the pod's annotation only to a plugin that declares `ips`.
        takes: JsonValue = {"ips": True}
        main = {**main, "capabilities": takes}
    # Without an MTU the pod's interface keeps the VF's MTU, which the host sets.
    own_mtu = network.mtu_bytes is not None and not sets_mtu
    tuned: Addresses = {"mtu": network.mtu_bytes} if own_mtu else {}
    if is_flat(spec):
        from components.hosts.settings import CARD_SYSCTLS  # noqa: PLC0415 - slow, for flat sites

        # The plugin replaces IFNAME with the interface's name (since CNI plugins v1.1.0).
        tuned["sysctl"] = {f"net.ipv4.conf.IFNAME.{key}": on for key, on in CARD_SYSCTLS.items()}
    chain: list[Addresses] = [{**main, "ipam": ipam}]
    if tuned:
        chain.append({"type": "tuning", **tuned})
    if network.source_routing and ipam:
        chain.append({"type": "sbr"})
    if network.rdma_isolation and main["type"] == "sriov":
        chain.append({"type": "rdma"})
    return chain


def make_attachment(
    namespace: str, name: str, plugins: list[dict[str, JsonValue]], resource: str | None = None
) -> Body:
    """Make the NetworkAttachmentDefinition of a chain of CNI plugins.

    Multus gives the first plugin a device of the `resource`.
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


PLUGIN: Final = "rdma-shared-dp-ds"
PLUGIN_CONFIG: Final = "rdma-devices"
_DEFAULT_PREFIX: Final = "rdma"


def shared_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the plugin: the resources to publish, and the cards of each."""
    entries: list[JsonValue] = [_entry(spec, device) for device in spec.pod_network.shared_devices]
    config = {"periodicUpdateInterval": spec.pod_network.periodic_update_s, "configList": entries}
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
    """The plugin on every node."""
    config = config_name(PLUGIN_CONFIG, shared_plugin_config(spec))
    labels: dict[str, JsonValue] = {"name": PLUGIN}
    pod: dict[str, JsonValue] = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        **tolerations(spec),
        **pod_of(PLUGIN, image=spec.pod_network.shared_plugin, config=config),
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


def macvlan_attachment(spec: ClusterSpec, rail: Rail, pool: Pool | None = None) -> Body:
    """The NetworkAttachmentDefinition of a rail; see `named_addresses`."""
    name, ipam = named_addresses(spec, rail, pool)
    macvlan: dict[str, JsonValue] = {
        "type": "macvlan",
        "master": rail_master(spec, rail),
        "mode": "bridge",
        "mtu": spec.pod_network.mtu_bytes or spec.rdma.mtu_bytes,
    }
    plugins = make_chain(spec, macvlan, ipam, sets_mtu=True)
    return make_attachment(spec.pod_network.namespace, name, plugins)


def rail_master(spec: ClusterSpec, rail: Rail) -> str:
    """The network device of a rail on all workers: an attachment can name only one."""
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
