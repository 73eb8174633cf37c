"""`k3s kubectl` of the lab: the real one, with the configuration that K3s writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Never

from lab.cluster.k3s_config import HostPaths, load_flags, make_config, parse_flags, read_hostname
from lab.cluster.release import PROGRAMS_VARIABLE


def run_command(command: str, args: Sequence[str], paths: HostPaths) -> Never:
    """Become kubectl.

    Raises:
        DeviceError: the lab's Kubernetes is not built, or K3s' configuration cannot be used.
    """
    named = parse_flags(args).get("kubeconfig", [])
    default = os.environ.get("KUBECONFIG") or str(paths.etc / "k3s.yaml")
    config = Path(named[-1] if named else default)
    program = _program(command)
    words = (f"--kubeconfig={config}", *_local_server(config, paths), *args)
    # It lives for a twentieth of a second, and a fifth of that went to collections.
    own = {"GOGC": "off", **os.environ}
    os.execve(program, [str(program), *words], own)  # noqa: S606 - ours, and no shell


def _program(name: str) -> Path:
    program = Path(os.environ.get(PROGRAMS_VARIABLE, ""), name)
    if program.is_absolute() and program.exists():
        return program
    # Imported here: it is called hundreds of times, and most of that was to find the build again.
    from lab.cluster.build import whole_build  # noqa: PLC0415 - see above

    return whole_build()[name]


def _local_server(config: Path, paths: HostPaths) -> list[str]:
    # The lab's API listens on the node's own address alone; K3s' file says 127.0.0.1.
    if not config.is_file() or '"https://127.0.0.1:' not in config.read_text():
        return []
    flags = load_flags(paths)
    node = make_config("server", flags, dict(os.environ), paths, read_hostname(paths))
    return [f"--server=https://{node.node_ip}:{node.api_port}"]
