"""VFs that jobs may hold: what waits for a drain, and what is known of those in pods."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

PCI = "0000:18:00.0"
CARD = f"nic.{PCI}"
OLD, NEW = "0200000000000001", "0200000000000002"
GUID = f"vf.{PCI}.0.guid"
MTU = (f"{CARD}.vfs=1", f"{CARD}.vf_mtu_bytes=1500")


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    """A host in service, with a card that has one VF."""
    host = folder_host(tmp_path)
    device = host.card(PCI, "ib0", vfs=1)
    vf = host.devices / "0000:18:00.1"
    for folder in (vf / "infiniband/mlx5_1", vf / "net/ib0v0", device / "sriov/0"):
        folder.mkdir(parents=True)
    (device / "virtfn0").symlink_to(f"../{vf.name}")
    (vf / "net/ib0v0/mtu").write_text("1500\n")
    driver = host.root / "sys/bus/pci/drivers/mlx5_core"
    driver.mkdir(parents=True)
    (vf / "driver").symlink_to(driver)
    (host.root / "var/lib/kubelet/pods/8d1f").mkdir(parents=True)
    give(host, OLD)
    return host


def give(host: FolderHost, guid: str) -> None:
    for name in ("node", "port"):
        colons = ":".join(guid[i : i + 2] for i in range(0, len(guid), 2))
        (host.devices / PCI / "sriov/0" / name).write_text(f"{colons}\n")


def rebound(host: FolderHost) -> bool:
    return (host.root / "sys/bus/pci/drivers/mlx5_core/unbind").exists()


def test_another_guid_waits_for_the_drain(host: FolderHost) -> None:
    wanted = (f"{CARD}.vfs=1", f"{GUID}={NEW}")
    assert host.report("converge", *wanted)["waiting"] == [GUID]
    assert not rebound(host)
    looked = host.run("maintain", "action=look", *wanted).stdout.splitlines()
    assert f"pending.drain.{GUID}={OLD} -> {NEW}" in looked
    assert host.report("converge", *wanted, "disrupt=now")["changed"] == [GUID]
    assert rebound(host)


def test_a_vf_that_never_had_a_guid_gets_one_at_once(host: FolderHost) -> None:
    give(host, "0" * 16)
    assert host.report("converge", f"{GUID}={NEW}")["changed"] == [GUID]


def test_a_vf_without_a_driver_gets_its_guid_at_once(host: FolderHost) -> None:
    (host.devices / "0000:18:00.1/driver").unlink()
    assert host.report("converge", f"{GUID}={NEW}")["changed"] == [GUID]


def test_a_setting_that_was_dropped_and_waits_is_not_counted(host: FolderHost) -> None:
    host.report("converge", f"{GUID}={NEW}", "disrupt=now")
    dropped = host.report("converge", f"{CARD}.vfs=1")
    assert (dropped["waiting"], dropped["unchanged"]) == ([GUID], 1)


def test_a_mark_on_a_full_disk_is_no_mark(host: FolderHost) -> None:
    host.report("converge", f"{CARD}.mtu_bytes=9000")
    (mark := host.state / "reboot").touch()
    assert host.run("maintain", "action=begin").returncode == 0
    assert mark.read_text().startswith("boot=")
    mark.unlink()
    (host.state / "reboot.new").symlink_to("/dev/full")
    full = host.run("maintain", "action=begin")
    assert f"cannot write {mark}" in full.stderr
    assert [path.name for path in host.state.iterdir()] == ["baseline"]


@pytest.mark.parametrize("by", ["converge", "boot"])
def test_vfs_in_pods_have_the_mtu_that_they_were_seen_with(host: FolderHost, by: str) -> None:
    if by == "boot":
        host.write("etc/railyard/nics.conf", "".join(f"{line}\n" for line in MTU))
        assert host.run("boot").returncode == 0
    else:
        assert host.report("converge", *MTU)["changed"] == []
    rmtree(host.devices / "0000:18:00.1/net/ib0v0")
    assert host.observe(*MTU)[f"{CARD}.vf_mtu_bytes"] == "1500"


def test_vfs_stay_while_the_disk_has_no_room_for_what_a_hand_gave_them(host: FolderHost) -> None:
    host.tool("ip", 'echo "    vf 0     link/ether 00:11:22:33:44:55, vlan 7, trust on"')
    host.report("converge", f"{CARD}.vfs=1")
    (host.state / "vfs.new").symlink_to("/dev/full")
    full = host.run("converge", f"{CARD}.vfs=2", "disrupt=now")
    assert f"cannot write {host.state / 'vfs'}, which keeps what a hand gave" in full.stderr
    assert (host.devices / PCI / "sriov_numvfs").read_text() == "1\n"
    assert sorted(path.name for path in host.state.iterdir()) == ["baseline"]


def test_the_mtu_of_vfs_in_pods_waits_and_what_they_had_is_put_back(host: FolderHost) -> None:
    """It was said to be set although no VF could be written, and 9000 stayed after the undo."""
    mtu = host.devices / "0000:18:00.1/net/ib0v0/mtu"
    mtu.write_text("4200\n")
    away = mtu.parents[2] / "net-of-a-pod"
    (in_pod := mtu.parents[1]).rename(away)
    (host.devices / PCI / "infiniband/mlx5_0/ports/1/link_layer").write_text("Ethernet\n")
    wanted = (f"{CARD}.vfs=1", f"{CARD}.vf_mtu_bytes=9000")
    report = host.report("converge", *wanted)
    assert (report["waiting"], report["changed"]) == ([f"{CARD}.vf_mtu_bytes"], [])
    assert "pods have them" in host.run("converge", *wanted, "disrupt=now").stderr
    away.rename(in_pod)
    assert host.report("converge", *wanted)["changed"] == [f"{CARD}.vf_mtu_bytes"]
    assert mtu.read_text() == "9000\n"
    assert host.report("undo")["left"] == []
    assert mtu.read_text() == "4200\n"


def test_a_vf_that_udev_renames_under_the_look_gets_its_mtu_too(host: FolderHost) -> None:
    """Two real kernels had VFs of '1500,9000': one moved between the look and its write."""
    (host.devices / PCI / "infiniband/mlx5_0/ports/1/link_layer").write_text("Ethernet\n")
    mtu = host.devices / "0000:18:00.1/net/ib0v0/mtu"
    mtu.unlink()
    host.tool("sleep", f"echo 1500 >{mtu}")
    report = host.report("converge", f"{CARD}.vfs=1", f"{CARD}.vf_mtu_bytes=9000")
    assert report["changed"] == [f"{CARD}.vf_mtu_bytes"]
    assert mtu.read_text() == "9000\n"


def test_vfs_of_a_virtual_machine_are_told_from_those_of_pods(host: FolderHost) -> None:
    (host.devices / PCI / "infiniband/mlx5_0/ports/1/link_layer").write_text("Ethernet\n")
    vf = host.devices / "0000:18:00.1"
    rmtree(vf / "net")
    (driver := host.root / "sys/bus/pci/drivers/vfio-pci").mkdir()
    (vf / "driver").unlink()
    (vf / "driver").symlink_to(driver)
    refused = host.run("converge", f"{CARD}.vfs=2", "disrupt=now")
    assert "bound to vfio-pci: a virtual machine" in refused.stderr
    assert "drain" not in refused.stderr


MAC = (f"{CARD}.vfs=1", f"{CARD}.vf_mac=own")


def give_mac(host: FolderHost, address: str) -> None:
    """The card's own MAC."""
    (host.devices / PCI / "net/ib0/address").write_text(f"{address}\n")


