"""A host that is a folder: the real scripts, on files in place of /sys, /etc, /run and /var/lib."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Literal

from components.core.record import record
from components.hosts.scripts import Verb, boot_script_text
from tests.hosts.host_text import library_text, script_text

STACK = "dev"
_SYSTEM_PATHS = re.compile(
    r"(?<![\w}])/(?=(?:(?:sys|etc|run|var/lib|boot|lib/modules)/|proc/(?:cmdline|cpuinfo|sys/kernel/numa_balancing|sys/net/bridge)\b))"
)
_ACCEPTS_ALL = ("systemctl", "modprobe", "devlink", "lspci", "sync", "udevadm")


@record
class FolderHost:
    """Its cards are folders of files that take every value, also what a kernel would refuse."""

    root: Path

    @property
    def devices(self) -> Path:
        return self.root / "sys/bus/pci/devices"

    @property
    def state(self) -> Path:
        return self.root / "var/lib/railyard" / STACK

    @property
    def baseline(self) -> dict[str, str]:
        lines = (self.state / "baseline").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def tool(self, name: str, text: str = "exit 0") -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\nF={self.root}\n{text}\n")
        path.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def card(self, pci: str, netdev: str, *, vfs: int | None = None) -> Path:
        """Put a ConnectX-5 into a slot; without `vfs` its firmware has SR-IOV off."""
        device = self.devices / pci
        for folder in (f"net/{netdev}", "infiniband/mlx5_0/ports/1"):
            (device / folder).mkdir(parents=True)
        files = {"vendor": "0x15b3", "device": "0x1017", "class": "0x020000"}
        files |= {f"net/{netdev}/mtu": "1500", "infiniband/mlx5_0/ports/1/link_layer": "Ethernet"}
        if vfs is not None:
            files |= {"sriov_totalvfs": "8", "sriov_numvfs": str(vfs)}
            files |= {"sriov_drivers_autoprobe": "1"}
        for name, value in files.items():
            (device / name).write_text(f"{value}\n")
        (self.root / f"sys/class/net/{netdev}").symlink_to(device / f"net/{netdev}")
        return device

    def run(
        self, script: Verb | Literal["boot"], *lines: str, first: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with these lines and the stack's on stdin, `first` before all others."""
        text = boot_script_text() if script == "boot" else script_text(script)
        stdin = "".join(f"{line}\n" for line in (f"stack={STACK}", *lines))
        return self._execute(first + text, stdin)

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run something after the library."""
        return self._execute(library_text() + script, "")

    def _execute(self, text: str, stdin: str) -> subprocess.CompletedProcess[str]:
        file = self.root / "script.sh"
        file.write_text(_SYSTEM_PATHS.sub(f"{self.root}/", text))
        return subprocess.run(
            ["/bin/sh", str(file)],
            input=stdin,
            env={"PATH": f"{self.root}/bin:{os.environ['PATH']}", "TMPDIR": str(self.root)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def report(self, script: Verb, *lines: str) -> dict[str, object]:
        """The evidence of a run that ends well."""
        done = self.run(script, *lines)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def observe(self, *lines: str) -> dict[str, str]:
        done = self.run("observe", *lines)
        assert done.returncode == 0, done.stderr
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def folder_host(root: Path) -> FolderHost:
    """A host without cards."""
    host = FolderHost(root)
    for folder in ("bin", "sys/bus/pci/devices", "sys/class/net", "etc/docker", "run", "var/lib"):
        (root / folder).mkdir(parents=True)
    for name in _ACCEPTS_ALL:
        host.tool(name)
    host.tool("dcb", "echo 'Attribute read: Operation not supported' >&2; exit 1")
    return host
