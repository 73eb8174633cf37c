"""NCCL's topology file of a cloud image: which GPUs and adapters hang under which socket.

The form is NCCL's own (`src/graph/xml.cc` reads it): `system`, `cpu`, `pci` with class and link.
"""

from __future__ import annotations

from pathlib import Path

from lab.hosts.bridges import gpu_addresses
from lab.hosts.model import HostModel

GPU_CLASS = "0x030200"
HCA_CLASS = "0x020700"


def topology_text(model: HostModel) -> str:
    """The XML text for the host's own PCI addresses."""
    functions = [(numa, pci, GPU_CLASS) for pci, numa in gpu_addresses(model.config)]
    functions += [(hca.numa, hca.pci, HCA_CLASS) for hca in model.config.hcas]
    lines = ['<system version="1">']
    for numa in sorted({numa for numa, _, _ in functions}):
        lines.append(f'  <cpu numaid="{numa}" arch="x86_64" vendor="GenuineIntel" familyid="6">')
        lines += [
            f'    <pci busid="{pci}" class="{kind}" link_speed="32.0 GT/s PCIe" link_width="16"/>'
            for node, pci, kind in sorted(functions)
            if node == numa
        ]
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>"]) + "\n"


def write_topology(root: Path, model: HostModel, path: str) -> None:
    """Put the file where the image has it, once."""
    file = root / path.lstrip("/")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(topology_text(model))
