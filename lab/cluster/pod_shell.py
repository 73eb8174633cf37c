"""Runs the shell script of a perftest pod against the files its container would see.

A probe's script looks for its RDMA device and GID under /sys and checks its memlock limit before it
calls `ib_write_bw`. That part is run for real, on a small tree made from the pod's attachments; the
tool itself only writes down how it was called, for the physics to play.
"""

from __future__ import annotations

import ipaddress
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.document import Doc, text_at

_TIMEOUT_S = 20
_TOOL = "ib_write_bw"
_SHELLS = {"sh", "bash"}
_SCRIPT_WORDS = 3
_RECORDER = '#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@" >"$RAILYARD_LAB_CALL"\n'


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """How a script ended: with a call of the tool, or before it."""

    call: tuple[str, ...]
    """The tool and its arguments; empty where the script ended without calling it."""
    output: str = ""
    exit_code: int = 0


def script_of(command: Sequence[str]) -> str:
    """The script of `sh -c SCRIPT`; empty for any other command."""
    is_script = len(command) >= _SCRIPT_WORDS and command[0].rpartition("/")[2] in _SHELLS
    return command[2] if is_script and command[1].endswith("c") else ""


def run_script(
    command: Sequence[str],
    env: Mapping[str, str],
    networks: Sequence[Doc],
    memlock_kib: int | None,
) -> ScriptRun:
    """Run the script of a command up to its call of `ib_write_bw`.

    Args:
        command: what the container runs; anything but `sh -c SCRIPT` is taken as the call.
        env: the container's environment.
        networks: the pod's RDMA attachments (`interface`, `ip`, `rdma`).
        memlock_kib: what `ulimit -l` prints there; None is unlimited.
    """
    script = script_of(command)
    if not script:
        return ScriptRun(tuple(command))
    with tempfile.TemporaryDirectory(prefix="railyard-pod-") as folder:
        root = Path(folder)
        for network in networks:
            _show_device(root, network)
        (root / "bin").mkdir()
        tool = root / "bin" / _TOOL
        tool.write_text(_RECORDER)
        tool.chmod(0o755)
        limit = "unlimited" if memlock_kib is None else str(memlock_kib)
        prelude = f"ulimit() {{ echo {limit}; }}\n"
        text = prelude + re.sub(r"(?<![\w.])/(sys|tmp)/", rf"{root}/\1/", script)
        (root / "tmp").mkdir()
        return _run(text, env, root)


def _run(script: str, env: Mapping[str, str], root: Path) -> ScriptRun:
    call = root / "call"
    path = f"{root}/bin:/usr/bin:/bin"
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env={**env, "PATH": path, "RAILYARD_LAB_CALL": str(call)},
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ScriptRun((), f"the script called no {_TOOL} within {_TIMEOUT_S} s\n", 124)
    if call.exists():
        return ScriptRun(tuple(call.read_text().splitlines()))
    output = done.stdout.replace(str(root), "")
    return ScriptRun((), output, done.returncode or 1)


def _show_device(root: Path, network: Doc) -> None:
    interface, rdma, ip = (text_at(network, key) for key in ("interface", "rdma", "ip"))
    (root / "sys/class/net" / interface / "device/infiniband" / rdma).mkdir(parents=True)
    port = root / "sys/class/infiniband" / rdma / "ports/1"
    gids = ["fe80:0000:0000:0000:0000:00ff:fe00:0001"]
    if ip:
        gids.append(ipaddress.IPv6Address(f"::ffff:{ip}").exploded)
    # mlx5's order: each address once for RoCE v1 and once for v2 (show_gids, sources.md#host-qos).
    entries = [(gid, kind) for gid in gids for kind in ("IB/RoCE v1", "RoCE v2")]
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    for index, (gid, kind) in enumerate(entries):
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        (port / "gid_attrs/ndevs" / str(index)).write_text(f"{interface}\n")
