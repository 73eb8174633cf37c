"""What `modinfo` and sysfs say of a module's version: by the kernel, and who built it."""

from __future__ import annotations

from typing import Final

from lab.hosts.driver_state import STACK, built_version
from lab.hosts.model import HostModel

_DMA_BUF_KERNEL: Final = (5, 12)
"""First Linux whose RDMA stack takes a DMA-BUF (the GPU operator's documentation)."""


def srcversion(module: str, version: str) -> str:
    """A checksum of the source: another one for each version of a package."""
    return f"{sum(f'{module}{version}'.encode()):024X}"


def running_srcversion(model: HostModel, module: str) -> str:
    """That of the module in memory."""
    return srcversion(module, model.drivers.loaded if module in STACK else "")


def stored_srcversion(model: HostModel, module: str, kernel: str) -> str:
    """That of the module on disk, for a kernel."""
    return srcversion(module, built_version(model.root, kernel) if module in STACK else "")


def reaches_gpu_memory(model: HostModel) -> bool:
    """GPUDirect RDMA is possible: by a module of peer memory, or by DMA-BUF with open modules."""
    if {"nvidia_peermem", "nv_peer_mem"} & set(model.modules):
        return True
    numbers = tuple(int(part) for part in model.kernel.split("-")[0].split(".")[:2])
    return model.drivers.gpu_modules == "open" and numbers >= _DMA_BUF_KERNEL
