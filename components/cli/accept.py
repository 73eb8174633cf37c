"""`railyard accept STACK`: the proof again, as things are now."""

from __future__ import annotations

from typing import Annotated

import typer

from components.acceptance.judge.site import judge_evidence
from components.acceptance.judge.verdict import EXIT_CODES
from components.acceptance.report.archive import latest_evidence, run_folder
from components.acceptance.report.text import render_table
from components.cli.app import StackName, command_app, say
from components.cli.stack import UPDATE_DEADLINE_S, config_flags, run_pulumi

app = command_app()


@app.command()
def accept(
    stack: StackName,
    scope: Annotated[
        str, typer.Option(help="A part alone: host=, rail=, leaf= or unit=, with names of it.")
    ] = "",
) -> None:
    """Run the acceptance probes of a stack again, as things are now.

    Nothing is repaired before, and what is busy is left alone.
    Exit codes: 0 passed, 1 failed, 4 could not be judged.
    """
    before = latest_evidence(stack)
    targets = ["--target", "**acceptance-evidence", "--target", "**acceptance-gate"]
    flags = ["--yes", "--skip-preview", "--non-interactive", "--stack", stack, *config_flags(stack)]
    done = run_pulumi(
        ["up", *flags, *targets],
        environment={"RAILYARD_ACCEPT": "always", "RAILYARD_SCOPE": scope},
        deadline_s=UPDATE_DEADLINE_S,
    )
    found = latest_evidence(stack)
    if found is None or found == before:
        words = f"acceptance did not run; pulumi ended with status {done.returncode}:"
        say(f"{words}\n{done.stdout}{done.stderr}".rstrip(), err=True)
        raise typer.Exit(EXIT_CODES["error"])
    report = judge_evidence(found)
    page = run_folder(stack, found.run) / "report.html"
    say(f"{render_table(report)}\nreport: {page}")
    raise typer.Exit(report.exit_code)
