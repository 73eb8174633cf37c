"""`railyard init DIR`: a project of the user's own, from one of the examples."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from components.checks.site import check_loaded, load_checked_site
from components.cli.app import option, say
from components.core.errors import UsageError
from components.core.limits import read_text
from components.core.problem import exit_code
from components.core.templates import fault_text
from components.model.places import list_secrets
from components.plan.make import count_resources, make_plan
from components.project import engine as engines
from components.project import write
from components.project.resize import numbers_of, read_found, resize
from components.project.wheel import own_version, pack_wheel
from components.reading.load import parse_site

_STACK = "site"


def init(  # noqa: PLR0913 - one parameter for each option
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of the project")],
    *,
    example: Annotated[write.Example, option("site to begin with")] = "dgx-roce",
    rails: Annotated[int | None, option("number of rails")] = None,
    hosts: Annotated[int | None, option("number of workers")] = None,
    discovered: Annotated[
        Path | None, option("what `railyard discover --format json` printed")
    ] = None,
    stack: Annotated[str, option("name of the stack")] = _STACK,
    check: Annotated[bool, option("look at the engine again; write nothing", "--check")] = False,
    package: Annotated[
        bool, option("only bring the Railyard that runs now into DIR", "--package")
    ] = False,
) -> None:
    """Write a project of your own, and list the steps before its first preview.

    On a terminal it asks for the numbers of rails and workers, unless they are given. It overwrites
    nothing; only --package writes requirements.txt and the wheel again. Exit codes: 0 written; 2
    files exist already; with --check 0 this machine is ready, 1 something is missing.
    """
    if package:
        wheel = pack_wheel()
        old = write.replace_package(folder, write.render_package(wheel))
        gone = "".join(f", and took {each} away" for each in old)
        say(f"{folder}: wrote {write.REQUIREMENTS} and {wheel.path}{gone}.")
        return
    engine = engines.look_at_engine(os.environ, folder)
    if check:
        _check(engine, folder, stack)
        return
    if not stack or not all(each.isalnum() or each in "-_." for each in stack):
        raise UsageError(fault_text(__file__, "stack-name", stack=stack))
    name = write.project_name(folder.absolute().name)
    text = write.example_text(example)
    if discovered is None and rails is None and hosts is None and sys.stdin.isatty():
        own_rails, own_hosts = numbers_of(text)
        rails = typer.prompt("Rails", default=own_rails, type=int) if own_rails else None
        hosts = typer.prompt("Workers", default=own_hosts, type=int) if own_hosts else None
    try:
        cards = read_found(read_text(discovered)) if discovered else ()
    except (OSError, UnicodeDecodeError) as error:
        what = f"{discovered}: cannot be read: {error}."
        raise UsageError(f"{what} Nothing was written.") from error
    site = resize(text, rails, hosts, cards)
    plan = write.ProjectPlan(name, stack, site, pack_wheel(), engines.wanted_versions())
    files = write.render_files(plan)
    # Read the site that will be written: `railyard check` must accept it but for its marks.
    checked = check_loaded(parse_site(site, write.SITE_FILE), write.SITE_FILE)
    if checked.spec is None:
        first = next(each for each in checked.problems if each.severity == "error")
        raise UsageError(fault_text(__file__, "numbers", first=first))
    spec = checked.spec
    write.write_project(folder, files)
    secrets = sorted({reference.name for reference, _ in list_secrets(spec)})
    say(f"{folder}: wrote {', '.join(files)} (example {example}).\n")
    say(write.render_next_steps(folder, stack, engine, secrets))


def _check(engine: engines.Engine, folder: Path, stack: str) -> None:
    salt = engines.salt_of(folder / f"Pulumi.{stack}.yaml")
    found = (*engines.judge_engine(engine), *engines.judge_lab_parts(engine, os.environ, salt))
    # Advice by the size of the site, unless `check` refuses it.
    file = folder / write.SITE_FILE
    checked = load_checked_site(file) if file.is_file() else None
    if checked and checked.spec:
        plan = make_plan(checked.spec, stack, checked.lock)
        if advice := engines.advise_state(count_resources(plan), engine.backend):
            say(advice)
    if found:
        say("\n".join(f"{each.rule}: {engines.render_lack(each)}" for each in found))
        raise typer.Exit(exit_code(found))
    plugins = ", ".join(f"{plugin.name} {plugin.version}" for plugin in engine.plugins)
    words = f"railyard {own_version()}, Pulumi {engine.version}, {plugins}"
    say(f"{words}; states at {engine.backend}: this machine has everything.")
