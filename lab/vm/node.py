"""A virtual machine as a node: the real containerd, kubelet and kube-proxy under its systemd.

Programs and files are those of `make lab-pods`; here a guest has them, with a kernel of its own.
"""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.remote.step import Endpoint
from lab.cluster.plane import ControlPlane
from lab.pods.configs import K3S, K3S_PLUGINS, SOCKET, NodeAddresses, render_files
from lab.pods.node import PROGRAMS, SHARED, issue_files, kubelet_flags
from lab.vm.guest import demand, run_as_root
from lab.vm.qemu import Guest

UNITS: Final = ("containerd", "kubelet", "kube-proxy")
_KEPT: Final = frozenset({"/etc/hosts", "/etc/machine-id", "/etc/resolv.conf"})
"""The guest has its own, which Railyard may have written."""
_LIMITS: Final = ("--property=LimitMEMLOCK=infinity", "--property=LimitNOFILE=1048576")
"""As K3s' unit has them."""


@dataclass(slots=True)
class GuestNode:
    """One node that is a virtual machine."""

    guest: Guest
    endpoint: Endpoint
    folder: Path
    """Of this machine: certificates and configurations."""

    @property
    def name(self) -> str:
        """What the API calls it."""
        return self.guest.name

    @property
    def addresses(self) -> NodeAddresses:
        """What follows from its number."""
        return NodeAddresses(self.guest.name, self.guest.number)

    def check_running(self) -> None:
        """Raise `DeviceError` where the machine has ended."""
        self.guest.child.check_running()

    def kill(self) -> None:
        """Switch it off."""
        self.guest.stop()

    def join(self, plane: ControlPlane) -> None:
        """Start what K3s starts, from a disk that a slow boot gives up after 90 s.

        Raises:
            DeviceError: containerd does not answer.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        issue_files(plane, self.addresses, self.folder, unified=True, groups="/")
        files = {
            f"{SHARED}/{each.name}": each.read_text()
            for each in self.folder.iterdir()
            if each.is_file()
        }
        rendered = render_files(self.addresses)
        files |= {name: text for name, text in rendered.items() if name not in _KEPT}
        links = "\n".join(f"ln -sf {PROGRAMS}/{each} {K3S.bin}/{each}" for each in K3S_PLUGINS)
        kubelet = shlex.join(kubelet_flags(self.addresses))
        demand(
            self.endpoint,
            f"""set -e
            mountpoint -q {PROGRAMS} || mount {PROGRAMS}
            echo {_packed(files)} | base64 -d | tar -xz -C / --no-same-owner
            mkdir -p {K3S.bin}
            {links}
            start() {{
              unit=$1
              shift
              systemd-run --quiet --unit="lab-$unit" {" ".join(_LIMITS)} \\
                --property=KillMode=process --property=Delegate=yes \\
                --setenv=PATH={PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin --setenv=HOME=/root \\
                {PROGRAMS}/$unit "$@"
            }}
            start containerd --config /etc/containerd/config.toml
            until {PROGRAMS}/ctr --address {SOCKET} version >/dev/null 2>&1; do
              systemctl is-active --quiet lab-containerd
              sleep 1
            done
            start kubelet {kubelet}
            start kube-proxy --config=/etc/kube-proxy.yaml
            """,
        )

    def last_words(self) -> str:
        """The last errors of its programs."""
        words = (
            'for unit in {}; do journalctl -q -u "lab-$unit" --no-pager -o cat'
            ' | grep -E "^[EF][0-9]|level=(error|fatal)" | tail -n 4; done'
        )
        return run_as_root(self.endpoint, words.format(" ".join(UNITS))).stdout


def _packed(files: Mapping[str, str]) -> str:
    """Files of a tar archive, for a command line."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(text.encode()), 0o600
            tar.addfile(entry, io.BytesIO(text.encode()))
    return base64.b64encode(buffer.getvalue()).decode()
