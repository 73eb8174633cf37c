"""RoCE's quality of service on a card, beyond what `rdma` decides, and where the card sits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model.units import Frozen

BufferBytes = Annotated[int, Field(ge=0, le=100_000_000)]
BufferNumber = Annotated[int, Field(ge=0, le=7)]
EIGHT = 8
"""Priorities and receive buffers of a port (IEEE 802.1Q; mlnx_qos 1.2)."""


class ReceiveBuffers(Frozen):
    """The receive buffers of a port, in place of those that the driver computes from PFC and MTU.

    The driver keeps sizes that were set manually until it is reloaded.
    """

    size_bytes: Annotated[tuple[BufferBytes, ...], Field(min_length=EIGHT, max_length=EIGHT)]
    """Sizes of buffers 0 to 7 in bytes, as `mlnx_qos --buffer_size` takes them."""
    priorities: Annotated[tuple[BufferNumber, ...], Field(min_length=EIGHT, max_length=EIGHT)]
    """The buffer of each priority 0 to 7, as `mlnx_qos --prio2buffer` takes it."""


class HostQos(Frozen):
    """What of RoCE's quality of service is a host's own choice; the rest follows `rdma`."""

    cable_length_m: Annotated[int, Field(ge=1, le=999)] | None = None
    """Length of the cable in metres, from which the driver computes when to send PFC pauses;
    default the driver's (7)."""
    buffers: ReceiveBuffers | None = None
    """Receive buffers; default the driver's."""


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
