"""How pods get onto the rails."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import DnsLabel, Frozen, ImageName, MtuBytes

SHARED_PLUGIN = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
"""The maintained plugin; the release is the one that the facts were read from."""


class SharedDevice(Frozen):
    """One resource of the RDMA shared device plugin: cards that many pods use at once."""

    resource: str
    """Extended resource name without prefix, for example `hca_shared_devices_b`."""
    hca_max: Annotated[int, Field(ge=1, le=1000)] = 500
    """Most pods on one node that share the cards (`rdmaHcaMax`)."""
    vendors: tuple[str, ...] = ()
    """Selector: PCI vendor ids, for example `15b3`."""
    device_ids: tuple[str, ...] = ()
    """Selector: PCI device ids, for example `101b` (ConnectX-6)."""
    interfaces: tuple[str, ...] = ()
    """Selector: names of network devices."""


class PodNetwork(Frozen):
    """How a pod gets onto the rails."""

    mode: Literal["sriov", "rdma_shared", "host_device"] = "sriov"
    """`sriov`: a VF of its own. `rdma_shared`: the host's cards, shared, with a macvlan
    interface on each rail. `host_device`: whole HCAs by count, without an interface."""
    ipam: Literal["whereabouts", "dhcp"] = "whereabouts"
    """Who gives addresses to pods; `dhcp` needs a server on each rail."""
    resource_prefix: str = "intel.com"
    """Prefix of the extended resources: `intel.com`, `rdma` or `nvidia.com`."""
    mtu_bytes: MtuBytes | None = None
    """MTU of the pod's interface in bytes; default `rdma.mtu_bytes`."""
    namespace: DnsLabel = "default"
    """Namespace of the NetworkAttachmentDefinitions and of the jobs."""
    host_network: bool = False
    """With `rdma_shared`: jobs run in the host's network, without an interface of their own."""
    shared_devices: tuple[SharedDevice, ...] = ()
    """With `rdma_shared`: the resources that the plugin publishes."""
    shared_plugin: ImageName = SHARED_PLUGIN
    """With `rdma_shared`: the plugin's image."""
    periodic_update_s: Annotated[int, Field(ge=0)] = 300
    """With `rdma_shared`: seconds between two looks for cards; 0 never looks again."""
    host_device_resource: str = "hostdev"
    """With `host_device`: name of the resource, after the prefix."""
