"""A place of their own in the machine's control groups for the nodes, and its removal.

Kernels have them in one of two ways: a hierarchy for each controller (version 1), which kubelet
1.36 takes only when its configuration says so, or one for all (version 2). What kubelet and runc
make below the place stays when their processes are gone, so it is removed from outside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
PLACE: Final = "railyard-pods"
"""The folder below each hierarchy; the nodes are folders in it."""
NEEDED: Final = ("cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer")
"""Controllers that kubelet or runc cannot do without, as version 1 names them."""


def is_unified(root: Path = ROOT) -> bool:
    """Whether the machine has version 2 alone."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """The roots of all hierarchies; a name that only links to another one is left out."""
    if is_unified(root):
        return [root]
    return sorted(each for each in root.glob("*") if each.is_dir() and not each.is_symlink())


def missing_controllers(root: Path = ROOT) -> list[str]:
    """What kubelet needs and this machine does not offer; empty where all is there."""
    if is_unified(root):
        offered = (root / "cgroup.controllers").read_text().split()
        wanted = ("cpu", "cpuset", "memory", "pids")
        return [each for each in wanted if each not in offered]
    return [each for each in NEEDED if not (root / each).is_dir()]


def make_place(name: str, root: Path = ROOT) -> str:
    """Make the place of one node in every hierarchy; its path below their roots."""
    for hierarchy in hierarchies(root):
        for folder in (hierarchy / PLACE, hierarchy / PLACE / name):
            if is_unified(root):
                _delegate(folder.parent)
            folder.mkdir(exist_ok=True)
            _inherit_cpus(folder)
    return f"/{PLACE}/{name}"


def _inherit_cpus(folder: Path) -> None:
    """Version 1 starts a cpuset empty, and refuses every process in it."""
    for setting in ("cpuset.cpus", "cpuset.mems"):
        file = folder / setting
        if file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / setting).read_text())


def _delegate(folder: Path) -> None:
    """Version 2 hands a controller down only where the group above says so."""
    offered = (folder / "cgroup.controllers").read_text().split()
    orders = " ".join(f"+{each}" for each in offered)
    (folder / "cgroup.subtree_control").write_text(orders)


def leftovers(root: Path = ROOT) -> Iterator[Path]:
    """All groups below the place, the deepest first."""
    for hierarchy in hierarchies(root):
        place = hierarchy / PLACE
        if place.is_dir():
            folders = [each for each in place.rglob("*") if each.is_dir()]
            yield from sorted(folders, key=lambda each: len(each.parts), reverse=True)
            yield place


def remove_place(root: Path = ROOT) -> list[Path]:
    """Remove the place with all that is below; what is left because a process is in it."""
    for folder in leftovers(root):
        with contextlib.suppress(OSError):  # a process is still in it: the caller says so
            folder.rmdir()
    return list(leftovers(root))
