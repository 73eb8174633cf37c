"""VFs by the SR-IOV network operator: a policy for each rail, and the networks of its attachments.

Sources: the operator's definitions of network operator v26.4.1, and the source of
sriov-network-operator v1.6.0 (docs/explanation/sources.md#operators).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.owners import vfs_by_operator
from components.pod_network.attachment import MELLANOX
from components.pod_network.ib_rails import ib_rails, rail_ports
from components.pod_network.infiniband import ib_sriov_chain
from components.pod_network.leaf_pools import pools_of
from components.pod_network.networks import job_addresses, probe_network, server_addresses
from components.pod_network.pools import NETWORK_NAMESPACE, AnyRail
from components.pod_network.sriov import sriov_chain

_API = "sriovnetwork.openshift.io/v1"
_LABELS = "vfs.railyard.dev"
_PRIORITY = 90
"""As in the operator's examples; 0 is the highest, and 99 the one where none is written."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A port of a worker whose VFs are a rail's."""

    pci: str
    vfs: int
    mtu_bytes: int | None
    """None on InfiniBand: there it is the subnet's."""


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
    """What ports of one policy have in common."""
    return str(port.vfs) if port.mtu_bytes is None else f"{port.vfs}-{port.mtu_bytes}"


def vf_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels by which the policies find a node: how many VFs of each rail it has."""
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

    By root device and never by vendor alone, which takes storage and management ports too.
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
    """The networks of which the operator makes the attachments, with the names of their rails."""
    made: list[tuple[str, Body]] = []
    if spec.rdma.transport == "infiniband":
        for rail in ib_rails(spec):
            chain = ib_sriov_chain(spec, rail)
            made.append((rail.name, _network(spec, "SriovIBNetwork", rail, rail.network, chain)))
        return made
    for rail in spec.rails:
        ipams = {rail.network: job_addresses(spec, rail)}
        for pool in pools_of(spec)[rail.name]:
            ipams[probe_network(rail, pool.leaf)] = server_addresses(spec, pool)
        for name, ipam in ipams.items():
            chain = sriov_chain(spec, rail, ipam)
            made.append((rail.name, _network(spec, "SriovNetwork", rail, name, chain)))
    return made


def _network(
    spec: ClusterSpec, kind: str, rail: AnyRail, name: str, chain: list[dict[str, JsonValue]]
) -> Body:
    """One network: the operator writes the first plugin from its fields, and adds the others."""
    main, *others = chain
    if main.get("rdmaIsolation"):  # which a SriovIBNetwork has no field for
        others.append({"type": "rdma"})
    wanted: Body = {
        "resourceName": rail.resource,
        "networkNamespace": spec.pod_network.namespace,
    }
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
