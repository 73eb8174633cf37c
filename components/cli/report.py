"""`railyard report`: the last acceptance report of a stack."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated

import typer

from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import latest_evidence, run_folder
from components.acceptance.report.text import render_table
from components.cli.app import StackName, command_app
from components.core.errors import UsageError

app = command_app()


@app.command()
def report(
    stack: StackName = "dev",
    show: Annotated[bool, typer.Option("--open/--no-open", help="open a browser")] = True,  # noqa: FBT002 - a flag of the command line
) -> None:
    """Show the last acceptance report of a stack and open its page."""
    evidence = latest_evidence(stack)
    if evidence is None:
        raise UsageError(
            f"stack {stack} has no acceptance report here.\n  fix    run: pulumi up -s {stack}"
        )
    judged = judge_evidence(evidence)
    page = (run_folder(stack, evidence.run) / "report.html").absolute()
    if not page.exists():
        # The plot's library is a second of work, and mostly the page is there.
        from components.acceptance.report.write import write_report  # noqa: PLC0415 - see above

        write_report(judged, page.parent)
    typer.echo(f"{render_table(judged)}\nreport: {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.as_uri())
