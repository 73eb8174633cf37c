"""System packages that the lab needs, and how to get them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError, UsageError
from lab import debian
from lab.hosts.compiled import CLIENT, ENTER, compiled
from lab.hosts.lab_file import LabFile
from lab.kubespray.source import ensure_ansible

APT_DEADLINE_S: Final = 600
Programs = tuple[tuple[str, ...], str]
"""Debian packages, and what the lab plays with them."""
_INFINIBAND: Final[Programs] = (debian.SUBNET_PACKAGES, "InfiniBand")
_ROUTING: Final[Programs] = (debian.ROUTING_PACKAGES, "routing daemons of switches")
_BALANCER: Final[Programs] = (debian.BALANCER_PACKAGES, "address that moves between two balancers")


def missing_packages() -> list[str]:
    """Debian names of what the lab needs and this machine lacks."""
    missing: list[str] = []
    if not shutil.which("bwrap"):
        missing.append("bubblewrap")
    if not shutil.which("gcc"):
        missing += ["gcc", "libc6-dev"]
    if not shutil.which("busybox"):
        missing.append("busybox")
    if debian.find_haproxy() is None:
        missing.append("haproxy")
    return missing


def programs_of(lab: LabFile) -> tuple[Programs, ...]:
    """The real programs that this lab plays its switches with."""
    subnet = lab.plain_switches or any(each.os == "mlnxos" for each in lab.switches)
    routed = any(each.routed for each in lab.switches)
    return (*((_INFINIBAND,) if subnet else ()), *((_ROUTING,) if routed else ()))


def main(argv: list[str]) -> int:
    """Get what is missing where that is allowed; else say the line to run.

    Args:
        argv: `--all` for the programs of every site: labs of tests have networks of their own, from
            which nothing can be had.

    Returns:
        0 when everything is there, 2 when a person has to install something.
    """
    if not Path("/dev/fuse").exists():
        print("railyard: /dev/fuse is missing; load it first: modprobe fuse", file=sys.stderr)
        return 2
    try:
        debian.unpacked()
        debian.unpacked(packages=debian.FILTER_PACKAGES)
        if "--all" in argv:
            ensure_ansible()
    except (UsageError, DeviceError) as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    missing = missing_packages()
    if missing and not _install(missing):
        return 2
    try:
        for source in (CLIENT, ENTER):
            compiled(source)
    except UsageError as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    get_programs((_INFINIBAND, _ROUTING, _BALANCER) if "--all" in argv else ())
    return 0


def _install(missing: list[str]) -> bool:
    line = f"apt-get update && apt-get install -y {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"railyard: the lab needs {', '.join(missing)}. Run: {line}", file=sys.stderr)
        return False
    print(f"railyard: installing {', '.join(missing)} (for the lab)")
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", *missing]):
        done = _apt(command)
        if done.returncode != 0:
            print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
            print(f"railyard: it failed; run it yourself: {line}", file=sys.stderr)
            return False
    return not missing_packages()


def get_programs(wanted: Sequence[Programs]) -> None:
    """Get real programs beside the system; a machine that cannot have them plays other sites."""
    for packages, what in wanted:
        if debian.whole_folder(packages=packages).is_dir():
            continue
        print(f"railyard: unpacking {', '.join(packages)} for the lab's {what} (a minute, once)")
        if os.geteuid() == 0 and shutil.which("apt-get"):
            _apt(["apt-get", "update"])  # it knows the mirrors only then
        try:
            debian.unpacked_whole(packages=packages)
        except UsageError as error:
            print(f"railyard: no {what} in the lab: {error}", file=sys.stderr)


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=APT_DEADLINE_S,
        check=False,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
