"""From this machine into namespaces of the lab's own, and what must be gone afterwards.

In them the lab is the first process: when it ends, however that is, the kernel ends all others, and
unmounts and unplugs what they made. Only control groups are no namespace's, and are removed here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.pods.cgroups import leftovers, missing_controllers, remove_place
from lab.pods.network import MANAGEMENT_BRIDGE

NAMESPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_TRIAL: Final = (
    "set -e; ip link add b0 type bridge; ip link add v0 type veth peer name v1;"
    " ip link add link v1 name m1 type macvlan mode bridge;"
    " mount -t tmpfs t /mnt; mkdir /mnt/l /mnt/u /mnt/w /mnt/o;"
    " mount -t overlay o -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/o"
)
"""What the site is made of, tried where it harms nothing."""
_TOOLS: Final = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
TRIAL_DEADLINE_S: Final = 60.0
_LINKS: Final = Path("/sys/class/net")


def why_not() -> str:
    """Why real nodes cannot run on this machine; empty where they can."""
    if os.geteuid() != 0:
        return "namespaces and control groups need root: run it as root"
    for program, package in (*_TOOLS.items(), ("apt-get", "apt, so Debian or Ubuntu")):
        if shutil.which(program) is None:
            return f"this machine has no {program}: install {package}"
    missing = missing_controllers()
    if missing:
        return (
            f"kubelet needs the control groups {', '.join(missing)}, which this machine does not"
            " mount: boot it with them (kernel option cgroup_enable=), or start the container that"
            " this is in with --privileged --cgroupns=host"
        )
    return _refused_kernel()


def _refused_kernel() -> str:
    words = ["unshare", *NAMESPACES, "sh", "-c", _TRIAL]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=TRIAL_DEADLINE_S
    )
    if not done.returncode:
        return ""
    said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return (
        f"this machine refuses namespaces, bridge, veth, macvlan or overlay ({said}): load the"
        " kernel's modules, or allow a privileged container"
    )


def run_inside(words: Sequence[str], project: Path, folder: Path, deadline_s: float) -> int:
    """Run a program of the lab as the first process of new namespaces, and clean up after it.

    Args:
        words: Arguments of Python.
        project: Where it runs.
        folder: What all of its processes name, or have mounted.
        deadline_s: It is ended after this time.

    Returns:
        Its exit status.

    Raises:
        DeviceError: Something of it is left.
    """
    clean()
    # A kill of this process, too, ends all that is inside.
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    try:
        done = subprocess.run(
            [*guard, "unshare", *NAMESPACES, sys.executable, *words],
            cwd=project,
            check=False,
            timeout=deadline_s,
        )
    finally:
        clean()
    left = left_of(folder)
    if left:
        raise DeviceError(f"left behind: {', '.join(left)}")
    return done.returncode


def left_of(folder: Path) -> list[str]:
    """Processes, mounts, bridges and control groups of a run that this machine still has."""
    links = [f"link {name}" for name in (MANAGEMENT_BRIDGE,) if (_LINKS / name).exists()]
    mounts = [
        f"mount {line.split()[4]}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(folder) in line
    ]
    return [*_processes(folder), *mounts, *links, *(str(each) for each in leftovers())]


def _processes(folder: Path) -> list[str]:
    """Those that were called with the folder, or run from a file system below it."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
            mounts = process.joinpath("mountinfo").read_text()
            own = int(process.name) == os.getpid()
            if not own and (f"{folder}/run" in words or f"{folder}/run" in mounts):
                found.append(f"process {process.name} ({words.strip()[:80]})")
    return found


def clean() -> None:
    """Remove the control groups that the nodes had.

    Raises:
        DeviceError: A process is still in one of them.
    """
    left = remove_place()
    if left:
        raise DeviceError(
            f"processes are still in {left[0]}: another `make lab-pods` runs, or one could not be"
            f" ended. `cat {left[0]}/cgroup.procs` names them"
        )
