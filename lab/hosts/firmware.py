"""What the firmware of an emulated card holds: factory values, for the next start, and for now.

Sources: lab/sources.md#hosts (mstflint's database of parameters). A guess, marked
there: that PCI_WR_ORDERING shows once the card *runs* with ADVANCED_PCI_SETTINGS; the database
only says that it is shown when that setting is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

BLUEFIELD_3: Final = "a2dc"
CONNECTX_8: Final = "1023"
_FIXED_LINKS: Final = frozenset({"101d"})
"""Cards without LINK_TYPE: ConnectX-6 Dx is Ethernet only."""
_LINK_TYPES: Final = {"InfiniBand": "1", "Ethernet": "2"}


@dataclass(slots=True)
class Firmware:
    """One card's mlxconfig values: `next` survives, `current` follows it when the card starts."""

    default: dict[str, str]
    next: dict[str, str]
    current: dict[str, str]
    lacks: frozenset[str] = field(default_factory=frozenset[str])
    """Fault: parameters that this release of the firmware does not have."""

    @property
    def shown(self) -> list[str]:
        """The parameters that mlxconfig knows of this card now."""
        hidden = set(self.lacks)
        if self.current["ADVANCED_PCI_SETTINGS"] != "1":
            hidden.add("PCI_WR_ORDERING")
        return [name for name in self.default if name not in hidden]

    @property
    def dpu_mode(self) -> bool:
        """A BlueField's own processors own the card: a host's reboot does not restart it."""
        return self.current.get("INTERNAL_CPU_OFFLOAD_ENGINE") == "0"

    @property
    def prepares_reset(self) -> bool:
        """A `set` prepares the card for the host's reboot (mstflint: not on such a DPU)."""
        return not (self.dpu_mode and self.current.get("INT_CPU_AUTO_SHUTDOWN") == "1")

    def start(self) -> None:
        """The card starts: it takes on what was set for now."""
        self.current = dict(self.next)


def card_of(pci: str) -> str:
    """Domain, bus and device: the ports of a card are its functions, and share its firmware."""
    return pci.rpartition(".")[0]


def default_firmware(device: str, total_vfs: int, link_layers: Sequence[str]) -> dict[str, str]:
    """Factory values of a card with SR-IOV switched on, in mlxconfig's form.

    Args:
        device: PCI device id of the PF.
        total_vfs: NUM_OF_VFS.
        link_layers: What each port of the card was bought for: LINK_TYPE and the marks of CNPs are
            there for each.
    """
    values = {
        "SRIOV_EN": "1",
        "NUM_OF_VFS": str(total_vfs),
        "ATS_ENABLED": "0",
        "ADVANCED_PCI_SETTINGS": "0",
        "PCI_WR_ORDERING": "0",
        "ROCE_CONTROL": "2",
    }
    for port, link_layer in enumerate(link_layers, 1):
        if device not in _FIXED_LINKS:
            values[f"LINK_TYPE_P{port}"] = _LINK_TYPES[link_layer]
        if device == CONNECTX_8:
            values[f"NUM_OF_PLANES_P{port}"] = "0"
        values |= {
            f"ROCE_CC_PRIO_MASK_P{port}": "255",
            f"CNP_DSCP_P{port}": "48",
            f"CNP_802P_PRIO_P{port}": "6",
            f"KEEP_ETH_LINK_UP_P{port}": "1",
        }
    if device == BLUEFIELD_3:  # as it comes: DPU mode (NVIDIA's BlueField BSP, modes of operation)
        values |= {
            "INTERNAL_CPU_MODEL": "1",
            "INTERNAL_CPU_OFFLOAD_ENGINE": "0",
            "INT_CPU_AUTO_SHUTDOWN": "0",
        }
    return values
