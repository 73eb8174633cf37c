"""Writing a new project: all of its files or none, and never over a file that is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from components.core.errors import UsageError
from components.project.files import REQUIREMENTS
from components.project.wheel import DISTRIBUTION, FOLDER


def write_project(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a new project.

    They are written beside their places first and then linked there, which fails where a file came
    in between; what this call linked is taken away again then.

    Args:
        folder: Made where it is not there; files of other names in it stay.
        files: Path in the folder to content.

    Raises:
        UsageError: Files of these names are there, or they cannot be written; the text names them,
            and nothing is left behind.
    """
    _refuse_existing(folder, files)
    made = _make_folders(folder)
    linked: list[Path] = []
    draft: Path | None = None
    try:
        draft = Path(mkdtemp(prefix=".railyard-init-", dir=folder))
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name in files:
            made += _make_folders((folder / name).parent)
            os.link(draft / name, folder / name)
            linked.append(folder / name)
    except OSError as error:
        for path in linked:
            path.unlink(missing_ok=True)
        _discard(draft)
        _remove_empty(made)
        raise UsageError(
            f"{error.filename2 or error.filename or folder}: cannot be written:"
            f" {error.strerror}. Nothing was written."
        ) from error
    _discard(draft)


def replace_package(folder: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write the wheel and the requirements of a project again, and take away older wheels.

    The requirements come last: until then the project installs what it did before.

    Returns:
        The older wheels, which are gone now.

    Raises:
        UsageError: The folder is not a project, or a file cannot be written.
    """
    if not (folder / "Pulumi.yaml").is_file():
        raise UsageError(
            f"{folder} has no Pulumi.yaml, so it is not a project. Nothing was written.\n"
            "  fix    name the folder of a project, or leave out --package to begin one"
        )
    try:
        for name, content in sorted(files.items(), key=lambda each: each[0] == REQUIREMENTS):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            draft = path.with_name(f".{path.name}.new")
            draft.write_bytes(content)
            draft.replace(path)
        vendored = (folder / FOLDER).glob(f"{DISTRIBUTION.replace('-', '_')}-*.whl")
        old = [path for path in vendored if f"{FOLDER}/{path.name}" not in files]
        for path in old:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder}: cannot be written: {error.strerror}.\n"
            "  fix    mend that and run the same command again"
        ) from error
    return tuple(path.name for path in old)


def _refuse_existing(folder: Path, files: Mapping[str, bytes]) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Nothing was written.\n  fix    name another one")
    there = [name for name in files if os.path.lexists(folder / name)]
    if there:
        raise UsageError(
            f"{folder} has {', '.join(there)} already. Nothing was written.\n"
            "  fix    name another folder, or move these files away first"
        )


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder with those above it; returns the new ones, the innermost last."""
    new = [each for each in (*reversed(folder.parents), folder) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(new)
        raise UsageError(
            f"{folder}: cannot be made: {error.strerror}. Nothing was written."
        ) from error
    return new


def _remove_empty(folders: list[Path]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _discard(draft: Path | None) -> None:
    if draft is not None:
        shutil.rmtree(draft, ignore_errors=True)
