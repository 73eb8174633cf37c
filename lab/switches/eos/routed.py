"""What an emulated EOS switch holds of routing: interfaces of its own, and BGP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lab.switches.stored import Part

Forwarding = Literal["off", "ipv4", "ipv6 interfaces"]


class Interface(Part):
    """A loopback, or the routed interface of a VLAN."""

    description: str | None = None
    shutdown: bool = False
    mtu: int | None = None
    address: str | None = None
    ipv6: bool = False
    autostate: bool = True
    """Whether the interface of a VLAN is down while no port in the VLAN is up."""


class Group(Part):
    """A peer group."""

    bfd: bool = False
    shutdown: bool = False
    active: bool = False
    """`activate` in the address family of IPv4."""
    over_ipv6: bool = False
    """`next-hop address-family ipv6 originate`, there."""


class Neighbor(Part):
    """A neighbour that is an address."""

    asn: int
    description: str | None = None
    bfd: bool = False
    shutdown: bool = False
    active: bool = False
    """`activate` in words, which is needed only without `bgp default ipv4-unicast`."""


class Bgp(Part):
    """`router bgp` of the default VRF."""

    asn: int
    router_id: str | None = None
    max_paths: int = 1
    groups: dict[str, Group] = Field(default_factory=dict[str, Group])
    ports: dict[str, tuple[str, int]] = Field(default_factory=dict[str, tuple[str, int]])
    """Port to its group and to the number of its neighbour."""
    addresses: dict[str, Neighbor] = Field(default_factory=dict[str, Neighbor])
    carries: bool = True
    """`bgp default ipv4-unicast`."""
    networks: list[str] = Field(default_factory=list[str])


class Routing(Part):
    """All of it."""

    model: Literal["multi-agent", "ribd"] = "multi-agent"
    """A capture of 4.32.1F says the first; another one acts after a reload."""
    forwarding: Forwarding = "off"
    ipv6: bool = False
    interfaces: dict[str, Interface] = Field(default_factory=dict[str, Interface])
    bgp: Bgp | None = None
