"""Switch models that Railyard does not plan, each with the reason: refused by name."""

from __future__ import annotations

import re
from typing import Final

_UNMANAGED: Final = "has no system to log in to: its subnet manager runs elsewhere"
_NVOS: Final = (
    "runs NVOS, which has no partitions to set, and on Quantum-X800 no subnet manager either: its "
    "`nv set ib sm` is refused there"
)
_UFM: Final = (
    "write it in infiniband.switches, which are not logged in to, set infiniband.subnet_manager to "
    "external, and say in infiniband.ufm how UFM is reached, which then gets the partitions."
)
_SAND: Final = (
    "has virtual output queues, which EOS sets by `tx-queue`; Railyard sets the `uc-tx-queue` of "
    "Trident and Tomahawk"
)
UNPLANNED: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (
        re.compile(r"QM(87|97)90"),
        _UNMANAGED,
        _UFM,
    ),
    (
        re.compile(r"Q3[24]\d\d(-\w+)?"),
        _NVOS,
        _UFM,
    ),
    (
        re.compile(r"(DCS-)?7(28\d|5\d\d|8\d\d)R\w*(-.*)?"),
        _SAND,
        "leave the switch out of the file and configure it yourself, or use a 7050X or 7060X.",
    ),
)
"""Pattern of names, why it is not planned, and what to do; sources.md#switch-models."""


def why_unplanned(name: str) -> tuple[str, str] | None:
    """Why a model is not planned, and what to do; None where nothing of the kind is known."""
    for pattern, why, fix in UNPLANNED:
        if pattern.fullmatch(name):
            return why, fix
    return None
