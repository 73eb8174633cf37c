"""The lab's `k3s` program: `python -m lab.cluster.k3s server|agent|etcd-snapshot|kubectl|…`.

It plays the pinned K3s release on a lab host: configuration, files, tokens, units and names are
those of the real one; the containers are not. All files lie under RAILYARD_HOST_ROOT (default /).
A command imports what it needs alone: `k3s kubectl` is called hundreds of times in a run of tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from components.core.errors import RailyardError
from lab.cluster.k3s_config import HostPaths, own_release

_USAGE = "usage: k3s server|agent|kubectl|crictl|token|etcd-snapshot|--version"
_COMMANDS = {
    "server": "lab.cluster.k3s_server_role",
    "agent": "lab.cluster.k3s_role",
    "kubectl": "lab.cluster.k3s_kubectl",
    "etcd-snapshot": "lab.cluster.k3s_snapshot",
}
"""The module of each command; its `run_command` is called with the command and its arguments."""


class _Module(Protocol):
    def run_command(self, command: str, args: Sequence[str], paths: HostPaths) -> int: ...


def _fatal(text: str) -> int:
    print(f'level=fatal msg="{text}"', file=sys.stderr, flush=True)
    return 1


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
    if command == "token":
        return _token(paths)
    if command in _COMMANDS:
        module = cast("_Module", import_module(_COMMANDS[command]))
        return module.run_command(command, args, paths)
    if command == "crictl":
        return _fatal("the lab has no container runtime: nothing answers on containerd.sock")
    print(_USAGE, file=sys.stderr)
    return _fatal(f"No help topic for '{command}'")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
