"""`railyard plan FILE`: everything that would be done, without touching anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.checks.site import load_checked_site
from components.cli.app import command_app
from components.core.to_json import to_json
from components.plan.make import make_plan
from components.plan.text import render_plan

app = command_app()


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="site.yaml or Pulumi.<stack>.yaml")],
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
    stack: Annotated[str, typer.Option(help="stack whose name devices keep")] = "",
) -> None:
    """Print what would be decided for a site; no device is contacted."""
    spec = load_checked_site(file).spec_or_raise()
    planned = make_plan(spec, stack or _stack_of(file, spec.name))
    if output == "json":
        whole = to_json(planned) | {"left_by_destroy": to_json(planned.left_by_destroy)}
        typer.echo(json.dumps(whole, indent=1, sort_keys=True))
    else:
        typer.echo(render_plan(planned), nl=False)


def _stack_of(file: Path, default: str) -> str:
    parts = file.name.split(".")
    return parts[1] if parts[0] == "Pulumi" and len(parts) == 3 else default  # noqa: PLR2004 - Pulumi.<stack>.yaml
