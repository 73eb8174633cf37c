"""Inspect the Pulumi engine of this machine, and refuse real stacks on the lab's parts.

The only program that runs is `pulumi version`. Plugins are searched in the same places as the
engine searches: on PATH, next to its own program, and in `$PULUMI_HOME/plugins`
(sdk/go/common/workspace/plugins.go).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, cast

import yaml

from components.core.errors import UsageError
from components.core.plain_text import shortened
from components.core.problem import Finding
from components.core.record import record
from components.core.templates import finding_of
from components.model.cluster import ClusterSpec
from components.project import lab_marks
from components.reading.site_path import config_file

HERE: Final = "this machine"
PLUGINS: Final = ("command", "kubernetes")
"""The resource plugins that every stack needs."""
VERSION_DEADLINE_S: Final = 30.0
INSTALL_CLI: Final = (
    "download pulumi-v{0}-linux-x64.tar.gz from https://github.com/pulumi/pulumi/releases/tag/v{0},"
    " compare its SHA-256 with the checksums on that page, and unpack it into a folder on PATH"
)
OWN_LOGIN: Final = (
    "pulumi login BACKEND, where BACKEND is one of your own:"
    " 'file:///srv/pulumi-state?metadata=skip', postgres://USER@HOST/DATABASE, s3://BUCKET,"
    " azblob://CONTAINER, gs://BUCKET, or https://app.pulumi.com"
)
FEW: Final = 500
"""So many resources with checkpoints take minutes on every backend."""
MANY: Final = 1_500
"""From here on the checkpoints alone take more than five minutes of processor time."""
BYTES_BY_SQUARE: Final = 13_000
"""A first update with checkpoints writes so many bytes times the square of the resources to a file
backend: two checkpoints a resource, each with its copy, of states of 6.5 KiB for each resource."""
_GIB: Final = 2**30


@record
class Plugin:
    """One required plugin, and the program that the engine would run for it."""

    name: str
    version: str
    program: Path | None
    """None: this version is not installed."""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pulumi plugin install resource {self.name} v{self.version}"


@record
class Engine:
    """The parts of Pulumi on this machine."""

    wanted: str
    """Version of Pulumi's Python SDK; the CLI must not be older."""
    program: Path | None
    version: str
    """The output of `pulumi version` without its `v`; empty if it failed."""
    language: Path | None
    """The program that runs Python programs; None if it was not found."""
    plugins: tuple[Plugin, ...]
    backend: str
    """Address where states are kept; empty if Pulumi is not logged in."""


def wanted_versions() -> dict[str, str]:
    """The exact versions of the Python packages; CLI and plugins need the same."""
    names = {"pulumi": "pulumi"} | {name: f"pulumi-{name}" for name in PLUGINS}
    return {name: metadata.version(package) for name, package in names.items()}


def look_at_engine(
    environ: Mapping[str, str], project: Path, *, ask_version: bool = True
) -> Engine:
    """Inspect the engine that a `pulumi` call in the project's folder would use."""
    versions = wanted_versions()
    found = shutil.which("pulumi", path=environ.get("PATH", os.defpath))
    program = Path(found) if found else None

    def find(name: str, folder: str) -> Path | None:
        """Search a program in the engine's own order."""
        if on_path := shutil.which(name, path=environ.get("PATH", os.defpath)):
            return Path(on_path)
        places = [program.resolve().parent] if program else []
        places.append(_home(environ) / "plugins" / folder)
        return next((place / name for place in places if (place / name).is_file()), None)

    wanted = versions.pop("pulumi")
    plugins = (
        Plugin(name, version, find(f"pulumi-resource-{name}", f"resource-{name}-v{version}"))
        for name, version in versions.items()
    )
    return Engine(
        wanted=wanted,
        program=program,
        version=version_of(program, environ) if program and ask_version else "",
        language=find("pulumi-language-python", f"language-python-v{wanted}"),
        plugins=tuple(plugins),
        backend=backend_of(environ, project),
    )


def backend_of(environ: Mapping[str, str], project: Path) -> str:
    """Address of the states: from the environment, else the project, else the last login."""
    if url := environ.get("PULUMI_BACKEND_URL"):
        return url
    backend = _project_file(project).get("backend")
    if isinstance(backend, dict) and (url := cast("dict[str, object]", backend).get("url")):
        return str(url)
    try:
        read = json.loads((_home(environ) / "credentials.json").read_text())
    except (OSError, ValueError):
        return ""
    return str(cast("dict[str, object]", read).get("current") or "") if read else ""


def project_name(project: Path) -> str:
    """The project's name in its file; empty without one."""
    return str(_project_file(project).get("name") or "")


def _project_file(project: Path) -> Mapping[str, object]:
    return _mapping(project / "Pulumi.yaml") or _mapping(project / "Pulumi.yml")


