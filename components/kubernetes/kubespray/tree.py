"""The tree of kubespray on this machine: brought once, checked each time it is used."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Final

import yaml

from components.artefacts.naming import digest_of
from components.artefacts.web import Access, FetchError, download
from components.core.errors import DeviceError
from components.kubernetes.kubespray.wanted import Source

CLONE_DEADLINE_S: Final = 900.0
_CHECKSUMS: Final = "roles/kubespray_defaults/vars/main/checksums.yml"
"""Where the tree lists the releases of Kubernetes that it can install."""
_SKIPPED: Final = frozenset({".git", "__pycache__"})


def cache_folder() -> Path:
    """What every stack of this user shares: trees and Python environments, by their checksums."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "railyard" / "kubespray"


def bring_tree(source: Source, release: str, pin: str, version: str) -> tuple[Path, str]:
    """The tree, and the checksum over all its files.

    Args:
        source: Where it comes from.
        release: That it must be.
        pin: Checksum or commit.
        version: Of Kubernetes, that it must know.

    Raises:
        DeviceError: It cannot be had, is another one, or does not know that Kubernetes.
    """
    tree = Path(source.place) if source.kind == "path" else _cached(source, release, pin)
    found = tree_digest(tree)
    if source.kind == "path" and found != pin:
        raise DeviceError(
            f"{tree}: its files have the checksum {found}, and the file says {pin}. Nothing was"
            " run.\n  fix    look at what changed there; then write the new tree_sha256"
        )
    _demand_release(tree, release)
    _demand_version(tree, release, version)
    return tree, found


def tree_digest(tree: Path) -> str:
    """SHA-256 over the paths and contents of all files of a tree.

    Raises:
        DeviceError: There is no such folder.
    """
    if not tree.is_dir():
        raise DeviceError(
            f"{tree}: there is no such folder, relative to {Path.cwd()}. Nothing was run.\n"
            "  fix    correct kubernetes.source.path"
        )
    found = hashlib.sha256()
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted({*folders} - _SKIPPED)
        for name in sorted(files):
            path = Path(folder) / name
            content = str(path.readlink()) if path.is_symlink() else digest_of(path)
            found.update(f"{path.relative_to(tree)}\0{content}\0".encode())
    return found.hexdigest()


def _cached(source: Source, release: str, pin: str) -> Path:
    """A tree of the cache, unless it was edited there."""
    tree = cache_folder() / "trees" / pin
    stamp = tree.with_name(f"{pin}.sha256")
    if tree.is_dir() and stamp.is_file() and tree_digest(tree) == stamp.read_text().strip():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        draft = Path(folder) / "tree"
        if source.kind == "git":
            _clone(source.place, release, pin, draft)
        else:
            _unpack(source.place, pin, Path(folder), draft)
        stamp.write_text(f"{tree_digest(draft)}\n")
        draft.rename(tree)
    return tree


def _clone(address: str, release: str, commit: str, draft: Path) -> None:
    _git("clone", "--quiet", "--depth", "1", "--branch", release, address, str(draft))
    found = _git("-C", str(draft), "rev-parse", "HEAD").strip()
    if found != commit:
        raise DeviceError(
            f"{address}: the tag {release} is commit {found}, and the file says {commit}: the tag"
            " was moved, or the file is wrong. Nothing was run.\n"
            "  fix    find out which one kubespray released; then correct kubernetes.source.commit"
        )


def _git(*words: str) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    git = shutil.which("git")
    if git is None:
        raise DeviceError("kubespray comes from git, and there is no git here. Install it.")
    try:
        done = subprocess.run(
            [git, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=CLONE_DEADLINE_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"git {words[0]}: {error}. Nothing was run.") from error
    if done.returncode != 0:
        raise DeviceError(
            f"git {' '.join(words)}: {done.stderr.strip()}\nNothing was run.\n"
            "  fix    correct kubernetes.source.git and release, or the way to that server"
        )
    return done.stdout


def _unpack(place: str, sha256: str, folder: Path, draft: Path) -> None:
    archive = Path(place)
    if place.startswith("https://"):
        archive = folder / "archive"
        try:
            download(place, Access(), archive, sha256)
        except (FetchError, OSError) as error:
            raise DeviceError(f"{error}\nNothing was run.") from error
    elif not archive.is_file() or digest_of(archive) != sha256:
        found = f"has the checksum {digest_of(archive)}" if archive.is_file() else "is not there"
        raise DeviceError(
            f"{place} {found}, and the file says {sha256}. Nothing was run.\n"
            "  fix    correct kubernetes.source.archive or its checksum"
        )
    unpacked = folder / "unpacked"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DeviceError(
            f"{place}: cannot be unpacked: {error}. Nothing was run.\n"
            "  fix    take another copy; then write its checksum as archive_sha256"
        ) from error
    inside = [path for path in unpacked.iterdir() if path.is_dir()]
    (unpacked if (unpacked / "cluster.yml").exists() or not inside else inside[0]).rename(draft)


def _demand_release(tree: Path, release: str) -> None:
    """`galaxy.yml` says which release a tree is."""
    try:
        said = f"v{yaml.safe_load((tree / 'galaxy.yml').read_text())['version']}"
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        said = "none"
    if said != release:
        raise DeviceError(
            f"{tree}: the tree says to be release {said}, and the file says {release}. Nothing was"
            " run.\n  fix    correct kubernetes.source: release and tree belong together"
        )


def _demand_version(tree: Path, release: str, version: str) -> None:
    """The tree has checksums of the releases of Kubernetes that it can install."""
    try:
        listed = yaml.safe_load((tree / _CHECKSUMS).read_text())["kubelet_checksums"]["amd64"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return  # kubespray keeps the list elsewhere then, and asks itself
    known = [str(each) for each in listed]
    if version.removeprefix("v") not in known:
        raise DeviceError(
            f"kubespray {release} does not know Kubernetes {version}. Nothing was run.\n"
            f"  fix    choose one of {', '.join(f'v{each}' for each in known)}"
        )
