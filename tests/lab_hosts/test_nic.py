"""Kernel and card semantics of the emulated NIC, and the vendor tools over it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal, vf_address
from lab.hosts.sysfs import SysFile, SysLink, make_sys_table, rdma_mtu_bytes
from lab.hosts.tools.call import Tool, ToolCall, ToolResult
from lab.hosts.tools.devices import lspci
from lab.hosts.tools.firmware import mlxconfig
from lab.hosts.tools.ip_tool import ip
from lab.hosts.tools.qos import mlnx_qos
from lab.hosts.tools.sudo import judge_sudo, load_rules, parse_sudo
from tests.lab_hosts.conftest import make_host


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    host = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    host.boot("gpu01")
    return host


def call(model: HostModel, tool: Tool, *argv: str, uid: int = 0) -> ToolResult:
    name = tool.__name__
    return tool(ToolCall(name, argv, uid, uid, "/", model, model.nvram_path.parent))


@pytest.mark.parametrize(
    ("before", "text", "number"),
    [(4, "8", errno.EBUSY), (0, "17", errno.ERANGE), (0, "-1", errno.EINVAL),
     (0, "", errno.EINVAL)],
)  # fmt: skip
def test_numvfs_refusals(model: HostModel, before: int, text: str, number: int) -> None:
    nic = model.nics[0]
    nic.set_vf_count(str(before))
    with pytest.raises(DeviceRefusal) as refused:
        nic.set_vf_count(text)
    assert refused.value.errno == number
    assert len(nic.vfs) == before


def test_rdma_names_are_given_in_probe_order(model: HostModel) -> None:
    model.nics[1].set_vf_count("2")
    model.nics[0].set_vf_count("1")
    assert [vf.rdma for _, vf in model.all_vfs()] == ["mlx5_4", "mlx5_2", "mlx5_3"]


def test_vf_addresses_run_over_the_slot() -> None:
    assert [vf_address("0000:05:00.0", i) for i in (0, 6, 7)] == [
        "0000:05:00.1", "0000:05:00.7", "0000:05:01.0",
    ]  # fmt: skip


@pytest.mark.parametrize(("netdev", "rdma"), [(1500, 1024), (4191, 2048), (4192, 4096)])
def test_rdma_mtu_takes_off_the_roce_headers(netdev: int, rdma: int) -> None:
    assert rdma_mtu_bytes(netdev) == rdma


def test_every_link_of_sysfs_leads_somewhere(model: HostModel) -> None:
    model.nics[0].set_vf_count("8")
    table = make_sys_table(model)
    known = {"/", *(str(parent) for path in table for parent in Path(path).parents), *table}
    for path, entry in table.items():
        if isinstance(entry, SysLink) and "subsystem" not in path:
            target = Path(path).parent
            for part in entry.target.split("/"):
                target = target.parent if part == ".." else target / part
            assert str(target) in known, (path, entry.target)


def test_vf_mtu_may_not_pass_the_pfs(model: HostModel) -> None:
    model.nics[0].set_vf_count("1")
    entry = next(e for p, e in make_sys_table(model).items() if p.endswith("net/enp5s0v0/mtu"))
    assert isinstance(entry, SysFile)
    assert entry.write is not None
    with pytest.raises(DeviceRefusal):
        entry.write("9000")
    model.nics[0].set_mtu("9000")
    entry.write("9000")
    assert model.nics[0].vfs[0].mtu_bytes == 9000


def test_reboot_loses_run_time_and_keeps_firmware(model: HostModel) -> None:
    model.nics[0].set_vf_count("8")
    model.nics[0].qos.trust = "dscp"
    model.load_module("nvidia_peermem")
    before = model.boot_id
    call(model, mlxconfig, "-d", "05:00.0", "-y", "set", "SRIOV_EN=0")
    assert model.nics[0].vf_limit == 16
    model.boot("gpu01")
    assert model.boot_id != before
    assert (model.nics[0].vf_limit, len(model.nics[0].vfs)) == (0, 0)
    assert model.nics[0].qos.trust == "pcp"
    assert "nvidia_peermem" not in model.modules


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ((), "Interface name is required\n"),
        (("-i", "enp5s0", "--pfc", "1,1"), "pfc list must have 8 items\n"),
        (("-i", "enp5s0", "-f", "0,0,0,2,0,0,0,0"), "Bad value for 'PFC': 2\n"),
        (("-i", "enp5s0", "--trust", "l3"), "Invalid trust state command. Refer to the help.\n"),
        (("-i", "enp5s0", "--dscp2prio", "set,64,3"), "dscp2prio command failed\n"),
    ],
)
def test_mlnx_qos_errors_go_to_stdout(model: HostModel, argv: tuple[str, ...], text: str) -> None:
    assert call(model, mlnx_qos, *argv) == ToolResult(1, text)


def test_mlnx_qos_probe_and_masked_change(model: HostModel) -> None:
    assert call(model, mlnx_qos, "-i", "enp5s0", "-F", "x,x,x,1,x,x,x,x") == ToolResult()
    assert call(model, mlnx_qos, "-i", "enp5s0", "-P", "3").out == "1\n"
    shown = call(model, mlnx_qos, "-i", "enp5s0").out
    assert "\tenabled     0   0   0   1   0   0   0   0   \n" in shown
    assert "dscp2prio" not in shown
    assert "prio:3 dscp:31," in call(model, mlnx_qos, "-i", "enp5s0", "--trust", "dscp").out


def test_lspci_selects_by_vendor_and_device(model: HostModel) -> None:
    model.nics[0].set_vf_count("2")
    assert call(model, lspci, "-D", "-n", "-d", "15b3:1018").out == (
        "0000:05:00.1 0200: 15b3:1018\n0000:05:00.2 0200: 15b3:1018\n"
    )


def test_ip_refuses_a_plain_user_and_unknown_devices(model: HostModel) -> None:
    assert "not permitted" in call(model, ip, "link", "set", "enp5s0", "down", uid=1000).err
    assert call(model, ip, "link", "set", "dev", "eth9", "up").err == (
        'Cannot find device "eth9"\n'
    )
    assert model.unmodelled == []
    call(model, ip, "netns", "list")
    assert model.unmodelled == ["ip netns list"]


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("nvidia ALL=(ALL) NOPASSWD:ALL", True),
        ("%sudo ALL=(ALL:ALL) NOPASSWD: ALL", True),
        ("%sudo ALL=(ALL:ALL) ALL", False),
        ("other ALL=(ALL) NOPASSWD:ALL", False),
        ("nvidia ALL=(root) NOPASSWD: /usr/bin/systemctl", False),
        ("nvidia ALL=(root) NOPASSWD: /usr/bin/sh -s", True),
    ],
)
def test_sudo_policy(tmp_path: Path, policy: str, allowed: bool) -> None:  # noqa: FBT001 - a case
    folder = tmp_path / "etc/sudoers.d"
    folder.mkdir(parents=True)
    (folder / "90-x").write_text(f"{policy}\n")
    request = parse_sudo(("-n", "sh", "-s"))
    assert not isinstance(request, ToolResult)
    rules = load_rules(tmp_path, "nvidia", frozenset({"sudo"}))
    assert (judge_sudo(rules, request, "/usr/bin/sh") is None) == allowed


def test_a_port_is_down_until_it_is_set_up_and_its_vfs_with_it(model: HostModel) -> None:
    nic = model.nics[0]
    nic.set_vf_count("1")
    [(_, vf)] = model.all_vfs()
    call(model, ip, "link", "set", "dev", vf.netdev, "up")
    files = {path: each for path, each in make_sys_table(model).items() if "0000:05:00" in path}

    def read(end: str) -> list[str]:
        return [
            each.read()
            for path, each in files.items()
            if path.endswith(end) and isinstance(each, SysFile)
        ]

    assert read("ports/1/state") == ["1: DOWN\n"] * 2
    assert (read("/operstate"), read("/flags")) == (["down\n"] * 2, ["0x1002\n"])
    call(model, ip, "link", "set", "dev", nic.config.netdev, "up")
    assert read("ports/1/state") == ["4: ACTIVE\n"] * 2
    assert (read("/operstate"), read("/flags")) == (["up\n"] * 2, ["0x1003\n"])
