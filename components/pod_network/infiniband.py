"""Pods on InfiniBand: a resource for each rail, VFs, and IPoIB interfaces on shared HCAs.

Sources: README and source of ib-sriov-cni v1.3.0, ipoib-cni v1.2.2 and sriov-network-device-plugin
v3.11.0 (docs/explanation/sources.md#pod-network).
"""

from __future__ import annotations

import json

from pydantic import JsonValue

from components.core.errors import SpecError
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbRail
from components.model.owners import guids_by_pods
from components.pod_network.attachment import MELLANOX
from components.pod_network.ib_rails import ib_rails, rail_ports
from components.pod_network.networks import ipoib_addresses, make_attachment, make_chain
from components.pod_network.sriov import device_plugin_config


def ib_device_plugin_config(spec: ClusterSpec) -> str:
    """`config.json` of the SR-IOV device plugin: one resource for each rail of the fabric.

    By PCI address, and not by link type: the plugin knows that of a network device alone, which an
    HCA without IPoIB has not. VFs are those of a `rootDevices`; a whole HCA has no root, and is in
    `pciAddresses`.

    Raises:
        SpecError: One PCI address is different rails on different hosts; the plugin's
            configuration is the same on all nodes.
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
    """`config.json` of the SR-IOV device plugin on either fabric.

    Raises:
        SpecError: See `ib_device_plugin_config`.
    """
    if spec.rdma.transport == "infiniband":
        return ib_device_plugin_config(spec)
    return device_plugin_config(spec)


def ib_sriov_chain(spec: ClusterSpec, rail: IbRail) -> list[dict[str, JsonValue]]:
    """The plugins that move a VF of a rail into a pod.

    Its GUID is the one that it has on the host, and its partitions are those of its GUID. The
    plugin sets no partition key by itself: `pkey` is read by ib-kubernetes, which gives the pod a
    GUID and tells UFM of it before the plugin goes on.
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
    # v1.2.2 has no key for the MTU: pkg/types/types.go of that tag reads `master` alone.
    plugins = make_chain(spec, main, ipoib_addresses(spec, rail), sets_mtu=False)
    return make_attachment(spec.pod_network.namespace, rail.network, plugins)
