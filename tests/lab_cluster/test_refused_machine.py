"""On a machine that lacks what K3s needs, the lab's K3s ends in the words of the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.errors import DeviceError
from lab.cluster.cpu_manager import start_cpu_manager
from lab.cluster.k3s_config import HostPaths
from lab.cluster.k3s_node import refuse_machine

NVIDIA = {"default-runtime": ["nvidia"]}


def machine(root: Path, *, runtime: bool = True, cgroup_v2: bool = True) -> str:
    """Make a machine, and return its PATH."""
    for folder in ("bin", "sys/fs/cgroup"):
        (root / folder).mkdir(parents=True)
    if runtime:
        (root / "bin/nvidia-container-runtime").write_text("#!/bin/sh\n")
        (root / "bin/nvidia-container-runtime").chmod(0o755)
    if cgroup_v2:
        (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    return str(root / "bin")


def test_a_machine_with_both_is_taken(tmp_path: Path) -> None:
    search = machine(tmp_path)
    refuse_machine(HostPaths(tmp_path), NVIDIA, search)
    assert Path(search).is_dir()


def test_a_runtime_that_is_not_there_ends_it(tmp_path: Path) -> None:
    search = machine(tmp_path, runtime=False)
    with pytest.raises(DeviceError, match="default runtime nvidia was not found"):
        refuse_machine(HostPaths(tmp_path), NVIDIA, search)
    refuse_machine(HostPaths(tmp_path), {**NVIDIA, "docker": ["true"]}, search)


def test_control_groups_v1_end_it(tmp_path: Path) -> None:
    search = machine(tmp_path, cgroup_v2=False)
    with pytest.raises(DeviceError, match="configured to not run on a host using cgroup v1"):
        refuse_machine(HostPaths(tmp_path), {}, search)


STATIC = {"kubelet-arg": ["cpu-manager-policy=static", "reserved-cpus=0-1"]}


def test_a_kubelet_keeps_its_policy_and_refuses_another_one(tmp_path: Path) -> None:
    paths, state = HostPaths(tmp_path), tmp_path / "var/lib/kubelet/cpu_manager_state"
    start_cpu_manager(paths, {})
    start_cpu_manager(paths, {})
    words = 'policy "static" differs from state checkpoint policy "none", please drain this node'
    with pytest.raises(DeviceError, match=words):
        start_cpu_manager(paths, STATIC)
    state.unlink()
    start_cpu_manager(paths, STATIC)
    with pytest.raises(DeviceError, match='policy "none" differs from state checkpoint'):
        start_cpu_manager(paths, {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cpu-manager-policy=static"], "static policy requires systemreserved.cpu"),
        (["cpu-manager-policy=dynamic"], 'unknown policy: "dynamic"'),
        (["topology-manager-policy=near"], 'unknown policy: "near"'),
        (["topology-manager-scope=node"], 'unknown scope: "node"'),
    ],
)
def test_a_kubelet_refuses_what_it_does_not_know(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DeviceError, match=words):
        start_cpu_manager(HostPaths(tmp_path), {"kubelet-arg": arguments})
    assert not (tmp_path / "var/lib/kubelet/cpu_manager_state").exists()
