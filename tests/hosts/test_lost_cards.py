"""Cards that offer no VFs, or went away since they were set: the rest of the host is served."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

PCI = "0000:05:00.0"
CARD = f"nic.{PCI}"
SET = (f"{CARD}.netdev=enp5s0", f"{CARD}.mtu_bytes=9000", f"{CARD}.model=ConnectX-5")
MOVED = ("nic.0000:06:00.0.netdev=enp6s0", "nic.0000:06:00.0.mtu_bytes=9000")


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return folder_host(tmp_path)


@pytest.fixture
def served(host: FolderHost) -> FolderHost:
    """A host whose one card was set."""
    host.card(PCI, "enp5s0")
    assert host.report("converge", *SET)["changed"] == [f"{CARD}.mtu_bytes"]
    return host


def lose(host: FolderHost) -> None:
    rmtree(host.devices / PCI)
    (host.root / "sys/class/net/enp5s0").unlink()


def test_no_vfs_are_what_a_card_without_sriov_has(host: FolderHost) -> None:
    host.card(PCI, "enp5s0")
    assert host.report("converge", f"{CARD}.vfs=0")["changed"] == []
    assert host.observe(f"{CARD}.vfs=0")[f"{CARD}.vfs"] == "0"
    refused = host.run("converge", f"{CARD}.vfs=2")
    assert "offers no VFs (no sriov_totalvfs): switch on SR-IOV" in refused.stderr


def test_a_card_that_moved_is_set_in_its_new_slot(served: FolderHost) -> None:
    lose(served)
    served.card("0000:06:00.0", "enp6s0")
    assert served.report("converge", *MOVED)["changed"] == ["nic.0000:06:00.0.mtu_bytes"]
    assert served.report("converge", *MOVED)["changed"] == []
    assert not [key for key in served.baseline if key.startswith(CARD)]
    assert served.report("undo")["left"] == []
    mtu = served.devices / "0000:06:00.0/net/enp6s0/mtu"
    assert mtu.read_text() == "1500\n"


def test_a_card_that_died_is_listed_as_left(served: FolderHost) -> None:
    lose(served)
    assert served.report("undo") == {"changed": [], "left": [f"{CARD}.mtu_bytes"]}
    assert not served.state.exists()


def test_a_card_of_another_name_is_put_back(served: FolderHost) -> None:
    net = served.devices / PCI / "net"
    (net / "enp5s0").rename(net / "enp5s0np0")
    (served.root / "sys/class/net/enp5s0np0").symlink_to(net / "enp5s0np0")
    refused = served.run("converge", *SET)
    assert f"the card at {PCI} is called enp5s0np0, want enp5s0" in refused.stderr
    assert served.report("undo") == {"changed": [f"{CARD}.mtu_bytes"], "left": []}
    assert (net / "enp5s0np0/mtu").read_text() == "1500\n"


@pytest.mark.parametrize("setting", ["lldpad=absent", "netdev=enp5s0"])
def test_a_card_without_a_network_device_is_said_to_have_none(
    host: FolderHost, setting: str
) -> None:
    """As a port that runs as InfiniBand; mlnx_qos knows nothing of it."""
    host.card(PCI, "enp5s0")
    host.tool("mlnx_qos", "exit 1")
    rmtree(host.devices / PCI / "net")
    refused = host.run("converge", f"{CARD}.{setting}")
    assert f"the card at {PCI} has no network device: its port runs as InfiniBand" in refused.stderr
    assert "lldpad runs" not in refused.stderr


def test_a_card_of_which_mlnx_qos_says_nothing_proves_no_lldpad(host: FolderHost) -> None:
    host.card(PCI, "enp5s0")
    host.tool("mlnx_qos", "exit 1")
    refused = host.run("converge", f"{CARD}.lldpad=absent")
    assert "mlnx_qos -i enp5s0 says nothing" in refused.stderr
    assert "lldpad runs" not in refused.stderr
    host.tool("mlnx_qos", "echo 'WARNING: lldpad is running'")
    refused = host.run("converge", f"{CARD}.lldpad=absent")
    assert "lldpad runs on this host, and would overwrite PFC and DCBX of enp5s0" in refused.stderr


def test_a_card_that_was_replaced_by_another_model_is_put_back(served: FolderHost) -> None:
    (served.devices / PCI / "device").write_text("0x101b\n")
    refused = served.run("converge", *SET)
    assert "and the file says ConnectX-5" in refused.stderr
    assert served.report("undo") == {"changed": [f"{CARD}.mtu_bytes"], "left": []}


def test_a_card_that_was_not_there_yet_has_no_previous_value(host: FolderHost) -> None:
    missing = host.run("converge", f"{CARD}.mtu_bytes=9000")
    assert f"there is no PCI device {PCI} on this host" in missing.stderr
    device = host.card(PCI, "enp5s0")
    host.report("converge", f"{CARD}.mtu_bytes=9000")
    assert host.report("undo") == {"changed": [f"{CARD}.mtu_bytes"], "left": []}
    assert (device / "net/enp5s0/mtu").read_text() == "1500\n"


def test_a_kernel_setting_of_a_device_that_got_another_name_is_left(host: FolderHost) -> None:
    gone, here = "kernel.sysctl.net.ipv4.conf.gone0.arp_ignore", "kernel.sysctl.kernel.pid_max"
    value = Path("/proc/sys/kernel/pid_max").read_text().strip()
    host.write(f"{host.state.relative_to(host.root)}/baseline", f"{gone}=0\n{here}={value}\n")
    assert host.report("undo") == {"changed": [], "left": [gone]}
    host.write(f"{host.state.relative_to(host.root)}/baseline", f"{gone}=0\n")
    assert host.report("converge", f"{here}={value}")["changed"] == []
    assert host.baseline == {here: value}
