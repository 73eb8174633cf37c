"""Two commands: `railyard drift STACK`, and `railyard baseline` for earlier values of switches.

Hosts keep their earlier values themselves, in `/var/lib/railyard/<stack>/baseline`; a switch cannot
do that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from components.cli.app import StackName, command_app, say, stack_names
from components.cli.stack import Stack, load_stack, under_way
from components.core.errors import UsageError
from components.core.limits import read_file
from components.core.to_json import to_json
from components.drift.device_drift import drift_exit_code, render_drift
from components.fabric.edit import baseline_file, read_baseline
from components.fabric.state import SwitchState
from components.model.owners import not_touched
from components.project.under_way import UnderWay
from components.update.cluster import judge_cluster
from components.update.decide import judge_drift
from components.update.observe import observe_site
from components.update.seen import Seen

app = command_app()
UNSURE = 4
"""An update is running, so the values may be half of its work: the verdict is open."""


@app.command()
def drift(
    stack: StackName = "",
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Compare every device and every object of Kubernetes with its last applied state.

    Exit code 0: no drift, 3: drift, 4: something could not be read, or an update is running.
    """
    code, text = look_for_drift(stack, output)
    say(text, nl=False, paint=output == "text")
    raise typer.Exit(code)


def look_for_drift(stack: str, output: Literal["text", "json"] = "text") -> tuple[int, str]:
    """Compare a stack, and return the exit code and the report."""
    loaded = load_stack(stack)
    seen = observe_site(loaded.plan, loaded.reach_secrets, loaded.applied)
    body, text = report_drift(loaded, seen, under_way(stack))
    if output == "json":
        text = json.dumps(body, indent=1, sort_keys=True) + "\n"
    return body["exit_code"], text


def report_drift(loaded: Stack, seen: Seen, running: UnderWay) -> tuple[dict[str, Any], str]:
    """Return the report as JSON data and as text; `running` is the present work of an update."""
    plan, applied = loaded.plan, loaded.applied
    drifts, cluster = judge_drift(plan, applied, seen), judge_cluster(plan, applied, seen)
    running = loaded.under_way if loaded.under_way.is_any else running
    words = f"{running.render(loaded.name)}\n" if running.is_any else ""
    found = max(drift_exit_code(drifts), cluster.exit_code)
    body = {
        "stack": loaded.name,
        "exit_code": UNSURE if running.is_any else found,
        "under_way": words.rstrip(),
        "no_login": list(plan.unreached),
        "devices": to_json(drifts),
        "cluster": to_json(cluster),
    }
    left_out = "".join(f"{line}\n" for line in not_touched(plan.unreached))
    return body, render_drift(drifts) + cluster.render() + left_out + words


baseline_app = command_app(
    "Keep the values that destroy puts back on switches, or bring them back."
)
_FILE = TypeAdapter(dict[str, SwitchState])


@baseline_app.command("export")
def export_baseline(stack: StackName = "") -> None:
    """Print the values that destroy would restore, by switch, as JSON. Keep a copy elsewhere."""
    loaded = load_stack(stack)
    found: dict[str, object] = {}
    for switch in loaded.plan.switches:
        recorded = loaded.applied.step(f"{switch.name}-baseline")
        if recorded is not None and recorded.stdout:
            found[switch.name] = read_baseline(recorded.stdout)
    say(json.dumps(found, indent=1, sort_keys=True))


@baseline_app.command("import")
def import_baseline(
    stack: Annotated[str, typer.Argument(help="Name of the stack.", autocompletion=stack_names)],
    file: Annotated[Path, typer.Argument(help="what `export` printed")],
) -> None:
    """Use exported values for switches whose baseline is missing in the stack's state."""
    try:
        states = _FILE.validate_json(read_file(file))
    except OSError as error:
        raise UsageError(f"{file}: it cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{file} is not an exported baseline: {error}") from error
    for name, state in states.items():
        path = baseline_file(stack, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(state.model_dump_json(indent=1) + "\n")
        say(f"{name}: the next first apply of stack {stack} records {path}")
