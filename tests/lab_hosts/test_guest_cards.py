"""Firmware of guests and bare machines, ATS in lspci, and the adapters of a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.hosts.model import HostModel
from lab.hosts.sysfs import SysFile, SysLink, make_sys_table
from lab.hosts.tools.call import Tool, ToolCall, ToolResult
from lab.hosts.tools.devices import ibdev2netdev, ibstat, ibv_devinfo, lspci, rdma
from lab.hosts.tools.firmware import mlxconfig
from lab.hosts.tools.gpus import nvidia_smi
from lab.hosts.tools.mst import mst
from lab.hosts.topology_file import topology_text
from lab.views import HcaConfig
from tests.lab_hosts.conftest import make_host

CARD = "0000:05:00.0"


def make_model(tmp_path: Path, *, guest: bool = False, hcas: int = 0) -> HostModel:
    adapters = tuple(
        HcaConfig(f"mlx5_{n}", f"0000:{0x40 + n:02x}:00.0", 400, "InfiniBand", n // 4)
        for n in range(hcas)
    )
    config = replace(make_host("vm01", "127.0.0.1"), guest=guest, hcas=adapters)
    model = HostModel(replace(config, nics=()) if hcas else config, tmp_path / "nvram.json")
    model.boot("vm01", cold=not guest)
    return model


def run(model: HostModel, tool: Tool, *argv: str, uid: int = 0) -> ToolResult:
    return tool(ToolCall(tool.__name__, argv, uid, uid, "/", model, model.nvram_path.parent))


def values(model: HostModel) -> list[str]:
    out = run(model, mlxconfig, "-d", CARD, "-e", "query", "ATS_ENABLED").out
    return next(line.split()[-3:] for line in out.splitlines() if "ATS_ENABLED" in line)


def enabled(model: HostModel) -> bool:
    return "ATSCtl:\tEnable+" in run(model, lspci, "-s", CARD, "-vvv").out


def test_a_guests_own_reboot_does_not_load_firmware(tmp_path: Path) -> None:
    model = make_model(tmp_path, guest=True)
    assert run(model, mlxconfig, "-d", CARD, "-y", "set", "ATS_ENABLED=1").rc == 0
    assert values(model) == ["False(0)", "False(0)", "True(1)"]
    model.boot("vm01", cold=False)
    assert values(model) == ["False(0)", "False(0)", "True(1)"]
    again = make_model(tmp_path, guest=True)  # the lab was stopped and started
    assert values(again) == ["False(0)", "False(0)", "True(1)"]
    again.boot("vm01", cold=True)
    assert values(again) == ["False(0)", "True(1)", "True(1)"]


@pytest.mark.parametrize(("current", "allowed"), [(True, True), (True, False), (False, True)])
def test_lspci_shows_what_firmware_and_hypervisor_give(
    tmp_path: Path, current: bool, allowed: bool  # noqa: FBT001 - the cases of a truth table
) -> None:  # fmt: skip
    model = make_model(tmp_path, guest=True)
    model.ats_allowed = allowed
    run(model, mlxconfig, "-d", CARD, "-y", "set", f"ATS_ENABLED={int(current)}")
    model.boot("vm01", cold=True)
    assert enabled(model) == (current and allowed)
    assert model.gdr_allowed(CARD) == (current and allowed)
    assert "access denied" in run(model, lspci, "-s", CARD, "-vvv", uid=1000).out


def test_placement_decides_too(tmp_path: Path) -> None:
    model = make_model(tmp_path, guest=True)
    run(model, mlxconfig, "-d", CARD, "-y", "set", "ATS_ENABLED=1")
    model.boot("vm01", cold=True)
    model.placed = False
    assert not model.gdr_allowed(CARD)
    (tmp_path / "bare").mkdir()
    assert make_model(tmp_path / "bare").gdr_allowed(CARD)  # bare metal needs none of it


def test_mst_names_need_mst(tmp_path: Path) -> None:
    model = make_model(tmp_path)
    name = "/dev/mst/mt4119_pciconf0"
    assert run(model, mlxconfig, "-d", name, "query").rc == 1
    assert "is not loaded" in run(model, mst, "status").out
    run(model, mst, "start")
    assert name in run(model, mst, "status").out
    assert run(model, mlxconfig, "-d", name, "query", "ATS_ENABLED").rc == 0
    run(model, mst, "stop")
    assert name not in run(model, mst, "status").out


def test_firmware_may_ask_for_a_power_cycle(tmp_path: Path) -> None:
    model = make_model(tmp_path)
    model.power_cycle_pending = True
    answer = run(model, mlxconfig, "-d", CARD, "-y", "set", "ATS_ENABLED=1")
    assert "Please power cycle machine" in answer.out


def test_a_clouds_adapters_are_found_by_discovery(tmp_path: Path) -> None:
    model = make_model(tmp_path, hcas=8)
    model.down_hcas.add("mlx5_3")
    table = make_sys_table(model)

    def read(path: str) -> str:
        entry = table[f"/class/infiniband/{path.partition('/')[0]}"]
        assert isinstance(entry, SysLink)
        file = table[entry.target.removeprefix("../..") + "/" + path.partition("/")[2]]
        assert isinstance(file, SysFile)
        return file.read().strip()

    assert read("mlx5_0/ports/1/link_layer") == "InfiniBand"
    assert read("mlx5_0/ports/1/state") == "4: ACTIVE"
    assert read("mlx5_3/ports/1/state") == "1: DOWN"
    assert read("mlx5_0/ports/1/rate") == "400 Gb/sec (4X NDR)"
    assert run(model, ibstat, "-l").out.split() == [f"mlx5_{n}" for n in range(8)]
    assert "State: Down" in run(model, ibstat, "mlx5_3").out
    assert run(model, ibdev2netdev).out == ""
    assert "link mlx5_0/1 state ACTIVE" in run(model, rdma, "link").out
    assert "vendor_part_id:\t\t\t4126" in run(model, ibv_devinfo, "-d", "mlx5_1").out
    assert (
        run(model, mlxconfig, "-d", "0000:40:00.0", "query").rc == 1
    )  # the firmware is the cloud's


def test_the_topology_file_names_every_function(tmp_path: Path) -> None:
    model = make_model(tmp_path, hcas=8)
    text = topology_text(model)
    assert text.count('class="0x020700"') == 8
    assert text.count('class="0x030200"') == 8
    assert text.startswith('<system version="1">')


def test_nvidia_smi_without_options_prints_a_row_a_gpu(tmp_path: Path) -> None:
    out = run(make_model(tmp_path, guest=True), nvidia_smi).out
    assert out.count("NVIDIA A100-PCIE-40GB") == 8
    widths = {len(line) for line in out.splitlines()}
    assert len(widths) == 1
