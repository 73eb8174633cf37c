"""The tree of kubespray on this machine, verified at each use, and its Python environment.

The environment is made once from pinned wheels, apart from Railyard's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from components.artefacts.naming import digest_of
from components.artefacts.web import Access, FetchError, download
from components.core.errors import DeviceError
from components.core.limits import read_text
from components.core.templates import LOADER, fault_text, read_table
from components.kubernetes.kubespray.wanted import Source

CLONE_DEADLINE_S: Final = 900.0
_CHECKSUMS: Final = "roles/kubespray_defaults/vars/main/checksums.yml"
"""The tree's list of the releases of Kubernetes that it can install."""
_SKIPPED: Final = frozenset({".git", "__pycache__"})
INSTALL_DEADLINE_S: Final = 1800.0
_STAMP: Final = "railyard-installed"
_LAST_LINES: Final = 6


def _cache_folder() -> Path:
    """Trees and Python environments that all stacks of this user share, by their checksums."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "railyard" / "kubespray"


def bring_tree(source: Source, release: str, pin: str, version: str) -> tuple[Path, str]:
    """The tree, and the checksum over all its files.

    `release` and `pin` (a checksum or commit) say which it must be, `version` the Kubernetes that
    it must support; DeviceError if it is unavailable, is another one, or does not support that.
    """
    tree = Path(source.place) if source.kind == "path" else _cached(source, release, pin)
    found = tree_digest(tree)
    if source.kind == "path" and found != pin:
        raise _refused("tree-changed", tree=tree, found=found, pin=pin)
    try:
        said = f"v{yaml.safe_load((tree / 'galaxy.yml').read_text())['version']}"
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        said = "none"
    if said != release:
        raise _refused("other-release", tree=tree, said=said, release=release)
    # If kubespray moved the list of checksums, it checks the release of Kubernetes itself.
    try:
        text = (tree / _CHECKSUMS).read_bytes()
        listed = yaml.load(text, LOADER)["kubelet_checksums"]["amd64"]  # noqa: S506 - a safe one
        known = [str(each) for each in listed]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        known = [version.removeprefix("v")]
    if version.removeprefix("v") not in known:
        there = ", ".join(f"v{each}" for each in known)
        raise _refused("other-kubernetes", release=release, version=version, known=there)
    return tree, found


def tree_digest(tree: Path) -> str:
    """SHA-256 over the paths and contents of all files of a tree."""
    if not tree.is_dir():
        raise _refused("no-folder", tree=tree, here=Path.cwd())
    found = hashlib.sha256()
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted({*folders} - _SKIPPED)
        for name in sorted(files):
            path = Path(folder) / name
            content = str(path.readlink()) if path.is_symlink() else digest_of(path)
            found.update(f"{path.relative_to(tree)}\0{content}\0".encode())
    return found.hexdigest()


def _cached(source: Source, release: str, pin: str) -> Path:
    """A tree from the cache, unless someone edited it."""
    tree = _cache_folder() / "trees" / pin
    stamp = tree.with_name(f"{pin}.sha256")
    if tree.is_dir() and stamp.is_file() and tree_digest(tree) == stamp.read_text().strip():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        draft = Path(folder) / "tree"
        if source.kind == "git":
            _git("clone", "--quiet", "--depth", "1", "--branch", release, source.place, str(draft))
            commit = _git("-C", str(draft), "rev-parse", "HEAD").strip()
            if commit != pin:
                words = {"place": source.place, "release": release, "commit": commit, "pin": pin}
                raise _refused("moved-tag", **words)
        else:
            _unpack(source.place, pin, Path(folder), draft)
        stamp.write_text(f"{tree_digest(draft)}\n")
        draft.rename(tree)
    return tree


def _git(*words: str) -> str:
    git = shutil.which("git")
    if git is None:
        raise _refused("no-git")
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = _run([git, *words], f"git {words[0]}", CLONE_DEADLINE_S, environment)
    if done.returncode != 0:
        raise _refused("git-failed", words=" ".join(words), error=done.stderr.strip())
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
        raise _refused("other-archive", place=place, found=found, sha256=sha256)
    unpacked = folder / "unpacked"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise _refused("not-unpacked", place=place, error=error) from error
    inside = [path for path in unpacked.iterdir() if path.is_dir()]
    (unpacked if (unpacked / "cluster.yml").exists() or not inside else inside[0]).rename(draft)


def make_environment(requirements: str, python: str) -> Path:
    """The environment's folder, made from hashed requirements unless it is complete."""
    try:
        text = read_text(Path(requirements))
    except OSError as error:
        words = {"requirements": requirements, "error": error.strerror}
        raise _refused("no-requirements", **words) from error
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    asked = (line for line in lines if line and line[0] not in "#-")
    if bare := [line.split()[0] for line in asked if "--hash=" not in line]:
        raise _refused("no-hash", requirements=requirements, line=bare[0])
    ask = [python, "-c", "import sys; print(sys.version)"]
    version = _python(ask, f"kubernetes.python: {python}")
    digest = hashlib.sha256(f"{version}\0{text}".encode()).hexdigest()
    folder = _cache_folder() / "environments" / digest[:32]
    if (folder / _STAMP).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    _python([python, "-m", "venv", str(folder)], "kubespray's environment")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["--quiet", "--no-input", "--require-hashes", "--only-binary=:all:", "-r", requirements]
    _python(pip, f"kubespray's environment, {requirements}")
    (folder / _STAMP).write_text(f"{digest}\n")
    return folder


def _python(command: list[str], what: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = _run(command, what, INSTALL_DEADLINE_S, environment)
    if done.returncode == 0:
        return done.stdout
    raise DeviceError(refusal_of_pip(what, done.stderr, done.stdout))


def _run(
    command: list[str], what: str, deadline_s: float, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{what}: {error}. Nothing was run.") from error


def refusal_of_pip(what: str, stderr: str, stdout: str = "") -> str:
    """The last error of pip, and the remedy."""
    said = (stderr.strip() or stdout.strip()).splitlines()[-_LAST_LINES:]
    hints: Mapping[str, str] = read_table(__file__, "pip")
    hint = next((hint for words, hint in hints.items() if words in stderr), "")
    fix = f"\n  fix    {hint}" if hint else ""
    return "\n  ".join((f"{what}: no playbook was run", *said)) + fix


def _refused(row: str, /, **words: object) -> DeviceError:
    return DeviceError(fault_text(__file__, row, **words))
