"""Card models that the file describes itself, for NVIDIA's that the catalogue does not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from components.model.units import Frozen

PCI_ID = r"^[0-9a-f]{4}$"
PciId = Annotated[str, StringConstraints(pattern=PCI_ID)]
"""A PCI device id of vendor 15b3 in four hex digits: `"101f"`."""


class DescribedNic(Frozen):
    """What the file says of a card model of NVIDIA; what it leaves out is not checked."""

    pci_id: PciId | None = None
    """PCI device id of the card, as `lspci -n` shows it after `15b3:`."""
    vf_pci_id: PciId | None = None
    """PCI device id of its VFs; without it the device plugin selects VFs by the PF's name alone."""
    vf_limit: Annotated[int, Field(ge=1)] | None = None
    """VFs of a port that its firmware can be set to."""
    speed_gbit_s: Annotated[int, Field(gt=0)] | None = None
    """The fastest rate of a port in Gbit/s."""
