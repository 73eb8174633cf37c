"""`railyard drift STACK`: what the devices are against what was last applied."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from components.cli.app import StackName, command_app
from components.cli.stack import load_stack
from components.core.to_json import to_json
from components.drift.device_drift import drift_exit_code, render_drift
from components.update.decide import judge_drift
from components.update.observe import observe_site

app = command_app()


@app.command()
def drift(
    stack: StackName,
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Compare every device with what was last applied to it.

    Exit code 0: no drift, 3: drift, 4: a device could not be read.
    """
    loaded = load_stack(stack)
    plan, applied, secrets = loaded.plan, loaded.applied, loaded.secrets
    drifts = judge_drift(plan, applied, observe_site(plan, secrets, applied))
    code = drift_exit_code(drifts)
    if output == "json":
        body = {"stack": stack, "exit_code": code, "devices": to_json(drifts)}
        typer.echo(json.dumps(body, indent=1, sort_keys=True))
    else:
        typer.echo(render_drift(drifts), nl=False)
    raise typer.Exit(code)
