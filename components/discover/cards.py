"""RDMA cards by their PCI device id, as people and the file name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.cards import CARDS, CardName

_KNOWN: Final[Mapping[str, CardName]] = {
    device: card.name
    for card in CARDS.values()
    for device in (card.pf_device, *(device for device, _ in card.also))
}
_OTHERS: Final[Mapping[str, str]] = {
    "1013": "ConnectX-4",
    "1015": "ConnectX-4 Lx",
    "101f": "ConnectX-6 Lx",
    "a2d6": "BlueField-2",
}
"""Cards of vendor 15b3 (pci.ids) that the file has no model for: named, and not set up."""


def card_name(device: str) -> str:
    """The card's model for people, or its id where we do not know it."""
    return known_model(device) or _OTHERS.get(device, f"15b3:{device}")


def known_model(device: str) -> CardName | None:
    """The card's model as `hosts[].nics[].model` takes it, or None where it does not."""
    return _KNOWN.get(device)
