"""The one environment file of a lab stack: PATH, backend, passphrase.

A shell that sourced it can run plain `pulumi preview|up|refresh|destroy -s STACK`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from components.core.record import field, record
from components.project.lab_marks import STATE_MARK
from lab.engine.install import Engine
from lab.engine.plugin_cache import prepare_plugins

PASSPHRASE: Final = "railyard-lab"  # noqa: S105 - public on purpose: the lab has no secrets
GARBAGE_PERCENT: Final = "400"
"""How much Go's programs may grow between two collections (Go: 100). Each `pulumi` call lives for
seconds at most, and a sixth of a short one's processor time went to collections."""
UNSET: Final = ("PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_ACCESS_TOKEN", "SSH_AUTH_SOCK")
"""Each of these would override the lab: another passphrase, another backend, a stale agent."""


@record
class EnvSettings:
    """What the environment of one lab stack is made of. All paths are absolute."""

    project: Path
    stack: str
    python: Path
    engine: Engine
    tools: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """More programs for the bin folder, by name: kubectl, helm."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """More variables, for example KUBECONFIG."""

    @property
    def folder(self) -> Path:
        """The ignored folder of this stack's lab."""
        return self.project / ".lab" / self.stack

    @property
    def bin(self) -> Path:
        """The folder that stands first on PATH."""
        return self.folder / "bin"

    @property
    def file(self) -> Path:
        """The environment file to source."""
        return self.folder / "env.sh"

    @property
    def home(self) -> Path:
        """The engine's own folder, with its plugin cache."""
        return self.project / ".pulumi" / "home"

    @property
    def backend(self) -> Path:
        """Where the states of all stacks lie."""
        return self.project / ".pulumi" / "backend"


@record
class EnvReport:
    """The file that was written, and a line about each part of the engine."""

    file: Path
    notices: tuple[str, ...]


def plan_variables(settings: EnvSettings) -> dict[str, str]:
    """Return the variables that make `pulumi` work on the lab, PATH left out."""
    return {
        "PULUMI_BACKEND_URL": f"file://{settings.backend}",
        "PULUMI_HOME": str(settings.home),
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "GOGC": GARBAGE_PERCENT,
        **settings.variables,
    }


def plan_environment(settings: EnvSettings, base: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a child process that runs `pulumi` on the lab."""
    kept = {key: value for key, value in base.items() if key not in UNSET}
    path = f"{settings.bin}{os.pathsep}{base.get('PATH', os.defpath)}"
    return {**kept, **plan_variables(settings), "PATH": path}


def render_env(settings: EnvSettings) -> str:
    """Return the text of the environment file, for sh and bash."""
    folder = shlex.quote(str(settings.bin))
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted(plan_variables(settings).items())
    )
    return (
        f"# The lab of stack {settings.stack}. Use it with:\n"
        f"#   . {shlex.quote(str(settings.file))} && pulumi preview -s {settings.stack}\n"
        f'case ":$PATH:" in\n'
        f"  *:{folder}:*) ;;\n"
        f'  *) PATH={folder}:"$PATH"; export PATH ;;\n'
        f"esac\n"
        f"unset {' '.join(UNSET)}\n"
        f"{exports}"
    )


def write_env(settings: EnvSettings) -> EnvReport:
    """Write the environment file, the bin folder and the plugin cache. Safe to repeat."""
    settings.bin.mkdir(parents=True, exist_ok=True)
    settings.backend.mkdir(parents=True, exist_ok=True)
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.backend / STATE_MARK).write_text("The states here go with `make clean`.\n")
    for name, program in {"pulumi": settings.engine.pulumi, **settings.tools}.items():
        _link(settings.bin / name, program)
    draft = settings.file.with_suffix(".new")
    draft.write_text(render_env(settings))
    draft.replace(settings.file)
    notices = prepare_plugins(settings.engine, settings.home, settings.python)
    return EnvReport(settings.file, (settings.engine.notice(), *notices))


def _link(link: Path, target: Path) -> None:
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.symlink_to(target)
    draft.replace(link)
