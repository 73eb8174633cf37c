"""The kernel modules that a lab host knows, and which of them it has loaded after boot."""

from __future__ import annotations

from typing import Final

from lab.hosts.driver_state import STACK
from lab.views import HostConfig

OLD_PEER: Final = "nv_peer_mem"
OLD_PEER_PACKAGE: Final = "nvidia-peer-memory-dkms"
"""What brings it, for GPU drivers before 470 (Mellanox/nv_peer_memory)."""
PEER_MODULES: Final = frozenset({"nvidia_peermem", "nv_peer_mem"})
"""Modules that need the peer memory of NVIDIA's RDMA driver."""
BOOT_MODULES = (
    "mlx5_core",
    "mlx5_ib",
    "ib_core",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_cm",
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "overlay",
)
"""Modules that a host with cards and GPUs has loaded after boot, where their drivers are."""

LOADABLE_MODULES = {
    "nvidia_peermem": ("nvidia", "ib_core"),
    "nv_peer_mem": ("nvidia", "ib_core"),
    "ib_umad": ("ib_core",),
    "ib_ipoib": ("ib_core", "rdma_cm"),
    "br_netfilter": (),
    "nf_conntrack": (),
    "ip_vs": ("nf_conntrack",),
    "rpcrdma": ("rdma_cm", "ib_core"),
    "vfio_pci": (),
    "dummy": (),
    "8021q": (),
    "bonding": (),
}
"""Modules that exist on disk, with what they depend on."""


def modules_at_boot(config: HostConfig, gpu_driver: str) -> list[str]:
    """Udev loads a driver for a device that is there, where the driver is installed.

    Args:
        config: The host.
        gpu_driver: Version of its GPU driver, or nothing.
    """
    cards, gpus = bool(config.nics or config.hcas), bool(config.gpus and gpu_driver)
    return [
        name
        for name in BOOT_MODULES
        if (cards or name not in STACK) and (gpus or not name.startswith("nvidia"))
    ]
