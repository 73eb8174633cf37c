"""`railyard payload keys`: what the key step of an update calls."""

from __future__ import annotations

from typing import Annotated

import typer

from components.containers.keys import make_keys

app = typer.Typer(no_args_is_help=True, help="Inner commands of a payload without Kubernetes.")


@app.callback()
def describe() -> None:
    """Inner commands of a payload without Kubernetes."""


@app.command()
def keys(
    stack: Annotated[str, typer.Option(help="ends the comment of the public keys")],
) -> None:
    """Print two new SSH key pairs; an update keeps them as a secret of the stack."""
    typer.echo(make_keys(stack))
