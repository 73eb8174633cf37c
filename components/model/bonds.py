"""Bundles of switch ports for management and storage, and pairs of switches that share them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model.texts import refuse
from components.model.units import PORT_TARGET, DnsLabel, Frozen, Ipv4, PortName, VlanId

BOND_NAME: Final = r"^[A-Za-z][A-Za-z-]*[0-9]+$"
MAC: Final = r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$"
_GROUP_BIT: Final = 1
"""Of the first octet: an address of many (IEEE 802)."""


def _one_machine(mac: str) -> str:
    if int(mac[:2], 16) & _GROUP_BIT:
        raise refuse(
            f"{mac} is an address of many machines, and two switches show it as one",
            "choose one whose second digit is even, for example 44:38:39:ff:00:01.",
        )
    return mac


SystemMac = Annotated[
    str,
    Field(pattern=MAC),
    AfterValidator(_one_machine),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$"}),
]
BondName = Annotated[str, Field(pattern=BOND_NAME)]


class Bond(Frozen):
    """One bundle of ports, by LACP. The host's side of it is the host's own."""

    to: Annotated[str, Field(pattern=PORT_TARGET)]
    """What is at the other end, for people: `gpu01/bond0`, or `mgmt-01:bond9` of another switch."""
    network: Literal["management", "storage"]
    """What it carries: never an RDMA rail, whose cards have a port each."""
    ports: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """The ports of this switch in it. With `mlag` one is usual."""
    vlans: tuple[VlanId, ...] = ()
    """VLANs that it carries tagged; of no rail."""
    untagged: VlanId | None = None
    """VLAN of frames without a tag. Without `vlans` the bundle is an access port of it. Default: as
    the switch has it."""
    mlag: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Number of the bundle on both switches of a pair, where the other end has a cable to each.
    Default: it ends on this switch alone."""


class Mlag(Frozen):
    """A pair of switches that appear as one to the bundles with an `mlag` number."""

    peer: DnsLabel
    """The other switch of the pair; it names this one."""
    ports: Annotated[tuple[PortName, ...], Field(min_length=1)]
    """The ports of the link between the two; of two or more, one cable is not the end of it."""
    mac: SystemMac | None = None
    """Cumulus needs it: the address that both show to the other ends; the same on both, and of no
    other pair. NVIDIA keeps 44:38:39:ff:00:00 to 44:38:39:ff:ff:ff for it. EOS makes its own."""
    address: Ipv4 | None = None
    """EOS needs it: the address of this switch on the link between the two, in VLAN 4094; the
    peer has the other one of the /31, for example 10.255.253.0 and 10.255.253.1. Cumulus has
    link-local addresses there."""
    backup: Ipv4 | None = None
    """Address of the other switch that is reached without the link between them (Cumulus). Default:
    the one by which Railyard reaches it."""
