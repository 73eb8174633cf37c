"""What the lab knows of GPU and card models: ids, names and firmware releases.

Sources: pci.ids for ids and names, mstflint for device types, lab/sources.md#hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from components.core.record import record

if TYPE_CHECKING:
    from lab.hosts.model import HostModel


@record
class Gpu:
    """One GPU model."""

    device: str
    """PCI device id, four hex digits, of vendor 10de."""
    pci_name: str
    name: str
    """As nvidia-smi names it."""
    memory_mib: int
    pcie_gen: int
    nvlinks: int
    """Of each GPU that are up; none of a single card without a bridge."""
    nvlink_gb_s: float
    """Of each link in one direction, as `nvidia-smi nvlink -s` prints it."""
    power_w: int
    clocks_mhz: tuple[int, int]
    """Of the SMs: idle, and the highest."""
    bus_gb_s: float
    """Bus bandwidth of a large all-reduce between all GPUs of a host; 0 for a single card."""


CARD_NAMES: Final[Mapping[str, str]] = {
    "1017": "MT27800 Family [ConnectX-5]",
    "1018": "MT27800 Family [ConnectX-5 Virtual Function]",
    "101b": "MT28908 Family [ConnectX-6]",
    "101c": "MT28908 Family [ConnectX-6 Virtual Function]",
    "101d": "MT2892 Family [ConnectX-6 Dx]",
    "101e": "ConnectX Family mlx5Gen Virtual Function",
    "1021": "MT2910 Family [ConnectX-7]",
    "1023": "CX8 Family [ConnectX-8]",
    "1025": "CX9 Family [ConnectX-9]",
    "a2dc": "MT43244 BlueField-3 integrated ConnectX-7 network controller",
}
"""PCI device id of vendor 15b3 to its name in pci.ids."""

V100 = Gpu(
    "1db1", "GV100GL [Tesla V100 SXM2]", "Tesla V100-SXM2-32GB", 32768,
    pcie_gen=3, nvlinks=6, nvlink_gb_s=25.781, power_w=300, clocks_mhz=(135, 1530), bus_gb_s=130.0,
)  # fmt: skip
A100 = Gpu(
    "20f1", "GA100 [A100 PCIe 40GB]", "NVIDIA A100-PCIE-40GB", 40960,
    pcie_gen=4, nvlinks=0, nvlink_gb_s=0.0, power_w=250, clocks_mhz=(210, 1410), bus_gb_s=0.0,
)  # fmt: skip
H100 = Gpu(
    "2330", "GH100 [H100 SXM5 80GB]", "NVIDIA H100 80GB HBM3", 81559,
    pcie_gen=5, nvlinks=18, nvlink_gb_s=26.562, power_w=700, clocks_mhz=(345, 1980), bus_gb_s=480.0,
)  # fmt: skip
"""NVLinks: sources.md#gpus-of-the-lab, where the guesses among these numbers are named as well."""


def gpu_of(model: HostModel) -> Gpu:
    """The GPUs of a host: a DGX-1's, those of the ESXi guide's guests, or an H100 cloud's."""
    if model.config.hcas:
        return H100
    return A100 if model.config.guest else V100


@record
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
    "1023": Card(
        "ConnectX8",
        "900-9X81E-00EX-ST0",
        "NVIDIA ConnectX-8 C8180 HHHL SuperNIC; 800Gbs XDR IB (default mode) / 2x400GbE; "
        "Single-cage OSFP; PCIe 6 x16",
        "40.45.1200",
    ),
    "1025": Card(
        "ConnectX9",
        "900-9X91E-00EB-ST0",
        "NVIDIA ConnectX-9 SuperNIC; 800Gb/s XDR IB (default mode) / 800GbE; PCIe 6 x16",
        "82.49.1014",
    ),
    "a2dc": Card(
        "BlueField3",
        "900-9D3B6-00CV-A_Ax",
        "NVIDIA BlueField-3 B3220 P-Series FHHL DPU; 200GbE (default mode) / NDR200 IB; "
        "Dual-port QSFP112; PCIe Gen5.0 x16 with x16 PCIe extension option; 16 Arm cores",
        "32.39.5050",
    ),
}
"""By PCI device id of vendor 15b3. The firmware releases of the older ones are of one generation;
the parts of ConnectX-8 and ConnectX-9 and the words that describe them are a guess."""


def firmware_release(device: str) -> str:
    """The firmware version of a card in the lab: the family's number and 35.2000."""
    return CARDS[device].firmware if device in CARDS else "16.35.2000"
