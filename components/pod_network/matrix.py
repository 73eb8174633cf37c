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
WAYS: Final[dict[Way, str]] = {
    "sriov": "mode: sriov",
    "host_device": "mode: host_device",
    "macvlan": "mode: rdma_shared, interface: macvlan",
    "ipoib": "mode: rdma_shared, interface: ipoib",
    "none": "mode: rdma_shared, interface: none",
    "host": "mode: rdma_shared, host_network: true",
}
"""The spelling in the file."""


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


MATRIX: Final[dict[tuple[Way, Transport], Works | Refused]] = {
    ("sriov", "roce"): Works(
        "a VF of each rail, with an interface in the rail's VLAN", "vfs of each card"
    ),
    ("sriov", "infiniband"): Works(
        "a VF of each rail's HCA, with an IPoIB interface",
        "infiniband.rails, and for each rail a port of hca_sriov with vfs on every worker",
    ),
    ("host_device", "roce"): Refused(
        "a whole Ethernet card in a pod leaves the host's network, where Railyard sets QoS and MTU",
        "choose sriov with vfs: 1: this VF has the whole card's bandwidth",
    ),
    ("host_device", "infiniband"): Works(
        "whole HCAs without an interface: all HCAs of a node by count, or one for each rail",
        "HCAs without VFs; infiniband.rails for one resource per rail",
    ),
    ("macvlan", "roce"): Works(
        "the shared cards, each with the pod's own macvlan interface",
        "shared_devices, the same card name on all workers for each rail, access ports",
    ),
    ("macvlan", "infiniband"): Refused(
        "macvlan needs an Ethernet address for each pod, which IPoIB devices lack",
        "choose interface: ipoib, or none: RDMA on InfiniBand needs no address",
    ),
    ("ipoib", "roce"): Refused(
        "IPoIB needs InfiniBand ports, and these are Ethernet ports", "choose interface: macvlan"
    ),
    ("ipoib", "infiniband"): Works(
        "the shared HCAs, with the pod's own IPoIB interface for each rail",
        "shared_devices, and infiniband.rails with the IPoIB device of each HCA",
    ),
    ("none", "roce"): Refused(
        "a RoCE GID needs a network device in the pod, and the pod would lack one on the rail",
        "choose interface: macvlan, or host_network: true",
    ),
    ("none", "infiniband"): Works(
        "the shared HCAs without an interface: RDMA uses LIDs", "shared_devices"
    ),
    ("host", "roce"): Works(
        "the host's network and its cards", "shared_devices, and an address on each card"
    ),
    ("host", "infiniband"): Works("the host's network and its HCAs", "shared_devices"),
}

ADDRESSES: Final[dict[tuple[Ipam, Transport], Works | Refused]] = {
    ("whereabouts", "roce"): Works("whereabouts assigns it from the rail's subnet", "nothing"),
    ("whereabouts", "infiniband"): Works(
        "whereabouts assigns it from the rail's subnet", "a subnet of the rail"
    ),
    ("nv-ipam", "roce"): Works(
        "nv-ipam assigns it from the node's block of the rail's pool",
        "a block for each worker in the rail's subnet",
    ),
    ("nv-ipam", "infiniband"): Works(
        "nv-ipam assigns it from the node's block of the rail's pool",
        "a subnet of the rail with a block for each worker",
    ),
    ("static", "roce"): Works("the pod's annotation has it", "jobs.mpi_operator: false"),
    ("static", "infiniband"): Works("the pod's annotation has it", "jobs.mpi_operator: false"),
    ("dhcp", "roce"): Works(
        "a DHCP server in the rail's VLAN assigns it to a daemon on every node",
        "dhcp_server of each rail, which reserves the last address of the subnet and the cards'",
    ),
    ("dhcp", "infiniband"): Refused(
        "the CNI plugins of InfiniBand do not support DHCP", "set ipam to whereabouts or nv-ipam"
    ),
}


def address_of(spec: ClusterSpec) -> Works | Refused:
    """Whether pods can get addresses in the site's way."""
    return ADDRESSES[spec.pod_network.ipam, spec.rdma.transport]


def cell_of(spec: ClusterSpec) -> Works | Refused:
    """Whether the site's pod network is supported."""
    return MATRIX[way_of(spec), spec.rdma.transport]
