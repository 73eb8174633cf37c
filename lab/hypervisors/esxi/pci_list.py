"""`esxcli hardware pci list`: one block for each device, with the fields of a real A100."""

from __future__ import annotations

from lab.hypervisors.config import EsxiPciDevice
from lab.hypervisors.esxi.machine import EsxiMachine
from lab.hypervisors.esxi.options import fields

VENDORS = {
    "10de": ("NVIDIA Corporation", "0x0302", "3D controller", "nvidia"),
    "15b3": ("Mellanox Technologies", "0x0200", "Ethernet controller", "nmlx5_core"),
    "8086": ("Intel Corporation", "0x0200", "Ethernet controller", "igbn"),
}
"""Vendor id to name, device class, its name, and the module that drives such a device."""
PASSTHRU_MODULE = "pciPassthru"


def pci_blocks(machine: EsxiMachine) -> str:
    """All devices, by address, a blank line between two."""
    devices = sorted(machine.config.devices, key=lambda device: device.sbdf)
    return "\n".join(f"{d.sbdf}\n{fields(_block(machine, d))}" for d in devices)


def _owner(*, passthru: bool) -> str:
    return "VM Passthru" if passthru else "VMkernel"


def _block(machine: EsxiMachine, device: EsxiPciDevice) -> dict[str, str]:
    segment, bus, rest = device.sbdf.split(":")
    slot, function = rest.split(".")
    vendor, class_id, class_name, module = VENDORS[device.vendor]
    owner = machine.stored.passthru[device.sbdf]
    return {
        "Address": device.sbdf,
        "Segment": f"0x{segment}",
        "Bus": f"0x{bus}",
        "Slot": f"0x{slot}",
        "Function": f"0x{function}",
        "VMkernel Name": "" if owner.current else device.vmnic,
        "Vendor Name": vendor,
        "Device Name": device.name,
        "Configured Owner": _owner(passthru=owner.configured),
        "Current Owner": _owner(passthru=owner.current),
        "Vendor ID": f"0x{device.vendor}",
        "Device ID": f"0x{device.device}",
        "SubVendor ID": f"0x{device.vendor}",
        "SubDevice ID": "0x0000",
        "Device Class": class_id,
        "Device Class Name": class_name,
        "Programming Interface": "0x00",
        "Revision ID": "0xa1",
        "Interrupt Line": "0xff",
        "IRQ": "255",
        "Interrupt Vector": "0x00",
        "PCI Pin": "0x00",
        "Spawned Bus": "0x00",
        "Flags": "0x3219" if owner.current else "0x0001",
        "Module ID": "25" if owner.current else "54",
        "Module Name": PASSTHRU_MODULE if owner.current else module,
        "Chassis": "0",
        "Physical Slot": "-1",
        "Slot Description": "",
        **_placement(machine, device),
    }


def _placement(machine: EsxiMachine, device: EsxiPciDevice) -> dict[str, str]:
    """The last fields of a block: where the device hangs, and whose it may be."""
    segment, bus, rest = device.sbdf.split(":")
    slot, function = rest.split(".")
    number = int(bus, 16)
    block: dict[str, str] = {}
    # 6.x prints neither these fields nor the NUMA node (sample of an older release).
    if machine.release.major > 6:  # noqa: PLR2004 - see above
        block["Device Layer Bus Address"] = f"s00000001.0{int(slot, 16)}"
    block |= {
        "Passthru Capable": "true",
        "Parent Device": f"PCI {int(segment, 16)}:{number - 1}:0:0",
        "Dependent Device": f"PCI {int(segment, 16)}:{number}:{int(slot, 16)}:{function}",
        "Reset Method": "Function reset",
        "FPT Sharable": "true",  # codespell:ignore fpt
    }
    if machine.release.major > 6:  # noqa: PLR2004 - see above
        block |= {
            "NUMA Node": str(device.numa),
            "Extended Device ID": "65535",
            "Extended Device Name": "",
        }
    return block
