"""Writing a new project: all of its files or none, never over a file, and what it needs next."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from components.core.errors import UsageError
from components.core.finding import Finding
from components.project.engine import INSTALL_CLI, OWN_LOGIN, Engine
from components.project.files import REQUIREMENTS, SITE_FILE
from components.project.lab_marks import is_stand_in
from components.project.wheel import DISTRIBUTION, FOLDER
from components.reading.load import MARK

_INDENT: Final = "\n       "


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


def render_next_steps(folder: Path, stack: str, engine: Engine, secrets: Sequence[str]) -> str:
    """The steps from the written files to the first preview.

    Args:
        folder: The project.
        stack: Its stack.
        engine: What this machine has of Pulumi.
        secrets: Names of the secrets that the example's site asks for.
    """
    pip = ".venv/bin/pip install --require-hashes -r requirements.txt"
    config = [f"pulumi config set --secret -s {stack} railyard:{name}" for name in secrets]
    steps = (
        (f"cd {shlex.quote(str(folder))}", f"python3 -m venv .venv && {pip}"),
        _cli_step(engine),
        *_plugin_steps(engine),
        (
            "a backend and a passphrase of your own, then the stack:",
            OWN_LOGIN,
            "export PULUMI_CONFIG_PASSPHRASE='…' (or --secrets-provider with a key service)",
            f"pulumi stack init {stack}",
        ),
        (
            f"your values: each line of {SITE_FILE} with `{MARK.strip()}` is still the example's",
            f".venv/bin/railyard check Pulumi.{stack}.yaml",
        ),
        ("the secrets, each on standard input:", *config),
        (
            "the jobs' image, if you have none, and a checksum of all that the site brings:",
            f".venv/bin/railyard image build {SITE_FILE} --push",
            f".venv/bin/railyard pin Pulumi.{stack}.yaml",
        ),
        (
            "a look at every device, which changes nothing, and then the plan:",
            f".venv/bin/railyard preflight {stack}",
            f"pulumi preview -s {stack}",
        ),
    )
    return "Next\n" + "\n".join(
        f"  {number}. {_INDENT.join(lines)}" for number, lines in enumerate(steps, 1)
    )


def _cli_step(engine: Engine) -> tuple[str, ...]:
    wanted = f"the Pulumi CLI, {engine.wanted} or later"
    if engine.program is None:
        return (f"{wanted}: not on PATH", INSTALL_CLI.format(engine.wanted))
    return (f"{wanted}: {engine.version or 'no answer'} at {engine.program}",)


def _plugin_steps(engine: Engine) -> tuple[tuple[str, ...], ...]:
    steps: list[tuple[str, ...]] = []
    for plugin in engine.plugins:
        head = f"the plugin {plugin.name} {plugin.version}"
        if plugin.program is None:
            steps.append((f"{head}: not there", plugin.install))
        elif is_stand_in(plugin.program):
            steps.append((f"{head}: a stand-in of the lab at {plugin.program}", plugin.install))
        else:
            steps.append((f"{head}: {plugin.program}",))
    return tuple(steps)


def render_findings(findings: Sequence[Finding]) -> str:
    """Findings of one device as text, each with its values and its fix."""
    return "\n".join(
        f"{each.cause}: {each.what}\n  is     {each.actual}\n  wanted {each.wanted}\n"
        f"  fix    {each.fix}"
        for each in findings
    )
