"""QEMU and debootstrap: found, or installed where that is allowed.

Debian 12's own QEMU is too old. Its newer one is in Debian's backports, which most machines do not
list: they are read once, from the mirror that the machine uses, and its lists of sources stay as
they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError

QEMU: Final = "qemu-system-x86_64"
OLDEST_MAJOR: Final = 8
"""The first release of QEMU that has `igb`, the emulated card with SR-IOV (its change log)."""
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"
APT_DEADLINE_S: Final = 600.0
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""With it debootstrap knows Debian's signatures; Ubuntu has it as a package."""
_SOURCES: Final = Path("/etc/apt/sources.list.d")


def find_qemu() -> str | None:
    """Path of a QEMU that has igb; None where there is none."""
    path = shutil.which(QEMU)
    if path is None:
        return None
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    return path if major_release(said) >= OLDEST_MAJOR else None


def major_release(said: str) -> int:
    """The release in what `--version` prints; 0 where it is not shown."""
    found = re.search(r"version (\d+)\.", said)
    return int(found[1]) if found else 0


def missing_packages() -> list[str]:
    """Debian names of what this machine lacks for guests."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    there = {
        "qemu-system-x86": find_qemu() is not None,
        "debootstrap": shutil.which("debootstrap", path=path) is not None,
        "debian-archive-keyring": _KEYRING.exists(),
    }
    return [package for package, is_there in there.items() if not is_there]


def why_not() -> str:
    """Why the guests cannot run on this machine as it is; empty where they can."""
    if os.geteuid() != 0:
        return "debootstrap needs root"
    missing = missing_packages()
    if not missing:
        return ""
    return f"this machine lacks {', '.join(missing)} (QEMU {OLDEST_MAJOR} or newer); `make lab-vm`"


def ensure_tools() -> str:
    """Install what is missing.

    Returns:
        What was installed, or that all was there.

    Raises:
        DeviceError: It is missing and cannot be installed here; with the line to run.
    """
    missing = missing_packages()
    line = f"apt-get update && apt-get install -y {' '.join(missing)}"
    if os.geteuid() != 0:
        raise DeviceError(f"debootstrap needs root: run `make lab-vm` as root (missing: {missing})")
    if not missing:
        return "QEMU and debootstrap are here"
    if not shutil.which("apt-get"):
        raise DeviceError(
            f"the VM tier needs QEMU {OLDEST_MAJOR} or newer and debootstrap, and there is no"
            f" apt-get here. On Debian or Ubuntu it is: {line}"
        )
    print(f"railyard: installing {', '.join(missing)} (guests with real kernels)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        options = _with_backports(Path(folder)) if "qemu-system-x86" in missing else []
        _apt(line, *options, "update")
        _apt(line, *options, "install", "-y", "--no-install-recommends", *missing)
    left = missing_packages()
    if left:
        raise DeviceError(f"{', '.join(left)} cannot be installed here in a release that does")
    return f"installed {', '.join(missing)}"


def _with_backports(folder: Path) -> list[str]:
    """Options of apt-get for Debian 12's newer QEMU; none on any other system."""
    if "VERSION_CODENAME=bookworm" not in Path("/etc/os-release").read_text():
        return []
    said = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm"],
        capture_output=True,
        text=True,
        check=False,
        timeout=APT_DEADLINE_S,
    ).stdout.split()
    if not said:
        return []
    if _SOURCES.is_dir():
        shutil.copytree(_SOURCES, folder, dirs_exist_ok=True)
    line = f"deb {said[0]} bookworm-backports main\n"
    (folder / "railyard-backports.list").write_text(line)
    return ["-o", f"Dir::Etc::SourceParts={folder}", "-t", "bookworm-backports"]


def _apt(line: str, *arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=APT_DEADLINE_S,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode != 0:
        raise DeviceError(
            f"apt-get failed; run it yourself: {line}\n{_end(done.stdout, done.stderr)}"
        )


def _end(*outputs: Sequence[str]) -> str:
    return "".join("".join(output)[-800:] for output in outputs)


def main() -> int:
    """Install them; 2 when a person has to."""
    try:
        print(f"railyard: {ensure_tools()}")
    except DeviceError as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
