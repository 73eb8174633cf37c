"""`k3s server` and `k3s agent` of the lab, and `k3s server --cluster-reset`."""

from __future__ import annotations

import functools
import os
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from lab.cluster.build import whole_build
from lab.cluster.cpu_manager import start_cpu_manager
from lab.cluster.k3s_agent import run_agent
from lab.cluster.k3s_config import (
    Flags,
    HostPaths,
    Role,
    load_flags,
    make_config,
    parse_flags,
    read_hostname,
)
from lab.cluster.k3s_node import refuse_machine
from lab.cluster.k3s_server import Tools, make_plane, run_server
from lab.cluster.k3s_snapshot import reset_cluster
from lab.cluster.lab_link import LabLink


def _notify_ready(address: str) -> None:
    """Tell systemd that the unit is up, where it listens (Type=notify)."""
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1", address.replace("@", "\0", 1))
    print('level=info msg="k3s is up and running"', flush=True)


def run_command(command: str, args: Sequence[str], paths: HostPaths) -> int:
    """Run a server or an agent until it is ended.

    Raises:
        DeviceError: a flag, a file or the machine is not as K3s wants it.
    """
    role = cast("Role", command)
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
        binaries = whole_build()
        plane = make_plane(config, paths, binaries)
        told = reset_cluster(config, paths, flags, plane, binaries["etcdutl"])
        print(f'level=info msg="{told}"', flush=True)
        return 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    if role == "server":
        control = os.environ.get("RAILYARD_LAB_CONTROL")
        tools = Tools(whole_build(), LabLink(Path(control) if control else None))
        run_server(config, paths, tools, stop, notify)
    else:
        run_agent(config, paths, stop, notify)
    return 0


def _is_reset(flags: Flags) -> bool:
    return flags.get("cluster-reset", ["false"])[-1] == "true"
