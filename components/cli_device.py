"""`railyard device …`: what the switch and reboot steps of an update call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from components.baselines import baseline_file
from components.fabric.device import (
    BASELINE_VARIABLE,
    parse_request,
    run_apply,
    run_baseline,
    run_observe,
    run_restore,
)
from components.fabric.judge import run_judge
from components.hypervisor.reboot import run_reboot

app = typer.Typer(no_args_is_help=True, help="Inner commands of an update: one device each.")

_VERBS: Final[dict[str, Callable[[str, Mapping[str, str]], str]]] = {
    "apply": run_apply,
    "restore": run_restore,
    "observe": run_observe,
    "judge": run_judge,
    "reboot": run_reboot,
}


def _verb(name: str) -> Callable[[], None]:
    def call() -> None:
        typer.echo(_VERBS[name](sys.stdin.read(), os.environ))

    call.__doc__ = f"Run `{name}` for the request on standard input."
    return call


for _name in _VERBS:
    app.command(_name)(_verb(_name))


@app.command()
def baseline(
    stack: Annotated[str, typer.Option(help="whose imported baselines count")] = "",
) -> None:
    """Record the values of now, or those that were imported for this switch."""
    text = sys.stdin.read()
    imported = baseline_file(stack, parse_request(text, {}).endpoint.device)
    environ = dict(os.environ)
    if stack and imported.is_file():
        environ[BASELINE_VARIABLE] = imported.read_text()
    typer.echo(run_baseline(text, environ))
