"""The PCIe link of a card: what card and slot can, what it trained to, and what that carries.

Form of the texts in /sys: drivers/pci/pci-sysfs.c (lab/sources.md#pcie).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.hosts.nic import Nic

_GT_S: Final[Mapping[str, float]] = {
    "1017": 8.0, "1019": 16.0, "101b": 16.0, "101d": 16.0, "1021": 32.0, "1023": 64.0, "a2dc": 32.0,
}  # fmt: skip
"""PCI device id of vendor 15b3 to GT/s: PCIe generations 3 to 6 of NVIDIA's product pages."""
_LANES: Final = 16
_CODING: Final = 128 / 130
"""Data bits of a link from generation 3 on; the older coding takes a fifth."""
_OLD_CODING: Final = 0.8
_OLD_GT_S: Final = 5.0


def card_link(device: str) -> tuple[float, int]:
    """GT/s and lanes that a card can: all of them come with 16 lanes."""
    return _GT_S.get(device, 8.0), _LANES


def link_gbit_s(nic: Nic) -> int:
    """Gbit/s that the link of a card carries as it trained."""
    gt_s, width = card_link(nic.config.device)
    speed = nic.link_gt_s or gt_s
    coding = _OLD_CODING if speed <= _OLD_GT_S else _CODING
    return int(speed * (nic.link_width or width) * coding)


def link_files(base: str, nic: Nic) -> Iterator[tuple[str, Callable[[], str]]]:
    """Path and reader of each file about the link of the card in a folder.

    The slot can what its card can; a fault may lower what the link runs at.
    """
    gt_s, width = card_link(nic.config.device)
    for folder in (base, base.rpartition("/")[0]):
        yield f"{folder}/max_link_speed", lambda: f"{gt_s:.1f} GT/s PCIe\n"
        yield f"{folder}/max_link_width", lambda: f"{width}\n"
    yield f"{base}/current_link_speed", lambda: f"{nic.link_gt_s or gt_s:.1f} GT/s PCIe\n"
    yield f"{base}/current_link_width", lambda: f"{nic.link_width or width}\n"
