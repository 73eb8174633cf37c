"""The one mount of a lab, taken away from outside: who does that needs no devices."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

MOUNT_DEADLINE_S = 10.0


def unmount(mount: Path) -> None:
    """Take the FUSE mount away, one of a daemon that was killed too."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if str(mount) not in mounted:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [shutil.which("umount") or "umount", "--lazy", str(mount)],
            check=False,
            timeout=MOUNT_DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
