"""nvidia-smi: the listing, the query form, and the table that it prints without options."""

from __future__ import annotations

from collections.abc import Callable

from lab.hosts.bridges import gpu_addresses, relation
from lab.hosts.cards import H100, gpu_of
from lab.hosts.tools.call import ToolCall, ToolResult

DRIVER = "580.126.20"
CUDA = "13.0"
RULE = "+-----------------------------------------+------------------------+----------------------+"


def nvidia_smi(call: ToolCall) -> ToolResult:
    """`nvidia-smi`, `nvidia-smi -L` and the query form that inventory scripts use."""
    gpus = gpu_addresses(call.model.config)
    gpu = gpu_of(call.model)
    if not gpus:
        return ToolResult(6, "No devices were found\n")
    if not call.argv:
        return ToolResult(out=_table(call))
    if call.argv == ("topo", "-m"):
        return ToolResult(out=_topology(call))
    if call.argv == ("-L",):
        return ToolResult(out="".join(
            f"GPU {i}: {gpu.name} (UUID: GPU-{i:08x}-0000-0000-0000-{i:012x})\n"
            for i in range(len(gpus))
        ))  # fmt: skip
    values: dict[str, Callable[[int], str]] = {
        "index": str,
        "name": lambda _: gpu.name,
        "driver_version": lambda _: DRIVER,
        "memory.total": lambda _: f"{gpu.memory_mib} MiB",
        "pci.bus_id": lambda i: f"0000{gpus[i][0]}".upper(),
    }
    query = next((a for a in call.argv if a.startswith("--query-gpu=")), "").partition("=")[2]
    fields = query.split(",")
    if not query or not set(fields) <= set(values):
        return call.unmodelled(ToolResult(1, f"Field {query!r} is not a valid field to query.\n"))
    heading = "" if _has_no_header(call.argv) else ", ".join(fields) + "\n"
    return ToolResult(out=heading + "".join(
        ", ".join(values[name](i) for name in fields) + "\n" for i in range(len(gpus))
    ))  # fmt: skip


def _has_no_header(argv: tuple[str, ...]) -> bool:
    return any(a.startswith("--format=") and "noheader" in a for a in argv)


LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501 - the tool's own lines


def _topology(call: ToolCall) -> str:
    """`nvidia-smi topo -m` in the form of the recorded one of four H200.

    NICs stand as in the vendor's samples (lab/sources.md#pcie). GPUs of
    an H100 cloud have NVLinks, as the recorded ones; those of the other machines show the way over
    PCIe, which is a guess for a DGX-1.
    """
    config = call.model.config
    gpus = [pci for pci, _ in gpu_addresses(call.model.config)]
    places = dict(gpu_addresses(call.model.config))
    cards = [nic.pci for nic in config.nics] + [hca.pci for hca in config.hcas]
    names = [nic.rdma for nic in config.nics] + [hca.name for hca in config.hcas]
    rows = [f"GPU{i}" for i in range(len(gpus))] + [f"NIC{i}" for i in range(len(cards))]
    heads = [*rows, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    text = "\t\x1b[4m" + "\t".join(heads) + "\x1b[0m\n"
    for row, one in zip(rows, [*gpus, *cards], strict=True):
        cells = [_cell(call, one, other) for other in [*gpus, *cards]]
        if one in places:
            node = places[one]
            cells += [f"{node * 8}-{node * 8 + 7}", str(node), "", "N/A"]
        text += "\t".join([row, *cells]) + "\n"
    nics = "".join(f"  NIC{i}: {name}\n" for i, name in enumerate(names))
    return text + LEGEND + (f"\nNIC Legend:\n\n{nics}\n" if nics else "")


def _cell(call: ToolCall, one: str, other: str) -> str:
    gpus = {pci for pci, _ in gpu_addresses(call.model.config)}
    if one == other:
        return " X "
    if {one, other} <= gpus and gpu_of(call.model) is H100:
        return "NV18"
    return relation(call.model.config, one, other)


def _row(left: str, middle: str, right: str) -> str:
    return f"|{left:<41}|{middle:>24}|{right:>22}|\n"


def _table(call: ToolCall) -> str:
    """The default report, in the form of a 580 driver's, two rows a GPU."""
    gpu = gpu_of(call.model)
    width = len(RULE) - 2
    head = f" NVIDIA-SMI {DRIVER}".ljust(39) + f"Driver Version: {DRIVER}".ljust(32)
    text = f"+{'-' * width}+\n|{head + f'CUDA Version: {CUDA}':<{width}}|\n{RULE}\n"
    text += _row(" GPU  Name                 Persistence-M", " Bus-Id          Disp.A ", "ECC ")
    text += _row(
        " Fan  Temp   Perf          Pwr:Usage/Cap", "Memory-Usage ", "GPU-Util  Compute M. "
    )
    text += f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|\n"
    for index, (pci, _) in enumerate(gpu_addresses(call.model.config)):
        text += _row(f" {index:>3}  {gpu.name[:25]:<25}      On ", f"0000{pci.upper()} Off ", "0 ")
        used = f"0MiB / {gpu.memory_mib}MiB "
        text += _row(" N/A   34C    P0              60W / 400W ", used, "0%      Default ")
        text += f"{RULE}\n"
    return text
