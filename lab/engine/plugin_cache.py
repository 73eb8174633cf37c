"""Put the language host and the stand-ins where the engine looks last: its plugin cache.

The engine looks on PATH, then beside its own program, then in `$PULUMI_HOME/plugins`
(workspace.getPluginInfoAndPath at v3.250.0). So a real plugin on PATH, and the host that comes
with a real CLI, win by themselves, and no "using … from $PATH" warning is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

from components.core.record import record
from lab.engine.install import VERSION, Engine
from lab.engine.language.packages import RequiredPackage, required_packages

MARK: Final = "# railyard lab shim"
INSTALL_TIMEOUT_S: Final = 120
SOURCE: Final = Path(__file__).resolve().parents[2]
"""The folder that holds the `lab` package."""
STAND_INS: Final = {"command": "standins.command", "kubernetes": "standins.kubernetes"}


@record
class Shim:
    """A small executable in the plugin cache, and what is said about it."""

    file: Path
    text: str
    notice: str


def render_module_shim(python: Path, module: str) -> str:
    """Return a script that runs one of our modules in place of a plugin."""
    return (
        f"#!/bin/sh\n{MARK}\n"
        f"PYTHONPATH={shlex.quote(str(SOURCE))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        f"export PYTHONPATH\n"
        f'exec {shlex.quote(str(python))} -m {module} "$@"\n'
    )


def render_program_shim(program: Path) -> str:
    """Return a script that runs a real plugin which lies in another plugin cache."""
    return f'#!/bin/sh\n{MARK}\nexec {shlex.quote(str(program))} "$@"\n'


def plan_shims(home: Path, python: Path, packages: tuple[RequiredPackage, ...]) -> tuple[Shim, ...]:
    """Return the shims for the language host and for each plugin, real ones first."""
    host = home / "plugins" / f"language-python-v{VERSION}" / "pulumi-language-python"
    shims = [
        Shim(
            host,
            render_module_shim(python, "lab.engine.language"),
            f"language host: the lab's own for Python ({python})",
        )
    ]
    shims += [_plan_plugin(home, python, package) for package in packages]
    return tuple(shims)


def write_shims(shims: tuple[Shim, ...]) -> tuple[str, ...]:
    """Write the shims that are missing or stale; a real plugin in the same place is kept.

    Returns:
        One notice for each, saying what is used.

    """
    notices: list[str] = []
    for shim in shims:
        if shim.file.exists() and not _is_shim(shim.file):
            notices.append(f"{shim.file.name}: the real plugin in {shim.file.parent}")
            continue
        shim.file.parent.mkdir(parents=True, exist_ok=True)
        draft = shim.file.with_name(f".{shim.file.name}.{os.getpid()}")
        draft.write_text(shim.text)
        draft.chmod(0o755)
        draft.replace(shim.file)
        notices.append(shim.notice)
    return tuple(notices)


def prepare_plugins(engine: Engine, home: Path, python: Path) -> tuple[str, ...]:
    """Make the plugin cache complete and return what is used, a line for each."""
    packages = tuple(one for one in required_packages() if one.name in STAND_INS)
    if engine.origin != "built":
        _install_real(engine, home, packages)
    notices: list[str] = []
    for shim in plan_shims(home, python, packages):
        real = _real_elsewhere(engine, shim.file.name)
        if real is None:
            notices += write_shims((shim,))
        else:
            shutil.rmtree(shim.file.parent, ignore_errors=True)
            notices.append(f"{shim.file.name}: the real one at {real}")
    return tuple(notices)


def _plan_plugin(home: Path, python: Path, package: RequiredPackage) -> Shim:
    folder = f"resource-{package.name}-v{package.version}"
    program = f"pulumi-resource-{package.name}"
    file = home / "plugins" / folder / program
    users = Path.home() / ".pulumi" / "plugins" / folder / program
    if users.exists() and users != file:
        return Shim(file, render_program_shim(users), f"{program}: the real plugin at {users}")
    module = STAND_INS[package.name]
    return Shim(
        file,
        render_module_shim(python, module),
        f"{program}: the lab's stand-in for version {package.version} ({module})",
    )


def _real_elsewhere(engine: Engine, program: str) -> Path | None:
    """Return a program that the engine finds before its cache: on PATH or beside itself."""
    beside = engine.pulumi.resolve().with_name(program)
    if program.startswith("pulumi-language-") and beside.exists():
        return beside
    on_path = shutil.which(program)
    return Path(on_path) if on_path else None


def _install_real(engine: Engine, home: Path, packages: tuple[RequiredPackage, ...]) -> None:
    """Ask the engine for the real plugins, where it came from a server that may have them too."""
    environment = {**os.environ, "PULUMI_HOME": str(home), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    for package in packages:
        program = f"pulumi-resource-{package.name}"
        folder = home / "plugins" / f"resource-{package.name}-v{package.version}"
        if _real_elsewhere(engine, program) or (folder / program).exists():
            continue
        try:
            subprocess.run(
                [engine.pulumi, "plugin", "install", "resource", package.name, package.version],
                env=environment,
                capture_output=True,
                timeout=INSTALL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"notice: the plugin server did not answer for {program}", flush=True)


def _is_shim(file: Path) -> bool:
    with file.open("rb") as stream:
        return MARK.encode() in stream.read(200)
