"""VFs as resources of nodes, and attachments of pods: SR-IOV, InfiniBand, and the SR-IOV operator.

Sources: README of sriov-network-device-plugin v3.11.0 and the configuration reference of sriov-cni
v2.10.0; README and source of ib-sriov-cni v1.3.0 and ipoib-cni v1.2.2; the definitions of network
operator v26.4.1 and the source of sriov-network-operator v1.6.0 (lab/sources.md#pod-network,
#operators).

The plugin reads `isRdma` only inside of `selectors`; elsewhere it ignores the key, and the pod gets
no `/dev/infiniband`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.infiniband import IbRail
from components.model.owners import guids_by_pods, vfs_by_operator
from components.model.places import pod_links
from components.pod_network.attachment import MELLANOX
from components.pod_network.networks import (
    ipoib_addresses,
    make_attachment,
    make_chain,
    named_addresses,
)
from components.pod_network.pools import NETWORK_NAMESPACE, AnyRail
from components.pod_network.rails import Pool, ib_rails, pools_of, rail_ports


def device_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the device plugin: one resource per rail, or one shared by all rails.

    All nodes have the same configuration, so a PF name must not mean different rails on different
    hosts.
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
                    "SR-IOV device plugin selects by the same PF names on all nodes. Give one "
                    "rail's PFs one name on every host (systemd .link files by PCI path)"
                )


def _resource(spec: ClusterSpec, name: str, rails: Collection[str]) -> JsonValue:
    nics = [nic for host in spec.workers for nic in host.nics if nic.rail in rails]
    # 101e is the VF of several models: `pfNames` tell the rails apart.
    devices = {nic.vf_device for nic in nics}
    known = sorted(device for device in devices if device is not None)
    # A card with an unknown VF id is selected only by its name.
    chosen: dict[str, JsonValue] = {"devices": [*known]} if None not in devices else {}
    names = sorted({nic.netdev for nic in nics})
    return {
        "resourceName": name,
        "resourcePrefix": spec.pod_network.resource_prefix,
        "selectors": [{"vendors": [MELLANOX], **chosen, "pfNames": [*names], "isRdma": True}],
    }


def sriov_attachment(spec: ClusterSpec, rail: Rail, pool: Pool | None = None) -> Body:
    """The NetworkAttachmentDefinition of a rail; see `named_addresses`."""
    name, ipam = named_addresses(spec, rail, pool)
    resource = f"{spec.pod_network.resource_prefix}/{rail.resource}"
    chain = sriov_chain(spec, rail, ipam)
    return make_attachment(spec.pod_network.namespace, name, chain, resource)


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


def ib_device_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the SR-IOV device plugin: one resource for each rail of the fabric.

    It selects by PCI address, and not by link type: the plugin knows the link type only of network
    devices, and an HCA without IPoIB does not have one. VFs are selected by their PF in
    `rootDevices`; a whole HCA is selected in `pciAddresses`. A PCI address must not mean different
    rails on different hosts, since all nodes have the same configuration.
    """
    key = "rootDevices" if spec.pod_network.mode == "sriov" else "pciAddresses"
    owners: dict[str, str] = {}
    resources: list[JsonValue] = []
    for rail in ib_rails(spec):
        ports = {port.pci for host in spec.workers for port in rail_ports(host, rail)}
        for pci in ports:
            if owners.setdefault(pci, rail.name) != rail.name:
                raise SpecError(
                    f"{pci} is {owners[pci]} on one host and {rail.name} on another: the device "
                    "plugin selects by PCI address on all nodes alike. Number the rails by slot"
                )
        selector: dict[str, JsonValue] = {
            "vendors": [MELLANOX],
            key: [*sorted(ports)],
            "isRdma": True,
        }
        resources.append(
            {
                "resourceName": rail.resource,
                "resourcePrefix": spec.pod_network.resource_prefix,
                "selectors": [selector],
            }
        )
    return json.dumps({"resourceList": resources}, indent=1, sort_keys=True) + "\n"


