"""Undo ends whatever became of the machine: what it does not take any more is listed and told."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

PCI = "0000:05:00.0"
MTU = (f"nic.{PCI}.netdev=enp5s0", f"nic.{PCI}.mtu_bytes=9000")
BRIDGES = ("0000:e1:05.0", "0000:e1:06.0", "0000:e1:07.0")
SETPCI = r"""
while [ $# -gt 0 ]; do case $1 in
  -s) shift; sel=$1 ;;
  ECAP_ACS+0x6.w=*) [ ! -e $F/acs/$sel ] || echo ${1#*=} >$F/acs/$sel ;;
  ECAP_ACS+0x6.w) [ ! -e $F/acs/$sel ] || echo "$sel (cap 0d @100) @106 = $(cat $F/acs/$sel)" ;;
esac; shift; done"""
POLICIES = "sys/devices/system/cpu/cpufreq"
NODES = "sys/devices/system/node"
PAGES = "hugepages-2048kB/nr_hugepages"
IOMMU = "kernel.cmdline.iommu=pt"
CMDLINE = "BOOT_IMAGE=/vmlinuz root=/dev/sda1"


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    host = folder_host(tmp_path)
    host.card(PCI, "enp5s0")
    host.write("proc/cmdline", f"{CMDLINE}\n")
    return host


def mtu_bytes(host: FolderHost) -> int:
    return int((host.devices / PCI / "net/enp5s0/mtu").read_text())


def undone(host: FolderHost, *left: str) -> str:
    """All but what is named went back; what was told of it."""
    report = host.report("undo")
    assert report["left"] == list(left)
    assert mtu_bytes(host) == 1500
    assert not host.state.exists()
    return str(report.get("notes", ""))


def put_policies(host: FolderHost, *governors: str) -> None:
    for number, governor in enumerate(governors):
        host.write(f"{POLICIES}/policy{number}/scaling_governor", f"{governor}\n")


def with_bridges(host: FolderHost) -> None:
    """A card and two GPUs, each behind a bridge of its own below one root port."""
    host.tool("setpci", SETPCI)
    root = host.root / "sys/devices/pci0000:e0/0000:e0:00.0"
    card = root / BRIDGES[0] / PCI
    card.parent.mkdir(parents=True)
    (host.devices / PCI).rename(card)
    netdev = host.root / "sys/class/net/enp5s0"
    netdev.unlink()
    netdev.symlink_to(card / "net/enp5s0")
    (host.devices / PCI).symlink_to(card)
    for bridge, gpu in zip(BRIDGES[1:], ("0000:06:00.0", "0000:07:00.0"), strict=True):
        device = root / bridge / gpu
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
        (host.devices / gpu).symlink_to(device)
    for bridge in BRIDGES:
        host.write(f"acs/{bridge}", "001d\n")


def acs_words(host: FolderHost) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in (host.root / "acs").iterdir()}


def test_acs_goes_back_where_a_bridge_is_gone(host: FolderHost) -> None:
    with_bridges(host)
    host.report("converge", "kernel.acs=off", *MTU)
    assert set(acs_words(host).values()) == {"0000"}
    (host.devices / "0000:07:00.0").unlink()
    (host.root / "acs" / BRIDGES[2]).unlink()
    assert BRIDGES[2] in undone(host, "kernel.acs")
    assert acs_words(host) == dict.fromkeys(BRIDGES[:2], "001d")


def test_acs_that_was_recorded_and_not_written_yet_is_as_before(host: FolderHost) -> None:
    with_bridges(host)
    # The first record is on the disk, and the run is killed before the second.
    host.tool("sync", "case $1 in */railyard/dev) kill -9 $PPID ;; esac")
    assert host.run("converge", "kernel.acs=off", *MTU).returncode != 0
    assert "kernel.acs" in host.baseline
    host.tool("sync")
    assert undone(host) == ""
    assert acs_words(host) == dict.fromkeys(BRIDGES, "001d")


def test_boot_parameters_that_a_hand_added_a_hand_takes_off(host: FolderHost) -> None:
    assert "grubby" in host.run("converge", IOMMU, *MTU).stderr
    host.write("proc/cmdline", f"{CMDLINE} intel_iommu=on iommu=pt\n")
    host.report("converge", IOMMU, *MTU)
    told = undone(host, "kernel.cmdline.iommu", "kernel.cmdline.iommu_current")
    assert "kernel.cmdline.iommu is pt, was absent" in told
    assert "--remove-args" in told


def test_boot_parameters_that_the_file_drops_stay_ours_until_a_hand_took_them_off(
    host: FolderHost,
) -> None:
    host.run("converge", IOMMU, *MTU)
    host.write("proc/cmdline", f"{CMDLINE} intel_iommu=on iommu=pt\n")
    host.report("converge", IOMMU, *MTU)
    assert "--remove-args" in str(host.report("converge", *MTU)["notes"])
    assert "kernel.cmdline.iommu" in host.baseline
    host.write("proc/cmdline", f"{CMDLINE}\n")
    assert "notes" not in host.report("converge", *MTU)
    assert "kernel.cmdline.iommu" not in host.baseline


def test_frequency_scaling_that_the_bios_took_away_is_left(host: FolderHost) -> None:
    put_policies(host, "schedutil", "schedutil")
    host.report("converge", "kernel.governor=performance", *MTU)
    rmtree(host.root / POLICIES)
    undone(host, "kernel.governor")


def test_governors_go_back_where_some_cpus_are_offline(host: FolderHost) -> None:
    put_policies(host, "powersave", "performance", "powersave", "performance")
    host.report("converge", "kernel.governor=performance", *MTU)
    for number in (2, 3):
        rmtree(host.root / POLICIES / f"policy{number}")
    assert "policy2" in undone(host, "kernel.governor")
    policies = sorted((host.root / POLICIES).iterdir())
    now = [(policy / "scaling_governor").read_text().strip() for policy in policies]
    assert now == ["powersave", "performance"]


def test_numa_balancing_that_a_kernel_lacks_is_left(host: FolderHost) -> None:
    host.write("proc/sys/kernel/numa_balancing", "1\n")
    host.report("converge", "kernel.numa_balancing=off", *MTU)
    (host.root / "proc/sys/kernel/numa_balancing").unlink()
    undone(host, "kernel.numa_balancing")


def test_huge_pages_of_a_node_that_is_gone_are_left(host: FolderHost) -> None:
    for node in (0, 1):
        host.write(f"{NODES}/node{node}/hugepages/{PAGES}", "4\n")
    keys = [f"kernel.hugepages.2mib.node{node}" for node in (0, 1)]
    host.report("converge", *(f"{key}=2" for key in keys), *MTU)
    rmtree(host.root / NODES / "node1")
    undone(host, keys[1])
    assert (host.root / f"{NODES}/node0/hugepages/{PAGES}").read_text() == "4\n"


def test_huge_pages_that_the_kernel_does_not_give_back_are_left(host: FolderHost) -> None:
    total = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    host.write(total, "4096\n")
    host.report("converge", "kernel.hugepages.2mib=512", *MTU)
    # By the time that it is read again, the kernel has given as many as it had.
    host.tool("cat", 'case $1 in */nr_hugepages) echo 3000 >"$1" ;; esac\nexec /usr/bin/cat "$@"')
    told = undone(host, "kernel.hugepages.2mib")
    assert "gave back 3000 of 4096" in told
    assert "echo 4096" in told
