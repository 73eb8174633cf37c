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
from components.core.templates import fault_text
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

    def __init__(self, row: str, **words: object) -> None:
        text = fault_text(__file__, row, key=SITE_KEY, **words)
        self.what, _, self.fix = text.partition("\n  fix    ")
        super().__init__(self.what)


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
    beside = filter(Path.is_file, file.parent.glob("Pulumi.*.yaml"))
    texts = ((each, each.read_text(errors="replace")) for each in beside)
    found = [stack_of(each) for each, text in texts if re.search(line, text, re.MULTILINE)]
    return stack_of(file) or (found[0] if len(found) == 1 else "")


def pieces_beside(site: str) -> tuple[str, ...]:
    """Return the stacks of the pieces of a split site, as the stack files here say it."""
    found: list[str] = []
    for each in sorted(config_file(site).parent.glob(f"Pulumi.{site}-*.yaml")):
        unit = stack_of(each).removeprefix(f"{site}-")
        line = rf"^ *railyard:piece: *[\"']?{re.escape(unit)}[\"']? *(#.*)?$"
        if re.search(line, each.read_text(errors="replace"), re.MULTILINE):
            found.append(stack_of(each))
    return tuple(found)


def read_site(written: Json, stack_file: Path) -> tuple[Path, str]:
    """Read the site that a stack file names; return the path that problems show, and the text.

    SitePathError: the value is not a path, leads out of the project, or names no readable text.
    """
    if not isinstance(written, str) or not written.strip() or "\0" in written:
        is_mapping = isinstance(written, dict)
        shown = "a secret or a list of settings" if is_mapping else show_value(written)
        raise SitePathError("no-path", shown=shown or "empty")
    # As a user would write it: without `..`, relative to the current folder.
    path, here = Path(os.path.normpath(stack_file.parent / written)), Path.cwd()
    path = path.relative_to(here) if path.is_relative_to(here) else path
    real = _inside(written, stack_file)
    if not real.exists():
        raise SitePathError("absent", written=written, path=path)
    if not real.is_file():
        row, inside = "directory" if real.is_dir() else "not-regular", Path(written) / "site.yaml"
        raise SitePathError(row, written=written, path=path, inside=inside)
    try:
        return path, read_text(real)
    except UnicodeDecodeError as error:
        raise SitePathError("not-text", path=path, error=error) from error
    except OSError as error:
        raise SitePathError("unreadable", path=path, error=error) from error


def _inside(written: str, stack_file: Path) -> Path:
    """Return the real path of the site, which must be inside the project.

    A person who edits a stack's file in a pull request must not make a run read, and show lines of,
    files elsewhere on the machine that runs it.
    """
    if Path(written).is_absolute():
        raise SitePathError("absolute", written=written)
    folder = stack_file.parent.resolve()
    project = find_project(folder) or folder
    try:
        real = (folder / written).resolve()
    except (OSError, RuntimeError) as error:
        raise SitePathError("loop", written=written) from error
    if not real.is_relative_to(project):
        plain = Path(os.path.normpath(folder / written))
        how = " through a symbolic link" if plain.is_relative_to(project) else ""
        raise SitePathError("outside", written=written, how=how)
    return real


def find_project(folder: Path) -> Path | None:
    """Return the folder of the Pulumi project around a folder, or None."""
    around = (folder, *folder.parents)
    return next((f for f in around if any((f / name).is_file() for name in _PROJECT_FILES)), None)
