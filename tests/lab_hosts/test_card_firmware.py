"""Firmware of emulated cards: what each model has, the tools' JSON, and what restarts a card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from components.catalogue.cards import CARDS as MODELS
from components.catalogue.cards import CardName
from lab.hosts.cards import CARD_NAMES, CARDS
from lab.hosts.model import HostModel
from lab.hosts.sysfs import make_sys_table
from lab.hosts.tools.call import Tool, ToolCall, ToolResult
from lab.hosts.tools.firmware import flint, mlxconfig, mlxfwreset
from lab.hosts.tools.mst import mst
from tests.lab_hosts.conftest import make_host, make_nic

PCI = "0000:05:00.0"
SECOND = "0000:05:00.1"


def make_model(folder: Path, name: CardName, *ports: str) -> HostModel:
    card = MODELS[name]
    nics = tuple(
        replace(
            make_nic(pci, f"enp5s0f{number}", f"mlx5_{number}", 0),
            device=card.pf_device,
            vf_device=card.vf_device,
        )
        for number, pci in enumerate(ports)
    )
    config = replace(make_host("gpu01", "127.0.0.1"), nics=nics)
    model = HostModel(config, folder / "nvram.json")
    model.boot("gpu01")
    return model


def run(model: HostModel, tool: Tool, *argv: str, stdin: str = "", uid: int = 0) -> ToolResult:
    call = ToolCall(tool.__name__, argv, uid, uid, "/", model, Path("/"))
    return tool(replace(call, stdin_text=lambda: stdin))


def query(model: HostModel, pci: str = PCI) -> dict[str, dict[str, object]]:
    answer = run(model, mlxconfig, "-d", pci, "-e", "-j", "/tmp/fw", "query")
    assert answer.out == "Query output saved to /tmp/fw successfully\n"
    document = json.loads(answer.files["/tmp/fw"])
    return cast("dict[str, dict[str, object]]", document["Device #1"]["tlv_configuration"])


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_of_the_table_is_played(tmp_path: Path, name: CardName) -> None:
    model = make_model(tmp_path, name, PCI)
    device = MODELS[name].pf_device
    version = CARDS[device].firmware
    assert device in CARD_NAMES
    assert version.startswith(f"{MODELS[name].firmware_family}.")
    assert f"FW Version:            {version}\n" in run(model, flint, "-d", PCI, "query").out
    assert ("LINK_TYPE_P1" in query(model)) == MODELS[name].vpi
    assert model.unmodelled == []


def test_json_is_laid_out_as_the_tool_does(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-8", PCI)
    run(model, mlxconfig, "-d", PCI, "-y", "set", "NUM_OF_VFS=32", "ATS_ENABLED=1")
    files = run(model, mlxconfig, "-d", PCI, "-e", "-j", "fw", "query").files
    assert files["/fw"].startswith('{\n\t"Device #1" : \n\t{\n\t\t"description" : ')
    assert query(model)["NUM_OF_VFS"] == {
        "current_value": 16, "default_value": 16, "modified": True, "next_value": 32,
        "read_only": False,
    }  # fmt: skip
    assert query(model)["ATS_ENABLED"]["next_value"] == "True(1)"


def test_ports_of_a_card_share_its_firmware(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-7", PCI, SECOND)
    run(model, mlxconfig, "-d", PCI, "-y", "set", "NUM_OF_VFS=32", "LINK_TYPE_P2=1")
    assert query(model, SECOND)["NUM_OF_VFS"]["next_value"] == 32
    model.boot("gpu01")
    assert [nic.vf_limit for nic in model.nics] == [32, 32]
    assert [nic.infiniband for nic in model.nics] == [False, True]
    table = make_sys_table(model)
    assert "/class/net/enp5s0f0" in table
    assert "/class/net/enp5s0f1" not in table
    assert model.nic_by_netdev("enp5s0f1") is None


def test_hidden_settings_show_once_the_card_runs_with_the_advanced_ones(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-6", PCI)
    refused = run(model, mlxconfig, "-d", PCI, "-y", "set", "PCI_WR_ORDERING=1")
    assert (refused.rc, "PCI_WR_ORDERING" in refused.err) == (3, True)
    run(model, mlxconfig, "-d", PCI, "-y", "set", "ADVANCED_PCI_SETTINGS=1")
    assert "PCI_WR_ORDERING" not in query(model)
    model.boot("gpu01")
    assert query(model)["PCI_WR_ORDERING"]["next_value"] == "per_mkey(0)"


def test_a_bluefield_in_dpu_mode_starts_by_its_own_reset_only(tmp_path: Path) -> None:
    model = make_model(tmp_path, "BlueField-3", PCI)
    run(model, mlxconfig, "-d", PCI, "-y", "set", "NUM_OF_VFS=32")
    model.boot("gpu01")
    assert query(model)["NUM_OF_VFS"]["current_value"] == 16
    assert "3: Driver restart and PCI reset" in run(model, mlxfwreset, "-d", PCI, "query").out
    declined = run(model, mlxfwreset, "-d", PCI, "reset", stdin="n\n")
    assert (declined.rc, query(model)["NUM_OF_VFS"]["current_value"]) == (1, 16)
    model.nics[0].set_vf_count("8")
    assert run(model, mlxfwreset, "-d", PCI, "-y", "reset").rc == 0
    assert query(model)["NUM_OF_VFS"]["current_value"] == 32
    assert (model.nics[0].vfs, model.nics[0].vf_limit) == ([], 32)


def test_models_have_parameters_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "dpu").mkdir()
    dpu = make_model(tmp_path / "dpu", "BlueField-3", PCI)
    assert query(dpu)["INTERNAL_CPU_OFFLOAD_ENGINE"]["current_value"] == "ENABLED(0)"
    assert "NUM_OF_PLANES_P1" in query(make_model(tmp_path, "ConnectX-8", PCI))
    run(dpu, mlxconfig, "-d", PCI, "-y", "set", "INT_CPU_AUTO_SHUTDOWN=1")
    run(dpu, mlxfwreset, "-d", PCI, "-y", "reset")
    told = run(dpu, mlxconfig, "-d", PCI, "-y", "set", "ATS_ENABLED=1").out
    assert told.endswith("-I- Skipped reset preparation\n")


def test_new_settings_may_wait_for_a_power_cycle(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-5", PCI)
    model.power_cycle_pending = True
    answer = run(model, mlxconfig, "-d", PCI, "-y", "set", "ATS_ENABLED=1")
    assert "Please power cycle machine" in answer.out
    model.boot("gpu01")
    assert query(model)["ATS_ENABLED"]["current_value"] == "False(0)"
    model.power_cycle_pending = False
    model.boot("gpu01")
    assert query(model)["ATS_ENABLED"]["current_value"] == "True(1)"


def test_a_question_without_an_answer_sets_nothing(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-5", PCI)
    answer = run(model, mlxconfig, "-d", PCI, "set", "ATS_ENABLED=1")
    assert (answer.rc, answer.err) == (1, "-E- Aborted by user\n")
    assert query(model)["ATS_ENABLED"]["next_value"] == "False(0)"


def test_a_host_without_a_card_answers_as_the_tools_do(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-5")
    assert "No MST devices were found" in run(model, mst, "status").out
    assert (
        run(model, mlxconfig, "-d", PCI, "query").err == f"-E- Failed to open the device: {PCI}\n"
    )
    for tool in (mlxfwreset, flint):
        assert run(model, tool, "-d", PCI, "query").rc == 1
    assert run(model, mlxconfig, "query").err == "-E- No devices found.\n"
    assert model.unmodelled == []


@pytest.mark.parametrize("tool", [mlxconfig, mlxfwreset, flint])
def test_only_root_asks_a_card(tmp_path: Path, tool: Tool) -> None:
    model = make_model(tmp_path, "ConnectX-5", PCI)
    assert run(model, tool, "-d", PCI, "query", uid=1000).rc == 1


def test_unknown_options_are_recorded(tmp_path: Path) -> None:
    model = make_model(tmp_path, "ConnectX-5", PCI)
    run(model, mlxfwreset, "-d", PCI, "--turbo", "reset")
    run(model, flint, "-d", PCI, "burn")
    assert model.unmodelled == [f"mlxfwreset -d {PCI} --turbo reset", f"flint -d {PCI} burn"]
