"""`railyard init DIR`: a project of the user's own, from one of the examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
import yaml

from components.cli.app import command_app, say
from components.core.errors import UsageError
from components.core.problem import exit_code
from components.model.cluster import ClusterSpec
from components.model.secret_refs import list_secrets
from components.model.worker_kinds import with_instances
from components.project.engine import (
    Engine,
    judge_engine,
    judge_lab_parts,
    look_at_engine,
    salt_of,
    wanted_versions,
)
from components.project.wheel import own_version, pack_wheel
from components.project.write import (
    REQUIREMENTS,
    Example,
    ProjectPlan,
    example_text,
    project_name,
    render_files,
    render_findings,
    render_next_steps,
    render_package,
    replace_package,
    write_project,
)
from components.reading.port_ranges import spread_document

app = command_app()
_STACK = "site"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of the project")],
    *,
    example: Annotated[Example, typer.Option(help="site to begin with")] = "dgx-roce",
    stack: Annotated[str, typer.Option(help="name of the stack")] = _STACK,
    check: Annotated[
        bool, typer.Option("--check", help="look at the engine again; write nothing")
    ] = False,
    package: Annotated[
        bool, typer.Option("--package", help="only bring the Railyard that runs now into DIR")
    ] = False,
) -> None:
    """Write a project of your own, and say what it needs before its first preview.

    Asks nothing, and overwrites nothing; only --package writes requirements.txt and the wheel
    again. Exit codes: 0 written; 2 files exist already; with --check 0 this machine is ready, 1
    something is missing.
    """
    if package:
        wheel = pack_wheel()
        old = replace_package(folder, render_package(wheel))
        gone = "".join(f", and took {each} away" for each in old)
        say(f"{folder}: wrote {REQUIREMENTS} and {wheel.path}{gone}.")
        return
    engine = look_at_engine(os.environ, folder)
    if check:
        _check(engine, folder, stack)
        return
    _demand_name(stack)
    name = project_name(folder.absolute().name)
    files = render_files(ProjectPlan(name, stack, example, pack_wheel(), wanted_versions()))
    write_project(folder, files)
    written = spread_document(yaml.safe_load(example_text(example)))
    spec = with_instances(ClusterSpec.model_validate(written))
    secrets = sorted({reference.name for reference, _ in list_secrets(spec)})
    say(f"{folder}: wrote {', '.join(files)} (example {example}).\n")
    say(render_next_steps(folder, stack, engine, secrets))


def _demand_name(stack: str) -> None:
    if not stack or not all(each.isalnum() or each in "-_." for each in stack):
        raise UsageError(
            f"{stack!r} is no name of a stack. Nothing was written.\n"
            "  fix    use letters, digits, hyphens, underscores and dots"
        )


def _check(engine: Engine, folder: Path, stack: str) -> None:
    salt = salt_of(folder / f"Pulumi.{stack}.yaml")
    found = (*judge_engine(engine), *judge_lab_parts(engine, os.environ, salt))
    if found:
        say(render_findings(found))
        raise typer.Exit(exit_code(found))
    say(
        f"railyard {own_version()}, Pulumi {engine.version}, "
        + ", ".join(f"{plugin.name} {plugin.version}" for plugin in engine.plugins)
        + f"; states at {engine.backend}: nothing lacks here."
    )
