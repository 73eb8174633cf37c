"""`k3s server` of the lab, and `k3s server --cluster-reset`.

Apart from `k3s agent`: a node that runs no server starts without what only servers import.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from components.core.errors import DeviceError
from lab.cluster.build import whole_build
from lab.cluster.k3s_config import HostPaths
from lab.cluster.k3s_role import Start, begin, until_ended
from lab.cluster.k3s_server import Tools, make_plane, run_server
from lab.cluster.k3s_snapshot import reset_cluster
from lab.cluster.lab_link import LabLink


def run_command(command: str, args: Sequence[str], paths: HostPaths) -> int:
    """Run a server until it is ended, or reset its cluster.

    Raises:
        DeviceError: a flag, a file or the machine is not as K3s wants it.
    """
    start = begin(command, args, paths)
    resets = start.flags.get("cluster-reset", ["false"])[-1] == "true"
    if start.flags.get("cluster-reset-restore-path") and not resets:
        text = "--cluster-reset required with --cluster-reset-restore-path"
        raise DeviceError(f"invalid flag use; {text}")
    if resets:
        return _reset(start, paths)
    control = os.environ.get("RAILYARD_LAB_CONTROL")
    tools = Tools(whole_build(), LabLink(Path(control) if control else None))
    run_server(start.config, paths, tools, until_ended(), start.notify)
    return 0


def _reset(start: Start, paths: HostPaths) -> int:
    binaries = whole_build()
    plane = make_plane(start.config, paths, binaries)
    told = reset_cluster(start.config, paths, start.flags, plane, binaries["etcdutl"])
    print(f'level=info msg="{told}"', flush=True)
    return 0
