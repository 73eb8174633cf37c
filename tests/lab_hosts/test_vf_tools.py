"""VFs of an emulated card as `ip`, devlink, lspci, mlnx_qos and the kernel's files show them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal
from lab.hosts.sys_table import SysFile
from lab.hosts.sysfs import make_sys_table
from lab.hosts.tools.call import Tool, ToolCall, ToolResult
from lab.hosts.tools.devices import devlink, ibv_devinfo, lspci
from lab.hosts.tools.ip_tool import ip
from lab.hosts.tools.qos import mlnx_qos
from tests.lab_hosts.conftest import make_host

SET = ("link", "set", "dev", "enp5s0", "vf", "0")


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    host = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    host.boot("gpu01")
    host.nics[0].set_vf_count("2")
    return host


def call(model: HostModel, tool: Tool, *argv: str) -> ToolResult:
    return tool(ToolCall(tool.__name__, argv, 0, 0, "/", model, model.nvram_path.parent))


def test_a_row_shows_what_was_set_in_the_order_of_iproute2(model: HostModel) -> None:
    settings = ("vlan", "111", "qos", "3", "min_tx_rate", "10", "max_tx_rate", "20", "trust", "on")
    assert call(model, ip, *SET, *settings) == ToolResult()
    row = next(x for x in call(model, ip, "link", "show", "enp5s0").out.splitlines() if "vf 0" in x)
    assert row.partition("ff:ff:ff:ff:ff:ff, ")[2] == (
        "vlan 111, qos 3, tx rate 20 (Mbps), max_tx_rate 20Mbps, min_tx_rate 10Mbps, "
        "spoof checking off, link-state auto, trust on, query_rss off"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("min_tx_rate", "5", "max_tx_rate", "4"), "RTNETLINK answers: Invalid argument\n"),
        (("vlan", "4095"), 'Error: argument "4095" is wrong: Invalid "vlan" value\n\n'),
        (("trust", "yes"), 'Error: argument "yes" is wrong: Invalid "trust" value\n\n'),
        (("node_guid", "12"), 'Error: argument "12" is wrong: Invalid "node_guid" value\n\n'),
    ],
)
def test_what_ip_and_the_kernel_refuse(model: HostModel, words: tuple[str, ...], text: str) -> None:
    assert call(model, ip, *SET, *words).err == text
    assert model.unmodelled == []


def test_switchdev_has_no_vf_settings(model: HostModel) -> None:
    call(model, devlink, "dev", "eswitch", "set", "pci/0000:05:00.0", "mode", "switchdev")
    shown = call(model, devlink, "dev", "eswitch", "show", "pci/0000:05:00.0").out
    assert shown == "pci/0000:05:00.0: mode switchdev inline-mode none encap-mode basic\n"
    assert (
        call(model, ip, *SET, "trust", "on").err == "RTNETLINK answers: Operation not supported\n"
    )

    assert call(model, ip, *SET, "mac", "02:11:22:33:44:00") == ToolResult()


def test_a_vf_has_no_node_guid_until_it_has_a_mac_and_is_bound_again(model: HostModel) -> None:
    vf = model.nics[0].vfs[0]

    def file(path: str) -> str:
        found = make_sys_table(model)[path]
        assert isinstance(found, SysFile)
        return found.read()

    (path,) = (path for path in make_sys_table(model) if path.endswith(f"{vf.rdma}/node_guid"))
    assert file(path) == "0000:0000:0000:0000\n"
    assert "link/ether 00:00:00:00:00:00 brd" in call(model, ip, "link", "show", "enp5s0").out
    call(model, ip, *SET, "mac", "02:11:22:33:44:00")
    assert file(path) == "0000:0000:0000:0000\n"
    for bound in (False, True):
        model.nics[0].bind_vf(vf, bound=bound)
    assert (file(path), vf.mac) == ("0211:22ff:fe33:4400\n", "02:11:22:33:44:00")
    shown = call(model, ibv_devinfo, "-d", vf.rdma).out
    assert "node_guid:\t\t\t0211:22ff:fe33:4400" in shown


def test_no_address_space_is_enomem(model: HostModel) -> None:
    nic = model.nics[0]
    nic.set_vf_count("0")
    nic.mmio_vfs = 3
    with pytest.raises(DeviceRefusal) as refused:
        nic.set_vf_count("4")
    assert refused.value.errno == errno.ENOMEM


def test_the_serial_number_goes_with_the_card(model: HostModel) -> None:
    first, second = (
        call(model, lspci, "-vv", "-s", nic.config.pci).out.partition("[SN] Serial number: ")[2]
        for nic in model.nics
    )
    assert first.split()[0] == model.nics[0].serial != second.split()[0]


def test_cable_length_alone_switches_pfc_off(model: HostModel) -> None:
    call(model, mlnx_qos, "-i", "enp5s0", "--pfc", "0,0,0,1,0,0,0,0")
    call(model, mlnx_qos, "-i", "enp5s0", "--pfc", "0,0,0,1,0,0,0,0", "--cable_len", "9")
    assert (model.nics[0].qos.pfc[3], model.nics[0].qos.cable_length_m) == (1, 9)
    call(model, mlnx_qos, "-i", "enp5s0", "--cable_len", "9")
    assert model.nics[0].qos.pfc == [0] * 8


def test_trust_and_map_exclude_each_other_in_one_call(model: HostModel) -> None:
    words = ("-i", "enp5s0", "--trust", "dscp", "--dscp2prio", "set,26,3")
    assert call(model, mlnx_qos, *words).out == (
        "trust and dscp2prio commands cannot be used at the same time.\n"
    )
