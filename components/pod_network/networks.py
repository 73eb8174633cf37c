"""Attachments of rails, their addresses, and the devices that plugins publish.

Sources: README of sriov-network-device-plugin v3.11.0 and the configuration reference of sriov-cni
v2.10.0; README and source of ib-sriov-cni v1.3.0 and ipoib-cni v1.2.2; k8s-rdma-shared-dev-plugin
v1.5.3; the definitions of network operator v26.4.1 and the source of sriov-network-operator v1.6.0
(lab/sources.md#pod-network, #operators).

The SR-IOV plugin reads `isRdma` only inside of `selectors`; elsewhere it ignores the key, and the
pod gets no `/dev/infiniband`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final, NamedTuple

from pydantic import JsonValue

from components.core.errors import SpecError
from components.core.templates import fault_text
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.infiniband import IbRail
from components.model.owners import cni_paths, guids_by_pods, vfs_by_operator
from components.model.places import is_flat, pod_links
from components.pod_network.attachment import MELLANOX
from components.pod_network.manifests import make
from components.pod_network.pools import AnyRail, pool_name
from components.pod_network.rails import Pool, ib_rails, pools_of, rail_ports, written_exclusions

CNI_VERSION: Final = "1.0.0"
Addresses = dict[str, JsonValue]
"""An object of a network configuration."""
_DEFAULT_PREFIX: Final = "rdma"
_LABELS = "vfs.railyard.dev"


def probe_network(rail: Rail, leaf: str = "") -> str:
    """Name of the attachment of a rail's perftest server; on a rail with several, of its leaf."""
    return "-".join((rail.network, *([leaf] if leaf else []), "probe"))


def client_address(spec: ClusterSpec, rail: Rail) -> IPv4Address:
    """Address of the perftest client with `ipam: static`: before the rail's servers."""
    (pool,) = pools_of(spec)[rail.name]
    return pool.probe - (len(spec.rails) if is_flat(spec) else 1)


def _job_addresses(spec: ClusterSpec, rail: Rail) -> Addresses:
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
        path = f"{cni_paths(spec).net_d}/whereabouts.d/{rail.name}.conf"
        return {"type": "whereabouts", "configuration_path": path}
    (pool,) = pools_of(spec)[rail.name]
    return _whereabouts(spec, pool.network) | _range_and_routes(spec, pool)


def _from_pool(spec: ClusterSpec, rail: AnyRail) -> Addresses:
    """Take routes and gateway from a pool; with several leaves, a file on the node names it."""
    if isinstance(rail, Rail) and rail.leaves:
        folder = f"{cni_paths(spec).net_d}/nv-ipam.d/{rail.name}"  # it reads one name there
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
    path = f"{cni_paths(spec).net_d}/whereabouts.d/whereabouts.kubeconfig"
    file: Addresses = {"kubernetes": {"kubeconfig": path}, "range": str(pool.network)}
    return json.dumps(file | _range_and_routes(spec, pool), indent=1, sort_keys=True)


def _range_and_routes(spec: ClusterSpec, pool: Pool) -> Addresses:
    kept = [net for each in pool.kept for net in each.networks()]
    return {"exclude": [*kept], **_way_out(spec, pool)}


def _rail_addresses(
    spec: ClusterSpec, rail: Rail, *, jobs: bool = True
) -> Iterator[tuple[str, Addresses]]:
    """Name and addresses of each attachment of a rail: for jobs, and for the servers of probes."""
    if jobs:
        yield rail.network, _job_addresses(spec, rail)
    for pool in pools_of(spec)[rail.name]:
        # A server has one fixed address, which a client can know beforehand.
        name, address = probe_network(rail, pool.leaf), str(pool.probe)
        if spec.pod_network.ipam == "whereabouts":
            only: Addresses = {"range_start": address, "range_end": address}
            yield name, _whereabouts(spec, pool.network) | only | _way_out(spec, pool)
            continue
        fixed: Addresses = {"address": f"{address}/{pool.network.prefixlen}"}
        if spec.pod_network.source_routing and pool.gateway:
            fixed["gateway"] = str(pool.gateway)
        static: Addresses = {"type": "static", "addresses": [fixed]}
        yield name, static | _routes(spec, pool.rail, pool.gateway, pool.whole)


