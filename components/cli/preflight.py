"""`railyard preflight STACK|FILE`: everything that a site lacks, before any device is changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.cli.app import StackOrFile, command_app, say, write_text
from components.cli.stack import is_file, load_stack_or_file
from components.core.plain_text import plain_text
from components.preflight.here import judge_pins
from components.preflight.report import Preflight, render_html, render_json, render_text
from components.preflight.run import run_preflight
from components.project.engine import is_lab, judge_engine, look_at_engine

app = command_app()
Form = Literal["text", "json", "html"]


@app.command()
def preflight(
    site: StackOrFile = "",
    *,
    form: Annotated[Form, typer.Option("--format")] = "text",
    out: Annotated[Path | None, typer.Option(help="file for the report")] = None,
) -> None:
    """Look at every device, artefact and API of a site, and name all that an update would lack.

    Changes nothing. With a FILE, secrets come from the environment as RAILYARD_SECRET_NAME. Exit
    codes: 0 good or only warnings, 1 problems, 2 unknown stack or file, 4 a device did not answer.
    """
    found = _preflight(site)
    text = {"text": render_text, "json": render_json, "html": render_html}[form](found)
    if out is None:
        say(text, paint=form == "text")
    else:
        write_text(out, f"{plain_text(text)}\n")
        say(f"{found.summary}\nreport: {out}")
    raise typer.Exit(found.exit_code)


def _preflight(name: str) -> Preflight:
    site, alone = load_stack_or_file(name), is_file(name)
    folder = Path(name).absolute().parent if alone else Path.cwd()
    found = run_preflight(site.spec, site.plan, site.all_secrets, site.applied, folder, site.lock)
    lab = is_lab(site.secrets.get("lab"))
    engine = () if lab or alone else judge_engine(look_at_engine(os.environ, folder))
    pins = judge_pins(site.spec, site.lock, lab=lab)
    return replace(found, findings=(*engine, *pins, *map(site.lines.locate_all, found.findings)))
