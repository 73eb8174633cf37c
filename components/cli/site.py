"""`railyard site …`: the commands for a site of several stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Final

import typer

from components.cli.app import StackName, StackOrFile, command_app, say
from components.cli.drift import look_for_drift
from components.cli.preview import FAILED, preview_stack
from components.cli.site_export import export
from components.cli.site_split import existing_stacks, join, load_site, pieces_or_refuse, split
from components.cli.stack import config_flags, load_stack_or_file
from components.core.errors import RailyardError, UsageError
from components.model.texts import fold_names
from components.plan.pieces import Piece
from components.preview.report import render_text

app = command_app("Run, split, join and export a site of several stacks.")
"""The group; a further command of `railyard site` is a function with `@app.command()`."""
app.command()(split)
app.command()(join)
app.command()(export)
_NOT_RUN: Final = "not run"
Work = Callable[[Piece], tuple[int, str]]
"""Does the work of one stack; returns the exit code, and the result in words."""


@app.command("list")
def list_pieces(stack: StackOrFile = "") -> None:
    """List the stacks of a site in the order of an update, with their switches and hosts."""
    for each in pieces_or_refuse(load_stack_or_file(stack)):
        devices = fold_names((*each.switches, *each.hosts)) or "none"
        say(f"{each.wave + 1}  {each.stack}  {', '.join(each.parts)}: {devices}")


@app.command()
def up(stack: StackName = "") -> None:
    """Update the stacks of a site in order: spines, units in waves, cluster.

    A failed stack stops the waves after it. Run it again to continue: a finished stack has nothing
    to do. Exit codes: 0 all are updated, 1 one failed.
    """
    pieces = _existing(stack)
    code = _run(pieces, _up, stop=True)
    if code:
        say(f"Fix the cause, then continue: railyard site up {stack}")
    raise typer.Exit(code)


@app.command()
def preview(stack: StackName = "") -> None:
    """Show the effects of an update of each stack of a site, in order.

    Exit codes: 0 shown, 1 a preview failed.
    """
    raise typer.Exit(_run(_existing(stack), _preview, stop=False))


@app.command()
def drift(stack: StackName = "") -> None:
    """Compare the devices of each stack of a site with their last applied state.

    Exit codes: 0 no drift, 3 drift, 4 something could not be read, or an update is running.
    """
    raise typer.Exit(_run(_existing(stack), _drift, stop=False, failed=4))


def _existing(stack: str) -> tuple[Piece, ...]:
    """Return the pieces of a site, whose stacks all exist.

    Raises:
        UsageError: One does not.
    """
    _, pieces = load_site(stack)
    here = existing_stacks()
    if gone := [each.stack for each in pieces if each.stack not in here]:
        raise UsageError(
            f"these stacks of the site do not exist: {', '.join(gone)}.\n"
            f"  fix    railyard site split {stack} makes them; restore a lost one from its backup"
        )
    return pieces


def _run(pieces: Sequence[Piece], work: Work, *, stop: bool, failed: int = 1) -> int:
    """Work on the waves in order, print one table at the end, and return the worst exit code.

    A stack whose work is refused has the code `failed`; the others of its wave do theirs.
    """

    def attempt(piece: Piece) -> tuple[int, str]:
        try:
            return work(piece)
        except RailyardError as error:
            say(f"{piece.stack}: {error}", err=True)
            return failed, "FAILED, see above"

    results: dict[str, tuple[int, str]] = {}
    for _, members in groupby(pieces, lambda each: each.wave):
        if stop and any(code for code, _ in results.values()):
            break
        wave = tuple(members)
        with ThreadPoolExecutor(max_workers=len(wave)) as pool:
            done = pool.map(attempt, wave)
            results |= {each.stack: found for each, found in zip(wave, done, strict=True)}
    rows = [(each.stack, results.get(each.stack, (0, _NOT_RUN))[1]) for each in pieces]
    width = max(len(name) for name, _ in rows)
    say("\n" + "\n".join(f"{name:<{width}}  {words}" for name, words in rows))
    return max(code for code, _ in results.values())


def _up(piece: Piece) -> tuple[int, str]:
    from pulumi import automation  # noqa: PLC0415, TID251 - only an update needs the engine

    class Project(automation.LocalWorkspace):
        """The project in this folder."""

        def select_stack(self, stack_name: str) -> None:
            """Leave the user's selected stack as it is; every command names its own."""

    def tell(line: str) -> None:
        if line.strip():
            say(f"{piece.stack}: {line}")

    flags = config_flags(piece.stack)
    project = automation.Stack.select(piece.stack, Project(work_dir=str(Path.cwd())))
    try:
        done = project.up(
            on_output=tell, on_error=tell, config_file=flags[-1] if flags else None, color="never"
        )
    except automation.CommandError:
        return 1, "FAILED, see above"
    changes = done.summary.resource_changes or {}
    counts = [f"{count} {automation.OpType(op).value}" for op, count in changes.items()]
    return 0, f"updated: {', '.join(counts)}"


def _preview(piece: Piece) -> tuple[int, str]:
    found = preview_stack(piece.stack)
    say(render_text(found))
    if any(each.startswith(FAILED) for each in found.alarms):
        return 1, "FAILED, see above"
    counts = ((len(found.edits), "of the file"), (len(found.repairs), "of drift"))
    return 0, ", ".join(f"{count} {what}" for count, what in counts if count) or "no change"


def _drift(piece: Piece) -> tuple[int, str]:
    code, text = look_for_drift(piece.stack)
    say(f"{piece.stack}\n{text}", nl=False, paint=True)
    return code, {0: "no drift", 3: "drift, see above"}.get(code, "not known, see above")
