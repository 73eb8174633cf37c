"""`k3s etcd-snapshot` and `k3s server --cluster-reset` of the lab, on real etcd data.

Names, places, refusals and words are K3s' own (lab/sources.md#k3s): a snapshot is what
etcd's maintenance API streams, and `etcdutl` restores it, as K3s does with that program's code.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from lab.cluster.build import whole_build
from lab.cluster.document import Json, as_doc, text_at
from lab.cluster.join import ensure_member_name, has_data
from lab.cluster.k3s_config import (
    Flags,
    HostPaths,
    K3sConfig,
    load_flags,
    make_config,
    read_hostname,
)
from lab.cluster.k3s_server import make_plane
from lab.cluster.pki import write_private
from lab.cluster.plane import ETCD_PEER_PORT, ControlPlane

RESTORE_S = 120.0
_RESET = (
    "Managed etcd cluster membership has been reset, restart without --cluster-reset flag now. "
    "Backup and delete ${datadir}/server/db on each peer etcd server and rejoin the nodes"
)


def _snapshot_folder(paths: HostPaths, flags: Flags) -> Path:
    """Where the snapshots of this server are."""
    named = flags.get("etcd-snapshot-dir", [""])[-1]
    return paths.at(named) if named else paths.server / "db" / "snapshots"


def run_command(_command: str, args: Sequence[str], paths: HostPaths) -> int:
    """Run `etcd-snapshot save` or `ls`.

    Raises:
        DeviceError: etcd does not answer, or the command is not modelled.
    """
    flags = load_flags(paths)
    config = make_config("server", flags, dict(os.environ), paths, read_hostname(paths))
    folder = _snapshot_folder(paths, flags)
    if list(args) == ["ls"]:
        lines = [f"{file.name} file://{file} {file.stat().st_size}" for file in _saved(folder)]
        print("Name Location Size Created", *lines, sep="\n")
        return 0
    if list(args) != ["save"]:
        raise DeviceError(f"the lab's k3s has no etcd-snapshot {' '.join(args)}")
    name = f"on-demand-{config.node_name}-{int(time.time())}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / name, _stream(make_plane(config, paths, whole_build())))
    print(f'level=info msg="Snapshot {name} saved."')
    return 0


def _saved(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _stream(plane: ControlPlane) -> bytes:
    """All parts of a snapshot, with the hash that etcd puts at its end."""
    path = "/v3/maintenance/snapshot"
    status, text = plane.members.api.raw("POST", path, "{}", "application/json")
    parts = [as_doc(cast("Json", json.loads(line))) for line in text.splitlines() if line]
    if status >= 400 or any("error" in part for part in parts):  # noqa: PLR2004 - HTTP
        raise DeviceError(f"failed to save etcd snapshot: {text[:300]}")
    return b"".join(base64.b64decode(text_at(part, "result", "blob")) for part in parts)


def reset_cluster(
    config: K3sConfig, paths: HostPaths, flags: Flags, plane: ControlPlane, etcdutl: Path
) -> str:
    """Make this server the only member of a new cluster, from a snapshot where one is named.

    Returns:
        What K3s says at its end.

    Raises:
        DeviceError: K3s would refuse; nothing was changed then.
    """
    snapshot = flags.get("cluster-reset-restore-path", [""])[-1]
    flag = paths.server / "db" / "reset-flag"
    if config.server:
        raise DeviceError(
            "cannot perform cluster-reset while server URL is set - remove server from "
            "configuration before resetting"
        )
    if flag.exists():
        raise DeviceError(
            "Managed etcd cluster membership was previously reset, please remove the cluster-reset "
            "flag and start k3s normally. If you need to perform another cluster reset, you must "
            f"first manually delete the file at {flag}"
        )
    if plane.etcd_answers():
        raise DeviceError("listen tcp: bind: address already in use: k3s is running")
    if snapshot:
        _restore(config, paths, paths.at(snapshot), etcdutl)
    elif not has_data(paths):
        raise DeviceError("etcd datastore is not initialized: there is nothing to reset")
    else:
        plane.start_etcd(alone=True)
        plane.stop()
    flag.touch(0o600)
    return _RESET


def _restore(config: K3sConfig, paths: HostPaths, snapshot: Path, etcdutl: Path) -> None:
    if not snapshot.is_file():
        raise DeviceError(f"etcd: snapshot path does not exist: {snapshot}")
    data = paths.server / "db" / "etcd"
    name = ensure_member_name(config, paths)
    peer = f"https://{config.node_ip}:{ETCD_PEER_PORT}"
    new = data.with_name("etcd-new")
    argv = [str(etcdutl), "snapshot", "restore", str(snapshot), f"--data-dir={new}"]
    argv += [f"--name={name}", f"--initial-cluster={name}={peer}"]
    argv += [f"--initial-advertise-peer-urls={peer}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RESTORE_S, check=False)
    if done.returncode:
        raise DeviceError(f"etcd: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    if data.exists():
        data.rename(data.with_name(f"etcd-old-{int(time.time())}"))
    new.rename(data)