def _mapping(file: Path) -> Mapping[str, object]:
    """Read a mapping; empty if the file is of another form or cannot be read."""
    try:
        written = cast("object", yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return cast("dict[str, object]", written) if isinstance(written, dict) else {}


def _home(environ: Mapping[str, str]) -> Path:
    named = environ.get("PULUMI_HOME")
    return Path(named) if named else Path(environ.get("HOME", "~")).expanduser() / ".pulumi"


def version_of(program: Path, environ: Mapping[str, str]) -> str:
    """The output of `pulumi version` without its `v`; empty if it fails."""
    quiet, limit_s = {**environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}, VERSION_DEADLINE_S
    try:
        done = subprocess.run(
            [program, "version"], capture_output=True, text=True, check=False, timeout=limit_s,
            env=quiet,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("v") if done.returncode == 0 else ""


def judge_engine(engine: Engine) -> Iterator[Finding]:
    """Yield what this machine lacks to run any stack, of the lab or not."""
    words = {"engine": engine, "fix": INSTALL_CLI.format(engine.wanted)}
    if engine.program is None:
        yield _lack("no-cli", "none", **words)
    elif (_numbers(engine.version) or (-1,)) < _numbers(engine.wanted):
        yield _lack("old-cli", f"{engine.version or 'no answer'} ({engine.program})", **words)
    if engine.program is not None and engine.language is None:
        yield _lack("language", "none", install=words["fix"])
    for plugin in engine.plugins:
        if plugin.program is None:
            yield _lack("plugin", "none", plugin=plugin)
    if engine.program is not None and not engine.backend:
        yield _lack("backend", "none", login=OWN_LOGIN)


def _lack(row: str, actual: str, **words: object) -> Finding:
    return finding_of(__file__, row, device=HERE, actual=actual, **words)


def render_lack(found: Finding) -> str:
    """A finding of this machine as text, with its values and its fix."""
    values = f"  is     {found.actual}\n  wanted {found.wanted}"
    return f"{found.what}\n{values}\n  fix    {found.fix}"


def _numbers(version: str) -> tuple[int, ...]:
    plain = version.partition("-")[0].partition("+")[0]
    parts = plain.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def advise_state(resources: int, backend: str) -> str:
    """Recommend a backend and its settings for a state of so many resources; empty: any will do."""
    if resources <= FEW or backend.startswith("https://"):
        return ""
    way = "set PULUMI_DIY_BACKEND_ZSTD=true: it compresses the checkpoints"
    if resources > MANY:
        way = (
            "split the site into several stacks; or set PULUMI_EXPERIMENTAL=true"
            " PULUMI_SKIP_CHECKPOINTS=true, but not for the first update of its switches"
        )
    if not backend.startswith(("file:", "postgres:")):
        way += "; keep the states in a file, or near this machine"
    written = resources**2 * BYTES_BY_SQUARE / _GIB
    return (
        f"The state will have about {resources:,} resources. With checkpoints a first update"
        f" writes about {written:,.0f} GiB to a backend of your own.\n"
        f"  advice {way}.\n"
        "         docs/howto/large-sites.md says what a crash costs."
    )


def judge_lab_parts(
    engine: Engine, environ: Mapping[str, str], salt: str = ""
) -> Iterator[Finding]:
    """Yield the lab parts that a real stack would run on: stand-ins, passphrase, state."""
    rows = [
        (each.name, each.name, each.program, f"{each.name} {each.version}", each.install)
        for each in engine.plugins
    ]
    cli = INSTALL_CLI.format(engine.wanted)
    rows.append(("language", "for Python", engine.language, "pulumi-language-python", cli))
    for name, title, program, own, install in rows:
        if program is not None and lab_marks.is_stand_in(program):
            words = {"name": name, "title": title, "own": own, "install": install}
            yield _lack("stand-in", str(program), **words)
    if lab_marks.has_lab_passphrase(environ, salt):
        yield _lack("lab-passphrase", "the passphrase of the lab")
    if lab_marks.is_lab_backend(engine.backend):
        yield _lack("lab-backend", engine.backend, login=OWN_LOGIN)


def lab_findings(
    spec: ClusterSpec,
    stack: str,
    *,
    is_lab: bool,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> tuple[Finding, ...]:
    """List why this stack must not run here; `make up` writes `is_lab` into its configuration."""
    known = os.environ if environ is None else environ
    if is_lab:
        if not (real := lab_marks.devices_outside_lab(spec)):
            return ()
        return (_lack("lab-claim", shortened(real, 3), stack=stack),)
    project = file.absolute().parent if file else Path.cwd()
    engine = look_at_engine(known, project, ask_version=False)
    return tuple(judge_lab_parts(engine, known, salt_of(file or config_file(stack))))


def refuse_lab_parts(
    spec: ClusterSpec, stack: str, *, is_lab: bool, environ: Mapping[str, str] | None = None
) -> None:
    """Raise UsageError, with the whole report, if a real site would run on parts of the lab."""
    found = lab_findings(spec, stack, is_lab=is_lab, environ=environ)
    if found:
        head = f"stack {stack} does not belong to the lab, but would use parts of the lab."
        if is_lab:
            head = f"stack {stack} says that it is of the lab, and is not."
        raise UsageError("\n".join((head, *map(render_lack, found), "Nothing was touched.")))


def is_lab(written: object) -> bool:
    """Whether a value of `railyard:lab` is true, as Pulumi reads it."""
    return str(written).lower() == "true"


def salt_of(file: Path) -> str:
    """`encryptionsalt` of a stack's file; empty without one."""
    found = _mapping(file).get("encryptionsalt")
    return found if isinstance(found, str) else ""