@pytest.mark.parametrize("row", ["link/ether 02:11:22:33:44:00 brd ff:ff", "MAC 02:11:22:33:44:00"])
def test_a_mac_is_read_from_both_forms_of_ip(host: FolderHost, row: str) -> None:
    """Before iproute2 5.4 a row began with MAC."""
    host.tool("ip", f"echo '2: ib0: <UP>'; echo '    vf 0     {row}, spoof checking off'")
    give_mac(host, "b8:ce:f6:aa:bb:cc")
    assert host.observe(*MAC)[f"{CARD}.vf_mac"] == "02:11:22:33:44:00"
    give_mac(host, "b8:ce:11:22:33:44")
    assert host.observe(*MAC)[f"{CARD}.vf_mac"] == "own"
    (host.devices / "0000:18:00.1/infiniband/mlx5_1/node_guid").write_text("0000:0000:0000:0000\n")
    assert host.observe(*MAC)[f"{CARD}.vf_mac"] == "unbound"


def test_a_vf_of_a_virtual_machine_keeps_the_mac_that_it_has(host: FolderHost) -> None:
    host.tool("ip", "echo '2: ib0: <UP>'; echo '    vf 0     link/ether 00:00:00:00:00:00 brd'")
    vf = host.devices / "0000:18:00.1"
    (driver := host.root / "sys/bus/pci/drivers/vfio-pci").mkdir()
    (vf / "driver").unlink()
    (vf / "driver").symlink_to(driver)
    assert host.observe(*MAC)[f"{CARD}.vf_mac"] == "own"
    assert host.report("converge", *MAC)["changed"] == []
