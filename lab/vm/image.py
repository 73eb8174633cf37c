"""The disk of the guests: Debian, made once by debootstrap and kept outside the project.

A guest gets a copy of its own, with its name and its SSH host key in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.engine.install import cache_root
from lab.engine.progress import locked
from lab.keys import client_key
from lab.vm.tools import SYSTEM_PATH

SUITE: Final = "bookworm"
"""Debian 12: its kernel 6.1 has igb, igbvf, mlx5 and rdma_rxe (tried)."""
PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "netbase", "sudo"),
    *("openssh-server", "iproute2", "iputils-ping", "ethtool", "pciutils"),
    *("linux-image-amd64", "rdma-core", "ibverbs-utils", "perftest"),
)
FIRST_NAME: Final = "debian"
"""What a guest is called until Railyard names it."""
USER: Final = "ops"
"""Who logs in: no root, so that `sudo -n` is proven too."""
MANAGEMENT_MAC: Final = "52:54:00:00:00:01"
"""The same in both guests: each has a management network of its own (QEMU's user network)."""
DISK_BYTES: Final = 2 * 2**30
"""The tree takes about 900 MB."""
BUILD_DEADLINE_S: Final = 1200.0
"""debootstrap alone took 91 s on two idle cores."""
_NETWORK: Final = f"""[Match]
MACAddress={MANAGEMENT_MAC}
[Network]
Address=10.0.2.15/24
LinkLocalAddressing=no
IPv6AcceptRA=no
"""
_FLOW_CONTROL: Final = """[Match]
Driver=igb
[Link]
NamePolicy=keep kernel database onboard slot path
AutoNegotiationFlowControl=no
"""
"""Else igb takes the pause frames that its partner offers, whatever is asked of it; mlx5 does not
negotiate them either."""
_FILES: Final = {
    "etc/systemd/network/20-fabric.link": _FLOW_CONTROL,
    "etc/systemd/network/10-management.network": _NETWORK,
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
    "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {FIRST_NAME}\n",
    # `driver.kind: inbox` is the kernel's mlx5; no card asks for it here.
    "etc/modules-load.d/mlx5.conf": "mlx5_core\n",
    "etc/sudoers.d/ops": f"{USER} ALL=(ALL) NOPASSWD: ALL\n",
    # A small initial RAM disk: unpacking all drivers takes long under emulation.
    "etc/initramfs-tools/conf.d/small": "MODULES=list\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    f"home/{USER}/.ssh/authorized_keys": client_key("vm").public_openssh + "\n",
}
_COMMANDS: Final = (
    ("useradd", "-m", "-s", "/bin/bash", "-u", "990", USER),
    ("chown", "-R", f"{USER}:{USER}", f"/home/{USER}"),
    ("chmod", "-R", "go=", f"/home/{USER}/.ssh"),
    ("systemctl", "enable", "systemd-networkd"),
    ("systemctl", "mask", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer"),
    ("update-initramfs", "-u"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """What a guest starts from."""

    disk: Path
    kernel: Path
    initrd: Path


def ensure_image() -> Image:
    """The image of this recipe, made where it is not there yet.

    Raises:
        DeviceError: A tool failed, and what it said.
    """
    images = cache_root() / "vm"
    folder = images / _recipe_key()
    image = Image(folder / "disk.img", folder / "vmlinuz", folder / "initrd")
    with locked(images / "lock"):
        if not folder.exists():
            for old in images.glob("*/"):
                shutil.rmtree(old)
            building = images / "building"
            building.mkdir()
            _build(building)
            building.rename(folder)
    return image


def _recipe_key() -> str:
    """Changes with whatever changes the image."""
    return hashlib.sha256(
        repr((SUITE, PACKAGES, DISK_BYTES, sorted(_FILES.items()), _COMMANDS)).encode()
    ).hexdigest()[:16]


def _build(folder: Path) -> None:
    tree = folder / "tree"
    include = f"--include={','.join(PACKAGES)}"
    _run("debootstrap", "--variant=minbase", include, SUITE, str(tree))
    for name, text in _FILES.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for command in _COMMANDS:
        _run("chroot", str(tree), *command)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    shutil.rmtree(tree / "var/cache/apt/archives")
    for name in ("vmlinuz", "initrd"):
        source = next((tree / "boot").glob(f"{name}*"))
        shutil.copyfile(source, folder / name)
    disk = folder / "disk.img"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    _run("mkfs.ext4", "-q", "-d", str(tree), str(disk))
    shutil.rmtree(tree)


def copy_for(image: Image, disk: Path, files: Mapping[str, tuple[str, str]]) -> None:
    """Give a guest its own disk.

    Args:
        image: What it starts from.
        disk: Where its disk goes.
        files: Path in the guest to mode (octal digits) and content: its name, its host key.
    """
    disk.parent.mkdir(parents=True, exist_ok=True)
    _run("cp", "--sparse=always", str(image.disk), str(disk))
    for name, (mode, text) in files.items():
        source = disk.with_suffix(".file")
        source.write_text(text)
        orders = f"rm {name}\nwrite {source} {name}\nsif {name} mode 0100{mode}\n"
        _run("debugfs", "-w", "-f", "-", str(disk), stdin=orders)
        source.unlink()


def _run(*command: str, stdin: str = "") -> None:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_DEADLINE_S,
        env=_environment(),
    )
    if done.returncode != 0:
        raise DeviceError(_failure(command, done.stdout + done.stderr))


def _environment() -> dict[str, str]:
    return os.environ | {
        "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SYSTEM_PATH}",
        "LC_ALL": "C",
        "DEBIAN_FRONTEND": "noninteractive",
    }


def _failure(command: Sequence[str], output: str) -> str:
    return f"`{' '.join(command)}` failed; the end of what it said:\n{output[-1500:]}"
