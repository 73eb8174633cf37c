"""`railyard site …`: the commands for a site of several stacks."""

from __future__ import annotations

from components.cli.app import StackOrFile, command_app, say
from components.cli.stack import load_stack_or_file
from components.core.errors import UsageError
from components.model.texts import fold_names
from components.plan.pieces import PAGE, Piece, pieces_of

app = command_app("Run, split and join a site of several stacks.")
"""The group; a further command of `railyard site` is a function with `@app.command()`."""


@app.callback()
def describe() -> None:
    """Run, split and join a site of several stacks."""


def pieces_or_refuse(stack: str) -> tuple[Piece, ...]:
    """The pieces of the site of a stack or a file, in the order of an update.

    Raises:
        UsageError: Its file has no `stacks`.
    """
    loaded = load_stack_or_file(stack)
    pieces = pieces_of(loaded.spec, loaded.plan.stack)
    if not pieces:
        raise UsageError(
            f"the site {loaded.spec.name} has one stack: its file has no `stacks`.\n"
            "  fix    write the leaves of each unit: stacks: {units: {a: {leaves: [leaf-01]}}}"
            f" ({PAGE}); or use `pulumi up` and `railyard preview`."
        )
    return pieces


@app.command("list")
def list_pieces(stack: StackOrFile = "") -> None:
    """List the stacks of a site in the order of an update, with their switches and hosts."""
    for each in pieces_or_refuse(stack):
        devices = fold_names((*each.switches, *each.hosts)) or "none"
        say(f"{each.wave + 1}  {each.stack}  {', '.join(each.parts)}: {devices}")
