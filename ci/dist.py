"""Build what a release consists of: `make dist`, or `TAG=v1.2.3 make dist` for a tag.

The wheel is built from the sdist, so whoever has only the sdist gets the same wheel. `build/dist`
then has both, a `requirements.txt` with the hash of every package, and `SHA256SUMS`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from components.project.write import runtime_pins

ROOT: Final = Path(__file__).parents[1]
OUT: Final = ROOT / "build" / "dist"
_BUILD_DEADLINE_S: Final = 600
_SDIST: Final = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def find_obstacles(tag: str, version: str, changelog: str, changed: str) -> Iterator[str]:
    """What keeps this checkout from being a release.

    Args:
        tag: Name of the tag; empty for a trial build, which may have changes.
        version: Of `pyproject.toml`.
        changelog: Text of `CHANGELOG.md`.
        changed: Output of `git status --porcelain`.
    """
    if not tag:
        return
    if tag != f"v{version}":
        yield f"the tag is {tag}, and pyproject.toml has version {version}: they must agree."
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no line `## {version} (YYYY-MM-DD)`: write its date."
    if changed:
        yield f"files differ from the commit: {', '.join(changed.split()[1::2])}. Commit them."


def build(root: Path, out: Path) -> tuple[Path, Path]:
    """Build the sdist of a folder, and the wheel from it, into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    _run((sys.executable, "-c", _SDIST, str(out)), root)
    (sdist,) = out.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet")
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    _run((*pip, *alone, "--wheel-dir", str(out), str(sdist)), root)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_BUILD_DEADLINE_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build into `build/dist`, or say what keeps a tag from being a release."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changed = _run(("git", "status", "--porcelain"), ROOT)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if found := [*find_obstacles(os.environ.get("TAG", ""), version, changelog, changed)]:
        sys.exit("\n".join(found))
    os.environ["SOURCE_DATE_EPOCH"] = _run(("git", "log", "-1", "--format=%ct"), ROOT).strip()
    sums = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in build(ROOT, OUT)}
    wheel = next(file for file in sums if file.suffix == ".whl")
    pins = f"./{wheel.name} --hash=sha256:{sums[wheel]}\n{runtime_pins()}"
    (OUT / "requirements.txt").write_text(pins)
    text = "".join(f"{digest}  {file.name}\n" for file, digest in sums.items())
    (OUT / "SHA256SUMS").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
