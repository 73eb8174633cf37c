"""How pods connect to the rails."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, WithJsonSchema

from components.catalogue.upstream import SHARED_DEVICE_PLUGIN
from components.model import units
from components.model.hosts import NetdevName
from components.model.switch_models import PciId
from components.model.texts import form_schema, only

_DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_MAX_PREFIX: Final = 253
_PREFIX_FIX: Final = "use the device plugin's own prefix, intel.com, or a domain of yours."
_UNMAINTAINED: Final = r"registry[.-][a-z0-9.-]*aliyuncs\.com/acs/rdma-device-plugin\b"
_EXACT: Final = r".+(:v?[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*|@sha256:[0-9a-f]{64})"


ResourcePrefix = Annotated[
    str,
    only(
        lambda text: text != "kubernetes.io" and not text.endswith(".kubernetes.io"),
        '"{}" is kept by Kubernetes',
        _PREFIX_FIX,
    ),
    only(
        lambda text: len(text) <= _MAX_PREFIX and re.fullmatch(_DOMAIN, text),
        '"{}" is no DNS name',
        _PREFIX_FIX,
    ),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": _MAX_PREFIX,
            "pattern": rf"^(?!(.*\.)?kubernetes\.io$){_DOMAIN}$",
        }
    ),
]
"""A DNS name that Kubernetes does not reserve."""
SharedPlugin = Annotated[
    units.ImageName,
    only(
        lambda image: not re.search(_UNMAINTAINED, image),
        "{} is an old image whose source is not published: it cannot be maintained",
        f"use {SHARED_DEVICE_PLUGIN}, whose source is open.",
    ),
    only(
        lambda image: re.fullmatch(_EXACT, image),
        "the image {} lacks an exact version",
        f"write a release or a digest, for example {SHARED_DEVICE_PLUGIN}.",
    ),
    form_schema(rf"^(?!.*{_UNMAINTAINED})(?={_EXACT}$){units.IMAGE.removeprefix('^')}"),
]
"""The maintained plugin at an exact version. The image `acs/rdma-device-plugin` of Aliyun's
registries is years old and its source was never published, so it cannot be corrected."""
Ipam = Literal["whereabouts", "nv-ipam", "static", "dhcp"]
"""Who gives addresses to pods. The DeepOps RoCE guide uses DHCP without naming a server;
`whereabouts` and `nv-ipam` need none."""


class PodRoute(units.Frozen):
    """A network that pods reach over a rail."""

    rail: units.DnsLabel
    """The rail whose interface sends there."""
    to: units.Ipv4Net
    """The network, for example `10.10.112.0/24`."""
    via: units.Ipv4 | None = None
    """The next hop; default the rail's `gateway`."""


class Exclusion(units.Frozen):
    """Addresses of a rail that other devices use."""

    rail: units.DnsLabel
    """The rail whose subnet they are in."""
    first: units.Ipv4
    """The first excluded address."""
    last: units.Ipv4 | None = None
    """The last excluded address; default the first alone."""


class SharedDevice(units.Frozen):
    """One resource of the RDMA shared device plugin: cards that many pods use at once."""

    resource: units.ResourceName
    """Extended resource name without prefix, for example `hca_shared_devices_b`."""
    hca_max: Annotated[int, Field(ge=1, le=1000)] = 500
    """Largest number of pods on one node that share the cards (`rdmaHcaMax`)."""
    vendors: tuple[PciId, ...] = ()
    """Selector: PCI vendor ids, for example `15b3`."""
    device_ids: tuple[PciId, ...] = ()
    """Selector: PCI device ids, for example `101b` (ConnectX-6)."""
    interfaces: tuple[NetdevName, ...] = ()
    """Selector: names of network devices."""
    link_types: tuple[Literal["ether", "infiniband"], ...] = ()
    """Selector: kinds of links, as `ip link` prints them. An InfiniBand card has one only if the
    host has an IPoIB device for it."""


class PodNetwork(units.Frozen):
    """How pods connect to the rails."""

    mode: Literal["sriov", "rdma_shared", "host_device"] = "sriov"
    """`sriov`: a VF for each pod. `rdma_shared`: the host's cards, shared. `host_device`: whole
    InfiniBand HCAs, by count or one of each rail, without an interface.
    docs/reference/pod-networks.md lists the modes for each transport."""
    interface: Literal["macvlan", "ipoib", "none"] | None = None
    """With `rdma_shared`: the pod's interface on a rail. Default `macvlan` on RoCE and `none` on
    InfiniBand, whose RDMA works without addresses."""
    ipam: Ipam = "whereabouts"
    """Who gives addresses to pods. `whereabouts`: the cluster itself, from the rail's subnet.
    `nv-ipam`: the node, from its block of the rail's subnet. `dhcp`: the `dhcp_server` of each
    rail, through a daemon on every node. `static`: each pod names its own, which workers of an
    MPIJob cannot."""
    addresses_per_node: Annotated[int, Field(ge=1, le=65534)] | None = None
    """With `nv-ipam`: addresses of each rail for one node (`perNodeBlockSize`). Default with VFs:
    the first power of two that is at least twice their number; with shared cards 32. A new number
    gives every node a new block: running pods keep their addresses, which may then collide with new
    ones."""
    exclusions: tuple[Exclusion, ...] = ()
    """With `whereabouts` or `nv-ipam`: addresses that no pod gets, besides the gateway's, the
    cards' and the bandwidth test's."""
    rdma_isolation: bool = False
    """With `sriov`: a pod sees only its own RDMA devices. The hosts need
    `host_defaults.kernel.rdma_netns: exclusive`. Default: each pod sees all devices of its node,
    and opens its own."""
    routes: tuple[PodRoute, ...] = ()
    """Networks that pods reach over rails; default none but the rail's own subnet."""
    source_routing: bool = False
    """Send packets with a rail's address by that rail, from a separate table (the CNI plugin
    `sbr`)."""
    multus: Literal["install", "operator"] = "install"
    """Who brings Multus and the reference CNI plugins. `install`: Railyard, or the owner in
    `kubernetes.components`. `operator`: the network operator, by its policy."""
    resource_prefix: ResourcePrefix = "intel.com"
    """Prefix of the extended resources: `intel.com`, `rdma` or `nvidia.com`."""
    mtu_bytes: units.MtuBytes | None = None
    """MTU of the pod's interface in bytes; default `rdma.mtu_bytes`, with IPoIB the device's."""
    namespace: units.DnsLabel = "default"
    """Namespace of the NetworkAttachmentDefinitions and of the jobs."""
    host_network: bool = False
    """With `rdma_shared`: jobs run in the host's network, without a separate interface."""
    shared_devices: tuple[SharedDevice, ...] = ()
    """With `rdma_shared`: the resources that the plugin publishes."""
    shared_plugin: SharedPlugin = SHARED_DEVICE_PLUGIN
    """With `rdma_shared`: the plugin's image."""
    periodic_update_s: Annotated[int, Field(ge=0)] = 300
    """With `rdma_shared`: seconds between two searches for cards; 0 searches only once."""
    host_device_resource: units.ResourceName = "hostdev"
    """With `host_device` and without rails: name of the resource, after the prefix."""
