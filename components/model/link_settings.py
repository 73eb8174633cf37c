"""What a link runs at, where a file does not leave it to the switch."""

from __future__ import annotations

from typing import Literal

from components.model.queues import Gbit
from components.model.units import Frozen

Fec = Literal["rs", "fc", "none"]
"""Forward error correction: Reed-Solomon, Fire code (BASE-R), or none."""


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
