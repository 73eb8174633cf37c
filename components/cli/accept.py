"""`railyard accept STACK`, and its two inner forms that an update calls."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from components.acceptance.collect.run import collect_evidence
from components.acceptance.evidence import dump_evidence, parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.judge.verdict import EXIT_CODES
from components.acceptance.report.archive import EVIDENCE, latest_evidence, run_folder
from components.acceptance.report.text import render_table
from components.acceptance.request import parse_accept_request
from components.cli.stack import UPDATE_DEADLINE_S, config_flags, run_pulumi
from components.remote.step import secrets_from

app = typer.Typer(add_completion=False)


def _run(number: int) -> None:
    request = parse_accept_request(sys.stdin.read())
    secrets = secrets_from(os.environ)
    folder = run_folder(request.stack, number)
    evidence = collect_evidence(request, number, secrets, folder)
    text = dump_evidence(evidence)
    (folder / EVIDENCE).write_text(text)
    typer.echo(text)


def _gate(stack: str, *, fail: bool) -> None:
    # The plot's library is a second of work that no other command needs.
    from components.acceptance.report.write import write_report  # noqa: PLC0415 - see above

    evidence = parse_evidence(sys.stdin.read())
    report = judge_evidence(evidence)
    folder = run_folder(stack, evidence.run)
    page = write_report(report, folder).html
    typer.echo(f"{render_table(report)}\nreport: {page}")
    if fail:
        raise typer.Exit(report.exit_code)


def _accept_stack(stack: str) -> None:
    """Prove the path again as it is now: nothing is repaired before."""
    before = latest_evidence(stack)
    targets = ["--target", "**acceptance-evidence", "--target", "**acceptance-gate"]
    flags = ["--yes", "--skip-preview", "--non-interactive", "--stack", stack, *config_flags(stack)]
    done = run_pulumi(
        ["up", *flags, *targets],
        environment={"RAILYARD_ACCEPT": "always"},
        deadline_s=UPDATE_DEADLINE_S,
    )
    evidence = latest_evidence(stack)
    if evidence is None or evidence == before:
        words = f"acceptance did not run; pulumi ended with status {done.returncode}:"
        typer.echo(f"{words}\n{done.stdout}{done.stderr}".rstrip(), err=True)
        raise typer.Exit(EXIT_CODES["error"])
    report = judge_evidence(evidence)
    page = run_folder(stack, evidence.run) / "report.html"
    typer.echo(f"{render_table(report)}\nreport: {page}")
    raise typer.Exit(report.exit_code)


@app.command()
def accept(
    what: Annotated[str, typer.Argument(help="name of the stack (`run` and `gate` are inner)")],
    stack: Annotated[str, typer.Option(help="inner: whose folder the report goes to")] = "",
    number: Annotated[int, typer.Option(help="inner: number of the run")] = 0,
    fail: Annotated[bool, typer.Option("--fail/--warn", help="inner: exit by verdict")] = True,  # noqa: FBT002 - a flag of the command line
) -> None:
    """Prove the whole path again: 0 passed, 1 failed, 4 could not be judged."""
    if what == "run":
        _run(number)
    elif what == "gate":
        _gate(stack, fail=fail)
    else:
        _accept_stack(what)
