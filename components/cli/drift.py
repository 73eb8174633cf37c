"""`railyard drift STACK`: what the devices and the cluster are against what was last applied."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from components.cli.app import StackName, command_app, say
from components.cli.stack import load_stack, under_way
from components.core.to_json import to_json
from components.drift.device_drift import drift_exit_code, render_drift
from components.model.owners import not_touched
from components.update.cluster import judge_cluster
from components.update.decide import judge_drift
from components.update.observe import observe_site

app = command_app()
UNSURE = 4
"""What was read may be half of an update's work: no verdict could be reached."""


@app.command()
def drift(
    stack: StackName,
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Compare every device and every object of Kubernetes with what was last applied to it.

    Exit code 0: no drift, 3: drift, 4: something could not be read, or an update is running.
    """
    loaded = load_stack(stack)
    plan, applied, secrets = loaded.plan, loaded.applied, loaded.reach_secrets
    seen = observe_site(plan, secrets, applied)
    drifts, cluster = judge_drift(plan, applied, seen), judge_cluster(plan, applied, seen)
    running = loaded.under_way if loaded.under_way.is_any else under_way(stack)
    code = UNSURE if running.is_any else max(drift_exit_code(drifts), cluster.exit_code)
    words = f"{running.render(stack)}\n" if running.is_any else ""
    if output == "json":
        body = {
            "stack": stack,
            "exit_code": code,
            "under_way": words.rstrip(),
            "no_login": list(plan.unreached),
            "devices": to_json(drifts),
            "cluster": to_json(cluster),
        }
        say(json.dumps(body, indent=1, sort_keys=True))
    else:
        left_out = "".join(f"{line}\n" for line in not_touched(plan.unreached))
        say(render_drift(drifts) + cluster.render() + left_out + words, nl=False)
    raise typer.Exit(code)
