"""A run that ended between a file and what makes it act: the next one does what was left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

MEMLOCK = "unit.k3s-agent.limit_memlock=infinity"
DOCKER = ("docker.engine=present", "docker.runtime=nvidia")
NETNS = "kernel.rdma_netns=exclusive"
IOMMU = "kernel.cmdline.iommu=pt"
UPDATE_GRUB = """
cat $F/etc/default/grub.d/*.cfg 2>/dev/null | grep -q iommu=pt && words='intel_iommu=on iommu=pt'
echo "  linux /vmlinuz root=/dev/sda1 $words" >$F/boot/grub/grub.cfg"""


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    """Its tools note their calls, and one of them fails while its name is in a file."""
    host = folder_host(tmp_path)
    for name in ("dockerd", "nvidia-container-runtime"):
        host.tool(name)
    host.tool("docker", "exit 1")
    host.tool("rdma", "[ $2 = show ] && echo 'netns shared copy-on-fork on' || exit 1")
    noting(host, "systemctl", "[ $1 != is-enabled ] || echo enabled")
    noting(host, "update-initramfs", ":")
    noting(host, "update-grub", UPDATE_GRUB)
    host.write("etc/modprobe.d/blacklist.conf", "")
    host.write("boot/grub/grub.cfg", "  linux /vmlinuz root=/dev/sda1\n")
    host.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1\n")
    return host


def noting(host: FolderHost, name: str, text: str) -> None:
    call = f'"{name} $*"'
    host.tool(
        name, f"echo {call} >>$F/calls\n! grep -s -q -x -e {call} $F/broken || exit 1\n{text}"
    )


def breaks(host: FolderHost, call: str) -> None:
    host.write("broken", f"{call}\n")


def mended(host: FolderHost) -> None:
    (host.root / "broken").unlink()
    (host.root / "calls").unlink()


def calls(host: FolderHost) -> list[str]:
    """What was called that changes something, since the tools work again."""
    file = host.root / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return [line for line in lines if " is-" not in line]


@pytest.mark.parametrize(
    ("lines", "call", "due"),
    [
        (
            (MEMLOCK,),
            "systemctl daemon-reload",
            ["systemctl daemon-reload", "systemctl restart k3s-agent.service"],
        ),
        (
            (MEMLOCK,),
            "systemctl restart k3s-agent.service",
            ["systemctl restart k3s-agent.service"],
        ),
        (DOCKER, "systemctl reload docker.service", ["systemctl reload docker.service"]),
        ((NETNS,), "update-initramfs -u", ["update-initramfs -u"]),
        ((IOMMU,), "update-grub ", ["update-grub "]),
    ],
)
def test_the_next_run_does_what_was_left(
    host: FolderHost, lines: tuple[str, ...], call: str, due: list[str]
) -> None:
    breaks(host, call)
    failed = host.run("converge", *lines)
    assert failed.returncode == 1
    assert f"`{call.strip()}` failed" in failed.stderr
    mended(host)
    notes = str(host.report("converge", *lines)["notes"])
    assert calls(host) == due
    assert "an earlier run ended before" in notes
    again = host.report("converge", *lines)
    assert "an earlier run" not in str(again.get("notes"))
    assert calls(host) == []


def test_undo_does_what_was_left_of_undo(host: FolderHost) -> None:
    host.report("converge", IOMMU, MEMLOCK)
    for call in ("update-grub ", "systemctl daemon-reload"):
        breaks(host, call)
        assert host.run("undo").returncode == 1
        mended(host)
    assert host.report("undo")["left"] == []
    assert "iommu" not in (host.root / "boot/grub/grub.cfg").read_text()
    assert "systemctl daemon-reload" in calls(host)
    assert not host.state.exists()


def test_a_setting_that_was_dropped_is_finished_too(host: FolderHost) -> None:
    host.report("converge", IOMMU, MEMLOCK)
    breaks(host, "update-grub ")
    assert host.run("converge", MEMLOCK).returncode == 1
    mended(host)
    host.report("converge", MEMLOCK)
    assert "iommu" not in (host.root / "boot/grub/grub.cfg").read_text()


def test_a_running_server_of_kubernetes_is_not_restarted(host: FolderHost) -> None:
    """All control planes are converged at once, and three that start together are no quorum."""
    notes = str(host.report("converge", "unit.k3s.limit_memlock=infinity")["notes"])
    assert "systemctl restart k3s.service" not in calls(host)
    assert "one server after the other" in notes


@pytest.mark.parametrize("content", ["", None])
def test_a_boot_without_its_settings_fails(host: FolderHost, content: str | None) -> None:
    """An update that was killed before it wrote them left a unit that was green."""
    if content is not None:
        host.write("etc/railyard/nics.conf", content)
    told = host.run("boot")
    assert told.returncode == 1
    assert "nics.conf is not there, or empty" in told.stderr
