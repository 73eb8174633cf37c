"""A tool that a host lacks is named, with the package that brings it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.fake_host import make_fake, remove_tools, sh, tool
from tests.hosts.folder_host import folder_host

CARD = "0000:05:00.0"
ETHTOOL = """\
[ "$1" = -i ] || exit 1
echo 'driver: mlx5_core'
echo 'firmware-version: 16.35.2000 (MT_0000000012)'
"""

MLXCONFIG = """\
while [ $# -gt 1 ]; do [ "$1" != -j ] || file=$2; shift; done
echo '{"Device #1": {"tlv_configuration": {"ATS_ENABLED":
  {"current_value": "True(1)", "next_value": "True(1)"}}}}' >"$file"
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A host without any of them."""
    folder = make_fake(tmp_path)
    remove_tools(folder, "lspci", "ethtool", "flint", "mstflint")
    return folder


def test_without_mlnx_qos_and_dcb_both_ways_are_named(tmp_path: Path) -> None:
    done = folder_host(tmp_path).sh("command() { return 1; }\nneed_qos_tool enp5s0 trust\n")
    assert "neither mlnx_qos nor dcb is on this host; install iproute2 5.12 or later" in done.stderr


DCBX = """
[ "$1 $2" != "dcbx set" ] || exec echo "$*" >>$F/dcbx
[ "$2" = dcbx ] || exit 1
[ -e $F/dcbx ] && echo '{"host":true,"cee":true,"ieee":true}' || echo '{"cee":true,"ieee":true}'
"""


def test_dcb_takes_dcbx_from_the_firmware_and_cannot_give_it_back(tmp_path: Path) -> None:
    """`dcb dcbx set` takes flags alone, and the firmware's mode of mlx5 is none of them."""
    host = folder_host(tmp_path)
    host.card(CARD, "enp5s0")
    host.tool("dcb", DCBX)
    assert host.observe(f"nic.{CARD}.dcbx=os")[f"nic.{CARD}.dcbx"] == "fw"
    assert host.report("converge", f"nic.{CARD}.dcbx=os")["changed"] == [f"nic.{CARD}.dcbx"]
    assert (tmp_path / "dcbx").read_text() == "dcbx set dev enp5s0 host cee ieee\n"
    undone = host.run("undo")
    assert undone.returncode == 0, undone.stderr
    assert "cannot give DCBX of enp5s0 back to the firmware" in undone.stdout


@pytest.mark.parametrize(
    ("flock", "words"),
    [
        ("echo 'sh: 1: flock: not found' >&2; exit 127", "flock: not found): install util-linux"),
        ("echo \"flock: invalid option -- 'w'\" >&2; exit 1", "option -- 'w'): install util-linux"),
        ("exit 1", "another Railyard run holds"),
    ],
    ids=["none", "busybox", "held"],
)
def test_no_lock_is_not_a_lock_of_another_run(tmp_path: Path, flock: str, words: str) -> None:
    host = folder_host(tmp_path)
    host.tool("flock", flock)
    done = host.run("converge", "hosts.gpu01=10.0.0.1")
    assert done.returncode == 1
    assert words in done.stderr
    assert ("holds" in done.stderr) is ("holds" in words)


def test_a_serial_that_cannot_be_read_is_not_another_card(fake: Path) -> None:
    done = sh(fake, f"refuse_serial {CARD} MT1\n")
    assert (
        f"the serial of the card at {CARD} cannot be read: there is no lspci on this host; "
        "install pciutils, then run again"
    ) in done.stderr
    tool(fake, "lspci", "exit 0")
    assert "nowhere in this host" in sh(fake, f"refuse_serial {CARD} MT1\n").stderr


def test_pause_without_ethtool(fake: Path) -> None:
    done = sh(fake, "write_pause rail0 off\n")
    assert done.returncode == 1
    assert "cannot set global_pause of rail0: ethtool is not on this host; install" in done.stderr
    tool(fake, "ethtool", "exit 1")
    assert sh(fake, "write_pause rail0 off\n").returncode == 0


def test_a_version_comes_from_the_network_device_where_nothing_else_tells(fake: Path) -> None:
    script = f"echo nic.{CARD}.fw_floor=16.35.1000 >$work/desired\nread_floor {CARD}\n"
    assert sh(fake, script).stdout == "unknown\n"
    done = sh(fake, f"write_firmware {CARD} fw_floor 16.35.1000\n")
    assert "cannot be read, want 16.35.1000 or later: it has no RDMA device here" in done.stderr
    assert "modprobe mlx5_ib" in done.stderr
    tool(fake, "ethtool", ETHTOOL)
    assert sh(fake, script).stdout == "16.35.1000\n"
    assert sh(fake, f"firmware_version {CARD}\n").stdout == "16.35.2000\n"
    tool(fake, "flint", "echo '-E- Cannot open Device'; exit 1")
    assert sh(fake, f"firmware_version {CARD}\n").stdout == "16.35.2000\n"
    done = sh(fake, f"write_firmware {CARD} fw_floor 16.36.1000\n")
    assert "is 16.35.2000, want 16.36.1000 or later: update it" in done.stderr


def test_ats_that_nobody_can_look_at_is_not_the_hypervisors_fault(tmp_path: Path) -> None:
    host = folder_host(tmp_path)
    host.card(CARD, "enp5s0")
    host.tool("mlxconfig", MLXCONFIG)
    done = host.run("verify", f"nic.{CARD}.ats_active=on")
    assert done.returncode == 1
    assert "ESXi host" in done.stderr
    (host.root / "bin/lspci").unlink()
    done = host.run("verify", f"nic.{CARD}.ats_active=on")
    assert done.returncode == 1
    assert f"whether ATS works on {CARD} cannot be read: install pciutils" in done.stderr
    assert "ESXi" not in done.stderr
