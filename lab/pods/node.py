"""A node of `make lab-pods`: namespaces of its own, and in them the real containerd and kubelet."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.cluster.pki import KeyPair
from lab.cluster.plane import ControlPlane, render_kubeconfig
from lab.cluster.process import Child, wait_until
from lab.pods.cgroups import is_unified, make_place
from lab.pods.configs import K3S, K3S_PLUGINS, NodeAddresses, kubelet_config, render_files

_ROOT_SCRIPT: Final = Path(__file__).with_name("node_root.sh")
BOOT_DEADLINE_S: Final = 60.0
SOCKET_DEADLINE_S: Final = 120.0
PROGRAMS: Final = "/opt/lab/bin"
SHARED: Final = "/opt/lab/node"
NAMESPACES: Final = ("--mount", "--uts", "--net", "--pid", "--root", "--wd")


@dataclass(slots=True)
class Node:
    """One node: what it is called, where it lies, and its processes."""

    name: str
    number: int
    """From 1; its addresses follow from it."""
    folder: Path
    """Certificates, configurations and logs; the node sees it."""
    tree: Path
    programs: Path
    holder: Child | None = None
    children: list[Child] = field(default_factory=list[Child])

    @property
    def addresses(self) -> NodeAddresses:
        """What follows from its number."""
        return NodeAddresses(self.name, self.number)

    def boot(self) -> None:
        """Make its namespaces and its file system; nothing of Kubernetes runs yet.

        Raises:
            DeviceError: The first process ended; the text holds its last words.
        """
        disk = self.folder / "disk"
        disk.mkdir(parents=True, exist_ok=True)
        if not disk.is_mount():
            subprocess.run(["mount", "-t", "tmpfs", self.name, str(disk)], check=True, timeout=30)
        place = make_place(self.name)
        unshare = ["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child"]
        script = ["bash", str(_ROOT_SCRIPT), self.name, str(self.tree), str(self.programs)]
        words = [*unshare, *script, place, str(self.folder)]
        self.holder = Child(self.name, words, self.folder / "root.log")
        self.holder.start()
        wait_until(f"{self.name} to boot", self._is_up, BOOT_DEADLINE_S)

    def _is_up(self) -> bool:
        if self.holder is None:
            return False
        self.holder.check_running()
        return self.pid > 0 and self.run("test", "-e", "/run/ready", check=False).returncode == 0

    @property
    def pid(self) -> int:
        """Of its first process, as the lab sees it; 0 where it does not run."""
        holder = self.holder.pid if self.holder else 0
        children = Path(f"/proc/{holder}/task/{holder}/children")
        words = children.read_text().split() if holder and children.exists() else []
        return int(words[0]) if words else 0

    @property
    def root(self) -> Path:
        """Its file system, as the lab sees it."""
        return Path(f"/proc/{self.pid}/root")

    def inside(self, *words: str) -> list[str]:
        """A command as it is called to run on the node."""
        return ["nsenter", f"--target={self.pid}", *NAMESPACES, "--", *words]

    def run(
        self, *words: str, check: bool = True, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node and wait for it.

        Raises:
            DeviceError: It failed, where `check` says that it must not.
        """
        done = subprocess.run(
            self.inside(*words), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if check and done.returncode:
            said = (done.stdout + done.stderr).strip()[-1500:]
            raise DeviceError(f"{self.name}: `{' '.join(words)}` failed: {said}")
        return done

    def configure(self, plane: ControlPlane) -> None:
        """Write what containerd, kubelet and kube-proxy read.

        Args:
            plane: The control plane that the node joins; it signs the node's certificate.
        """
        issue_files(plane, self.addresses, self.folder, unified=is_unified())
        for name, text in render_files(self.addresses).items():
            self.write(name, text)
        self.run("mkdir", "-p", K3S.bin)
        for plugin in K3S_PLUGINS:
            self.run("ln", "-sf", f"{PROGRAMS}/{plugin}", f"{K3S.bin}/{plugin}")

    def write(self, path: str, text: str) -> None:
        """Write a file on the node."""
        words = self.inside("sh", "-c", 'mkdir -p "${0%/*}" && cat >"$0"', path)
        subprocess.run(words, input=text, text=True, check=True, timeout=60)

    def start(self) -> None:
        """Start containerd, kubelet and kube-proxy, as K3s starts them in one process.

        Raises:
            DeviceError: containerd did not open its socket.
        """
        self._launch("containerd", "--config", "/etc/containerd/config.toml")
        wait_until(f"containerd of {self.name}", self._runtime_answers, SOCKET_DEADLINE_S)
        self._launch("kubelet", *kubelet_flags(self.addresses))
        self._launch("kube-proxy", "--config=/etc/kube-proxy.yaml")

    def _runtime_answers(self) -> bool:
        self.check_running()
        words = (f"{PROGRAMS}/ctr", "--address", "/run/k3s/containerd/containerd.sock", "version")
        return self.run(*words, check=False).returncode == 0

    def _launch(self, name: str, *flags: str) -> None:
        words = self.inside("env", *_environment(), f"{PROGRAMS}/{name}", *flags)
        child = Child(f"{name} of {self.name}", words, self.folder / f"{name}.log")
        child.start()
        self.children.append(child)

    def check_running(self) -> None:
        """Raise `DeviceError` where a process of the node has ended."""
        for child in self.children:
            child.check_running()

    def kill(self) -> None:
        """Cut its power: its first process dies, and with it everything that runs on it."""
        if self.holder:
            self.holder.stop(grace_s=0)
        for child in self.children:
            child.stop()
        self.children.clear()
        self.holder = None


def issue_files(
    plane: ControlPlane, addresses: NodeAddresses, folder: Path, *, unified: bool, groups: str = ""
) -> None:
    """Make what a node needs to join: its certificate, and the files that name it.

    Args:
        plane: Signs the certificate.
        addresses: Of the node.
        folder: Gets the files; the node sees them as `SHARED`.
        unified: The node has control groups of version 2.
        groups: Where its pods have theirs; default the place that the lab makes for it.
    """
    files = KeyPair(folder / "kubelet.crt", folder / "kubelet.key")
    names = (addresses.management, addresses.name)
    plane.ca.issue(files, f"system:node:{addresses.name}", "system:nodes", names)
    ca = plane.ca.files.cert
    shutil.copyfile(ca, folder / "ca.crt")
    (folder / "kubelet.kubeconfig").write_text(render_kubeconfig(plane.server, ca, files))
    plane.write_kubeconfig(folder / "proxy.kubeconfig", "system:kube-proxy")
    config = kubelet_config(addresses, SHARED, unified=unified)
    if groups:
        config["cgroupRoot"] = groups
    (folder / "kubelet.json").write_text(json.dumps(config, indent=1))


def kubelet_flags(addresses: NodeAddresses) -> tuple[str, ...]:
    """What kubelet is started with."""
    return (
        f"--config={SHARED}/kubelet.json",
        f"--kubeconfig={SHARED}/kubelet.kubeconfig",
        f"--hostname-override={addresses.name}",
        f"--node-ip={addresses.management}",
    )


def _environment() -> Sequence[str]:
    path: Mapping[str, str] = {
        "PATH": f"{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
    }
    return [f"{key}={value}" for key, value in path.items()]
