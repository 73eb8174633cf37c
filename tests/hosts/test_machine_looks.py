"""What a machine must be before anything is installed on it: control groups, NVSwitches."""

from __future__ import annotations

from pathlib import Path

import pytest

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
