"""`railyard preflight STACK|FILE`: everything that a site lacks, before any device is changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from components.checks.site import load_checked_site
from components.cli.app import StackOrFile, command_app, say
from components.cli.stack import load_stack
from components.core.errors import UsageError
from components.core.plain_text import plain_text
from components.drift.applied import Applied
from components.plan.make import make_plan
from components.preflight.here import judge_pins
from components.preflight.report import Preflight, render_html, render_json, render_text
from components.preflight.run import run_preflight
from components.project.engine import is_lab, judge_engine, look_at_engine
from components.remote.step import secrets_from
from components.update.secrets import outside_secrets

app = command_app()
Form = Literal["text", "json", "html"]
_SUFFIXES = frozenset({".yaml", ".yml"})


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
    found = _of_file(Path(site)) if Path(site).suffix in _SUFFIXES else _of_stack(site)
    text = {"text": render_text, "json": render_json, "html": render_html}[form](found)
    if out is None:
        say(text, paint=form == "text")
    else:
        _write(out, text)
        say(f"{found.summary}\nreport: {out}")
    raise typer.Exit(found.exit_code)


def _of_stack(name: str) -> Preflight:
    loaded = load_stack(name)
    secrets = {**loaded.reach_secrets, **secrets_from(os.environ)}
    found = run_preflight(
        loaded.spec, loaded.plan, secrets, loaded.applied, Path.cwd(), loaded.lock
    )
    lab = is_lab(loaded.secrets.get("lab"))
    pins = judge_pins(loaded.spec, loaded.lock, lab=lab)
    engine = () if lab else judge_engine(look_at_engine(os.environ, Path.cwd()))
    located = map(loaded.lines.locate_all, found.findings)
    return replace(found, findings=(*engine, *pins, *located))


def _of_file(file: Path) -> Preflight:
    checked = load_checked_site(file)
    spec, lock = checked.spec_or_raise(), checked.lock
    plan = make_plan(spec, file.stem.removeprefix("Pulumi."), lock)
    secrets = {**outside_secrets(spec, os.environ), **secrets_from(os.environ)}
    found = run_preflight(spec, plan, secrets, Applied(), file.absolute().parent, lock)
    pins = judge_pins(spec, lock, lab=False)
    return replace(found, findings=(*pins, *map(checked.lines.locate_all, found.findings)))


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(f"{plain_text(text)}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from error
