"""Whether the stage of virtual machines can run on this machine as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from lab.cache import cache_root
from lab.pods.build import missing_programs
from lab.pods.tree import tree_folder
from lab.vm import tools

TUN: Final = Path("/dev/net/tun")
ROOM_BYTES: Final = 10 * 2**30
"""Two images of 0.8 and 1.4 GB, a copy of the larger for each guest with what it pulls, what was
built, and as much again while an image is made."""
_PROGRAMS: Final = {"unshare": "util-linux", "ip": "iproute2"}


def why_not(cache: Path | None = None) -> str:
    """Why the stage cannot run; empty where it can.

    Args:
        cache: The folder of cached builds.
    """
    root = cache or cache_root()
    return tools.why_not() or lacks() or _room(root) or _not_built(root)


def lacks() -> str:
    """What guests with networks of the lab's own need and this machine does not have."""
    if not TUN.exists():
        return (
            f"this machine has no {TUN}, to which the guests' networks are plugged: `modprobe tun`,"
            " or give the container that this is in the device"
        )
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"this machine has no {program}: install {package}"
    return ""


def _room(root: Path) -> str:
    there = next(each for each in (root, *root.parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    if free >= ROOM_BYTES:
        return ""
    return (
        f"{there} has {free / 2**30:.1f} GiB of room, and images and disks need"
        f" {ROOM_BYTES // 2**30}: make room, or name another folder in RAILYARD_CACHE"
    )


def _not_built(root: Path) -> str:
    missing = missing_programs(root)
    if missing:
        return f"{len(missing)} programs of nodes are not built yet; `make lab-vm` builds them"
    if not tree_folder(root).is_dir():
        return "the Debian tree of the nodes is not made yet; `make lab-vm` makes it"
    return ""
