"""When a queue begins to mark, and how much: what vendors recommend, by system and port speed.

One row a speed from which it holds. Adding what another vendor recommends is a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Recommended:
    """Thresholds and most marked packets for ports of one speed and faster ones."""

    from_gbit_s: int
    min_kib: int
    max_kib: int
    mark_percent: int
    source: str
    """Who recommends it."""


_NVIDIA: Final = "NVIDIA sets them for ports of every speed"
_CELL_BYTES: Final = 254
"""A `segment` of EOS on the chips that carry 200 Gbit/s and more (Intel, "Expected Switch
Configuration" for Gaudi); with it 2000 and 10,000 of them are 496 and 2480 KiB."""
RECOMMENDED: Final[Mapping[str, tuple[Recommended, ...]]] = {
    "onyx": (Recommended(0, 150, 1500, 100, f"Onyx user manual, page RoCE Commands: {_NVIDIA}"),),
    "cumulus": (
        Recommended(
            0,
            150_000 // 1024,
            1_500_000 // 1024,
            100,
            f"Cumulus Linux guide, page RDMA over Converged Ethernet: {_NVIDIA}",
        ),
    ),
    "eos": (
        Recommended(
            0, 150, 1500, 100, f"no text of Arista says more for so slow a port; {_NVIDIA}"
        ),
        Recommended(
            200,
            2000 * _CELL_BYTES // 1024,
            10_000 * _CELL_BYTES // 1024,
            20,
            "AMD's GPU cluster networking guide, DCQCN on an Arista 7388, after Broadcom's "
            "957608-AN2XX: 2000 and 10,000 segments",
        ),
    ),
    "sonic": (
        Recommended(
            0, 150, 1500, 100, f"the general template is made for no NIC of RoCE; {_NVIDIA}"
        ),
        Recommended(
            400,
            2048,
            12_480,
            15,
            "AMD's GPU cluster networking guide, DCQCN on a Dell Z9664F",
        ),
    ),
}
"""Switch system to its rows, ascending."""
_OTHERS: Final = Recommended(0, 150, 1500, 100, _NVIDIA)


def recommended(system: str, speed_gbit_s: int) -> Recommended:
    """What holds for a port of that speed; 0: the speed is not known."""
    rows = RECOMMENDED.get(system, (_OTHERS,))
    return [row for row in rows if row.from_gbit_s <= speed_gbit_s][-1]
