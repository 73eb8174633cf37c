"""The table of a lab host's /sys: its files and links, and what every PCI function has."""

from __future__ import annotations

from collections.abc import Callable

from components.core.record import record

_DRIVERS = {"15b3": "mlx5_core", "10de": "nvidia"}


@record
class SysFile:
    """One attribute file."""

    read: Callable[[], str]
    write: Callable[[str], None] | None = None


@record
class SysLink:
    """One symbolic link, relative to its own folder."""

    target: str


Entry = SysFile | SysLink
Table = dict[str, Entry]


def constant(text: object) -> SysFile:
    """A read-only file with one value."""
    value = f"{text}\n"
    return SysFile(lambda: value)


def add_pci(table: Table, base: str, pci: str, ids: tuple[str, str, str], numa: int) -> None:
    """Add what every PCI function has: ids, class, NUMA node, driver and its links."""
    vendor, device, kind = ids
    driver = _DRIVERS.get(vendor, "pcieport")
    table[f"{base}/vendor"] = constant(f"0x{vendor}")
    table[f"{base}/device"] = constant(f"0x{device}")
    table[f"{base}/class"] = constant(kind)
    table[f"{base}/numa_node"] = constant(numa)
    table[f"{base}/uevent"] = SysFile(
        lambda: (
            f"DRIVER={driver}\nPCI_CLASS={kind[3:].upper()}\n"
            f"PCI_ID={vendor.upper()}:{device.upper()}\nPCI_SLOT_NAME={pci}\n"
        )
    )
    up = "../" * (base.count("/"))
    table[f"{base}/driver"] = SysLink(f"{up}bus/pci/drivers/{driver}")
    table[f"{base}/subsystem"] = SysLink(f"{up}bus/pci")
    table[f"/bus/pci/devices/{pci}"] = SysLink(f"../../..{base}")
    table[f"/bus/pci/drivers/{driver}/{pci}"] = SysLink(f"../../../..{base}")
