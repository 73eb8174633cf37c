"""What the lab knows of GPU and card models: ids, names and firmware releases.

Sources: pci.ids for ids and names, mstflint for device types, docs/explanation/sources.md#hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lab.hosts.model import HostModel


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model."""

    device: str
    """PCI device id, four hex digits, of vendor 10de."""
    pci_name: str
    name: str
    """As nvidia-smi names it."""
    memory_mib: int


V100 = Gpu("1db1", "GV100GL [Tesla V100 SXM2]", "Tesla V100-SXM2-32GB", 32768)
A100 = Gpu("20f1", "GA100 [A100 PCIe 40GB]", "NVIDIA A100-PCIE-40GB", 40960)
H100 = Gpu("2330", "GH100 [H100 SXM5 80GB]", "NVIDIA H100 80GB HBM3", 81559)


def gpu_of(model: HostModel) -> Gpu:
    """The GPUs of a host: a DGX-1's, those of the ESXi guide's guests, or an H100 cloud's."""
    if model.config.hcas:
        return H100
    return A100 if model.config.guest else V100


@dataclass(frozen=True, slots=True)
class Card:
    """One RDMA card model, as mlxconfig describes it."""

    kind: str
    part: str
    description: str
    firmware: str


CARDS: Final[Mapping[str, Card]] = {
    "1017": Card(
        "ConnectX5",
        "MCX555A-ECA_Ax_Bx",
        "ConnectX-5 VPI adapter card; EDR IB and 100GbE",
        "16.35.2000",
    ),
    "101b": Card(
        "ConnectX6",
        "MCX653105A-HDA_Ax",
        "ConnectX-6 VPI adapter card; HDR IB (200Gb/s) and 200GbE; single-port QSFP56; "
        "PCIe4.0 x16; tall bracket; ROHS R6",
        "20.35.2000",
    ),
    "101d": Card(
        "ConnectX6DX",
        "MCX623106AN-CDA_Ax",
        "ConnectX-6 Dx EN adapter card; 100GbE; Dual-port QSFP56; PCIe 4.0/3.0 x16",
        "22.35.2000",
    ),
    "1021": Card(
        "ConnectX7",
        "MCX75310AAS-NEA_Ax",
        "NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB (default mode); Single-port OSFP",
        "28.35.2000",
    ),
}
"""By PCI device id of vendor 15b3; the firmware releases are of one generation."""


def firmware_release(device: str) -> str:
    """The firmware version of a card in the lab: the family's number and 35.2000."""
    return CARDS[device].firmware if device in CARDS else "16.35.2000"
