"""`railyard`: the commands. Each module is imported only when its command is called."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from components.cli.app import say
from components.cli.commands import Entry, list_commands
from components.core.errors import Bug

if TYPE_CHECKING:
    # Typer has no public name for the types that its own group class takes and returns.
    from typer._click import Command, Context


def load_command(entry: Entry) -> Command:
    """Import one command.

    Raises:
        Bug: Its module lacks `app`.
    """
    module = import_module(entry.module)
    sub = getattr(module, f"{entry.name}_app", None) or getattr(module, "app", None)
    if not isinstance(sub, typer.Typer):
        raise Bug(f"the command {entry.name}: {entry.module} has no `app`. Please open an issue.")
    command = typer.main.get_command(sub)
    command.name = entry.name
    for nested in command.commands.values() if isinstance(command, TyperGroup) else ():
        # Without a short help, Typer cuts the sentence at the width of the page.
        nested.short_help = (nested.help or "").partition("\n\n")[0].replace("\n", " ")
    return command


class _LazyGroup(TyperGroup):
    """Show commands from the table, and import only the called one."""

    def list_commands(self, ctx: Context) -> list[str]:
        """List the commands in the order of the table."""
        return [*super().list_commands(ctx)] or self._fill()

    def _fill(self) -> list[str]:
        self.entries = {entry.name: entry for entry in list_commands()}
        self.commands = {
            name: TyperCommand(name, short_help=entry.summary, hidden=entry.hidden)
            for name, entry in self.entries.items()
        }
        return [*self.entries]

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Import the called command; for an unknown name, offer a similar one."""
        self.list_commands(ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(self.entries[name]) if name else command, rest

    def invoke(self, ctx: Context) -> object:
        """Run it, and remove the exception's name that Typer 0.29 puts before a wrong choice."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_LazyGroup,
    name="railyard",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(output: str) -> None:
    from components.catalogue.operator_versions import AS_OF  # noqa: PLC0415 - only needed here
    from components.project.wheel import own_commit, own_version  # noqa: PLC0415 - the same

    said = {"version": own_version(), "commit": own_commit(), "catalogue": str(AS_OF)}
    text = "railyard {version}, commit {commit}, catalogue of {catalogue}".format(**said)
    say(json.dumps(said) if output == "json" else text)
    raise typer.Exit


@app.callback(invoke_without_command=True)
def describe(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version, its commit and the catalogue's date."),
    ] = False,
    output: Annotated[
        Literal["text", "json"], typer.Option("--format", help="The form of `--version`.")
    ] = "text",
) -> None:
    """RDMA GPU Kubernetes clusters from one typed file.

    Exit codes: 0 good, 1 problems or a failed verdict, 2 usage, 3 drift, 4 a device did not answer
    or a verdict could not be reached.
    """
    if version:
        _show_version(output)
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(2)
