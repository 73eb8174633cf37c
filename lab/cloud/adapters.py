"""The InfiniBand adapters of a guest of Crusoe Cloud."""

from __future__ import annotations

from typing import Final

from lab.views import HcaConfig

ETHERNET: Final = 4
"""In the article's image mlx5_4 is the Ethernet card between the HCAs 0-3 and 5-8."""


def adapters(count: int, rate_gbit_s: int) -> tuple[HcaConfig, ...]:
    """HCAs around one Ethernet card, half of them on each NUMA node; none for a count of 0.

    Args:
        count: HCAs on InfiniBand.
        rate_gbit_s: Rate of each.
    """
    if not count:
        return ()
    numbers = [number for number in range(count + 1) if number != ETHERNET]
    found = [
        HcaConfig(
            name=f"mlx5_{number}",
            pci=f"0000:{0x10 + number:02x}:00.0",
            rate_gbit_s=rate_gbit_s,
            link_layer="InfiniBand",
            numa=place * 2 // count,
        )
        for place, number in enumerate(numbers)
    ]
    ethernet = HcaConfig(f"mlx5_{ETHERNET}", "0000:0a:00.0", 100, "Ethernet", 0)
    return (*found, ethernet)
