"""The RDMA card models that Railyard knows: ids, limits, and what their ports can be.

Every other table of card models derives from this one, or a test proves it equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

CardName = Literal[
    "ConnectX-5",
    "ConnectX-6",
    "ConnectX-6 Dx",
    "ConnectX-7",
    "ConnectX-8",
    "BlueField-3",
    "ConnectX-9",
]
"""What `hosts[].nics[].model` may be."""


@dataclass(frozen=True, slots=True)
class CardModel:
    """One card model.

    Sources, all in lab/sources.md#hosts: ids from pci.ids and the list of NVIDIA's
    SR-IOV operator, mst numbers from mstflint, speeds and link types from the DOCA and WinOF-2
    release notes, VF limits from the firmware release notes of each family.
    """

    name: CardName
    pf_device: str
    """PCI device id of the PF, four hex digits of vendor 15b3."""
    vf_device: str
    """PCI device id of its VFs; 101e is shared by all models since ConnectX-6 Dx."""
    mst_number: int
    """The number in its mst name (`mt4119_pciconf0`): the PF's id in decimal."""
    firmware_family: int
    """First number of its firmware's versions."""
    fastest_gbit_s: int
    """The fastest rate of any port of this model, in Gbit/s."""
    max_vfs: int | None
    """VFs of a port that its firmware can be set to; None: no release notes state a limit."""
    vpi: bool
    """There are cards of this model whose ports can be InfiniBand or Ethernet (`LINK_TYPE_P1`)."""
    also: tuple[tuple[str, int], ...] = ()
    """Further PCI ids with their mst numbers: variants that need nothing of their own."""
    ports: int = 2
    """Ports of its largest card: each is one function of the PCI device, from 0 on."""
    firmware_floor: str | None = None
    """Oldest firmware whose parameters can be relied on; None: no release notes name one, and
    what the card's own list of parameters has decides."""


_MODELS: Final = (
    CardModel(
        "ConnectX-5", "1017", "1018", 4119, 16, 100, 127, vpi=True, also=(("1019", 4121),)
    ),  # 1019 is ConnectX-5 Ex
    CardModel("ConnectX-6", "101b", "101c", 4123, 20, 200, 127, vpi=True),
    CardModel("ConnectX-6 Dx", "101d", "101e", 4125, 22, 200, 127, vpi=False),
    # Four ports: cards for Ethernet alone (ConnectX-7 user manual, Introduction).
    CardModel("ConnectX-7", "1021", "101e", 4129, 28, 400, 127, vpi=True, ports=4),
    # No list of all its cards is known, so it is taken as the one before.
    CardModel("ConnectX-8", "1023", "101e", 4131, 40, 800, 127, vpi=True, ports=4),
    # 126 is what a host may ask for (DOCA, BlueField SR-IOV); 32.38.1002 changed how NIC mode is
    # configured, and is not compatible with what was before (its release notes).
    CardModel(
        "BlueField-3", "a2dc", "101e", 41692, 32, 400, 126, vpi=True, firmware_floor="32.38.1002"
    ),
    CardModel("ConnectX-9", "1025", "101e", 4133, 82, 800, None, vpi=True, ports=4),
)
CARDS: Final[Mapping[CardName, CardModel]] = {card.name: card for card in _MODELS}
"""Card model by name, in the order in which they came out."""
_BY_NAME: Final[Mapping[str, CardModel]] = {card.name: card for card in _MODELS}


def find_card(name: str) -> CardModel | None:
    """The model of that name, or None."""
    return _BY_NAME.get(name)


IB_PORTS: Final = 2
"""Ports of the largest card that can be InfiniBand; cards with more are Ethernet alone."""
