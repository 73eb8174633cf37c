"""`railyard audit FILE`: compare devices and cluster with a site file; no stack, no ownership."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.checks.site import load_checked_site
from components.cli.app import command_app, say
from components.plan.make import make_plan
from components.remote.step import secrets_from
from components.update.audit import run_audit
from components.update.secrets import outside_secrets

app = command_app()


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a site file")],
    form: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Compare every device and the cluster with a site file; reads only, needs no stack.

    For those who keep their own tools: nothing is changed, recorded or owned. Secrets come from
    the environment as RAILYARD_SECRET_NAME. Exit codes: 0 everything is as the file says, 1 the
    file has problems, 3 something differs, 4 something could not be read.
    """
    checked = load_checked_site(file)
    spec = checked.spec_or_raise()
    plan = make_plan(spec, file.stem.removeprefix("Pulumi."), checked.lock)
    secrets = {**outside_secrets(spec, os.environ), **secrets_from(os.environ)}
    found = run_audit(spec.name, plan, secrets)
    say(found.render_json() if form == "json" else found.render())
    raise typer.Exit(found.exit_code)
