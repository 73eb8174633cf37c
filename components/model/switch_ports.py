"""What a file says of switch ports: queues and links."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import Frozen, Kib

Percent = Annotated[int, Field(ge=1, le=100)]
TrafficClass = Annotated[int, Field(ge=0, le=7)]
Gbit = Annotated[int, Field(ge=1, le=1600)]
"""Speed of a port in Gbit/s."""
Fec = Literal["rs", "fc", "none"]
"""Forward error correction: Reed-Solomon, Fire code (BASE-R), or none."""


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
