"""The GPUs of a lab host as they are now, and what a person or a test may do to them."""

from __future__ import annotations

from collections.abc import Sequence

from components.core.errors import UsageError
from lab.hosts.bridges import gpu_addresses
from lab.hosts.cards import gpu_of
from lab.hosts.model import HostModel
from lab.views import GpuView

GPU_WORDS = {"gpu-lost": 2, "gpu-width": 2, "gpu-gen": 2, "gpu-ecc": 2}
"""How many words follow each fault's name."""
_LANES = 16


def gpu_views(model: HostModel) -> tuple[GpuView, ...]:
    """The GPUs of a host, in the order of nvidia-smi."""
    gpu, faults = gpu_of(model), model.drivers.gpus
    return tuple(
        GpuView(
            index=index,
            pci=f"0000{pci}".upper(),
            name=gpu.name,
            pcie_gen=faults.pcie_gen.get(index, gpu.pcie_gen),
            pcie_gen_max=gpu.pcie_gen,
            pcie_width=faults.pcie_width.get(index, _LANES),
            pcie_width_max=_LANES,
            nvlinks=gpu.nvlinks,
            nvlink_gb_s=gpu.nvlink_gb_s,
            bus_gb_s=gpu.bus_gb_s,
            lost=index in faults.lost,
            uncorrected=faults.uncorrected.get(index, 0),
        )
        for index, (pci, _) in enumerate(gpu_addresses(model.config))
    )


def cause_gpu_fault(model: HostModel, name: str, words: Sequence[str]) -> str:
    """Cause one fault and say in words what was done.

    Raises:
        UsageError: A word of it is wrong.
    """
    text, value = words
    if not text.isdecimal() or int(text) >= model.config.gpus:
        host = model.config
        raise UsageError(f"{host.name} has no GPU {text!r}; it has {host.gpus}, counted from 0")
    index, faults = int(text), model.drivers.gpus
    if name == "gpu-lost" and value in ("on", "off"):
        (faults.lost.add if value == "on" else faults.lost.discard)(index)
        return f"GPU {index} {'fell off' if value == 'on' else 'is on'} the bus"
    best = gpu_of(model).pcie_gen if name == "gpu-gen" else _LANES
    if name == "gpu-ecc" and value.isdecimal():
        faults.uncorrected[index] = int(value)
        return f"GPU {index} has {value} errors that were not corrected"
    if name in ("gpu-ecc", "gpu-lost"):
        raise UsageError(f"{name} takes {'a count' if name == 'gpu-ecc' else 'on or off'}")
    if not value.isdecimal() or not 0 < int(value) <= best:
        raise UsageError(f"{name} takes a number from 1 to {best}, not {value!r}")
    links = faults.pcie_gen if name == "gpu-gen" else faults.pcie_width
    links[index] = int(value)
    what = f"generation {value}" if name == "gpu-gen" else f"{value} lanes"
    return f"the PCIe link of GPU {index} runs at {what}"
