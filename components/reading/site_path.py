"""A site in a separate file: `railyard:site: site.yaml` in `Pulumi.<stack>.yaml`.

A stack's configuration reaches the program in one environment variable, which the kernel limits to
128 KiB: some 200 hosts. The file has no limit.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from components.core.limits import read_text
from components.core.problem import Json
from components.reading.wording import show_value

SITE_KEY: Final = "railyard:site"
"""The key of the stack's configuration for the path of the site file."""
CONFIG_FILE: Final = "RAILYARD_CONFIG_FILE"
"""Environment variable: the stack's configuration, if it is outside of the program's folder.

The lab's environment file of an example sets it. It only counts for the stack in the file's name
(`Pulumi.STACK.yaml`).
"""
_PROJECT_FILES: Final = ("Pulumi.yaml", "Pulumi.yml")


class SitePathError(Exception):
    """The key does not name a readable site: one sentence states the fault, one the fix."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def config_file(stack: str) -> Path:
    """Return the path of a stack's configuration, whether or not it exists."""
    beside = Path(f"Pulumi.{stack}.yaml")
    named = Path(os.environ.get(CONFIG_FILE, beside))
    return named if named.name == beside.name else beside


def stack_of(file: Path) -> str:
    """Return the stack of a `Pulumi.<stack>.yaml`; empty for another file."""
    found = re.fullmatch(r"Pulumi\.(.+)\.yaml", file.name)
    return found[1] if found else ""


def stack_for(file: Path) -> str:
    """Return a stack file's stack; for a site file, the only stack beside it with this site."""
    line = rf"^ *{SITE_KEY}: *[\"']?{re.escape(file.name)}[\"']? *(#.*)?$"
    beside = (
        each
        for each in file.parent.glob("Pulumi.*.yaml")
        if each.is_file() and re.search(line, each.read_text(errors="replace"), re.MULTILINE)
    )
    found = [stack_of(each) for each in beside]
    return stack_of(file) or (found[0] if len(found) == 1 else "")


def read_site(written: Json, stack_file: Path) -> tuple[Path, str]:
    """Read the site that a stack file names; return the path that problems show, and the text.

    Raises:
        SitePathError: The value is not a path, leads out of the project, or names no readable text.
    """
    if not isinstance(written, str) or not written.strip() or "\0" in written:
        is_mapping = isinstance(written, dict)
        shown = "a secret or a list of settings" if is_mapping else show_value(written)
        what = f"`{SITE_KEY}` is {shown or 'empty'}, and the path of a file is expected."
        raise SitePathError(what, "write for example `site.yaml`, relative to the stack's file.")
    # As a user would write it: without `..`, relative to the current folder.
    path, here = Path(os.path.normpath(stack_file.parent / written)), Path.cwd()
    path = path.relative_to(here) if path.is_relative_to(here) else path
    real = _inside(written, stack_file)
    if not real.exists():
        what = f"`{SITE_KEY}` is {written}, but the file {path} does not exist."
        fix = "correct the path, which is relative to the stack's file, or create the file."
        raise SitePathError(what, fix)
    if not real.is_file():
        kind, fix = "not a regular file", "name a file with the text of the site."
        if real.is_dir():
            kind = "a directory"
            fix = f"name the file, for example `{Path(written) / 'site.yaml'}`."
        raise SitePathError(f"`{SITE_KEY}` is {written}, and {path} is {kind}.", fix)
    try:
        return path, read_text(real)
    except UnicodeDecodeError as error:
        what = f"{path} is not UTF-8 text (byte {error.start})."
        raise SitePathError(what, "save the site as UTF-8.") from error
    except OSError as error:
        what, fix = f"{path} cannot be read: {error.strerror}.", "let the user who runs pulumi"
        raise SitePathError(what, f"{fix} read the file.") from error


def _inside(written: str, stack_file: Path) -> Path:
    """Return the real path of the site, which must be inside the project.

    A person who edits a stack's file in a pull request must not make a run read, and show lines of,
    files elsewhere on the machine that runs it.
    """
    if Path(written).is_absolute():
        what = f"`{SITE_KEY}` is the absolute path {written}, which differs between machines."
        where = "write the path relative to the stack's file, to a file inside the project."
        raise SitePathError(what, where)
    folder = stack_file.parent.resolve()
    project = find_project(folder) or folder
    try:
        real = (folder / written).resolve()
    except (OSError, RuntimeError) as error:
        raise SitePathError(
            f"`{SITE_KEY}` is {written}, whose symbolic links lead to themselves.",
            "name the file itself.",
        ) from error
    if not real.is_relative_to(project):
        plain = Path(os.path.normpath(folder / written))
        how = " through a symbolic link" if plain.is_relative_to(project) else ""
        what = f"`{SITE_KEY}` is {written}, which leads out of the project's folder{how}."
        where = "move the site into the project, and name it relative to the stack's file."
        raise SitePathError(what, where)
    return real


def find_project(folder: Path) -> Path | None:
    """Return the folder of the Pulumi project around a folder, or None."""
    around = (folder, *folder.parents)
    return next((f for f in around if any((f / name).is_file() for name in _PROJECT_FILES)), None)
