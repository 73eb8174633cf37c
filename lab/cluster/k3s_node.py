"""What a K3s node knows of its own machine, read from the host's files."""

from __future__ import annotations

import json
import resource
import secrets
import shutil
import subprocess
from pathlib import Path

import yaml

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.devices import NodeDevices, dump_devices, scan_devices
from lab.cluster.document import Doc
from lab.cluster.etcd_members import MEMBER_ADDRESS, MEMBER_NAME
from lab.cluster.fake_nodes import HOST, NodeFacts
from lab.cluster.k3s_config import Flags, HostPaths, K3sConfig, own_release, read_hostname
from lab.cluster.pki import KeyPair, write_private
from lab.cluster.plane import render_kubeconfig

_SYSTEMCTL_S = 10
STEADY_REPORTS = 15
"""After so many reports without a change, half a minute, only every third looks at /sys."""
STEADY_STEP = 3
_RUNTIMES = {"nvidia": "nvidia-container-runtime"}
"""Runtime to the program that K3s looks for (its pkg/agent/containerd)."""


def read_memlock_kib(paths: HostPaths, unit: str) -> int | None:
    """Read the memlock limit of the unit that runs this process; its containers inherit it.

    systemd is asked, and not the kernel: a lab on a machine that cannot raise the limit still
    plays hosts that can. Outside of a lab host the process's own limit counts.

    Returns:
        KiB, or None for unlimited.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    text = _show_memlock(unit) if paths.root == Path("/") else ""
    if text == "infinity" or (not text and soft == resource.RLIM_INFINITY):
        return None
    return (int(text) if text.isdigit() else soft) // 1024


def _show_memlock(unit: str) -> str:
    try:
        done = subprocess.run(
            ["/usr/bin/systemctl", "show", "--property=LimitMEMLOCK", "--value", unit],
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


@record
class Started:
    """What K3s found when it started; a later change counts at its next start."""

    memlock_kib: int | None
    nvidia_runtime: bool


def look_around(paths: HostPaths, unit: str, search: str) -> Started:
    """Look as K3s does at its start: it finds runtimes on its PATH alone (pkg/agent/containerd).

    Args:
        paths: The host's files.
        unit: The unit that runs this process.
        search: The folders of PATH.
    """
    folders = ":".join(str(paths.at(folder)) for folder in search.split(":") if folder)
    runtime = shutil.which(_RUNTIMES["nvidia"], path=folders)
    return Started(read_memlock_kib(paths, unit), runtime is not None)


class DeviceWatch:
    """The node's devices at each report: read every time while they change, then less often.

    A look asks /sys some hundred times, and a lab's daemon answers each of them.
    """

    def __init__(self, paths: HostPaths, started: Started) -> None:
        """Look for the first time."""
        self._paths, self._started, self._same = paths, started, 0
        self.devices = self._read()
        self.dumped = dump_devices(self.devices)

    def look(self) -> None:
        """Bring `devices`, and `dumped` for a report of them, up to date."""
        self._same += 1
        if self._same > STEADY_REPORTS and self._same % STEADY_STEP:
            return
        found = self._read()
        if found != self.devices:
            self.devices, self.dumped, self._same = found, dump_devices(found), 0

    def _read(self) -> NodeDevices:
        started = self._started
        return scan_devices(
            self._paths.at("/sys"), started.memlock_kib, nvidia_runtime=started.nvidia_runtime
        )


def ensure_node_password(paths: HostPaths) -> str:
    """Read the node's password, made at the first join; uninstalling K3s leaves it in place."""
    file = paths.at("/etc/rancher/node/password")
    if not file.exists():
        write_private(file, f"{secrets.token_hex(16)}\n".encode())
    return file.read_text().strip()


def read_facts(paths: HostPaths, config: K3sConfig, member: str = "") -> NodeFacts:
    """Gather what the node says of itself when it registers.

    Args:
        paths: The host's files.
        config: K3s' configuration.
        member: Name of the node's etcd member; empty where it has none.
    """
    labels = {"node.kubernetes.io/instance-type": "k3s", **config.labels}
    if config.role == "server":
        labels["node-role.kubernetes.io/control-plane"] = "true"
        if member:
            labels["node-role.kubernetes.io/etcd"] = "true"
    return NodeFacts(
        name=config.node_name,
        address=config.node_ip,
        boot_id=_read(paths.at("/proc/sys/kernel/random/boot_id"), "unknown"),
        release=own_release(),
        kernel=_read(paths.at("/proc/sys/kernel/osrelease"), "5.15.0-113-generic"),
        labels=labels,
        annotations={
            "k3s.io/hostname": config.node_name,
            HOST: read_hostname(paths),
            "k3s.io/node-args": json.dumps(config.node_args),
            "lab.railyard.dev/registries": _read_registries(paths),
            **({MEMBER_NAME: member, MEMBER_ADDRESS: config.node_ip} if member else {}),
        },
        taints=tuple(parse_taint(taint) for taint in config.taints),
    )


def refuse_machine(paths: HostPaths, flags: Flags, search: str) -> None:
    """End as K3s and its kubelet do on a machine that they cannot run on.

    K3s looks for the default runtime on its PATH at its start (its pkg/agent/containerd), and
    kubelet does not run on control groups v1 since 1.35 (its release notes).

    Args:
        paths: The host's files.
        flags: K3s' configuration.
        search: The folders of PATH.

    Raises:
        DeviceError: in their words.
    """
    runtime = flags.get("default-runtime", [""])[-1]
    docker = flags.get("docker", ["false"])[-1] == "true"
    if (
        runtime
        and not docker
        and shutil.which(_RUNTIMES.get(runtime, runtime), path=search) is None
    ):
        raise DeviceError(f"default runtime {runtime} was not found")
    if not paths.at("/sys/fs/cgroup/cgroup.controllers").exists():
        raise DeviceError(
            "kubelet exited: failed to validate kubelet configuration, error: kubelet is "
            "configured to not run on a host using cgroup v1. cgroup v1 support is unsupported "
            "and will be removed in a future release"
        )


def write_kubelet_config(paths: HostPaths, server: str, ca: Path, pair: KeyPair) -> None:
    """Write the kubelet's own kubeconfig; its rights are those of one node.

    Real K3s names its load balancer on 127.0.0.1 here; the lab names the server itself.
    """
    text = render_kubeconfig(server, ca, pair)
    write_private(paths.agent / "kubelet.kubeconfig", text.encode())


def _read(path: Path, default: str) -> str:
    return path.read_text().strip() if path.is_file() else default


def _read_registries(paths: HostPaths) -> str:
    """The mirrors of registries.yaml, so that a test can see that K3s read them."""
    file = paths.etc / "registries.yaml"
    if not file.is_file():
        return "{}"
    return json.dumps(yaml.safe_load(file.read_text()), sort_keys=True)


def parse_taint(text: str) -> Doc:
    """Read `key=value:Effect` (the value may be missing)."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def remove_tree(path: Path) -> None:
    """Remove a folder if it is there."""
    shutil.rmtree(path, ignore_errors=True)