def _ipoib_addresses(spec: ClusterSpec, rail: IbRail) -> Addresses:
    """Address management of an IPoIB interface; empty if its rail has no subnet."""
    if rail.subnet is None:
        return {}
    if spec.pod_network.ipam == "nv-ipam":
        return _from_pool(spec, rail)
    if spec.pod_network.ipam == "static":
        return {"type": "static"} | _routes(spec, rail.name, None)
    nets = [net for each in written_exclusions(spec, rail.name) for net in each.networks()]
    kept: Addresses = {"exclude": [*nets]} if nets else {}
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
    own = (each for each in spec.pod_network.routes if each.rail == rail)
    ways = [(whole, gateway)] if whole else []
    ways += [(each.to, each.via or gateway) for each in own]
    routes: list[JsonValue] = [{"dst": str(to), "gw": str(via)} for to, via in ways]
    return {"routes": routes} if routes else {}


def _make_chain(
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
    spec: ClusterSpec, name: str, plugins: list[Addresses], resource: str | None = None
) -> Body:
    """Make the attachment of a chain of plugins; `resource` gives the first one a device."""
    head: Addresses = {"cniVersion": CNI_VERSION, "name": name}
    config = head | (plugins[0] if len(plugins) == 1 else {"plugins": [*plugins]})
    device = f"{spec.pod_network.resource_prefix}/{resource}"
    return make(
        "attachment",
        name=name,
        namespace=spec.pod_network.namespace,
        annotations=resource and {"k8s.v1.cni.cncf.io/resourceName": device},
        config=json.dumps(config, indent=1, sort_keys=True),
    )


def shared_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the plugin: the resources to publish, and the cards of each."""
    network, entries = spec.pod_network, list[JsonValue]()
    prefix = network.resource_prefix
    for device in network.shared_devices:
        lists = {
            "vendors": device.vendors,
            "deviceIDs": device.device_ids,
            "ifNames": device.interfaces,
            "linkTypes": device.link_types,
        }
        entry: JsonValue = {
            "resourceName": device.resource,
            "rdmaHcaMax": device.hca_max,
            "selectors": {key: [*values] for key, values in lists.items() if values},
            **({} if prefix == _DEFAULT_PREFIX else {"resourcePrefix": prefix}),
        }
        entries.append(entry)
    config = {"periodicUpdateInterval": network.periodic_update_s, "configList": entries}
    return json.dumps(config, indent=1) + "\n"


def macvlan_attachments(spec: ClusterSpec, rail: Rail, *, jobs: bool = True) -> list[Body]:
    """The NetworkAttachmentDefinitions of a rail; SpecError if its cards have several names."""
    names = {
        nic.netdev: host.name
        for host in reversed(spec.workers)
        for nic in host.nics
        if nic.rail == rail.name
    }
    if len(names) != 1:
        found = ", ".join(f"{netdev} on {host}" for netdev, host in sorted(names.items()))
        words = {"rail": rail.name, "found": found or "missing"}
        raise SpecError(fault_text(__file__, "several-names", **words))
    macvlan: Addresses = {
        "type": "macvlan",
        "master": next(iter(names)),
        "mode": "bridge",
        "mtu": spec.pod_network.mtu_bytes or spec.rdma.mtu_bytes,
    }
    return [
        make_attachment(spec, name, _make_chain(spec, macvlan, ipam, sets_mtu=True))
        for name, ipam in _rail_addresses(spec, rail, jobs=jobs)
    ]


def function_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the SR-IOV device plugin: the resources to publish, and the devices of each.

    All nodes have the same configuration, so a name or an address of a device must not mean
    different rails on different hosts.
    """
    chosen = _ib_devices(spec) if spec.rdma.transport == "infiniband" else _devices(spec)
    prefix = spec.pod_network.resource_prefix
    resources: list[JsonValue] = [
        {
            "resourceName": name,
            "resourcePrefix": prefix,
            "selectors": [{"vendors": [MELLANOX], **selector, "isRdma": True}],
        }
        for name, selector in chosen
    ]
    return json.dumps({"resourceList": resources}, indent=1, sort_keys=True) + "\n"


