"""`railyard evidence …`: what the two steps of acceptance call."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from components.acceptance.collect.run import collect_evidence
from components.acceptance.evidence import dump_evidence, parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import EVIDENCE, run_folder
from components.acceptance.report.text import render_table
from components.acceptance.request import parse_accept_request
from components.cli.app import command_app
from components.remote.step import secrets_from

app = command_app("What the steps of acceptance call.")


@app.command()
def collect(number: Annotated[int, typer.Option(help="Number of the run.")]) -> None:
    """Run the probes of the request on standard input, and print what they showed."""
    request = parse_accept_request(sys.stdin.read())
    secrets = secrets_from(os.environ)
    folder = run_folder(request.stack, number)
    evidence = collect_evidence(request, number, secrets, folder)
    text = dump_evidence(evidence)
    (folder / EVIDENCE).write_text(text)
    typer.echo(text)


@app.command()
def gate(
    stack: Annotated[str, typer.Option(help="Stack whose folder the report goes to.")],
    *,
    fail: Annotated[
        bool, typer.Option("--fail/--warn", help="Whether the verdict is the exit code.")
    ] = True,
) -> None:
    """Judge the evidence on standard input, and write the report."""
    # The plot's library is a second of work that no other command needs.
    from components.acceptance.report.write import write_report  # noqa: PLC0415 - see above

    evidence = parse_evidence(sys.stdin.read())
    report = judge_evidence(evidence)
    folder = run_folder(stack, evidence.run)
    page = write_report(report, folder).html
    typer.echo(f"{render_table(report)}\nreport: {page}")
    if fail:
        raise typer.Exit(report.exit_code)
