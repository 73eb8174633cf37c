"""kubespray's own Python environment: made once of pinned wheels, apart from Railyard's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from components.core.limits import read_text
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
        text = read_text(Path(requirements))
    except OSError as error:
        raise DeviceError(
            f"{requirements}: kubespray's requirements cannot be read: {error.strerror}. Nothing"
            " was run.\n  fix    correct kubernetes.requirements; it is relative to the project"
        ) from error
    if bare := unhashed(text):
        raise DeviceError(
            f"{requirements}: {bare[0]} has no hash, so whatever the index serves would run."
            " Nothing was run.\n"
            "  fix    write the file with hashes: `uv pip compile --generate-hashes`"
        )
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
    raise DeviceError(refusal_of_pip(what, done.stderr, done.stdout))


def unhashed(text: str) -> tuple[str, ...]:
    """The requirements of a file that have no hash."""
    lines = text.replace("\\\n", " ").splitlines()
    asked = (line.strip() for line in lines if line.strip() and line.strip()[0] not in "#-")
    return tuple(line.split()[0] for line in asked if "--hash=" not in line)


def refusal_of_pip(what: str, stderr: str, stdout: str = "") -> str:
    """What pip said last, and what helps."""
    said = (stderr.strip() or stdout.strip()).splitlines()[-_LAST_LINES:]
    hint = next((hint for words, hint in _HINTS if words in stderr), "")
    fix = f"\n  fix    {hint}" if hint else ""
    return "\n  ".join((f"{what}: no playbook was run", *said)) + fix
