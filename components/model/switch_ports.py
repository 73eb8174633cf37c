"""What a file says of switch ports: queues, links, and bundles for management and storage."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model.texts import refuse
from components.model.units import PORT_TARGET, DnsLabel, Frozen, Ipv4, Kib, PortName, VlanId

Percent = Annotated[int, Field(ge=1, le=100)]
TrafficClass = Annotated[int, Field(ge=0, le=7)]
Gbit = Annotated[int, Field(ge=1, le=1600)]
"""Speed of a port in Gbit/s."""
Fec = Literal["rs", "fc", "none"]
"""Forward error correction: Reed-Solomon, Fire code (BASE-R), or none."""
BOND_NAME: Final = r"^[A-Za-z][A-Za-z-]*[0-9]+$"
MAC: Final = r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$"
_GROUP_BIT: Final = 1
"""Of the first octet: an address of many (IEEE 802)."""
BondName = Annotated[str, Field(pattern=BOND_NAME)]


class Marking(Frozen):
    """ECN of the RoCE class on ports of one speed."""

    min_kib: Kib
    """Queue depth in KiB at which marking starts."""
    max_kib: Kib
    """Queue depth in KiB from which on most packets are marked."""
    mark_percent: Percent = 100
    """How many of them are marked there, in percent. Default 100, as on NVIDIA's switches."""


class Schedule(Frozen):
    """How the classes of a port share it when all of them have something to send."""

    shares: dict[TrafficClass, Percent]
    """Class to its percent of the port, which are 100 together. RoCE's and class 0 are in it: what
    is not marked travels in class 0, and shall not starve."""
    strict: tuple[TrafficClass, ...] = ()
    """Classes that are served before all shares, beside that of the congestion notifications."""


class WatchdogTimes(Frozen):
    """How long the PFC watchdog waits, in milliseconds."""

    detect: Annotated[int, Field(ge=100, le=5000)]
    """How long a class is held up until what it holds is dropped. 100 to 5000: sonic-pfcwd.yang."""
    restore: Annotated[int, Field(ge=100, le=60_000)]
    """For how long it is dropped then."""


class LinkSettings(Frozen):
    """Speed, error correction and auto-negotiation of the ports in `ports`."""

    speed_gbit_s: Gbit | None = None
    """Speed in Gbit/s: 400. Default: left to the switch, which takes that of the module or the
    fastest of the port."""
    fec: Fec | None = None
    """`rs`, `fc` (BASE-R, for lanes of up to 25 Gbit/s) or `none`. Default: left to the switch.
    Lanes of 50 Gbit/s and more have no link without `rs` (IEEE 802.3bs and 802.3cd)."""
    autoneg: bool | None = None
    """Whether speed and more are negotiated with the other end; with a speed, only that one is
    offered. Default: left to the switch. EOS says it with the speed, so needs that too."""


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
