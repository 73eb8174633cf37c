"""What was here before our first change: recorded when it can be read, never an error's words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hosts.folder_host import STACK, FolderHost, folder_host

PCI = "0000:05:00.0"
CARD = f"nic.{PCI}"
MLNX_QOS = """
while [ $# -gt 0 ]; do
  [ "$1" != --trust ] || echo "$2" >$F/trust
  [ "$1" != --dscp2prio ] || echo "${2##*,}" >$F/priority
  shift
done
echo 'DCBX mode: OS controlled'
echo "Priority trust state: $(cat $F/trust)"
[ "$(cat $F/trust)" = pcp ] || echo "	prio:$(cat $F/priority) dscp:26,"
"""
DOCKER = ("docker.engine=present", "docker.runtime=ours", "docker.default_runtime=nvidia")


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return folder_host(tmp_path)


def test_what_a_driver_brings_is_recorded_before_it_is_changed(host: FolderHost) -> None:
    device = host.card(PCI, "enp5s0")
    wanted = (f"{CARD}.trust=dscp", f"{CARD}.dscp26_priority=3", f"{CARD}.cnp_dscp=48")
    refused = host.run("converge", *wanted).stderr
    assert "`dcb app add dev enp5s0 dscp-prio 0:0 1:0" in refused
    assert "failed: Attribute read: Operation not supported" in refused
    assert set(host.baseline.values()) == {"unsupported"}
    host.tool("mlnx_qos", MLNX_QOS)
    ecn = (device / "net/enp5s0/ecn/roce_np/cnp_dscp").relative_to(host.root)
    for path, value in (("trust", "pcp"), ("priority", "5"), (str(ecn), "6")):
        host.write(path, f"{value}\n")
    host.report("converge", *wanted)
    assert host.report("converge", *wanted)["changed"] == []
    assert host.baseline == {
        f"{CARD}.trust": "pcp", f"{CARD}.dscp26_priority": "5", f"{CARD}.cnp_dscp": "6",
    }  # fmt: skip
    assert host.report("undo")["left"] == []
    found = [(host.root / path).read_text() for path in ("trust", "priority", str(ecn))]
    assert found == ["pcp\n", "5\n", "6\n"]


def test_a_file_that_the_kernel_lacks_has_no_value(host: FolderHost) -> None:
    """RDMA-CM's folder of configfs is there, and has no default_roce_tos in an old kernel."""
    host.card(PCI, "enp5s0")
    host.write("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "RoCE v2\n")
    found = host.observe(f"{CARD}.roce_mode=RoCE v2", f"{CARD}.roce_tos=106")
    assert (found[f"{CARD}.roce_mode"], found[f"{CARD}.roce_tos"]) == ("RoCE v2", "unsupported")


def test_a_driver_that_is_half_installed_stays_and_is_listed(host: FolderHost) -> None:
    host.card(PCI, "enp5s0")
    host.tool("modinfo", "echo /lib/modules/K/updates/mlx5_core.ko")
    host.report("converge", "driver.modules=built", f"{CARD}.mtu_bytes=9000")
    host.tool("dpkg-query", "echo 'iF  doca-ofed'")
    undone = host.report("undo")
    assert undone == {"changed": [f"{CARD}.mtu_bytes"], "left": ["driver.modules"]}


def test_another_name_of_the_same_thing_is_recorded_after_the_first_went(host: FolderHost) -> None:
    """The kernel spreads a total over its nodes; here the folder's files are one and the same."""
    node = host.root / "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    total = host.root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    for path in (node, total):
        path.parent.mkdir(parents=True)
    node.write_text("0\n")
    total.symlink_to(node)
    host.report("converge", "kernel.hugepages.2mib=1024")
    host.report("converge", "kernel.hugepages.2mib.node0=256")
    assert node.read_text() == "256\n"
    assert host.report("undo")["left"] == []
    assert node.read_text() == "0\n"


def test_a_host_is_of_one_stack(host: FolderHost) -> None:
    mtu = host.card(PCI, "enp5s0") / "net/enp5s0/mtu"
    wanted = f"{CARD}.mtu_bytes=9000"
    host.report("converge", wanted)
    host.state.rename(host.state.with_name("old"))
    refused = host.run("converge", f"{CARD}.mtu_bytes=4200")
    assert refused.returncode == 1
    assert "stack old has settings on this host" in refused.stderr
    assert f"mv {host.state.with_name('old')} {host.state}; sed -i" in refused.stderr
    assert (mtu.read_text(), host.state.exists()) == ("9000\n", False)
    host.state.with_name("old").rename(host.state)
    host.report("undo")
    assert mtu.read_text() == "1500\n"


def test_a_renamed_stack_goes_on_with_the_commands_of_the_refusal(host: FolderHost) -> None:
    hosts = host.root / "etc/hosts"
    host.write("etc/hosts", "127.0.0.1 localhost\n")
    host.report("converge", "hosts.gpu02=10.0.0.2")
    host.state.rename(host.state.with_name("old"))
    hosts.write_text(hosts.read_text().replace(f"railyard {STACK}:", "railyard old:"))
    refused = host.run("converge", "hosts.gpu02=10.0.0.2").stderr
    commands = refused.split("run on the host: ")[1].splitlines()[0]
    subprocess.run(["/bin/sh", "-c", commands], check=True)
    assert host.report("converge", "hosts.gpu02=10.0.0.2")["changed"] == []
    assert host.report("undo") == {"changed": ["hosts.gpu02"], "left": []}
    assert hosts.read_text() == "127.0.0.1 localhost\n"


def test_vfs_that_appear_with_the_firmware_go_away_again(host: FolderHost) -> None:
    device = host.card(PCI, "enp5s0")
    assert "offers no VFs" in host.run("converge", f"{CARD}.vfs=1").stderr
    for name, value in (("sriov_totalvfs", 8), ("sriov_numvfs", 0)):
        (device / name).write_text(f"{value}\n")
    (device / "virtfn0/net/enp5s0v0").mkdir(parents=True)
    host.report("converge", f"{CARD}.vfs=1")
    assert host.report("undo") == {"changed": [f"{CARD}.vfs"], "left": []}
    assert (device / "sriov_numvfs").read_text() == "0\n"


def docker(host: FolderHost, text: str) -> None:
    for name in ("dockerd", "nvidia-container-runtime"):
        host.tool(name)
    host.tool("docker", "exit 1")
    host.write("etc/docker/daemon.json", text)


def test_a_docker_configuration_that_cannot_be_read_is_no_previous_value(host: FolderHost) -> None:
    docker(host, '{"debug": true,}')
    refused = host.run("converge", *DOCKER)
    assert "daemon.json is no JSON object as dockerd reads it" in refused.stderr
    assert "changed before this: nothing" in refused.stderr
    assert not host.state.exists()
    host.write("etc/docker/daemon.json", '{"debug": true}')
    host.report("converge", *DOCKER)
    host.write("etc/docker/daemon.json", '{"debug": true,}')
    assert "is no JSON object" in (stopped := host.run("undo")).stderr
    assert "Traceback" not in stopped.stderr
    host.write("etc/docker/daemon.json", '{"debug": true}')
    host.report("undo")
    assert (host.root / "etc/docker/daemon.json").read_text() == '{"debug": true}'
    assert not host.state.exists()


def test_a_host_without_python_is_told_what_to_install(host: FolderHost) -> None:
    docker(host, "{}")
    host.tool("python3", "exit 127")
    refused = host.run("converge", *DOCKER)
    assert "python3 does not run on this host" in refused.stderr
    assert not host.state.exists()
