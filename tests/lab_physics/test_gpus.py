"""What nvbandwidth and a collective inside a host print, from the GPUs of the host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.node import Bandwidths, NodeLog, parse_node_log
from components.core.errors import UsageError
from lab.hosts.cards import H100, V100, Gpu
from lab.physics.nvbandwidth import run_nvbandwidth
from lab.physics.one_host import run_one_host
from lab.physics.request import ProbePod
from lab.views import GpuView
from tests.lab_physics.examples import gpu_views

TESTS = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_read_ce")
RECORDED = Path(__file__).parents[1] / "acceptance/recorded/node/node_nccl.log"


def copies(gpus: tuple[GpuView, ...]) -> dict[str, Bandwidths]:
    pod = ProbePod("pod", "gpu01", ("nvbandwidth", "-j", "-t", *TESTS), gpu_views=gpus)
    log = run_nvbandwidth(pod).log.splitlines()
    marked = ["phase begin before", *(f"nvbandwidth {line}" for line in log)]
    node = parse_node_log("\n".join(f"railyard-node: {line}" for line in marked))
    assert isinstance(node, NodeLog)
    assert node.said == ()
    return {test.name: test for test in node.bandwidths}


def load(gpus: tuple[GpuView, ...], *, asked: int = 8) -> NcclLog:
    words = ("all_reduce_perf", "-b", "2G", "-e", "2G", "-n", "400", "-g", str(asked))
    result = run_one_host(ProbePod("pod", "gpu01", words, {"NCCL_DEBUG": "INFO"}, gpu_views=gpus))
    assert (result.exit_code == 0) == (asked <= sum(not gpu.lost for gpu in gpus))
    log = parse_nccl_log(result.log)
    assert isinstance(log, NcclLog)
    return log


def test_the_json_has_the_lines_of_the_real_tool() -> None:
    pod = ProbePod("vm", "", ("nvbandwidth", "-j", "-t", *TESTS), gpu_views=gpu_views(H100, 1))
    mark = "railyard-node: nvbandwidth "
    real = [line.removeprefix(mark) for line in RECORDED.read_text().splitlines() if mark in line]
    values = ("54.", "55.", "H200", "580.")
    played = run_nvbandwidth(pod).log.splitlines()
    assert len(played) == len(real)
    assert [
        (ours, theirs)
        for ours, theirs in zip(played, real, strict=True)
        if ours != theirs and not any(value in theirs for value in values)
    ] == []


def test_a_narrow_link_slows_the_copies_of_its_gpu_alone() -> None:
    gpus = gpu_views(H100)
    broken = (*gpus[:3], replace(gpus[3], pcie_width=8), *gpus[4:])
    (row,) = copies(broken)["host_to_device_memcpy_ce"].gbyte_s
    assert row[3] == pytest.approx(27.06, abs=0.01)
    assert {round(cell or 0, 1) for n, cell in enumerate(row) if n != 3} == {54.1}


def test_two_gpus_of_a_mesh_share_one_link_two_or_none() -> None:
    matrix = copies(gpu_views(V100))["device_to_device_memcpy_read_ce"].gbyte_s
    assert [sum(cell or 0 for cell in row) for row in matrix] == pytest.approx([131.48] * 8, 0.001)
    assert [cell is None for cell in matrix[0]] == [True, *[False] * 4, *[True] * 3]
    assert copies(gpu_views(V100, 1))["device_to_device_memcpy_read_ce"].status == "Waived"


@pytest.mark.parametrize(("gpu", "least"), [(H100, 470), (V100, 128)])
def test_the_gpus_of_a_host_go_over_nvlink(gpu: Gpu, least: float) -> None:
    log = load(gpu_views(gpu))
    assert len(log.ranks) == 8
    assert log.rows[0].worst_busbw_gb_s > least
    assert log.channels.peer == 24 * 8


def test_a_gpu_off_the_bus_is_not_counted() -> None:
    gpus = gpu_views(H100)
    log = load((*gpus[:7], replace(gpus[7], lost=True)))
    assert "8 requested but only 7" in " ".join(each.line for each in log.failures)


@pytest.mark.parametrize("words", ["nvbandwidth", "nvbandwidth -j -t all_to_one_write_ce"])
def test_another_call_of_nvbandwidth_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="the lab plays nvbandwidth"):
        run_nvbandwidth(ProbePod("pod", "gpu01", tuple(words.split()), gpu_views=gpu_views(H100)))
