"""One request to the lab daemon; as a program, what a pod's program prints that uses GPUs.

It imports nothing but Python's own, since the program starts for every call in a pod.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

_DEADLINE_S = 120.0
_LOOK_S = 3.0
"""How long a load waits for somebody to look at the GPUs: a script may look at intervals."""
_POLL_S = 0.02
_FAILED = 125


def exchange(control: Path, line: bytes) -> str:
    """Send one line to the daemon, and give its answer.

    Raises:
        OSError: It does not answer.
    """
    # Through the folder's descriptor: a unix address holds 107 bytes, a project's path more.
    folder = os.open(control.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_DEADLINE_S)
            link.connect(f"/proc/self/fd/{folder}/{control.name}")
            link.sendall(line)
            return link.makefile().readline()
    finally:
        os.close(folder)


def main(root: Path, control: Path, command: list[str]) -> int:
    """Run one program of a pod, and print what it prints.

    Args:
        root: The files of its container; `gpu-pod.json` there is the pod.
        control: The daemon's socket.
        command: The program and its arguments.
    """
    busy, seen = root / "gpus-busy", root / "gpus-seen"
    loads = command[0].endswith("_perf")
    request = json.loads((root / "gpu-pod.json").read_text())
    env = {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}
    pod = {**request, "command": command, "env": env}
    body = {"op": "gpu_call", "pod": pod, "loaded": busy.exists() and not loads}
    if loads:
        busy.touch()
        end = time.monotonic() + _LOOK_S
        while not seen.exists() and time.monotonic() < end:
            time.sleep(_POLL_S)
    answer = json.loads(exchange(control, json.dumps(body).encode() + b"\n"))
    sys.stdout.write(answer.get("log", f"the lab cannot play this: {answer.get('error')}\n"))
    sys.stdout.flush()
    if loads:
        busy.unlink()
    elif body["loaded"]:
        seen.touch()
    return int(answer.get("exit_code", _FAILED))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
