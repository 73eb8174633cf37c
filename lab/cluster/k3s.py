"""The lab's `k3s` program: `python -m lab.cluster.k3s server|agent|etcd-snapshot|kubectl|…`.

It plays the pinned K3s release on a lab host: configuration, files, tokens, units and names are
those of the real one; the containers are not. All files lie under RAILYARD_HOST_ROOT (default /).
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from components.core.errors import DeviceError, RailyardError
from lab.cluster.build import PROGRAMS, built
from lab.cluster.cpu_manager import start_cpu_manager
from lab.cluster.k3s_agent import run_agent
from lab.cluster.k3s_config import Flags, HostPaths, load_flags, make_config, parse_flags
from lab.cluster.k3s_node import own_release, read_hostname, refuse_machine
from lab.cluster.k3s_server import Tools, make_plane, run_server
from lab.cluster.k3s_snapshot import reset_cluster, run_snapshot, snapshot_folder
from lab.cluster.lab_link import LabLink

_USAGE = "usage: k3s server|agent|kubectl|crictl|token|etcd-snapshot|--version"


def _fatal(text: str) -> int:
    print(f'level=fatal msg="{text}"', file=sys.stderr, flush=True)
    return 1


def _tools() -> Tools:
    cache = os.environ.get("RAILYARD_CACHE")
    binaries = built(Path(cache) if cache else None)
    missing = sorted({program.name for program in PROGRAMS} - set(binaries))
    if missing:
        raise DeviceError(
            f"the lab's Kubernetes is not built ({', '.join(missing)} missing): "
            "run `python -m lab.cluster.build`"
        )
    control = os.environ.get("RAILYARD_LAB_CONTROL")
    return Tools(binaries, LabLink(Path(control) if control else None))


def _notify_ready(address: str) -> None:
    """Tell systemd that the unit is up, where it listens (Type=notify)."""
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1", address.replace("@", "\0", 1))
    print('level=info msg="k3s is up and running"', flush=True)


def _run(role: Literal["server", "agent"], args: Sequence[str], paths: HostPaths) -> int:
    flags = {**load_flags(paths), **parse_flags(args)}
    config = make_config(role, flags, dict(os.environ), paths, read_hostname(paths))
    if paths.root == Path("/"):  # a trial outside of a lab host has no /sys
        refuse_machine(paths, flags, os.environ.get("PATH", ""))
        start_cpu_manager(paths, flags)
    # Taken out of the environment, as K3s does: etcd would say READY=1 long before the API is up.
    notify = functools.partial(_notify_ready, os.environ.pop("NOTIFY_SOCKET", ""))
    if flags.get("cluster-reset-restore-path") and not _is_reset(flags):
        text = "--cluster-reset required with --cluster-reset-restore-path"
        raise DeviceError(f"invalid flag use; {text}")
    if role == "server" and _is_reset(flags):
        binaries = _tools().binaries
        plane = make_plane(config, paths, binaries)
        told = reset_cluster(config, paths, flags, plane, binaries["etcdutl"])
        print(f'level=info msg="{told}"', flush=True)
        return 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    if role == "server":
        run_server(config, paths, _tools(), stop, notify)
    else:
        run_agent(config, paths, stop, notify)
    return 0


def _is_reset(flags: Flags) -> bool:
    return flags.get("cluster-reset", ["false"])[-1] == "true"


def _snapshot(args: Sequence[str], paths: HostPaths) -> int:
    flags = load_flags(paths)
    config = make_config("server", flags, dict(os.environ), paths, read_hostname(paths))
    plane = make_plane(config, paths, _tools().binaries)
    print(run_snapshot(args, config, snapshot_folder(paths, flags), plane), end="")
    return 0


def _kubectl(args: Sequence[str], paths: HostPaths) -> int:
    kubectl = _tools().binaries["kubectl"]
    named = parse_flags(args).get("kubeconfig", [])
    default = os.environ.get("KUBECONFIG") or str(paths.etc / "k3s.yaml")
    config = Path(named[-1] if named else default)
    words = [str(kubectl), f"--kubeconfig={config}", *_local_server(config, paths), *args]
    return subprocess.call(words, timeout=3600)


def _local_server(config: Path, paths: HostPaths) -> list[str]:
    # The lab's API listens on the node's own address alone; K3s' file says 127.0.0.1.
    if not config.is_file() or '"https://127.0.0.1:' not in config.read_text():
        return []
    flags = load_flags(paths)
    node = make_config("server", flags, dict(os.environ), paths, read_hostname(paths))
    return [f"--server=https://{node.node_ip}:{node.api_port}"]


def _token(paths: HostPaths) -> int:
    file = paths.server / "node-token"
    if not file.is_file():
        return _fatal(f"open {file}: no such file or directory")
    print(file.read_text().strip())
    return 0


def main(argv: Sequence[str]) -> int:
    """Run one command of K3s; returns its exit code."""
    paths = HostPaths(Path(os.environ.get("RAILYARD_HOST_ROOT", "/")))
    words = list(argv)
    if words[1:2] == ["--root"]:
        paths = HostPaths(Path(words[2]).resolve())
        del words[1:3]
    command, args = (words[0], words[1:]) if words else ("", [])
    try:
        return _dispatch(command, args, paths)
    except RailyardError as error:
        return _fatal(str(error))


def _dispatch(command: str, args: Sequence[str], paths: HostPaths) -> int:
    if command in {"--version", "-v"}:
        print(f"k3s version {own_release()} (railyard-lab)\ngo version go1.26")
        return 0
    commands: dict[str, Callable[[], int]] = {
        "server": lambda: _run("server", args, paths),
        "agent": lambda: _run("agent", args, paths),
        "kubectl": lambda: _kubectl(args, paths),
        "token": lambda: _token(paths),
        "etcd-snapshot": lambda: _snapshot(args, paths),
    }
    if command in commands:
        return commands[command]()
    if command == "crictl":
        return _fatal("the lab has no container runtime: nothing answers on containerd.sock")
    print(_USAGE, file=sys.stderr)
    return _fatal(f"No help topic for '{command}'")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