def _devices(spec: ClusterSpec) -> Iterator[tuple[str, Body]]:
    """The PFs of each resource: one resource per rail, or one shared by all rails."""
    owners: dict[str, str] = {}
    for host in spec.workers:
        for nic in host.nics:
            rail = owners.setdefault(nic.netdev, nic.rail)
            if rail != nic.rail:
                words = {"nic": nic, "host": host.name, "rail": rail}
                raise SpecError(fault_text(__file__, "one-name-two-rails", **words))
    for name in dict.fromkeys(rail.resource for rail in spec.rails):
        rails = {each.name for each in spec.rails if each.resource == name}
        nics = [nic for host in spec.workers for nic in host.nics if nic.rail in rails]
        # 101e is the VF of several models: `pfNames` tell the rails apart.
        known = sorted({nic.vf_device for nic in nics if nic.vf_device is not None})
        # A card with an unknown VF id is selected only by its name.
        is_known = all(nic.vf_device is not None for nic in nics)
        chosen: Body = {"devices": [*known]} if is_known else {}
        yield name, {**chosen, "pfNames": [*sorted({nic.netdev for nic in nics})]}


def _ib_devices(spec: ClusterSpec) -> Iterator[tuple[str, Body]]:
    """The HCAs of each rail by PCI address: the plugin sees no link type of an HCA without IPoIB.

    VFs are selected by their PF in `rootDevices`; a whole HCA is selected in `pciAddresses`.
    """
    key = "rootDevices" if spec.pod_network.mode == "sriov" else "pciAddresses"
    owners: dict[str, str] = {}
    for rail in ib_rails(spec):
        ports = {port.pci for host in spec.workers for port in rail_ports(host, rail)}
        for pci in ports:
            if owners.setdefault(pci, rail.name) != rail.name:
                words = {"pci": pci, "one": owners[pci], "rail": rail.name}
                raise SpecError(fault_text(__file__, "one-slot-two-rails", **words))
        yield rail.resource, {key: [*sorted(ports)]}


def rail_chains(
    spec: ClusterSpec, *, jobs: bool = True
) -> Iterator[tuple[AnyRail, str, list[Addresses]]]:
    """Rail, name and plugins of each SR-IOV attachment: of probes' servers and, if asked, jobs."""
    fabric = spec.infiniband
    partitions = {each.name: each.pkey for each in fabric.partitions} if fabric else {}
    for rail in ib_rails(spec) if jobs and spec.rdma.transport == "infiniband" else ():
        # The VF keeps the GUID from the host, and its partitions follow from the GUID. The plugin
        # does not set a partition key: ib-kubernetes reads `pkey`, gives the pod a GUID and
        # registers it with UFM before the plugin goes on.
        main: Addresses = {"type": "ib-sriov", "link_state": "enable"}
        if rail.partition is not None and guids_by_pods(spec):
            main |= {"pkey": f"0x{partitions[rail.partition]:04x}", "ibKubernetesEnabled": True}
        if spec.pod_network.rdma_isolation:
            main["rdmaIsolation"] = True
        chain = _make_chain(spec, main, _ipoib_addresses(spec, rail), sets_mtu=False)
        yield rail, rail.network, chain
    for rail in spec.rails if spec.rdma.transport != "infiniband" else ():
        sriov: Addresses = {
            "type": "sriov",
            # No vlanQoS: the DSCP alone decides the priority, at every hop, tagged or routed.
            # A routed port takes no tag: 0 is none (sriov-cni v2.10.0, configuration reference).
            "vlan": 0 if rail.name in pod_links(spec) else rail.vlan,
            "spoofchk": "off",
            "trust": "on",
        }
        for name, ipam in _rail_addresses(spec, rail, jobs=jobs):
            yield rail, name, _make_chain(spec, sriov, ipam, sets_mtu=False)


