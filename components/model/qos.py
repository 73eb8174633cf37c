"""RoCE's quality of service on a card, as far as `rdma` does not decide it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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
