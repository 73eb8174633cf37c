"""System packages that the lab needs, and how to get them."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from lab import debian

APT_DEADLINE_S: Final = 600


def find_haproxy() -> str | None:
    """Path of HAProxy: the balancer of a site runs it, and K3s' shared port in the lab."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")


def missing_packages() -> list[str]:
    """Debian names of what the lab needs and this machine lacks."""
    missing: list[str] = []
    if not shutil.which("bwrap"):
        missing.append("bubblewrap")
    if not ctypes.util.find_library("fuse"):
        missing.append("libfuse2")
    if not shutil.which("busybox"):
        missing.append("busybox")
    if find_haproxy() is None:
        missing.append("haproxy")
    return missing


def main() -> int:
    """Install what is missing where that is allowed; else say the line to run.

    Returns:
        0 when everything is there, 2 when a person has to install something.
    """
    if not Path("/dev/fuse").exists():
        print("railyard: /dev/fuse is missing; load it first: modprobe fuse", file=sys.stderr)
        return 2
    try:
        debian.unpacked()
    except UsageError as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    missing = missing_packages()
    if not missing:
        return 0
    line = f"apt-get update && apt-get install -y {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"railyard: the lab needs {', '.join(missing)}. Run: {line}", file=sys.stderr)
        return 2
    print(f"railyard: installing {', '.join(missing)} (isolation, /sys and balancers of the lab)")
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", *missing]):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=APT_DEADLINE_S,
            check=False,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
        if done.returncode != 0:
            print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
            print(f"railyard: it failed; run it yourself: {line}", file=sys.stderr)
            return 2
    return 0 if not missing_packages() else 2


if __name__ == "__main__":
    sys.exit(main())
