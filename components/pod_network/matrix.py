"""Which pod network and which addresses work on which transport, and why others do not: data.

docs/reference/pod-networks.md is generated from it, and the rule `pod-network` asks it. Sources:
lab/sources.md#pod-network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from components.model.cluster import ClusterSpec
from components.model.owners import Way, way_of
from components.model.pod_network import Ipam

Transport = Literal["roce", "infiniband"]


@dataclass(frozen=True, slots=True)
class Works:
    """A supported pod network."""

    gives: str
    """The devices and interfaces of a pod."""
    needs: str
    """The settings that the site must have for it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod network that this transport does not support."""

    why: str
    instead: str


WAYS: Final[dict[Way, str]] = {
    "sriov": "mode: sriov",
    "host_device": "mode: host_device",
    "macvlan": "mode: rdma_shared, interface: macvlan",
    "ipoib": "mode: rdma_shared, interface: ipoib",
    "none": "mode: rdma_shared, interface: none",
    "host": "mode: rdma_shared, host_network: true",
}
"""The spelling in the file."""

MATRIX: Final[dict[tuple[Way, Transport], Works | Refused]] = {
    ("sriov", "roce"): Works(
        "a VF of each rail, with an interface in the rail's VLAN", "vfs of each card"
    ),
    ("sriov", "infiniband"): Works(
        "a VF of each HCA that is a rail, with an IPoIB interface",
        "infiniband.rails, and a port of hca_sriov with vfs for each of them on every worker",
    ),
    ("host_device", "roce"): Refused(
        "an Ethernet card that a pod has leaves the host's network, where its QoS, MTU and drift "
        "are looked after",
        "choose sriov with vfs: 1: the one VF has the whole card's bandwidth",
    ),
    ("host_device", "infiniband"): Works(
        "whole HCAs without an interface: all of a node by count, or one of each rail",
        "HCAs without VFs; infiniband.rails for a resource of each",
    ),
    ("macvlan", "roce"): Works(
        "the shared cards, with an interface of its own on top of each",
        "shared_devices, one name of a rail's card on all workers, access ports",
    ),
    ("macvlan", "infiniband"): Refused(
        "an IPoIB device has no Ethernet address, and macvlan needs one of its own for each pod",
        "choose interface: ipoib, or none: RDMA on InfiniBand needs no address",
    ),
    ("ipoib", "roce"): Refused(
        "IPoIB is a device of an InfiniBand port, and these are Ethernet",
        "choose interface: macvlan",
    ),
    ("ipoib", "infiniband"): Works(
        "the shared HCAs, with an IPoIB interface of its own for each rail",
        "shared_devices, and infiniband.rails with the IPoIB device of each HCA",
    ),
    ("none", "roce"): Refused(
        "a RoCE GID is that of a network device in the pod, and the pod would have none on a rail",
        "choose interface: macvlan, or host_network: true",
    ),
    ("none", "infiniband"): Works(
        "the shared HCAs without an interface: RDMA goes by LIDs", "shared_devices"
    ),
    ("host", "roce"): Works(
        "the host's network and its cards", "shared_devices, and an address on each card"
    ),
    ("host", "infiniband"): Works("the host's network and its HCAs", "shared_devices"),
}

ADDRESSES: Final[dict[tuple[Ipam, Transport], Works | Refused]] = {
    ("whereabouts", "roce"): Works("the cluster gives it from the rail's subnet", "nothing"),
    ("whereabouts", "infiniband"): Works(
        "the cluster gives it from the rail's subnet", "a subnet of the rail"
    ),
    ("nv-ipam", "roce"): Works(
        "the node gives it from its block of the rail's pool",
        "a block for each worker in the rail's subnet; nothing else: the network operator's policy "
        "brings nv-ipam, or the objects of its own deployment do",
    ),
    ("nv-ipam", "infiniband"): Works(
        "the node gives it from its block of the rail's pool",
        "a subnet of the rail with a block for each worker",
    ),
    ("static", "roce"): Works("the pod's annotation says it", "jobs.mpi_operator: false"),
    ("static", "infiniband"): Works("the pod's annotation says it", "jobs.mpi_operator: false"),
    ("dhcp", "roce"): Works(
        "a server of the rail's VLAN gives it, asked by a daemon on every node",
        "dhcp_server of each rail, which keeps the last address of the subnet and the cards'",
    ),
    ("dhcp", "infiniband"): Refused(
        "the CNI plugins of InfiniBand refuse it: IPoIB has no DHCP there",
        "set ipam to whereabouts or nv-ipam",
    ),
}


def address_of(spec: ClusterSpec) -> Works | Refused:
    """Whether pods can get addresses in the site's way."""
    return ADDRESSES[spec.pod_network.ipam, spec.rdma.transport]


def cell_of(spec: ClusterSpec) -> Works | Refused:
    """Whether the site's pod network is supported."""
    return MATRIX[way_of(spec), spec.rdma.transport]
