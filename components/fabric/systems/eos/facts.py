"""What Arista EOS gives by default, and who says so: docs/explanation/sources.md#eos."""

from __future__ import annotations

from typing import Final

MIN_RELEASE: Final = (4, 28, 0)
"""A guess: no text that was found says which release brought the commit timer of configuration
sessions, `l2 mtu` or this chip. Sessions themselves came with 4.15.0F (Arista's announcement); the
public captures that the driver follows are of 4.28 and later."""
FACTORY_MTU_BYTES: Final = 9214
"""`Ethernet MTU 9214 bytes` of every switched port that a public capture shows."""
FACTORY_VLAN: Final = 1
QUEUES: Final = range(8)
"""Unicast transmit queues of a port; traffic class n is in queue n."""
MAX_MARK_PERCENT: Final = 100
"""`max-mark-probability` of a line that does not say it (a guess)."""
ECN_WEIGHT: Final = 0
"""`weight`: the depth of the queue now, not its average; what public RoCE examples set."""
MAX_PATHS: Final = 64
"""`maximum-paths`: EOS uses one path unless a line says more. A public capture of a spine has 64;
chips of the models here take as many or more."""


def watchdog_timer(detect_ms: int, restore_ms: int) -> str:
    """The words of a port's timer: seconds, as EOS writes them."""
    times = (f"{ms / 1000:.2f}" for ms in (detect_ms, restore_ms))
    return "timeout {} polling-interval auto recovery-time {}".format(*times)


WATCHDOG_TIMER: Final = watchdog_timer(200, 200)
"""Seconds until a queue counts as stuck, and for which it is then drained: those of Arista's guide
on AI fabrics. It polls each 0.1 s; `auto` has the switch derive that from the other two."""
WATCHDOG_ACTION: Final = "drop"
"""What `pfc_watchdog` promises; without it EOS shuts the port (`errdisable`)."""
ROLLBACK_S: Final = 300
"""Of `commit timer 00:05:00`: a second reading of 64 ports takes seconds, a person some minutes."""


def default_class(dscp: int) -> int:
    """The traffic class of a DSCP: eight DSCPs a class, and classes 0 and 1 are swapped.

    Public notes quote it from Arista's manual, the same for every chip: 0-7 in class 1, 8-15 in 0.
    """
    tc = dscp // 8
    return {0: 1, 1: 0}.get(tc, tc)
