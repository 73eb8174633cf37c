"""nvidia-smi: the listing, the queries, NVLinks, and the table that it prints without options."""

from __future__ import annotations

from collections.abc import Sequence

from lab.hosts.bridges import gpu_addresses, relation
from lab.hosts.cards import H100, V100, gpu_of
from lab.hosts.gpu_faults import gpu_views
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.views import GpuView

DRIVER = "580.126.20"
CUDA = "13.0"
RULE = "+-----------------------------------------+------------------------+----------------------+"


_LOST_STATUS = 255
"""A guess: no report of such a GPU has the exit status."""


def nvidia_smi(
    call: ToolCall, gpus: Sequence[GpuView] | None = None, *, loaded: bool = False
) -> ToolResult:
    """`nvidia-smi`, `-L`, `topo -m`, `nvlink` and the query forms that scripts use.

    Args:
        call: The call.
        gpus: Those that the caller sees, in a container; None for all of the host.
        loaded: A program computes on them.
    """
    seen = gpu_views(call.model) if gpus is None else tuple(gpus)
    if not seen:
        return ToolResult(6, "No devices were found\n")
    lost = next((gpu for gpu in seen if gpu.lost), None)
    if lost is not None:
        # NVIDIA/nvidia-container-toolkit#69, meta-llama/llama-models#200: it prints nothing else.
        name = lost.pci.removeprefix("0000")
        words = f"Unable to determine the device handle for GPU{name}: Unknown Error\n"
        return ToolResult(_LOST_STATUS, words)
    match call.argv:
        case ():
            text = _table(call)
        case ("topo", "-m"):
            text = _topology(call)
        case ("-L",):
            text = "".join(f"{_title(gpu)}\n" for gpu in seen)
        case ("nvlink", ("-s" | "-e") as option):
            text = "".join(_nvlink(gpu, option) for gpu in seen)
        case _:
            return _query(call, seen, loaded=loaded)
    return ToolResult(out=text)


def _title(gpu: GpuView) -> str:
    number = gpu.index
    return f"GPU {number}: {gpu.name} (UUID: GPU-{number:08x}-0000-0000-0000-{number:012x})"


def _nvlink(gpu: GpuView, option: str) -> str:
    """One GPU in the form of an H100 (sources.md#gpus-of-the-lab)."""
    if not gpu.nvlinks:
        words = "Unable to retrieve NVLink information as all links are inActive"
        return f"{_title(gpu)}\n\t NVML: {words}\n"
    lines = [_title(gpu)]
    for link in range(gpu.nvlinks):
        if option == "-s":
            lines.append(f"\t Link {link}: {gpu.nvlink_gb_s} GB/s")
        else:
            lines += [f"\t Link {link}: {kind} Errors: 0" for kind in _ERRORS]
    return "\n".join(lines) + "\n"


_ERRORS = ("Replay", "Recovery", "CRC")


def _query(call: ToolCall, gpus: Sequence[GpuView], *, loaded: bool) -> ToolResult:
    """`--query-gpu=` and `--query-remapped-rows=`, with `--format=csv[,noheader][,nounits]`."""
    options = dict(word.removeprefix("--").split("=", 1) for word in call.argv if "=" in word)
    fields = options.get("query-gpu", options.get("query-remapped-rows", "")).split(",")
    plain = options.get("format", "").split(",")
    values = [_values(call, gpu, loaded=loaded) for gpu in gpus]
    if not set(fields) <= set(values[0]):
        words = f"Field {','.join(fields)!r} is not a valid field to query.\n"
        return call.unmodelled(ToolResult(1, words))
    rows = [] if "noheader" in plain else [", ".join(fields)]
    for each in values:
        cells = [each[name] for name in fields]
        rows.append(", ".join(text.partition(" ")[0] if unit and "nounits" in plain else text
                              for text, unit in cells))  # fmt: skip
    return ToolResult(out="".join(f"{row}\n" for row in rows))


def _values(call: ToolCall, gpu: GpuView, *, loaded: bool) -> dict[str, tuple[str, bool]]:
    """Each field's text, and whether it ends with a unit."""
    model = gpu_of(call.model)
    # Rows are replaced since Ampere; the texts of a V100 are a guess.
    rows = ("0", "0", "No", "No") if model is not V100 else ("[N/A]",) * 4
    remapped = dict(zip(("correctable", "uncorrectable", "pending", "failure"), rows, strict=True))
    plain = {
        "index": str(gpu.index),
        "name": gpu.name,
        "driver_version": DRIVER,
        "pci.bus_id": gpu.pci,
        "gpu_bus_id": gpu.pci,
        "pcie.link.gen.current": str(gpu.pcie_gen),
        "pcie.link.gen.max": str(gpu.pcie_gen_max),
        "pcie.link.width.current": str(gpu.pcie_width),
        "pcie.link.width.max": str(gpu.pcie_width_max),
        "temperature.gpu": "58" if loaded else "34",
        "ecc.errors.corrected.volatile.total": "0",
        "ecc.errors.uncorrected.volatile.total": str(gpu.uncorrected),
        # Bit 0 is an idle GPU.
        "clocks_throttle_reasons.active": f"0x{0 if loaded else 1:016x}",
        "gpu_recovery_action": "None" if model is not V100 else "[N/A]",
        **{f"remapped_rows.{name}": text for name, text in remapped.items()},
    }
    idle, highest = model.clocks_mhz
    with_unit = {
        "memory.total": f"{model.memory_mib} MiB",
        "power.draw": f"{model.power_w * (0.8 if loaded else 0.12):.2f} W",
        "enforced.power.limit": f"{model.power_w:.2f} W",
        "clocks.sm": f"{highest if loaded else idle} MHz",
        "clocks.max.sm": f"{highest} MHz",
    }
    units = {name: (text, True) for name, text in with_unit.items()}
    return {name: (text, False) for name, text in plain.items()} | units


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

    NICs stand as in the vendor's samples (docs/explanation/sources.md#pcie). GPUs of
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
