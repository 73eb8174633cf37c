"""`railyard report`: the last acceptance report of a stack."""

from __future__ import annotations

import shutil
import sys
import webbrowser
from datetime import UTC, datetime
from typing import Annotated

import typer

from components.acceptance.evidence import Evidence, parse_evidence
from components.acceptance.handover import EVIDENCE_STEP, PROVE_AGAIN, Named, as_of, parse_named
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import (
    EVIDENCE,
    latest_evidence,
    read_archived,
    run_folder,
)
from components.acceptance.report.text import compare_lines, render_table
from components.acceptance.report.write import write_report
from components.cli.app import StackName, command_app, say
from components.cli.stack import pulumi
from components.core.errors import UsageError
from components.drift.applied import applied_from_export

app = command_app()


@app.command()
def report(
    stack: StackName = "dev",
    against: Annotated[
        int | None, typer.Option(help="number of another run of this stack to compare with")
    ] = None,
    show: Annotated[bool, typer.Option("--open/--no-open", help="open a browser")] = True,  # noqa: FBT002 - a flag of the command line
) -> None:
    """Show the last acceptance report of a stack and open its page."""
    evidence = _evidence(stack)
    judged = as_of(judge_evidence(evidence), datetime.now(UTC))
    page = (run_folder(stack, evidence.run) / "report.html").absolute()
    other = None if against is None else judge_evidence(_run(stack, against))
    if other is not None or not page.exists():
        write_report(judged, page.parent, other)
    compared = "".join(f"{line}\n" for line in (compare_lines(judged, other) if other else ()))
    say(f"{render_table(judged)}\n{compared}report: {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.as_uri())


def _run(stack: str, number: int) -> Evidence:
    """The evidence of one run by its number."""
    path = run_folder(stack, number) / EVIDENCE
    try:
        return parse_evidence(path.read_text())
    except OSError:
        runs = sorted(
            int(each.parent.name[4:]) for each in path.parents[1].glob(f"run-*/{EVIDENCE}")
        )
        raise UsageError(
            f"stack {stack} has no run {number} here: {path} cannot be read.\n"
            f"  fix    take one of: {', '.join(map(str, runs)) or 'none, there is no run yet'}"
        ) from None


def _evidence(stack: str) -> Evidence:
    """The evidence that the state names; where no state can be asked, the last one here."""
    named = _named(stack)
    if named is not None:
        return parse_evidence(read_archived(named.place, PROVE_AGAIN.format(stack)))
    evidence = latest_evidence(stack)
    if evidence is None:
        raise UsageError(
            f"stack {stack} has no acceptance report here.\n  fix    run: pulumi up -s {stack}"
        )
    say("not compared with the state of the stack: it cannot be read here", err=True)
    return evidence


def _named(stack: str) -> Named | None:
    """What the state names; None without the CLI or the stack, or with a state without a digest."""
    if shutil.which("pulumi") is None:
        return None
    try:
        exported = pulumi(["stack", "export", "--stack", stack])
        step = applied_from_export(exported).step(EVIDENCE_STEP)
        return parse_named(step.stdout) if step else None
    except UsageError:
        return None
