"""The disks of the guests: Debian, made once by debootstrap and kept outside the project.

A guest gets a copy of its own, with its name and its SSH host key in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from components.core.record import record
from lab.cache import cache_root
from lab.engine.progress import locked
from lab.keys import client_key
from lab.vm.tools import SYSTEM_PATH

SUITE: Final = "bookworm"
"""Debian 12: its kernel 6.1 has igb, igbvf, mlx5 and rdma_rxe (tried)."""
NODE_SUITE: Final = "trixie"
"""Debian 13, for the kernel of its backports: the first of Debian in which software RoCE works in a
network namespace other than the machine's own (tried with 7.3). That of Debian 12 and 13 sends and
listens in the machine's own alone, and so never from a pod."""
PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "netbase", "sudo"),
    *("openssh-server", "iproute2", "iputils-ping", "ethtool", "pciutils"),
    *("rdma-core", "ibverbs-utils", "perftest"),
)
_FOR_CONTAINERS: Final = (
    *("initramfs-tools", "iptables", "nftables", "apparmor"),
    *("runc", "docker.io", "docker-cli"),
)
"""In Debian 13 the client of Docker is a package of its own."""
_ADD_BACKPORTS: Final = (
    f"sed 's/ {NODE_SUITE} / {NODE_SUITE}-backports /' /etc/apt/sources.list"
    " >/etc/apt/sources.list.d/backports.list"
)
_NEWER_KERNEL: Final = (
    ("sh", "-c", _ADD_BACKPORTS),
    ("apt-get", "update"),
    (
        *("apt-get", "install", "-y", "--no-install-recommends"),
        *("-t", f"{NODE_SUITE}-backports", "linux-image-amd64"),
    ),
)
PROGRAMS_LABEL: Final = "programs"
"""Of the disk with what the lab built."""
FIRST_NAME: Final = "debian"
"""What a guest is called until Railyard names it."""
USER: Final = "ops"
"""Who logs in: no root, so that `sudo -n` is proven too."""
BUILD_DEADLINE_S: Final = 1200.0
"""debootstrap alone took 91 s on two idle cores."""
NETWORK_FILE: Final = "/etc/systemd/network/10-management.network"


