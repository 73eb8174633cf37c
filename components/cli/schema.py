"""`railyard schema`: the JSON schema of a site file, for editors and generators."""

from __future__ import annotations

import json

import typer

from components.reading.schema import render_schema

app = typer.Typer(add_completion=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of the site file."""
    typer.echo(json.dumps(render_schema(), indent=2))