def ipoib_attachment(spec: ClusterSpec, rail: IbRail) -> Body:
    """The attachment that makes an IPoIB interface in the partition of the host's own."""
    if rail.interface is None:
        raise SpecError(fault_text(__file__, "no-interface", rail=rail.name))
    main: dict[str, JsonValue] = {"type": "ipoib", "master": rail.interface}
    # v1.2.2 lacks a key for the MTU: pkg/types/types.go of that tag only reads `master`.
    plugins = _make_chain(spec, main, _ipoib_addresses(spec, rail), sets_mtu=False)
    return make_attachment(spec, rail.network, plugins)


class _Function(NamedTuple):
    """A port of a worker whose VFs belong to a rail; no MTU on InfiniBand, whose subnet has it."""

    pci: str
    vfs: int
    mtu_bytes: int | None


def _ports(spec: ClusterSpec, host: Host, rail: AnyRail) -> Iterator[_Function]:
    if not isinstance(rail, Rail):
        yield from (_Function(port.pci, port.vfs, None) for port in rail_ports(host, rail))
        return
    for nic in host.nics:
        if nic.rail == rail.name:
            yield _Function(nic.pci, nic.vfs, nic.mtu_bytes or spec.rdma.mtu_bytes)


def _rails(spec: ClusterSpec) -> tuple[AnyRail, ...]:
    return ib_rails(spec) if spec.rdma.transport == "infiniband" else spec.rails


def _named(port: _Function) -> str:
    """The selector that ports of one policy share."""
    return str(port.vfs) if port.mtu_bytes is None else f"{port.vfs}-{port.mtu_bytes}"


def vf_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels by which the policies find a node: its number of VFs on each rail."""
    if host.role != "worker" or not vfs_by_operator(spec):
        return {}
    return {
        f"{_LABELS}/{rail.name}": _named(port)
        for rail in _rails(spec)
        for port in _ports(spec, host, rail)
        if port.vfs
    }


def node_policies(spec: ClusterSpec) -> list[tuple[str, Body]]:
    """A SriovNetworkNodePolicy for each rail and number of VFs, with the rail's name."""
    found: list[tuple[str, Body]] = []
    for rail in _rails(spec):
        groups: dict[str, list[_Function]] = {}
        for port in (each for host in spec.workers for each in _ports(spec, host, rail)):
            if port.vfs:
                groups.setdefault(_named(port), []).append(port)
        for named, ports in groups.items():
            policy = make(
                "node-policy", name=f"{rail.name}-{named}", resource=rail.resource,
                nodes={f"{_LABELS}/{rail.name}": named},
                roots=sorted({port.pci for port in ports}),
                vfs=ports[0].vfs, mtu=ports[0].mtu_bytes,
                link="ib" if spec.rdma.transport == "infiniband" else "eth",
            )  # fmt: skip
            found.append((rail.name, policy))
    return found


def sriov_network(spec: ClusterSpec, rail: AnyRail, name: str, chain: list[Addresses]) -> Body:
    """A network: the operator writes the first plugin from its fields, and adds the others."""
    main, *others = chain
    if main.get("rdmaIsolation"):  # a SriovIBNetwork lacks a field for it
        others.append({"type": "rdma"})
    wanted: Body = {"resourceName": rail.resource, "networkNamespace": spec.pod_network.namespace}
    fields = {"vlan": "vlan", "spoofchk": "spoofChk", "trust": "trust", "link_state": "linkState"}
    wanted |= {fields[key]: main[key] for key in fields if key in main}
    if main.get("ipam"):
        wanted["ipam"] = json.dumps(main["ipam"], sort_keys=True)
    if capabilities := main.get("capabilities"):
        wanted["capabilities"] = json.dumps(capabilities)
    if others:
        wanted["metaPlugins"] = ",".join(json.dumps(each, sort_keys=True) for each in others)
    kind = "SriovNetwork" if isinstance(rail, Rail) else "SriovIBNetwork"
    return make("network", kind=kind, name=name, spec=wanted)
