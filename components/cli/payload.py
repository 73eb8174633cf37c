"""`railyard payload keys`: what the key step of an update calls."""

from __future__ import annotations

from typing import Annotated

import typer

from components.cli.app import command_app, say
from components.containers.keys import make_keys

app = command_app("What the step of the containers' SSH keys calls.")


@app.callback()
def describe() -> None:
    """What the step of the containers' SSH keys calls."""


@app.command()
def keys(
    stack: Annotated[str, typer.Option(help="ends the comment of the public keys")],
) -> None:
    """Print two new SSH key pairs; an update keeps them as a secret of the stack."""
    say(make_keys(stack))
