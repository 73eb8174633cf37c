"""Where a card sits: its PCIe link, the lanes of its port, and the GPUs beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

PCIE_GT_S = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
"""Speeds of a lane in GT/s, generations 1 to 6 of PCI Express (the kernel's pcie_link_speed)."""


def _generation(value: float) -> float:
    if value not in PCIE_GT_S:
        known = ", ".join(f"{speed:g}" for speed in PCIE_GT_S)
        raise ValueError(f"{value:g} GT/s is no speed of PCI Express; expected one of {known}")
    return value


LinkGtS = Annotated[
    float,
    Field(gt=0),
    AfterValidator(_generation),
    WithJsonSchema({"type": "number", "enum": list(PCIE_GT_S)}),
]
"""Speed of one PCIe lane in GT/s: 8 is generation 3, 16 is 4, 32 is 5."""
LinkWidth = Literal[1, 2, 4, 8, 16]
"""Lanes of a PCIe link."""
PortLanes = Literal[1, 2, 4, 8]
"""SerDes lanes of a network port."""
GpuPath = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
"""How data gets from a GPU to a card, in the words of `nvidia-smi topo -m`, nearest first."""
