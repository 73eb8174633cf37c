"""A Debian tree, made once by debootstrap and kept outside the project.

It is the root of the nodes and the image of the jobs. debootstrap and busybox are
unpacked beside the system (`lab.debian`), so nothing is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.cache import cache_root
from lab.debian import unpacked
from lab.engine.progress import locked, run_shown
from lab.vm.image import SUITE

BOOTSTRAP: Final = ("debian-archive-keyring", "debootstrap")
BUSYBOX: Final = ("busybox-static",)
PACKAGES: Final = (
    *("iproute2", "nftables", "procps", "runc"),
    *("iputils-ping", "openmpi-bin", "openssh-client", "openssh-server"),
    *("ibverbs-utils", "pci.ids", "perftest", "rdma-core"),
)
"""What a node needs; what its network is tried with and jobs run; RDMA's user space."""
DEADLINE_S: Final = 1200.0
"""73 s on two idle cores, 200 s on two busy ones."""
_LEFT_OUT: Final = ("var/cache/apt/archives", "var/lib/apt/lists")
_MADE: Final = ("run/sshd",)
"""sshd's folder, which a started service makes; an image of jobs has it (the image's contract)."""


def tree_folder(cache: Path | None = None) -> Path:
    """Where the tree is, or will be."""
    key = hashlib.sha256(repr((SUITE, PACKAGES, _MADE)).encode()).hexdigest()[:16]
    return (cache or cache_root()) / "pods" / f"tree-{key}"


def busybox() -> Path:
    """The static program that is the shell of small images.

    Raises:
        UsageError: This machine has no apt, or the package cannot be had.
    """
    return unpacked(packages=BUSYBOX) / "bin" / "busybox"


def ensure_tree(cache: Path | None = None) -> Path:
    """The tree, made first where it is missing.

    Raises:
        DeviceError: debootstrap failed; the text holds its last words.
        UsageError: This machine has no apt, or a package cannot be had.
    """
    root = cache or cache_root()
    folder = tree_folder(root)
    if folder.is_dir():
        return folder
    tools = unpacked(root, BOOTSTRAP)
    with locked(root / "pods" / "tree.lock"):
        if not folder.is_dir():
            draft = folder.with_name("tree.new")
            shutil.rmtree(draft, ignore_errors=True)
            _bootstrap(tools, draft)
            draft.rename(folder)
    return folder


def _bootstrap(tools: Path, draft: Path) -> None:
    keyring = tools / "usr/share/keyrings/debian-archive-keyring.gpg"
    words = ["--variant=minbase", f"--keyring={keyring}", f"--include={','.join(PACKAGES)}"]
    status, output = run_shown(
        ["sh", str(tools / "usr/sbin/debootstrap"), *words, SUITE, str(draft)],
        "making a Debian tree (nodes and the image of jobs)",
        DEADLINE_S,
        environment={
            **os.environ,
            "DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap"),
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C",
        },
    )
    if status:
        raise DeviceError(
            f"debootstrap failed; the end of what it said:\n{output[-1500:]}\n"
            "Check that this machine reaches Debian's mirror, then run the same command again."
        )
    for name in _LEFT_OUT:
        shutil.rmtree(draft / name, ignore_errors=True)
    for key in (draft / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in _MADE:
        (draft / name).mkdir(parents=True, exist_ok=True)
