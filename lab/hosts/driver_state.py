"""The drivers of a lab host: which modules are built for which kernel, and what runs of them.

Modules that a package built stand as files where DKMS keeps its own
(`/var/lib/dkms/mlnx-ofed-kernel/<version>/<kernel>/x86_64/module`), so that they outlive a reboot
and show in a snapshot.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

TREE: Final = "var/lib/dkms/mlnx-ofed-kernel"
"""Where DKMS keeps what it built of this module."""
MODULE: Final = "mlx5_core.ko"
KERNEL: Final = "5.15.0-113-generic"
"""The kernel that a lab host is installed with: Ubuntu 22.04's."""
MOK: Final = "var/lib/shim-signed/mok/MOK.der"
"""The key with which Ubuntu's DKMS signs (shim-signed's update-secureboot-policy makes it)."""
SIGNER: Final = "Secure Boot Module Signature key"
STACK: Final = frozenset({"mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_ucm", "rdma_cm"})
"""Modules that a driver package brings in place of the kernel's."""
_KERNEL: Final = re.compile(r"vmlinuz-(\d.*)")


@dataclass(slots=True)
class GpuFaults:
    """What is wrong with GPUs of a host, each by its index."""

    lost: set[int] = field(default_factory=set[int])
    """They fell off the bus, and the driver does not reach them."""
    pcie_gen: dict[int, int] = field(default_factory=dict[int, int])
    """The generation that the PCIe link trains to; a reboot does not heal it."""
    pcie_width: dict[int, int] = field(default_factory=dict[int, int])
    """The lanes that the PCIe link trains to."""
    uncorrected: dict[int, int] = field(default_factory=dict[int, int])
    """ECC errors that were not corrected since the driver was loaded."""


@dataclass(slots=True)
class DriverState:
    """What of the drivers is neither a file nor a module's name."""

    loaded: str = ""
    """Version of the RDMA modules that run; empty: the kernel's own."""
    secure_boot: bool = False
    """The firmware demands signatures; that outlives a reboot."""
    enrolled: bool = False
    """The host's own key was enrolled at the console."""
    lock_holder: str = ""
    """`4242 (unattended-upgr)` while another process holds dpkg's lock."""
    full_folders: set[str] = field(default_factory=set[str])
    """Folders without free space."""
    gpu_modules: Literal["open", "proprietary"] = "proprietary"
    """Flavour of the GPU kernel modules: a V100 has no open ones."""
    gpu_version: str = "580.126.20"
    """Version of the GPU driver on the host's own disk; empty when it has none."""
    gpus: GpuFaults = field(default_factory=GpuFaults)


def kernels(root: Path) -> list[str]:
    """The kernels in /boot that a fault put there, the newest last."""
    found = [match[1] for path in (root / "boot").glob("vmlinuz-*")
             if (match := _KERNEL.fullmatch(path.name))]  # fmt: skip
    return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


def built(root: Path, kernel: str) -> Path | None:
    """The module that a package built for a kernel."""
    return next(iter((root / TREE).glob(f"*/{kernel}/x86_64/module/{MODULE}")), None)


def built_version(root: Path, kernel: str) -> str:
    """Version of the modules that a package built for a kernel; empty: the kernel's own."""
    path = built(root, kernel)
    return "" if path is None else path.relative_to(root / TREE).parts[0]


def source_version(root: Path) -> str:
    """Version whose sources DKMS has, or nothing."""
    return next((path.name for path in (root / TREE).glob("*")), "")


def signer(root: Path, kernel: str) -> str:
    """Who signed the modules of a package; empty when nobody did."""
    path = built(root, kernel)
    return "" if path is None else path.read_text().strip()


def build(root: Path, version: str, kernel: str, *, signed: bool) -> None:
    """Build the modules of a version for a kernel."""
    folder = root / TREE / version / kernel / "x86_64/module"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODULE).write_text(f"{SIGNER if signed else ''}\n")


def forget_modules(root: Path) -> None:
    """Take out all that DKMS keeps of the RDMA modules."""
    shutil.rmtree(root / TREE, ignore_errors=True)
