"""`railyard check FILE`: all problems of a site at once; no device is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from components.checks.registry import RULES
from components.checks.render import render_json, render_text
from components.checks.site import CheckedSite, load_checked_site
from components.cli.app import command_app, say
from components.core.plain_text import counted
from components.model.owners import left_alone

app = command_app()


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A site.yaml, or a Pulumi.<stack>.yaml.")],
    output: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Check a site file and report all its problems, each with its line and a fix.

    Exit codes: 0 the file is good (it may print warnings), 1 problems, 2 unknown file.
    """
    checked = load_checked_site(file)
    names = [artefact.name for artefact in checked.unpinned.artefacts]
    whole = render_json(checked.problems, checked.waived, names)
    if checked.unpinned and checked.spec is not None and output == "text":
        say(str(checked.unpinned))
    say(whole if output == "json" else _report(checked))
    if checked.spec is None:
        raise typer.Exit(1)


def _report(checked: CheckedSite) -> str:
    spec = checked.spec
    if spec is None:
        return render_text(checked.problems, checked.waived)
    hosts, rails = counted(len(spec.hosts), "host"), counted(len(spec.rails), "rail")
    counts = f"{hosts}, {counted(len(spec.switches), 'switch', 'switches')}, {rails}"
    good = f"{checked.file}: no problems ({spec.name}: {counts}; {len(RULES)} rules)."
    if checked.problems:  # only warnings: with an error the spec is None
        found = render_text(checked.problems, checked.waived)
        return f"{found}\n{good.replace('no problems', 'good but for warnings')}"
    alone = f"Left alone: {'; '.join(left_alone(spec))}."
    return "\n".join([*map(str, checked.waived), good, alone])
