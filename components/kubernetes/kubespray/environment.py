"""kubespray's own Python environment: made once of pinned wheels, apart from Railyard's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from components.kubernetes.kubespray.tree import cache_folder

INSTALL_DEADLINE_S: Final = 1800.0
_STAMP: Final = "railyard-installed"
_LAST_LINES: Final = 6
_HINTS: Final = (
    (
        "No matching distribution",
        (
            "these wheels are of another Python, or the package index does not have them: set"
            " kubernetes.python to one that this kubespray takes, or make the file for this one"
        ),
    ),
    (
        "requires a different Python",
        (
            "set kubernetes.python to a Python that this kubespray takes, or make the file for this"
            " one"
        ),
    ),
    (
        "DO NOT MATCH THE HASHES",
        (
            "the index gave another file than the one that was pinned: find out why before you pin"
            " it again"
        ),
    ),
    (
        "Hashes are required",
        "write the file with its hashes: `uv pip compile --generate-hashes requirements.txt`",
    ),
)
"""What pip says, and what helps."""


def make_environment(requirements: str, python: str) -> Path:
    """The environment's folder, made unless it is there whole.

    Args:
        requirements: File with hashed requirements.
        python: The Python that it is made with.

    Raises:
        DeviceError: The file or the Python is not there, or pip refused.
    """
    try:
        text = Path(requirements).read_text("utf-8")
    except OSError as error:
        raise DeviceError(
            f"{requirements}: kubespray's requirements cannot be read: {error.strerror}. Nothing"
            " was run.\n  fix    correct kubernetes.requirements; it is relative to the project"
        ) from error
    version = _run([python, "-c", "import sys; print(sys.version)"], f"kubernetes.python: {python}")
    digest = hashlib.sha256(f"{version}\0{text}".encode()).hexdigest()
    folder = cache_folder() / "environments" / digest[:32]
    if (folder / _STAMP).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    _run([python, "-m", "venv", str(folder)], "kubespray's environment")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["--quiet", "--no-input", "--require-hashes", "--only-binary=:all:", "-r", requirements]
    _run(pip, f"kubespray's environment, {requirements}")
    (folder / _STAMP).write_text(f"{digest}\n")
    return folder


def _run(command: list[str], what: str) -> str:
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=INSTALL_DEADLINE_S,
            stdin=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{what}: {error}. Nothing was run.") from error
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LAST_LINES:]
    hint = next((hint for words, hint in _HINTS if words in done.stderr), "")
    fix = f"\n  fix    {hint}" if hint else ""
    raise DeviceError("\n  ".join((f"{what}: no playbook was run", *said)) + fix)
