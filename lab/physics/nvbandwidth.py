"""What nvbandwidth v0.8 prints with `-j` on the GPUs of a pod (sources.md#gpus-of-the-lab)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from components.core.errors import UsageError
from lab.physics.calibration import (
    GPU_TO_HOST_SHARE,
    HOST_TO_GPU_SHARE,
    NVLINK_COPY_SHARE,
    PCIE_LANE_GB_S,
)
from lab.physics.request import ProbePod, ProbeResult
from lab.views import GpuView

_DRIVER: Final = "580.126.20"
_MESH: Final = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
"""NVLinks between two of the eight V100 of a DGX-1: a hybrid cube mesh without a switch."""
_ARROWS: Final = {
    "host_to_device_memcpy_ce": "CPU(row) -> GPU(column)",
    "device_to_host_memcpy_ce": "CPU(row) <- GPU(column)",
    "device_to_device_memcpy_read_ce": "GPU(row) -> GPU(column)",
}


def run_nvbandwidth(pod: ProbePod) -> ProbeResult:
    """Play `nvbandwidth -j -t TEST…`.

    Raises:
        UsageError: It is called otherwise, or for a test that the lab does not play.
    """
    _, *words = pod.command
    names = words[2:]
    if words[:2] != ["-j", "-t"] or set(names) - _ARROWS.keys():
        raise UsageError(f"the lab plays nvbandwidth -j -t {' '.join(_ARROWS)}, not {words}")
    gpus = [gpu for gpu in pod.gpu_views if not gpu.lost]
    listed = [
        f"{number}: {gpu.name} ({gpu.pci.rpartition('.')[0]}): ({pod.name})"
        for number, gpu in enumerate(gpus)
    ]
    body: dict[str, object] = {
        "CUDA Runtime Version": 13000,
        "Driver Version": _DRIVER,
        "GPU Device list": listed,
        "git_version": "",
        "testcases": [_test(name, gpus) for name in names],
        "version": "v0.8",
    }
    return ProbeResult(_styled({"nvbandwidth": body}) + "\n\n", 0)


def _test(name: str, gpus: Sequence[GpuView]) -> dict[str, object]:
    if name.startswith("device_to_device") and len(gpus) < 2:  # noqa: PLR2004 - a pair
        return {"name": name, "status": "Waived"}
    if name.startswith("device_to_device"):
        matrix = [[_between(one, other) for other in gpus] for one in gpus]
    else:
        share = HOST_TO_GPU_SHARE if name.startswith("host") else GPU_TO_HOST_SHARE
        matrix = [[share * PCIE_LANE_GB_S[gpu.pcie_gen] * gpu.pcie_width for gpu in gpus]]
    return {
        "bandwidth_description": f"memcpy CE {_ARROWS[name]} bandwidth (GB/s)",
        "bandwidth_matrix": [[f"{cell:.6g}" if cell else "N/A" for cell in row] for row in matrix],
        "name": name,
        "status": "Passed",
        "sum": sum(map(sum, matrix)),
    }


def _between(one: GpuView, other: GpuView) -> float:
    """GB/s from one GPU to another; 0 if it is the same one, or neither has access to the other."""
    if one.index == other.index:
        return 0.0
    if not one.nvlinks:
        slower = min(PCIE_LANE_GB_S[gpu.pcie_gen] * gpu.pcie_width for gpu in (one, other))
        return HOST_TO_GPU_SHARE * slower
    links = one.nvlinks
    if links == sum(_MESH[0]):
        links = _MESH[one.index % len(_MESH)][other.index % len(_MESH)]
    return NVLINK_COPY_SHARE * links * one.nvlink_gb_s


def _styled(value: object) -> str:
    """JSON as jsoncpp's `toStyledString` writes it: what is nested begins on a line of its own."""
    text = json.dumps(value, indent="\t", separators=(",", " : "))
    return re.sub(r'(?m)^(\t*)(".*" : )([\[{])$', r"\1\2\n\1\3", text)
