"""A host that is a folder, what others have on it, and what a file may ask of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.hosts.folder_host import FolderHost, folder_host

PIECES: Final[Mapping[str, tuple[str, ...]]] = {
    "locked memory of K3s": ("unit.k3s-agent.limit_memlock=infinity",),
    "locked memory of the server": ("unit.k3s.limit_memlock=infinity",),
    "locked memory of Docker": ("unit.docker.limit_memlock=infinity",),
    "locked memory of logins": ("kernel.limits.railyard.memlock=unlimited",),
    "IOMMU": ("kernel.cmdline.iommu=pt",),
    "namespaces of RDMA": ("kernel.rdma_netns=exclusive",),
    "runtime of Docker": ("docker.engine=present", "docker.runtime=nvidia"),
    "default runtime of Docker": ("docker.engine=present", "docker.default_runtime=nvidia"),
    "a name": ("hosts.gpu02=10.0.0.2",),
    "frame size of a card": ("nic.0000:05:00.0.mtu_bytes=9000",),
}
"""What a file asks for, and the lines that its step has on stdin."""
_NETS: Final = "etc/systemd/system/k3s-agent.service.d"
OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "etc/hosts": ("127.0.0.1 localhost\n", "127.0.0.1 localhost\n10.0.0.9 theirs"),
    "etc/docker/daemon.json": (
        '{"log-level": "warn"}\n',
        '{\n  "runtimes": {"x": {"path": "x"}}\n}',
    ),
    "etc/modprobe.d/theirs.conf": ("options mlx5_core theirs=1\n",),
    f"{_NETS}/20-theirs.conf": ("[Service]\nLimitMEMLOCK=65536\n",),
    "etc/security/limits.d/20-theirs.conf": ("* hard memlock 65536\n",),
    "etc/default/grub.d/theirs.cfg": ('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX quiet"\n',),
    "sys/class/net/enp5s0/mtu": ("4200\n",),
}
"""What other people have on a host before Railyard, beside ours and on the same things."""
_FOLDERS: Final = (
    "etc/systemd/system",
    "etc/security/limits.d",
    "etc/default/grub.d",
    "etc/docker",
)
_GRUB: Final = "  linux /vmlinuz root=/dev/sda1"
_TOOLS: Final[Mapping[str, str]] = {
    "dockerd": "exit 0",
    "nvidia-container-runtime": "exit 0",
    "docker": "exit 1",
    "rdma": "[ $2 = show ] && echo 'netns shared copy-on-fork on' || exit 1",
    "systemctl": "[ $1 != is-enabled ] || echo enabled",
    "update-initramfs": ":",
    "update-grub": (
        "grep -h -s -q iommu=pt $F/etc/default/grub.d/*.cfg && words=' intel_iommu=on iommu=pt'\n"
        f'echo "{_GRUB}$words" >$F/boot/grub/grub.cfg'
    ),
}
FRAGILE: Final = ("systemctl", "update-initramfs", "update-grub")
"""Tools that may fail once."""
_OWN: Final = ("bin/", "script.sh", "broken", "run/railyard.lock")
"""Of the folder, and not of the host; a lock that nobody holds may stay."""

Tree = dict[str, tuple[str, str]]


@dataclass(slots=True)
class Machine:
    """The host, and how it should be without Railyard."""

    host: FolderHost
    before: Tree = field(default_factory=dict[str, tuple[str, str]])

    def tree(self) -> Tree:
        """Every file, link and folder: its kind and mode, and what it holds."""
        found: Tree = {}
        for path in sorted(self.host.root.rglob("*")):
            name = str(path.relative_to(self.host.root))
            if name.startswith(_OWN):
                continue
            if path.is_symlink():
                found[name] = "link", str(path.readlink())
            elif path.is_dir():
                found[name] = f"folder {path.stat().st_mode & 0o7777:o}", ""
            else:
                found[name] = f"file {path.stat().st_mode & 0o7777:o}", path.read_text()
        return found

    def write(self, name: str, text: str) -> None:
        """Another admin writes a file, which is there before and after Railyard."""
        self.host.write(name, text)
        folder = Path(name).parent
        for each in (folder, *folder.parents):
            self.before.setdefault(str(each), ("folder 755", ""))
        self.before.pop(".", None)
        self.before[name] = "file 644", text

    def scratch(self) -> bool:
        """Take away what a run left in the folder for temporary files; whether there was any."""
        found = [*self.host.root.glob("railyard.*")]
        for path in found:
            shutil.rmtree(path)
        return bool(found)

    def breaks(self, tool: str) -> None:
        """A tool fails until `mend`; an empty name: none."""
        self.host.write("broken", f"{tool}\n")


def make_machine(chance: random.Random, root: Path) -> tuple[Machine, list[str]]:
    """A host with some settings of others, and which."""
    host = folder_host(root)
    host.card("0000:05:00.0", "enp5s0")
    for name, text in _TOOLS.items():
        host.tool(name, f"! grep -s -q -x {name} $F/broken || exit 1\n{text}")
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    host.write("boot/grub/grub.cfg", f"{_GRUB}\n")
    host.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1\n")
    host.write("etc/modprobe.d/blacklist.conf", "")
    host.write("etc/hosts", "127.0.0.1 localhost\n")
    theirs = [name for name in OTHERS if chance.random() < 0.4]  # noqa: PLR2004 - some of them
    for name in theirs:
        host.write(name, chance.choice(OTHERS[name]))
    machine = Machine(host)
    machine.before = machine.tree()
    return machine, theirs


def some_lines(chance: random.Random) -> tuple[str, ...]:
    """What a file asks for."""
    wanted = [name for name in PIECES if chance.random() < 0.4]  # noqa: PLR2004 - some of them
    lines = [line for name in wanted or [chance.choice([*PIECES])] for line in PIECES[name]]
    return (*dict.fromkeys(lines),)
