"""`railyard`: the commands. Each one is a module of its own, imported only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

import typer
import typer.main
from typer.core import TyperGroup

from components.core.errors import Bug, RailyardError

if TYPE_CHECKING:
    # Typer has no public name for the types that its own group class takes and returns.
    from typer._click import Command, Context

COMMANDS: Final = {
    "check": "components.cli.check",
    "plan": "components.cli.plan",
    "drift": "components.cli.drift",
    "discover": "components.cli.discover",
    "accept": "components.cli.accept",
    "report": "components.cli.report",
    "baseline": "components.cli.baseline",
    "judge": "components.cli.judge",
    "schema": "components.cli.schema",
    "lab": "lab.cli",
    "payload": "components.cli.payload",
    "device": "components.cli.device",
    "cloud": "components.cli.cloud",
}
"""Name of a command to the module that has its `app`. A new command is one line here."""

_INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell reports it."""


class _LazyGroup(TyperGroup):
    """Finds a command by importing its module."""

    def list_commands(self, ctx: Context) -> list[str]:
        """List the commands in the order of `COMMANDS`."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Import one command, or return None when there is none of that name."""
        del ctx
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        sub = getattr(import_module(module), "app", None)
        if not isinstance(sub, typer.Typer):
            raise Bug(f"the command {cmd_name}: {module} has no `app`. Please open an issue.")
        command = typer.main.get_command(sub)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=_LazyGroup,
    name="railyard",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def describe() -> None:
    """RDMA GPU Kubernetes clusters from one typed file.

    Exit codes: 0 good, 1 problems or a failed verdict, 2 usage, 3 drift, 4 unreachable or not to
    be judged.
    """


def main() -> None:
    """Run one command; a user's mistake ends with a report and an exit code."""
    try:
        app(prog_name="railyard")
    except RailyardError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the report is what the user came for
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
