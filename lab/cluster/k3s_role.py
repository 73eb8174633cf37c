"""`k3s agent` of the lab, and what `k3s server` has in common with it."""

from __future__ import annotations

import functools
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from components.core.record import record
from lab.cluster.cpu_manager import start_cpu_manager
from lab.cluster.k3s_agent import run_agent
from lab.cluster.k3s_config import (
    Flags,
    HostPaths,
    K3sConfig,
    Role,
    load_flags,
    make_config,
    parse_flags,
    read_hostname,
)
from lab.cluster.k3s_node import refuse_machine


@record
class Start:
    """What a role starts with."""

    config: K3sConfig
    flags: Flags
    notify: Callable[[], None]
    """Tells systemd that the unit is up."""


def _notify_ready(address: str) -> None:
    """Tell systemd that the unit is up, where it listens (Type=notify)."""
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1", address.replace("@", "\0", 1))
    print('level=info msg="k3s is up and running"', flush=True)


def begin(command: str, args: Sequence[str], paths: HostPaths) -> Start:
    """Read the configuration of a role and check the machine.

    Raises:
        DeviceError: a flag, a file or the machine is not as K3s wants it.
    """
    flags = {**load_flags(paths), **parse_flags(args)}
    role = cast("Role", command)
    config = make_config(role, flags, dict(os.environ), paths, read_hostname(paths))
    if paths.root == Path("/"):  # a trial outside of a lab host has no /sys
        refuse_machine(paths, flags, os.environ.get("PATH", ""))
        start_cpu_manager(paths, flags)
    # Taken out of the environment, as K3s does: etcd would say READY=1 long before the API is up.
    notify = functools.partial(_notify_ready, os.environ.pop("NOTIFY_SOCKET", ""))
    return Start(config, flags, notify)


def until_ended() -> threading.Event:
    """An event that is set once systemd ends this process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    return stop


def run_command(command: str, args: Sequence[str], paths: HostPaths) -> int:
    """Run an agent until it is ended.

    Raises:
        DeviceError: a flag, a file or the machine is not as K3s wants it.
    """
    start = begin(command, args, paths)
    run_agent(start.config, paths, until_ended(), start.notify)
    return 0