def function_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the SR-IOV device plugin on either fabric."""
    if spec.rdma.transport == "infiniband":
        return ib_device_plugin_config(spec)
    return device_plugin_config(spec)


def ib_sriov_chain(spec: ClusterSpec, rail: IbRail) -> list[dict[str, JsonValue]]:
    """The plugins that move a VF of a rail into a pod.

    The VF keeps the GUID from the host, and its partitions follow from the GUID. The plugin does
    not set a partition key: ib-kubernetes reads `pkey`, gives the pod a GUID and registers it with
    UFM before the plugin goes on.
    """
    main: dict[str, JsonValue] = {"type": "ib-sriov", "link_state": "enable"}
    fabric = spec.infiniband
    partitions = {each.name: each.pkey for each in fabric.partitions} if fabric else {}
    if rail.partition is not None and guids_by_pods(spec):
        main |= {"pkey": f"0x{partitions[rail.partition]:04x}", "ibKubernetesEnabled": True}
    if spec.pod_network.rdma_isolation:
        main["rdmaIsolation"] = True
    return make_chain(spec, main, ipoib_addresses(spec, rail), sets_mtu=False)


def ib_sriov_attachment(spec: ClusterSpec, rail: IbRail) -> Body:
    """The attachment that moves a VF into a pod."""
    plugins = ib_sriov_chain(spec, rail)
    resource = f"{spec.pod_network.resource_prefix}/{rail.resource}"
    return make_attachment(spec.pod_network.namespace, rail.network, plugins, resource)


def ipoib_attachment(spec: ClusterSpec, rail: IbRail) -> Body:
    """The attachment that makes an IPoIB interface in the partition of the host's own."""
    if rail.interface is None:
        raise SpecError(
            f"{rail.name} names no interface, and the pods' IPoIB interfaces are made on it. "
            "Write interface: with the name of the HCA's IPoIB device, as `ip link` shows it"
        )
    main: dict[str, JsonValue] = {"type": "ipoib", "master": rail.interface}
    # v1.2.2 lacks a key for the MTU: pkg/types/types.go of that tag only reads `master`.
    plugins = make_chain(spec, main, ipoib_addresses(spec, rail), sets_mtu=False)
    return make_attachment(spec.pod_network.namespace, rail.network, plugins)


_API = "sriovnetwork.openshift.io/v1"
_LABELS = "vfs.railyard.dev"
_PRIORITY = 90
"""As in the operator's examples; 0 is the highest, and 99 the default."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A port of a worker whose VFs belong to a rail."""

    pci: str
    vfs: int
    mtu_bytes: int | None
    """None on InfiniBand, whose subnet determines it."""


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
    """A SriovNetworkNodePolicy for each rail and number of VFs, with the rail's name.

    It selects by root device and never only by vendor, which would take storage and management
    ports too.
    """
    return [
        (rail.name, _policy(spec, rail, named, ports))
        for rail in _rails(spec)
        for named, ports in _groups(spec, rail).items()
    ]


def _groups(spec: ClusterSpec, rail: AnyRail) -> dict[str, list[_Function]]:
    groups: dict[str, list[_Function]] = {}
    for host in spec.workers:
        for port in _ports(spec, host, rail):
            if port.vfs:
                groups.setdefault(_named(port), []).append(port)
    return groups


def _policy(spec: ClusterSpec, rail: AnyRail, named: str, ports: list[_Function]) -> Body:
    first = ports[0]
    infiniband = spec.rdma.transport == "infiniband"
    mtu: Body = {} if first.mtu_bytes is None else {"mtu": first.mtu_bytes}
    roots: list[JsonValue] = [*sorted({port.pci for port in ports})]
    return {
        "apiVersion": _API,
        "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": f"{rail.name}-{named}", "namespace": NETWORK_NAMESPACE},
        "spec": {
            "resourceName": rail.resource,
            "nodeSelector": {f"{_LABELS}/{rail.name}": named},
            "nicSelector": {"vendor": MELLANOX, "rootDevices": roots},
            "numVfs": first.vfs,
            **mtu,
            "linkType": "ib" if infiniband else "eth",
            "deviceType": "netdevice",
            "isRdma": True,
            "priority": _PRIORITY,
        },
    }


def sriov_networks(spec: ClusterSpec) -> list[tuple[str, Body]]:
    """The networks from which the operator makes attachments, with the names of their rails."""
    made: list[tuple[str, Body]] = []
    if spec.rdma.transport == "infiniband":
        for rail in ib_rails(spec):
            chain = ib_sriov_chain(spec, rail)
            made.append((rail.name, _network(spec, "SriovIBNetwork", rail, rail.network, chain)))
        return made
    for rail in spec.rails:
        for pool in (None, *pools_of(spec)[rail.name]):
            name, ipam = named_addresses(spec, rail, pool)
            chain = sriov_chain(spec, rail, ipam)
            made.append((rail.name, _network(spec, "SriovNetwork", rail, name, chain)))
    return made


def _network(
    spec: ClusterSpec, kind: str, rail: AnyRail, name: str, chain: list[dict[str, JsonValue]]
) -> Body:
    """One network: the operator writes the first plugin from its fields, and adds the others."""
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
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, "namespace": NETWORK_NAMESPACE},
        "spec": wanted,
    }
