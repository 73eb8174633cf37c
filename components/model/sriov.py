"""The virtual functions (VFs) of a card, as the user writes them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from components.model.units import DnsLabel, Frozen, PciAddress, PortGuid

MbitPerSecond = Annotated[int, Field(ge=0, le=999_999)]
"""A rate as `ip link set … max_tx_rate` takes it; 0 is no limit."""
CARD_SERIAL: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
CardSerial = Annotated[str, Field(pattern=CARD_SERIAL)]
"""A board's serial number as `lspci -vv` shows it: `[SN] Serial number: MT2012X12345`."""


class Sriov(Frozen):
    """What every VF of one Ethernet port carries; what is left out is not ours.

    With `pod_network.mode: sriov` VLAN, rates, trust and spoof check belong to the network
    attachment, which sets them for each pod: there only `eswitch` may be written.
    """

    eswitch: Literal["legacy", "switchdev"] | None = None
    """Mode of the card's embedded switch. Left out, it is expected to be legacy, and a card in
    switchdev mode is refused; written, it is set, and the VFs are recreated."""
    autoprobe: bool | None = None
    """Whether the kernel binds a driver to new VFs; false where virtual machines take them."""
    min_rate_mbit_s: MbitPerSecond | None = None
    """Bandwidth that each VF is guaranteed, in Mbit/s; 0 is none."""
    max_rate_mbit_s: MbitPerSecond | None = None
    """Bandwidth that each VF has at most, in Mbit/s; 0 is no limit."""
    vlan: Annotated[int, Field(ge=0, le=4094)] | None = None
    """VLAN that the card puts on the frames of each VF; 0 is none."""
    trust: bool | None = None
    """Whether a VF may change its MAC address and hear all multicast."""
    spoofchk: bool | None = None
    """Whether the card drops frames of a VF with another source address than its own."""


class HcaPf(Frozen):
    """One InfiniBand port (PF) that has VFs, or firmware settings or a rail (`vfs: 0`)."""

    pci: PciAddress
    """PCI address, for example `"0000:18:00.0"`."""
    rail: DnsLabel | None = None
    """The rail of `infiniband.rails` that this port is; default none."""
    serial: CardSerial | None = None
    """The board's serial number; with it, a card that moved to another slot is reported."""
    vfs: Annotated[int, Field(ge=0, le=127)] = 8
    """Virtual functions to create on this PF."""
    guids: tuple[PortGuid, ...] = ()
    """GUIDs of the VFs, node and port alike, in their order; default derived from the names of
    site and host, the PCI address and the VF's number, so that they are the same at each boot."""
