"""`railyard baseline export|import`: the switches' previous values, apart from the stack's state.

Hosts keep theirs themselves, in `/var/lib/railyard/<stack>/baseline`; a switch has no such place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from components.cli.app import StackName, command_app, say
from components.cli.stack import load_stack
from components.core.errors import UsageError
from components.core.limits import read_file
from components.fabric.edit import baseline_file, read_baseline
from components.fabric.state import SwitchState

app = command_app("Keep the values that destroy puts back on switches, or bring them back.")
_FILE = TypeAdapter(dict[str, SwitchState])


@app.command("export")
def export_baseline(stack: StackName) -> None:
    """Print what destroy would put back, by switch, as JSON. Keep it where the state is not."""
    loaded = load_stack(stack)
    found: dict[str, object] = {}
    for switch in loaded.plan.switches:
        recorded = loaded.applied.step(f"{switch.name}-baseline")
        if recorded is not None and recorded.stdout:
            found[switch.name] = read_baseline(recorded.stdout)
    say(json.dumps(found, indent=1, sort_keys=True))


@app.command("import")
def import_baseline(
    stack: StackName, file: Annotated[Path, typer.Argument(help="what `export` printed")]
) -> None:
    """Use exported values for switches whose baseline is not in the stack's state."""
    try:
        states = _FILE.validate_json(read_file(file))
    except OSError as error:
        raise UsageError(f"{file}: it cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{file} is no exported baseline: {error}") from error
    for name, state in states.items():
        path = baseline_file(stack, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(state.model_dump_json(indent=1) + "\n")
        say(f"{name}: the next first apply of stack {stack} records {path}")
