"""Files that Go modules carry, in the release that a module of ours pins."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from components.core.errors import DeviceError


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A file that a Go module carries."""

    name: str
    module: str
    path: str
    pinned: Path
    """The folder of the module that says which release."""


def copy_module_file(go: Path, file: ModuleFile, folder: Path) -> None:
    """Copy it into a folder; it appears there whole or not at all.

    Raises:
        DeviceError: The module does not have it.
    """
    words = [str(go), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", file.module]
    done = subprocess.run(
        words, cwd=file.pinned, capture_output=True, text=True, timeout=300, check=False
    )
    source = Path(done.stdout.strip()) / file.path
    if done.returncode or not source.is_file():
        raise DeviceError(f"cannot read {file.path} of {file.module}: {done.stderr.strip()}")
    draft = folder / f".{file.name}.new"
    shutil.copyfile(source, draft)
    draft.chmod(0o755)
    draft.replace(folder / file.name)
