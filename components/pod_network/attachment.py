"""The requests of a pod that joins the rails, and the offers of its node: one place for all modes.

Jobs and acceptance use this module, which keeps their requests equal to the published resources.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Final

from components.core.errors import SpecError
from components.core.record import record
from components.core.templates import fault_text
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host, Nic
from components.model.owners import owners_of, way_of
from components.model.places import pod_links
from components.model.pod_network import SharedDevice
from components.pod_network.rails import ib_rails, pool_of, rail_ports

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
"""The pod annotation that Multus reads."""
GPU: Final = "nvidia.com/gpu"
MELLANOX: Final = "15b3"


@record
class PodAttachment:
    """The parts of a pod with RDMA besides its containers; without GPUs."""

    resources: Mapping[str, int]
    """Extended resources to put into the container's limits."""
    annotations: Mapping[str, str]
    """Annotations of the pod: the networks to attach."""
    host_network: bool
    """The pod runs in the host's network, and uses the rails there."""


def pod_attachment(spec: ClusterSpec, rails: tuple[Rail, ...] | None = None) -> PodAttachment:
    """The parts that a worker needs on some rails; default all.

    InfiniBand is never split: every HCA of a node, by count, one of each rail, or shared.
    """
    if spec.rdma.transport != "infiniband":
        rails = spec.rails if rails is None else rails
        return _on_rails(spec, rails, ",".join(rail.network for rail in rails))
    way, network = way_of(spec), spec.pod_network
    if way == "host_device" and not ib_rails(spec):
        return PodAttachment({host_device_resource(spec): hca_count(spec)}, {}, host_network=False)
    shared = network.mode == "rdma_shared"
    names = [each.resource for each in (network.shared_devices if shared else ib_rails(spec))]
    resources = {f"{network.resource_prefix}/{name}": 1 for name in names}
    attached = way in {"sriov", "ipoib"} and ib_rails(spec)
    networks = ",".join(rail.network for rail in ib_rails(spec))
    return PodAttachment(resources, {NETWORKS: networks} if attached else {}, way == "host")


def rail_attachment(spec: ClusterSpec, rail: Rail, *, server: Host | None = None) -> PodAttachment:
    """The parts that a pod on one rail needs.

    `server`: the worker of a pod with one address that clients know beforehand; None for others.
    """
    from components.pod_network.networks import (  # noqa: PLC0415 - slow, and no rule needs it
        client_address,
        probe_network,
    )

    if spec.pod_network.ipam == "static" and server is None:
        address = f"{client_address(spec, rail)}/{rail.subnet.prefixlen}"
        return _on_rails(spec, (rail,), json.dumps([{"name": rail.network, "ips": [address]}]))
    if server is None or rail.name in pod_links(spec):
        return _on_rails(spec, (rail,), rail.network)
    return _on_rails(spec, (rail,), probe_network(rail, pool_of(spec, rail, server).leaf))


def server_address(spec: ClusterSpec, rail: Rail, host: Host) -> str:
    """The address at which clients reach a server pod of `rail_attachment` on a host."""
    if rail.name in pod_links(spec):
        return str(pod_links(spec)[rail.name][host.name])
    if not spec.pod_network.host_network:
        return str(pool_of(spec, rail, host).probe)
    address = next((nic.address for nic in host.nics if nic.rail == rail.name), None)
    if address is None:
        words = {"host": host.name, "rail": rail.name}
        raise SpecError(fault_text(__file__, "no-address", **words))
    return address


def _on_rails(spec: ClusterSpec, rails: tuple[Rail, ...], networks: str) -> PodAttachment:
    network = spec.pod_network
    # A pod gets one VF for each rail; one unit of shared cards gives it all rails.
    counts = Counter(f"{network.resource_prefix}/{rail.resource}" for rail in rails)
    resources = {name: n if network.mode == "sriov" else 1 for name, n in counts.items()}
    if network.mode == "rdma_shared" and network.host_network:
        return PodAttachment(resources, {}, host_network=True)
    return PodAttachment(resources, {NETWORKS: networks}, host_network=False)


def host_device_resource(spec: ClusterSpec) -> str:
    """The resource that counts whole HCAs, for example `nvidia.com/hostdev`."""
    return f"{spec.pod_network.resource_prefix}/{spec.pod_network.host_device_resource}"


def hca_count(spec: ClusterSpec) -> int:
    """HCAs of one worker: as the cloud's fabric says, else the greatest number of any worker."""
    if spec.cloud is not None:
        return spec.cloud.fabric.hcas
    return max((_hcas_of(host) for host in spec.workers), default=0)


def _hcas_of(host: Host) -> int:
    return host.hcas or len(host.nics)


def takes_nic(device: SharedDevice, nic: Nic) -> bool:
    """Whether a resource of the shared plugin takes an Ethernet card.

    One value of a list must match, in every given list; without any list it takes nothing (the
    plugin's README, "Devices Selectors").
    """
    facts = (
        (device.vendors, MELLANOX),
        (device.device_ids, nic.pf_device),
        (device.interfaces, nic.netdev),
        (device.link_types, "ether"),
    )
    given = [actual in wanted for wanted, actual in facts if wanted]
    return bool(given) and all(given)


def expected_allocatable(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """The resources that each worker must offer after the installation, by host and resource."""
    if spec.kubernetes is None:
        return {}
    owners = owners_of(spec)
    served = {owners["gpu_operator"], owners["gpu_device_plugin"]} != {"none"}
    return {
        host.name: ({GPU: host.gpus} if served and host.gpus else {}) | _rdma_of(spec, host)
        for host in spec.workers
    }


def _rdma_of(spec: ClusterSpec, host: Host) -> dict[str, int]:
    network, prefix = spec.pod_network, spec.pod_network.resource_prefix
    if spec.rdma.transport == "infiniband":
        return _hcas_offered(spec, host)
    if network.mode == "rdma_shared":
        return {
            f"{prefix}/{device.resource}": device.hca_max
            for device in network.shared_devices
            if any(takes_nic(device, nic) for nic in host.nics)
        }
    resources = {rail.name: f"{prefix}/{rail.resource}" for rail in spec.rails}
    counts: Counter[str] = Counter()
    for nic in host.nics:
        if nic.rail in resources and nic.vfs:
            counts[resources[nic.rail]] += nic.vfs
    return dict(counts)


def _hcas_offered(spec: ClusterSpec, host: Host) -> dict[str, int]:
    """The resources that a node publishes for its HCAs; empty without HCAs."""
    network, prefix = spec.pod_network, spec.pod_network.resource_prefix
    count, whole = hca_count(spec) if spec.cloud else _hcas_of(host), network.mode == "host_device"
    if not count:
        return {}
    if network.mode == "rdma_shared":
        return {f"{prefix}/{device.resource}": device.hca_max for device in network.shared_devices}
    if whole and not ib_rails(spec):
        return {host_device_resource(spec): count}
    ports = {f"{prefix}/{rail.resource}": rail_ports(host, rail) for rail in ib_rails(spec)}
    return {
        name: sum(1 if whole else port.vfs for port in found)
        for name, found in ports.items()
        if found
    }
