"""What a machine must be before anything is installed on it: control groups, NVSwitches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from components.hosts.look import parse_look
from components.hosts.scripts import discover_text
from components.jobs.templates import job_script
from tests.hosts.folder_host import folder_host

SWITCH = "sys/bus/pci/devices/0000:07:00.0"


@pytest.mark.parametrize(("there", "seen"), [(True, "v2"), (False, "v1")])
def test_the_hierarchy_of_control_groups_is_seen(tmp_path: Path, *, there: bool, seen: str) -> None:
    host = folder_host(tmp_path)
    if there:
        host.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    assert host.observe("kernel.cgroup=v2")["kernel.cgroup"] == seen
    done = host.run("converge", "kernel.cgroup=v2")
    assert (done.returncode == 0) is there
    assert there or "kubelet 1.35 and later does not start" in done.stderr


def test_nvswitches_need_the_fabric_manager(tmp_path: Path) -> None:
    host = folder_host(tmp_path)
    asked = "driver.fabric_manager=ready"
    assert host.observe(asked)["driver.fabric_manager"] == "ready"  # there are none
    host.write(f"{SWITCH}/vendor", "0x10de\n")
    host.write(f"{SWITCH}/class", "0x068000\n")
    host.tool("systemctl", "exit 3")
    assert host.observe(asked)["driver.fabric_manager"] == "not-running"
    done = host.run("converge", asked)
    assert done.returncode != 0
    assert "nvidia-fabricmanager does not run" in done.stderr


VPD = b"\x90\x0e\x00V0\x0bSMDL=SW_MNG\x78"
"""What a ConnectX-7 that manages NVSwitches says of itself."""


def test_nvswitches_that_a_connectx_manages_need_the_fabric_manager_too(tmp_path: Path) -> None:
    host = folder_host(tmp_path)
    asked = "driver.fabric_manager=ready"
    host.card("0000:18:00.0", "ib0")
    host.write("sys/bus/pci/devices/0000:18:00.0/class", "0x020700\n")
    host.tool("systemctl", "exit 3")
    assert host.observe(asked)["driver.fabric_manager"] == "ready"  # a network card
    (host.devices / "0000:18:00.0/vpd").write_bytes(VPD)
    assert host.observe(asked)["driver.fabric_manager"] == "not-running"
    assert "nvlsm too" in host.run("converge", asked).stderr


def test_a_function_that_manages_nvswitches_is_no_card(tmp_path: Path) -> None:
    host = folder_host(tmp_path)
    for pci, netdev in (("0000:18:00.0", "ib0"), ("0000:19:00.0", "ib1")):
        host.card(pci, netdev)
        (host.devices / pci / "class").write_text("0x020700\n")
    (host.devices / "0000:19:00.0/vpd").write_bytes(VPD)
    ends = host.sh(": >$work/desired\nfind_ends\ncat $work/kernel.ends\n")
    assert ends.stdout.splitlines() == [f"card {host.devices}/0000:18:00.0"], ends.stderr
    ready = host.run("maintain", "action=ready", "hcas=1")
    assert "0000:19:00.0" not in ready.stdout + ready.stderr
    text = discover_text().partition("look_all /sys\n")[0]
    done = subprocess.run(
        ["/bin/sh", "-c", f"{text}look_all {tmp_path}/sys\n"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    found = parse_look([*done.stdout.splitlines(), "look.0000:19:00.0.serial=MT1"])
    assert [card.pci for card in found.cards] == ["0000:18:00.0"]


def test_a_rank_leaves_out_the_functions_that_manage_nvswitches(tmp_path: Path) -> None:
    for name in ("mlx5_0", "mlx5_8"):
        for file, text in (("link_layer", "InfiniBand"), ("state", "4: ACTIVE"), ("rate", "400 G")):
            path = tmp_path / name / "ports/1" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    (tmp_path / "mlx5_8/device").mkdir()
    (tmp_path / "mlx5_8/device/vpd").write_bytes(VPD)
    done = subprocess.run(
        ["/bin/sh", "-c", job_script("ib_hcas"), "ib_hcas", "sh", "-c", "echo $NCCL_IB_HCA"],
        env={"PATH": os.environ["PATH"], "RAILYARD_INFINIBAND": str(tmp_path)},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout == "=mlx5_0:1\n"
