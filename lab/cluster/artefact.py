"""The K3s artefact of the lab: what a site's pinned mirror would hold.

The two files are part of the project, so their checksums are the same on every machine and can be
pinned in a committed stack file. What differs between machines (Python, project, cache, control
socket) stands beside them in `lab.env`, which is no part of the artefact.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from components.core.record import record
from lab.cluster.build import build_folder
from lab.cluster.release import PROGRAMS_VARIABLE, RELEASE_VARIABLE

FILES = ("k3s", "install.sh")
MIRROR = "/opt/railyard-mirror"
"""Where a lab host finds the mirror; the launcher looks for lab.env there."""
LATER = ("v1.36.4+k3s1", "v1.37.1+k3s1")
"""Releases to upgrade to, each in a folder of the mirror: the same program, which says that it is
of that release. Its API server keeps the release that the lab is built from."""
_SOURCE = Path(__file__).parent / "mirror"


@record
class LabPlaces:
    """Where a lab's parts are on this machine, the same inside and outside of a host."""

    python: Path
    project: Path
    cache: Path
    control: Path


def read_artefact(name: str) -> bytes:
    """One of the artefact's files: `k3s` or `install.sh`."""
    return (_SOURCE / name).read_bytes()


def later_artefact(release: str) -> bytes:
    """`k3s` of a later release."""
    line = f"export {RELEASE_VARIABLE}={release}\n".encode()
    return read_artefact("k3s").replace(b"set -eu\n", b"set -eu\n" + line, 1)


def later_checksum(release: str) -> str:
    """Give the sha256 of `k3s` of a later release."""
    return hashlib.sha256(later_artefact(release)).hexdigest()


def checksums() -> dict[str, str]:
    """Give the sha256 of the artefact's files by name."""
    return {name: hashlib.sha256(read_artefact(name)).hexdigest() for name in FILES}


def publish(host_root: Path, places: LabPlaces) -> Path:
    """Put the mirror onto a lab host.

    Args:
        host_root: the folder that is `/` on the host (or that holds its `opt`).
        places: what `lab.env` names.

    Returns:
        The mirror's folder.
    """
    mirror = host_root / MIRROR.lstrip("/")
    mirror.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(_SOURCE / name, mirror / name)
        (mirror / name).chmod(0o755)
    for release in LATER:
        (mirror / release).mkdir(exist_ok=True)
        (mirror / release / "k3s").write_bytes(later_artefact(release))
    values = {
        "RAILYARD_CACHE": places.cache,
        "RAILYARD_LAB_CONTROL": places.control,
        PROGRAMS_VARIABLE: build_folder(places.cache),
        "RAILYARD_PROJECT": places.project,
        "RAILYARD_PYTHON": places.python,
    }
    lines = [f"{key}='{value}'\n" for key, value in values.items()]
    (mirror / "lab.env").write_text("".join(lines))
    return mirror


if __name__ == "__main__":
    for file, digest in checksums().items():
        sys.stdout.write(f"{digest}  {file}\n")
