"""Real programs of Debian that the lab runs and does not install: unpacked beside the system.

An installed `openssh-server` would listen on port 22 of this machine, and an installed `sudo` would
change who may do what on it. Unpacked into the cache they are files; a namespace of mounts of its
own shows them to what plays a host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from lab.cache import cache_root

PACKAGES: Final = ("libwrap0", "openssh-server", "sudo")
FILTER_PACKAGES: Final = (
    *("nftables", "libnftables1", "libnftnl11", "libxtables12"),
    *("libjansson4", "libmnl0", "libedit2"),
)
"""nft with the libraries that a small system may lack."""
SUBNET_PACKAGES: Final = ("ibsim-utils", "opensm", "infiniband-diags")
BALANCER_PACKAGES: Final = ("haproxy", "keepalived", "curl", "dash", "tcpdump")
"""keepalived asks `ip` for its release through a shell, and falls over without one; tcpdump hears
other VRRP routers."""
ROUTING_PACKAGES: Final = ("frr", "lldpd", "dash")
"""FRR and lldpd of routed switches, and a shell that starts their daemons in order."""
MONITORING_PACKAGES: Final = ("prometheus",)
"""Prometheus and promtool, which judge the metrics and alerts of `railyard watch`."""
WHOLE_RELEASE: Final = "trixie"
"""Debian 13. The ibsim 0.10 of Debian 12 knows no link faster than HDR; 0.12 knows NDR."""
DOWNLOAD_DEADLINE_S: Final = 300.0
_NOTHING_INSTALLED: Final = "--option=Dir::State::status=/dev/null"
"""Without it apt-get wants the version that is installed, and ends with "Can't find a source" if no
source has it: `make lab-vm` installs debootstrap from backports."""
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def find_haproxy() -> str | None:
    """Path of HAProxy: the balancer of a site runs it, and K3s' shared port in the lab."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/sbin")


def folder_of(cache: Path | None = None, packages: Sequence[str] = PACKAGES) -> Path:
    """Where the packages are unpacked, whether they are there or not."""
    return (cache or cache_root()) / "debian" / "-".join(packages)


def whole_folder(cache: Path | None = None, packages: Sequence[str] = SUBNET_PACKAGES) -> Path:
    """Where packages are unpacked with all that they need, whether they are there or not."""
    return (cache or cache_root()) / "debian" / "-".join((WHOLE_RELEASE, *packages))


def unpacked(cache: Path | None = None, packages: Sequence[str] = PACKAGES) -> Path:
    """The folder with `usr/` and `etc/` of the packages, made first where it is missing.

    Args:
        cache: The folder of cached builds.
        packages: Their names; default what plays hosts needs.

    Raises:
        UsageError: This machine has no apt, or the packages cannot be had.
    """
    folder = folder_of(cache, packages)
    if folder.is_dir():
        return folder
    _require_apt(" and ".join(packages))
    fix = f"apt-get update && apt-get download {' '.join(packages)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        _run(["apt-get", _NOTHING_INSTALLED, "download", *packages], scratch, fix)
        _unpack(scratch, folder)
    return folder


def unpacked_whole(cache: Path | None = None, packages: Sequence[str] = SUBNET_PACKAGES) -> Path:
    """The folder with packages and all that they need, made first where it is missing.

    They are those of one release, its C library too: so they run on an older machine as well. apt
    keeps its lists of that release in a folder of their own.

    Args:
        cache: The folder of cached builds.
        packages: Their names; default what plays an InfiniBand fabric and asks it.

    Raises:
        UsageError: This machine has no apt, no Debian mirror, or the packages cannot be had.
    """
    folder = whole_folder(cache, packages)
    if folder.is_dir():
        return folder
    _require_apt(" and ".join(packages))
    mirror = _mirror(packages)
    fix = f"let this machine reach {mirror} {WHOLE_RELEASE}, and run the same command again"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "lists/partial").mkdir(parents=True)
        (scratch / "archives/partial").mkdir(parents=True)
        source = f"deb [signed-by={_KEYRING}] {mirror} {WHOLE_RELEASE} main\n"
        (scratch / "sources.list").write_text(source)
        apt = ["apt-get", *_own_state(scratch)]
        _run([*apt, "update"], scratch, fix)
        words = ["install", "--download-only", "--no-install-recommends", "--yes"]
        _run([*apt, *words, *packages], scratch, fix)
        _unpack(scratch / "archives", folder)
    return folder


def _own_state(scratch: Path) -> list[str]:
    """Options of an apt that knows one source and no installed package."""
    values = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch,
        "Dir::Cache::Archives": scratch / "archives",
        "APT::Sandbox::User": "root",  # its own user may not write here
    }
    return [_NOTHING_INSTALLED, *(f"--option={key}={value}" for key, value in values.items())]


def _mirror(packages: Sequence[str]) -> str:
    """The address that this machine takes Debian's packages from.

    Raises:
        UsageError: It takes none from Debian, or has not asked yet.
    """
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian"]
    found = re.findall(r"^\S+$", _run(words, Path("/"), "apt-get update"), re.MULTILINE)
    own = [uri for uri in found if not uri.rstrip("/").endswith("-security")]
    if not own or not _KEYRING.exists():
        raise UsageError(
            f"the lab runs {', '.join(packages)} of Debian"
            f" {WHOLE_RELEASE}, and this machine knows no mirror of Debian, or not its keys.\n"
            "  fix    run `apt-get update` on a Debian machine with debian-archive-keyring"
        )
    return own[0]


def _require_apt(what: str) -> None:
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise UsageError(
                f"the lab needs {what} of Debian, and {program} is missing here.\n"
                "  fix    run it on Debian or Ubuntu"
            )


def _unpack(archives: Path, folder: Path) -> None:
    """Unpack packages, so that the folder is there whole or not at all."""
    whole = archives / "whole"
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(whole)], archives, "run the same command again")
    if not folder.is_dir():  # another process may have been faster
        whole.rename(folder)


def _run(words: list[str], folder: Path, fix: str) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_DEADLINE_S,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        raise UsageError(f"`{' '.join(words)}` failed: {said}\n  fix    {fix}")
    return done.stdout