def network_file(address: str, gateway: str = "") -> str:
    """Settings of a guest's management network, whose card is the only one of virtio."""
    text = f"""[Match]
Driver=virtio_net
[Network]
Address={address}/24
LinkLocalAddressing=no
IPv6AcceptRA=no
"""
    return f"{text}Gateway={gateway}\n" if gateway else text


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
    NETWORK_FILE.lstrip("/"): network_file("10.0.2.15"),
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
_CONTAINER_FILES: Final = {
    # The image of the payload comes from the lab's registry, which speaks no TLS.
    "etc/docker/daemon.json": '{"insecure-registries": ["10.29.0.1:5000"]}\n',
    # Docker takes `--gpus` where NVIDIA's hook is: this one does nothing, and there is no GPU.
    "usr/local/bin/nvidia-container-runtime-hook": "#!/bin/sh\nexit 0\n",
    "etc/modules-load.d/rdma.conf": "rdma_rxe\nrdma_ucm\noverlay\nbr_netfilter\n",
    "etc/sysctl.d/90-lab.conf": "net.ipv4.ip_forward = 1\n",
    "etc/fstab": _FILES["etc/fstab"] + f"LABEL={PROGRAMS_LABEL} /opt/lab/bin ext4 ro,nofail 0 0\n",
}
_CONTAINER_COMMANDS: Final = (
    ("mkdir", "-p", "/opt/lab/bin", "/opt/lab/node"),
    ("chmod", "755", "/usr/local/bin/nvidia-container-runtime-hook"),
    ("systemctl", "disable", "docker.service", "docker.socket", "containerd.service"),
)
_COMMANDS: Final = (
    ("useradd", "-m", "-s", "/bin/bash", "-u", "990", USER),
    ("chown", "-R", f"{USER}:{USER}", f"/home/{USER}"),
    ("chmod", "-R", "go=", f"/home/{USER}/.ssh"),
    ("systemctl", "enable", "systemd-networkd"),
    ("systemctl", "mask", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer"),
    ("update-initramfs", "-u"),
)


@record
class Recipe:
    """What a disk is made of."""

    name: str
    suite: str
    packages: tuple[str, ...]
    files: Mapping[str, str]
    commands: tuple[tuple[str, ...], ...]
    disk_bytes: int

    @property
    def key(self) -> str:
        """Changes with whatever changes the image."""
        parts = (self.suite, self.packages, sorted(self.files.items()), self.commands)
        return hashlib.sha256(repr((*parts, self.disk_bytes)).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where its image is, or will be."""
        return cache_root() / "vm" / self.name / self.key


HOSTS: Final = Recipe(
    "hosts", SUITE, (*PACKAGES, "linux-image-amd64"), _FILES, _COMMANDS, disk_bytes=2 * 2**30
)
"""Two hosts as Railyard finds them; the tree takes about 900 MB."""
NODES: Final = Recipe(
    "nodes",
    NODE_SUITE,
    (*PACKAGES, *_FOR_CONTAINERS),
    _FILES | _CONTAINER_FILES,
    (*_NEWER_KERNEL, *_CONTAINER_COMMANDS, *_COMMANDS),
    disk_bytes=4 * 2**30,
)
"""Two hosts with what containers need; the tree takes about 1.2 GB, images the rest."""


@record
class Image:
    """What a guest starts from."""

    disk: Path
    kernel: Path
    initrd: Path


def ensure_image(recipe: Recipe = HOSTS) -> Image:
    """The image of a recipe, made where it is not there yet.

    Raises:
        DeviceError: A tool failed, and what it said.
    """
    folder = recipe.folder
    image = Image(folder / "disk.img", folder / "vmlinuz", folder / "initrd")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / "lock"):
        if not folder.exists():
            for old in folder.parent.glob("*/"):
                shutil.rmtree(old)
            building = folder.parent / "building"
            building.mkdir()
            _build(recipe, building)
            building.rename(folder)
    return image


def _build(recipe: Recipe, folder: Path) -> None:
    tree = folder / "tree"
    include = f"--include={','.join(recipe.packages)}"
    run_tool("debootstrap", "--variant=minbase", include, recipe.suite, str(tree))
    for name, text in recipe.files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for command in recipe.commands:
        run_tool("chroot", str(tree), *command)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(tree / name)
    for name in ("vmlinuz", "initrd"):
        source = next((tree / "boot").glob(f"{name}*"))
        shutil.copyfile(source, folder / name)
    disk = folder / "disk.img"
    with disk.open("wb") as file:
        file.truncate(recipe.disk_bytes)
    run_tool("mkfs.ext4", "-q", "-d", str(tree), str(disk))
    shutil.rmtree(tree)


def copy_for(image: Image, disk: Path, files: Mapping[str, tuple[str, str]]) -> None:
    """Give a guest its own disk.

    Args:
        image: What it starts from.
        disk: Where its disk goes.
        files: Path in the guest to mode (octal digits) and content: its name, its host key.
    """
    disk.parent.mkdir(parents=True, exist_ok=True)
    run_tool("cp", "--sparse=always", str(image.disk), str(disk))
    for name, (mode, text) in files.items():
        source = disk.with_suffix(".file")
        source.write_text(text)
        orders = f"rm {name}\nwrite {source} {name}\nsif {name} mode 0100{mode}\n"
        run_tool("debugfs", "-w", "-f", "-", str(disk), stdin=orders)
        source.unlink()


def run_tool(*command: str, stdin: str = "") -> None:
    """Run a program that makes a disk.

    Raises:
        DeviceError: It failed, and what it said.
    """
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
